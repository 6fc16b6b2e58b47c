"""The runs of an execution in a bounded summary: the slowest, the failed ones, and how many ended at each time. It is
folded with the state and bounded, however many runs there are, so that a timeline reads no log for it. Pure.

`StepState` counts the writes of each step's runs; `views.explain.cost` scales its samples by these counts.
"""

from __future__ import annotations

from heapq import heappush, heapreplace
from typing import Final, Literal

from noetl_core.engine.fold.aggregates import add_to_cells
from noetl_core.engine.records import ControlEvent
from noetl_core.engine.state import EndedRun, Run, State
from noetl_core.events.event import closes_run

MOST: Final = 100
"""Maximum number of failed runs that are kept, and of others, of which the slowest are kept."""
FEW_CELLS: Final = 64
"""Minimum number of cells of time after cells have been merged."""


def observe(state: State, event: ControlEvent) -> None:
    """Fold a control event that ends a run, while the run is still open."""
    if not closes_run(event):
        return
    run = state.runs.get(event.data["run"])
    if run is None:
        return
    failed = event.name == "StepFailed" or event.data.get("name") == "StepFailed" or bool(event.data.get("error"))
    took, kept = max(event.ts - run.began_at, 0), state.ended
    kept.count += 1
    at = max(event.ts - state.started_at, 0) // 1000
    add_to_cells(kept.cells, at, [1, int(failed), took, took], FEW_CELLS * 2)
    among = kept.failed if failed else kept.slowest
    if len(among) == MOST and took <= among[0][0]:
        return
    counts = event.data if event.name == "LoopDone" else event.data.get("loop") if event.name == "BoundaryRouted" else None
    loop = (counts["total"], counts["succeeded"], counts["failed"]) if counts else None
    kind: Literal["run", "chunk", "undo"] = (
        "run" if run.parent is None and run.undoes is None else "undo" if run.undoes else "chunk"
    )
    row = EndedRun(took, kept.count, run.id, run.step, kind, run.began_at, run.parent, written(run, event), run.chunk, loop)
    (heappush if len(among) < MOST else heapreplace)(among, row)


def written(run: Run, event: ControlEvent) -> int:
    """Return the number of envelopes in the stream of a run, as stated by the event that ends it."""
    count = event.data.get("events") if event.name == "BoundaryRouted" else None
    return run.events if count is None else count
