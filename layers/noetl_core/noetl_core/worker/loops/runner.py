"""Runs the loops of one activation: begins them, keeps their windows full, ends iterations, closes them."""

from __future__ import annotations

from collections import deque
from typing import Any

from noetl_core.dsl.model import Loop
from noetl_core.engine.loops import SpreadRule
from noetl_core.engine.pipelines.pipeline import Pipeline
from noetl_core.events.runs import LoopChunkDone, LoopIterationCompleted, LoopIterationStarted, StepFailed, StepSuspended
from noetl_core.events.shapes import Counts, Failure
from noetl_core.values.instants import SECOND
from noetl_core.worker.activation import Activation
from noetl_core.worker.claiming.journal import FLUSH_EVERY_S
from noetl_core.worker.loops.chunks import LoopChunks
from noetl_core.worker.loops.collections import LoopCollections, LoopFailed
from noetl_core.worker.loops.frames import LoopFrames
from noetl_core.worker.loops.results import LoopResults
from noetl_core.worker.loops.spread import LoopSpread, may_spread
from noetl_core.worker.pipeline_passes import PipelinePasses
from noetl_core.worker.run_tree import CtxLayer, LoopNode, Path, PipelinePass
from noetl_core.worker.tasks.tool_caller import ToolCaller

SHARED_MS = 10
"""Milliseconds for which a due commit waits for iterations that end meanwhile."""


