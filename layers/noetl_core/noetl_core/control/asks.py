"""Answers workers that ask for their boundaries to be routed (docs/decisions.md, "Eager dispatch")."""

from __future__ import annotations

from typing import Final

from noetl_core.control.core import Control
from noetl_core.control.fence import boundary_of
from noetl_core.engine.records import Ask, Boundary, Command, Commit, StreamId
from noetl_core.events.table import TERMINAL
from noetl_core.values.instants import SECOND

HEAD_START_S: Final = 0.1
"""Seconds after its commit for which a router leaves a boundary to the worker that asks about it. An ask takes 10 to 50 ms. AWS
delivers a commit after some 200 ms, so that routers there rarely wait. The stream of an emulator delivers it after 3 ms."""


class Refused(ValueError):
    """The log does not hold the boundary that an ask names. Who acts: nobody; nothing is done."""


def answer(control: Control, ask: Ask) -> Command | None:
    """Route the boundary of an ask as the log holds it. Returns the command of the run, if any, that this or an earlier decision
    claimed for the ask.

    Raises `Refused`, and port errors; the stream routes the boundary in any case.
    """
    return control.answer(ask, _written_boundary(control, ask))


def _written_boundary(control: Control, ask: Ask) -> Boundary:
    """Return the boundary that an ask names, read from the log: a decision uses no data of the ask itself."""
    stream = StreamId(ask.execution_id, ask.run_id)
    found = control.store.read(stream, after=ask.seq - 1, limit=1)
    boundary = boundary_of(found[0]) if found else None
    if boundary is None or boundary.event.name not in TERMINAL:
        raise Refused(f"{stream} has no boundary at position {ask.seq}")
    return boundary


def head_start(commit: Commit, now: int) -> float:
    """Return the seconds for which the boundary of a commit is left to the worker that asks about it. 0: the router routes it
    now, also if the clocks of the two differ so much that the commit seems to be of the future."""
    left_s = HEAD_START_S - (now - commit.ts) / SECOND
    return left_s if commit.asks and 0 < left_s <= HEAD_START_S else 0.0
