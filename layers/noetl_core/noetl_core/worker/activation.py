"""The state that all parts of a worker share while they carry out one activation of a run, and the time that they have."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Literal

from noetl_core.dsl.model import Playbook, Step
from noetl_core.events.event import BoundaryEvent, Keys, new
from noetl_core.events.shapes import ChunkOfLoop
from noetl_core.ports import Clock
from noetl_core.values.instants import SECOND, to_rfc3339
from noetl_core.worker.claiming.claim import Claim
from noetl_core.worker.claiming.recorder import Recorder
from noetl_core.worker.run_tree import CtxLayer
from noetl_core.worker.values.offload import RunValues

MARGIN_S: Final = 5
"""A tool must end this long before the invocation does, so that its outcome can be committed."""
SPARE_S: Final = 30.0
"""The least time that must be left of the invocation to start a task without a timeout, or to sleep in this process."""


@dataclass(slots=True)
class Invocation:
    """The time that an invocation has, and whether a task has used some of it."""

    deadline: int | None = None
    """The instant at which it ends (microseconds); None: never."""
    used: bool = False
    """True once a task has been started in it, by this run or by an earlier one."""

    def left_s(self, now: int) -> float:
        """Return the seconds that are left at `now`."""
        return math.inf if self.deadline is None else (self.deadline - now) / SECOND

    def may_end_during(self, timeout: float | None, now: int) -> bool:
        """Return whether it might end before a task with this timeout does. The first task is always tried."""
        return self.used and self.left_s(now) < (SPARE_S if timeout is None else timeout + MARGIN_S)


@dataclass
class Activation:
    """One activation of one run: a step run, or the run of one chunk of its loop."""

    playbook: Playbook
    step: Step
    step_run: str
    chunk: ChunkOfLoop | None
    """For a chunk run: the plan of the loop, and the index of the chunk as `chunk`."""
    values: RunValues
    claim: Claim
    clock: Clock
    invocation: Invocation
    halt: Literal["", "pause", "deadline"] = ""
    """Why no further task is started; the run is suspended."""
    ended: BoundaryEvent | None = None

    def __post_init__(self) -> None:
        self.view = self.values.view
        self.execution_id = self.view.execution_id
        self.claimed_at = self.claim.journal.seq - 1
        """Position of the claim in the stream of the run. It differs for every worker that ever held this run."""
        self.recorder = Recorder(self.claim.journal, self.clock, self.values)

    def end(self, kind: Callable[Keys, Any], /, *_: Keys.args, **data: Keys.kwargs) -> None:
        """End or suspend the run with a boundary of payload type `kind`; the time is set when it is recorded."""
        self.ended = new(kind, 0, *_, **data)

    def meta(self, attempt: int, started: int, finished: int) -> dict[str, Any]:
        """Return `outcome.meta` of an attempt: its number, duration and timestamps, and the execution's trace id where it has one
        (formal spec 5). Times are microseconds."""
        meta = {
            "attempt": attempt,
            "duration_ms": round((finished - started) / 1000, 3),
            "started_at": to_rfc3339(started),
            "finished_at": to_rfc3339(finished),
        }
        trace_id = self.view.context.get("trace_id")
        return meta if trace_id is None else {**meta, "trace_id": trace_id}

    def written(self, ctx: CtxLayer) -> dict[str, Any]:
        """Return the run's ctx writes for its boundary event; large values, which reducers may build, are stored behind
        references."""
        return self.values.store_each_if_large(ctx.writes, f"values/{self.step_run}-ctx")