class LoopRunner:
    """The loops of one run. They append the passes to run to `ready`; `finish` takes the result of each."""

    def __init__(
        self,
        activation: Activation,
        passes: PipelinePasses,
        ready: deque[PipelinePass],
        caller: ToolCaller,
        rule: SpreadRule | None,
    ) -> None:
        """`rule` decides when a loop is handed over to other workers; None, never, if there are none."""
        self._activation, self._passes, self._ready, self._caller, self._rule = activation, passes, ready, caller, rule
        self._collections = LoopCollections(activation)
        self._chunks = LoopChunks(activation, self._collections, caller)
        self._results = LoopResults(activation)
        self._spread: LoopSpread | None = None
        """Set for the step's loop if other workers may run part of it."""
        self._cursor: tuple[LoopFrames, LoopNode] | None = None
        """Set for the step's loop if it claims rows."""
        self._commit_due: list[LoopNode] = []
        """Loops whose `commit_every` asks for a commit."""
        self._commit_due_since = 0
        self._gate_read_at = 0
        """The instant at which a `commit_every` commit last read the gate (microseconds)."""

    # --- beginning ------------------------------------------------------------------------------------------------------

    def begin(self, loop: Loop, ctx: CtxLayer, outer: dict[str, Any]) -> None:
        """Begin the step's loop: in this process, as the lead run that cuts it into chunks, or as the run of one chunk."""
        activation = self._activation
        try:
            if activation.chunk is not None:
                self._start(self._chunks.chunk_node(loop, ctx, outer, activation.chunk))
            elif self._chunks.is_wanted(loop):
                self._chunks.hand_over(loop, ctx, outer)
            elif loop.cursor is not None:
                frames = LoopFrames(activation, self._collections, self._caller.call_for_loop)
                self._cursor = frames, frames.begin(loop, loop.cursor, ctx, outer)
                self._start(self._cursor[1])
            else:
                self._begin_loop(loop, (), ctx, outer, None)
        except LoopFailed as failed:
            activation.end(StepFailed, error=failed.error)

    def _begin_loop(self, loop: Loop, path: Path, ctx: CtxLayer, outer: dict[str, Any], parent: LoopNode | None) -> None:
        collections = self._collections
        items = collections.collection(loop, path, ctx, outer)
        node = LoopNode(loop, path, items, ctx, outer, limit=collections.limit(loop, ctx, outer), parent=parent)
        node.tolerated = collections.tolerated(loop, len(items), ctx, outer)
        node.commit_every = collections.commit_every(loop, ctx, outer)
        rule = self._rule if parent is None and may_spread(self._activation, loop) else None
        if rule is None or self._caller.step_waits():  # the duration of waits is not a measure of work
            self._start(node)
        else:
            collections.chunk_size(loop, ctx, outer)  # a wrong value fails the loop now, handed over or not
            self._start(node, rule)

    def _start(self, node: LoopNode, rule: SpreadRule | None = None) -> None:
        history = self._activation.claim.history
        node.restore(history.finished.pop(node.path, {}))
        depth = len(node.path)
        self._results.turn_pages(node)
        node.begun = {p[depth] for p in history.begun if len(p) == depth + 1 and p[:depth] == node.path}
        if self._cursor is not None and node is self._cursor[1]:
            self._cursor[0].take_up(node)
        if rule is not None:
            self._spread = LoopSpread(self._activation, node, rule)
        self._fill(node)

    # --- iterations -----------------------------------------------------------------------------------------------------

    def _fill(self, node: LoopNode) -> None:
        """Start iterations until the loop's window is full, and close the loop when it is over. An iteration that ends at
        once calls `finish` while this method is still active."""
        if node.filling or node.awaits_commit():
            return
        node.filling = True
        spread = self._spread if node.parent is None else None
        while True:
            while (
                not self._activation.halt
                and not node.awaits_commit()
                and not (spread is not None and spread.stops_new())
                and (index := node.take()) is not None
            ):
                self._begin_iteration(node, index)
            if node.awaits_commit() or self._cursor is None or not node.drained or self._activation.halt:
                break
            if not self._cursor[0].advance(node):
                break
        node.filling = False
        if node.awaits_commit():
            return
        if node.over:
            self._close(node)
        elif spread is not None and spread.decided and not node.live and not self._activation.halt:
            self._hand_over(node, spread)

    def _begin_iteration(self, node: LoopNode, index: int) -> None:
        activation, path = self._activation, (*node.path, index)
        if path in activation.claim.history.begun:
            activation.claim.history.begun.discard(path)
        else:
            activation.recorder.record(LoopIterationStarted, path=list(path))
        if self._spread is not None and node.parent is None:
            self._spread.record_start(index)
        layer, scope = node.layer(), node.scope_iter(index)
        if node.loop.inner is None:
            self._ready.append(self._passes.begin(Pipeline(activation.step_run, path), layer, node, scope))
            return
        try:
            self._begin_loop(node.loop.inner, path, layer, scope, node)
        except LoopFailed as failed:
            self.finish(node, path, layer, error=failed.error)

    def finish(
        self,
        node: LoopNode,
        path: Path,
        layer: CtxLayer,
        *,
        result: Any = None,
        error: Failure | None = None,
        broke: bool = False,
        counts: Counts | None = None,
    ) -> None:
        """End one iteration of `node`, with its `result` or its `error`. `counts` are those of an inner loop."""
        done: LoopIterationCompleted = {"path": list(path), "status": "success" if error is None else "error"}
        if error is None:
            done["result"] = result
        else:
            done["error"] = error
        if counts is not None and (error is None or counts["failed"]):
            done["loop"] = counts
        if layer.writes:
            done["set_ctx"] = layer.writes
        if broke:
            done["broke"] = True
        self._activation.recorder.record(LoopIterationCompleted, **done)
        node.live -= 1
        if self._spread is not None and node.parent is None:
            self._spread.record_end(path[-1])
        node.settle(path[-1], done, layer.writes)
        self._results.turn_pages(node)
        if node.commit_every is not None:
            self._count_uncommitted(node, node.commit_every)
        self._fill(node)

    # --- claimed rows ---------------------------------------------------------------------------------------------------

    @property
    def holds_claims(self) -> bool:
        """True if claimed rows of a cursor loop are not yet settled. A pause waits for them."""
        return self._cursor is not None and self._cursor[0].has_claims

    def prolong_claims(self, until: int | None = None) -> None:
        """Prolong the claims of rows if that is due; with `until`, the end of a suspension, at once."""
        if self._cursor is None:
            return
        frames, node = self._cursor
        if until is not None:
            frames.prolong_until(node, until)
        elif frames.prolong_if_due(node) and not node.live:
            self._fill(node)

    def release_claims(self) -> None:
        """Release claimed rows, because the run is being stopped."""
        if self._cursor is not None:
            self._cursor[0].release(self._cursor[1])

    # --- handing over ---------------------------------------------------------------------------------------------------

    def resume_postponed(self) -> bool:
        """Cancel a decided hand-over, which waits for the running iterations, when all of these wait. New iterations then begin
        in this worker. Returns whether a hand-over was pending."""
        spread = self._spread
        if spread is None or not spread.decided or self._activation.halt:
            return False
        spread.postpone()
        self._fill(spread.node)
        return True

    def _hand_over(self, node: LoopNode, spread: LoopSpread) -> None:
        """Suspend the run on the remaining chunks. Its boundary carries the results of the iterations that ended here, like the
        boundary of a chunk."""
        results = self._results
        try:
            plan = self._chunks.plan_rest(node, spread)
        except LoopFailed as failed:
            self._activation.end(StepFailed, error=failed.error)
            return
        node.items = node.items[: node.next]
        done: StepSuspended = {"waits": [], "loop": plan, "succeeded": node.succeeded, "failed": node.failed}
        if node.loop.inner is not None:
            done["innermost"] = node.innermost
        done["result"] = results.results(node)
        done["ctx_writes"] = results.writes(node)
        self._activation.end(StepSuspended, **done)

    # --- commits that `commit_every` asks for ----------------------------------------------------------------------------

    def _count_uncommitted(self, node: LoopNode, every: int) -> None:
        """Count an ended iteration. After `every` of them a commit is due. The end of the run commits anyway."""
        node.uncommitted += 1
        if node.commit_due or node.uncommitted < every or (node.parent is None and node.over):
            return
        node.commit_due = True
        if not self._commit_due:
            self._commit_due_since = self._activation.clock.now()
        self._commit_due.append(node)

    @property
    def commit_is_due(self) -> bool:
        """True if a loop begins no iteration before the next commit."""
        return bool(self._commit_due)

    def may_share_commit(self) -> bool:
        """Return whether iterations that end now may share the commit that is due, if one is."""
        if not self._commit_due:
            return True
        return self._activation.clock.now() - self._commit_due_since < SHARED_MS * SECOND // 1000

    def commit_ended(self) -> None:
        """Commit the iterations that have ended, and let the loops that waited for it continue."""
        nodes, self._commit_due = self._commit_due, []
        if not all(node.parent is None and node.over for node in nodes):
            self._commit()
        for node in nodes:
            node.commit_due, node.uncommitted = False, 0
        for node in nodes:
            self._fill(node)

    def _commit(self) -> None:
        activation = self._activation
        activation.claim.journal.flush()
        now = activation.clock.now()
        # The driver reads the gate with its periodic commits, which never become due between these.
        if now - self._gate_read_at >= FLUSH_EVERY_S * SECOND:
            activation.claim.lease.read_gate()
            self._gate_read_at = now

    # --- ending ---------------------------------------------------------------------------------------------------------

    def _close(self, node: LoopNode) -> None:
        activation, results = self._activation, self._results
        if self._cursor is not None and node is self._cursor[1]:
            self._cursor[0].close(node)
        if node.parent is not None or activation.chunk is None:
            results.merge(node)
        result = results.results(node)
        if node.parent is not None:
            self.finish(node.parent, node.path, node.ctx, result=result, error=node.error, counts=node.counts)
            return
        counts = node.counts
        data: LoopChunkDone = {
            "total": counts["total"],
            "succeeded": counts["succeeded"],
            "failed": counts["failed"],
            "result": result,
        }
        if activation.chunk is None:
            if node.loop.inner is not None:
                data["items"] = len(node.items)
        else:
            self._chunks.remember_pace(node)
            data["total"], data["succeeded"], data["failed"] = len(node.items), node.succeeded, node.failed
            if node.loop.inner is not None:
                data["innermost"] = node.innermost
            data["first"], data["count"], data["broke"] = node.first, len(node.items), node.broke
            data["ctx_writes"] = results.writes(node)
        if activation.chunk is None and node.ctx.writes:
            data["set_ctx"] = activation.written(node.ctx)
        if node.error is not None:
            data["error"] = node.error
        activation.end(LoopChunkDone, **data)
