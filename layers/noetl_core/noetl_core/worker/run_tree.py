"""The tree of a run: its inner nodes are loops (`LoopNode`), its leaves are passes over the pipeline (`PipelinePass`). This
module only keeps state; `runner`, `task_runner` and `loops.runner` act on it."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from noetl_core.dsl.model import Loop, Task
from noetl_core.engine import ids
from noetl_core.engine.loops import Load, condense, iteration_scope, merge_ctx
from noetl_core.engine.pipelines.pipeline import Pipeline
from noetl_core.events.runs import LoopIterationCompleted
from noetl_core.events.shapes import ChunkOfLoop, Counts, Failure, Wait
from noetl_core.worker.attempt import Attempt

Path = tuple[int, ...]

RESULTS_PAGE = 1_000
"""Results of a loop per page. Only the last page is kept as Python objects; full pages become bytes, or objects in the store."""


@dataclass(slots=True)
class CtxLayer:
    """The view of ctx that one part of a run has, and the writes of this part.

    Without `through`, writes stay in this layer (an iteration of a parallel loop, resolution 10). With `through`, every write
    also goes to the layer below at once (sequential loops write without restriction). A write creates a new view, so that values
    which templates took from the previous view do not change.
    """

    view: dict[str, Any]
    through: CtxLayer | None = None
    writes: dict[str, Any] = field(default_factory=dict)

    def write(self, patch: Mapping[str, Any]) -> None:
        if not patch:
            return
        self.writes.update(patch)
        if self.through is not None:
            self.through.write(patch)
            self.view = self.through.view
        else:
            self.view = {**self.view, **patch}


@dataclass(slots=True)
class PipelinePass:
    """One pass over the pipeline. `ctx` is the layer of its iteration."""

    pipe: Pipeline
    tasks: Sequence[Task]
    ctx: CtxLayer
    parent: LoopNode | None = None
    args: Mapping[str, Any] | None = None
    """The run's args with those of the iteration, once they have been evaluated."""
    attempt: Attempt = field(default_factory=Attempt)
    """The current attempt of its next task."""

    @property
    def task(self) -> Task:
        """The next task, or the current one."""
        return self.tasks[self.pipe.pc]

    @property
    def key(self) -> tuple[str, int]:
        """The task run and the attempt of its task."""
        return self.pipe.task_run(self.task), self.pipe.attempt

    def wait_id(self, what: str) -> str:
        """Return the id of a wait of the current attempt. It is the same in every worker."""
        return ids.wait_id(*self.key, what)

    def placed(self, wait: Wait) -> Wait:
        """Return a wait with its task and iteration added."""
        placed: Wait = {**wait, "task": self.task.name}
        if self.path:
            placed["iteration"] = list(self.path)  # `path` is a child playbook's
        return placed

    @property
    def path(self) -> Path:
        return self.pipe.path

    @property
    def iter(self) -> dict[str, Any]:
        return self.pipe.iter


