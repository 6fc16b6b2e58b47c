"""The tree of a run: loops, and at the leaves passes over the pipeline. Pure bookkeeping; `runner` drives it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from noetl_core.dsl.model import Loop
from noetl_core.engine.loops import DEFAULT_MAX_IN_FLIGHT, merge_ctx
from noetl_core.engine.pipeline import Pipeline

Path = tuple[int, ...]


@dataclass(slots=True)
class CtxLayer:
    """ctx as one part of a run sees it: the view below, and this part's own writes (copied only once it writes)."""

    view: dict[str, Any]
    writes: dict[str, Any] = field(default_factory=dict)
    _own: bool = False

    def write(self, patch: Mapping[str, Any]) -> None:
        if patch:
            if not self._own:
                self.view, self._own = dict(self.view), True
            self.view.update(patch)
            self.writes.update(patch)


@dataclass(slots=True)
class Leaf:
    """One pass over the pipeline. `ctx` is its own layer in a parallel loop, shared otherwise."""

    pipe: Pipeline
    ctx: CtxLayer
    parent: LoopNode | None = None
    iter: dict[str, Any] = field(default_factory=dict)
    wait: dict[str, Any] | None = None

    @property
    def path(self) -> Path:
        return self.pipe.path


@dataclass(slots=True)
class LoopNode:
    """One loop being run: items still to hand out, iterations live, and what the finished ones left (in index order)."""

    loop: Loop
    path: Path
    items: Sequence[Any]
    ctx: CtxLayer
    iter: dict[str, Any]
    limit: int
    parent: LoopNode | None = None
    first: int = 0
    """Index of `items[0]` in the whole collection: not 0 in a chunk."""
    next: int = 0
    live: int = 0
    results: list[Any] = field(default_factory=list)
    writes: list[tuple[int, dict[str, Any]]] = field(default_factory=list)
    succeeded: int = 0
    failed: int = 0
    tolerated: int = 0
    error: dict[str, Any] | None = None
    broke: bool = False
    filling: bool = False

    def __post_init__(self) -> None:
        self.results = [None] * len(self.items)

    @property
    def parallel(self) -> bool:
        return self.loop.mode == "parallel"

    @property
    def stopping(self) -> bool:
        return self.broke or self.error is not None

    @property
    def may_spawn(self) -> bool:
        return self.next < len(self.items) and self.live < self.limit and not self.stopping

    @property
    def over(self) -> bool:
        return self.live == 0 and (self.next >= len(self.items) or self.stopping)

    def settle(
        self, index: int, *, ok: bool, result: Any, error: Mapping[str, Any] | None, writes: dict[str, Any], broke: bool
    ) -> None:
        """Count a finished iteration (its absolute index)."""
        if ok:
            self.succeeded += 1
            self.results[index - self.first] = result
        else:
            self.failed += 1
            if self.failed > self.tolerated and self.loop.failure_mode == "fail_fast" and self.error is None:
                self.error = {
                    **(error or {"kind": "unknown", "message": "an iteration failed"}),
                    "iteration": [*self.path, index],
                }
        self.broke = self.broke or broke
        if writes and self.parallel:
            self.writes.append((index, writes))

    def merge(self) -> None:
        """Bring the iterations' ctx writes together (resolution 10). Raises `CtxConflict`."""
        if self.writes:
            self.writes.sort(key=lambda w: w[0])
            self.ctx.write(merge_ctx(self.writes, self.loop.reducers, self.ctx.view))


def loop_limit(loop: Loop, max_in_flight: int | None) -> int:
    """Concurrent iterations: one in a sequential loop."""
    if loop.mode == "sequential":
        return 1
    return max(1, max_in_flight if max_in_flight is not None else DEFAULT_MAX_IN_FLIGHT)
