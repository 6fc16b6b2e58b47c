"""Claims of workers to runs, made in the commit that schedules them (docs/decisions.md, "Eager dispatch"). Pure.

While a claim lives, the command of its run is not sent. Afterwards the run is like any other that no worker has begun.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from noetl_core.engine.state import Run, State

ASKED_RUNS: Final = 4
"""Workers ask while the execution has at most this many open runs. Beyond that, the stream routes their ends in batches."""
MARKED: Final = 64
"""Maximum number of boundaries, routed because their workers asked, that the state remembers: two seconds of the stream at 30 ms
a step."""


def is_claimed(run: Run, now: int) -> bool:
    """Return whether a claim to the run lives: its command must not be sent."""
    return run.claim is not None and run.status == "scheduled" and now < run.claim["until"]


def unclaimed(state: State, runs: Iterable[str], now: int) -> list[str]:
    """Return those of `runs` that no live claim holds."""
    return [name for name in runs if (run := state.runs.get(name)) is None or not is_claimed(run, now)]


def claims_end(state: State, now: int) -> int | None:
    """Return when the last live claim lapses; None if there is none."""
    return max((run.claim["until"] for run in state.runs.values() if run.claim and is_claimed(run, now)), default=None)


def claimed_for(state: State, ask_id: str, now: int) -> list[str]:
    """Return the open runs that are claimed for an ask. A repeated ask gets the same answer."""
    runs = state.runs.values()
    return [run.id for run in runs if run.claim is not None and run.claim["ask"] == ask_id and is_claimed(run, now)]


def mark_asked(state: State, run: str, seq: int) -> None:
    """Remember a boundary that was routed because its worker asked."""
    state.asked.append(f"{run}:{seq}")
    del state.asked[:-MARKED]


def was_asked(state: State, run: str, seq: int) -> bool:
    """Return whether the boundary is among the newest that were routed because their workers asked."""
    return f"{run}:{seq}" in state.asked