@dataclass(slots=True)
class LoopNode:
    """A running loop: the items to start, the running iterations, and the results and writes of finished iterations by index."""

    loop: Loop
    path: Path
    items: Sequence[Any]
    ctx: CtxLayer
    iter: dict[str, Any]
    limit: int
    parent: LoopNode | None = None
    commit_every: int | None = None
    """The number of ended iterations after which a commit is due."""
    uncommitted: int = 0
    """Iterations that have ended since `commit_every` last asked for a commit."""
    commit_due: bool = False
    """If true, no iteration begins, and the loop does not close, before the next commit."""
    first: int = 0
    """Index of `items[0]` in the whole collection: not 0 in a chunk."""
    next: int = 0
    live: int = 0
    results: dict[int, Any] = field(default_factory=dict)
    """Results of finished iterations that are not yet in `pages`, by index within `items`."""
    pages: list[Any] = field(default_factory=list)
    """Complete pages of results, from the first index on: bytes, or references to them."""
    writes: list[tuple[int, Mapping[str, Any]]] = field(default_factory=list)
    succeeded: int = 0
    failed: int = 0
    innermost: Counts = field(default_factory=lambda: Counts(total=0, succeeded=0, failed=0))
    """Counts of the innermost loop, over the iterations that have finished."""
    tolerated: int = 0
    error: Failure | None = None
    broke: bool = False
    filling: bool = False
    finished: set[int] = field(default_factory=set)
    """Indexes that an earlier activation of the run finished."""
    more: bool = False
    """If true, items may still be added."""
    outcomes: dict[int, Literal["done", "failed", "lost"]] | None = None
    """In a cursor loop: the outcomes of iterations whose rows are not settled yet."""
    lost: int = 0
    """Failed iterations whose row was no longer claimed: they do not fail the loop."""
    begun: set[int] = field(default_factory=set)
    """Indexes that an earlier activation began and did not finish: they are finished even when the loop is stopping."""

    @property
    def parallel(self) -> bool:
        return self.loop.mode == "parallel"

    @property
    def restored(self) -> int:
        """The number of its iterations that an earlier activation finished."""
        return len(self.finished)

    @property
    def stopping(self) -> bool:
        return self.broke or self.error is not None

    def take(self) -> int | None:
        """Return the index of the next iteration to start, or None when the window is full or no item is left."""
        while self.live < self.limit and self.next < len(self.items):
            index = self.first + self.next
            if self.stopping and not self.begun:
                return None
            self.next += 1
            if index in self.finished or (self.stopping and index not in self.begun):
                continue
            self.begun.discard(index)
            self.live += 1
            return index
        return None

    def awaits_commit(self) -> bool:
        """Return whether no iteration may begin before the next commit."""
        return self.commit_due

    @property
    def over(self) -> bool:
        return self.live == 0 and ((self.next >= len(self.items) and not self.more) or (self.stopping and not self.begun))

    @property
    def drained(self) -> bool:
        """True if it can continue only with more items."""
        return self.more and self.live == 0 and self.next >= len(self.items) and not self.stopping

    def running(self, index: int) -> bool:
        """Return whether an iteration has begun here and not ended."""
        return index - self.first < self.next and index not in self.finished and index not in (self.outcomes or {})

    def layer(self) -> CtxLayer:
        """Return the ctx layer of a new iteration."""
        return CtxLayer(self.ctx.view, None if self.parallel else self.ctx)

    def scope_iter(self, index: int) -> dict[str, Any]:
        """Return `iter` of an iteration."""
        return iteration_scope(self.loop.iterator, self.items[index - self.first], index, self.iter)

    def restore(self, finished: Mapping[int, LoopIterationCompleted]) -> None:
        """Take over the iterations that an earlier activation finished: `LoopIterationCompleted` by index."""
        for index in sorted(finished):
            done = finished[index]
            self.finished.add(index)
            writes = done.get("set_ctx") or {}
            if not self.parallel:
                self.ctx.write(writes)
            self.settle(index, done, writes)

    def settle(self, index: int, done: LoopIterationCompleted, writes: Mapping[str, Any]) -> None:
        """Count a finished iteration, named by its absolute index, with the data of its `LoopIterationCompleted`."""
        if done["status"] == "success":
            self.succeeded += 1
            self.results[index - self.first] = done.get("result")
            if self.outcomes is not None:
                self.outcomes[index] = "done"
        else:
            self.failed += 1
            self.results[index - self.first] = None
            lost = "error" in done and done["error"]["kind"] == "lost"
            self.lost += lost
            if self.outcomes is not None:
                self.outcomes[index] = "lost" if lost else "failed"
            if self.failed - self.lost > self.tolerated and self.loop.failure_mode == "fail_fast" and self.error is None:
                error: Failure = done.get("error") or {"kind": "unknown", "message": "an iteration failed"}
                self.error = {"iteration": [*self.path, index], **error}
        ok = int(done["status"] == "success")
        inner: Counts = done.get("loop") or {"total": 1, "succeeded": ok, "failed": 1 - ok}
        self.innermost["total"] += inner["total"]
        self.innermost["succeeded"] += inner["succeeded"]
        self.innermost["failed"] += inner["failed"]
        self.broke = self.broke or bool(done.get("broke"))
        if writes and self.parallel:
            self.writes.append((index, writes))

    @property
    def counts(self) -> Counts:
        """Counts of the iterations of the innermost loop (resolution 9). An iteration of this loop that never began counts as
        one, because its own collection is unknown; so does one that failed before any inner iteration began."""
        left = len(self.items) - self.succeeded - self.failed
        return {**self.innermost, "total": self.innermost["total"] + left}

    def full_page(self) -> list[Any] | None:
        """Remove and return the next complete page of results, if there is one."""
        start = len(self.pages) * RESULTS_PAGE
        if len(self.results) < RESULTS_PAGE or any(n not in self.results for n in range(start, start + RESULTS_PAGE)):
            return None
        return [self.results.pop(n) for n in range(start, start + RESULTS_PAGE)]

    def rest(self) -> list[Any]:
        """Return the results after the complete pages, in index order; None stands for an iteration that failed or never ran."""
        return [self.results.get(n) for n in range(len(self.pages) * RESULTS_PAGE, len(self.items))]

    def condense(self, load: Load) -> None:
        """Combine the ctx writes of all iterations whose results are in complete pages, to save memory."""
        bound = self.first + len(self.pages) * RESULTS_PAGE
        self.writes.sort(key=lambda w: w[0])
        done = bisect_left(self.writes, bound, key=lambda w: w[0])
        self.writes[:done] = condense(self.writes[:done], self.loop.reducers, load)

    def merged(self, load: Load) -> dict[str, Any]:
        """Return the merged ctx writes of the iterations (resolution 10). Raises `CtxConflict`."""
        self.writes.sort(key=lambda w: w[0])
        return merge_ctx(self.writes, self.loop.reducers, self.ctx.view, load)


def key_suffix(chunk: ChunkOfLoop | None, path: Path) -> str:
    """Return the part of a derived key that names the chunk and the iteration."""
    where = "" if chunk is None else f"-chunk-{chunk['chunk']}"
    return where + "".join(f"-{i}" for i in path)


def loop_limit(loop: Loop, max_in_flight: int | None) -> int:
    """Return how many iterations may run at the same time: one in a sequential loop."""
    return 1 if loop.mode == "sequential" or max_in_flight is None else max_in_flight
