"""The runs of an execution as far as they can be shown together: which took longest, which failed, and how many ended when. It is
folded with the state and bounded, however many runs there are, so that a timeline reads no log for it. Pure.

Of each step `StepState` counts what its runs wrote, by which `views.explain.cost` scales what it reads of them.
"""

from __future__ import annotations

from heapq import heappush, heapreplace
from typing import Final, Literal

from noetl_core.engine.fold.aggregates import add_to_cells
from noetl_core.engine.records import ControlEvent
from noetl_core.engine.state import EndedRun, Run, State
from noetl_core.events.event import closes_run

MOST: Final = 100
"""The most runs that are kept of those that failed, and of the others: the slowest."""
FEW_CELLS: Final = 64
"""The least number of cells of time, once there are enough runs for cells to be merged."""


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
    """Return how many envelopes the stream of a run has, with what an event that ends it says."""
    said = event.data.get("events") if event.name == "BoundaryRouted" else None
    return run.events if said is None else said
