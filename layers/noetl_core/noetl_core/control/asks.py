"""Answers workers that ask for their boundaries to be routed (docs/decisions.md, "Eager dispatch")."""

from __future__ import annotations

from noetl_core.control.core import Control
from noetl_core.control.fence import boundary_of
from noetl_core.engine.records import Ask, Boundary, Command, StreamId
from noetl_core.events.table import TERMINAL


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
