"""A cursor loop: rows are claimed frame by frame until there are none (docs/language/loops.md, "Cursors").

In this order: the results of a frame are committed, its rows are settled at their source, the next frame is claimed, the claim is
committed, its iterations run. Another worker may repeat each part: a claim has an id derived from its frame, a settlement names
that id, and rows that this loop has already done are settled without running again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, Literal

from noetl_core.dsl.model import Cursor, Loop
from noetl_core.dsl.numbers import FRAME, LEASE, LOOP_ITEMS
from noetl_core.engine import ids
from noetl_core.engine.outcome import Outcome
from noetl_core.events.runs import LoopFrameClaimed, LoopIterationCompleted
from noetl_core.events.shapes import Failure
from noetl_core.expr import TemplateError, contains_secret, render
from noetl_core.ports import NotFound
from noetl_core.tools.base import BadInput
from noetl_core.tools.cursors.base import Claimed, ClaimIds, Inputs, Row, Settlement, Source, source_of
from noetl_core.values.instants import SECOND
from noetl_core.worker.activation import SPARE_S, Activation
from noetl_core.worker.claiming.journal import Fenced
from noetl_core.worker.loops.collections import LoopCollections, LoopFailed
from noetl_core.worker.loops.frame_items import Frame, FrameItems
from noetl_core.worker.run_tree import CtxLayer, LoopNode
from noetl_core.worker.values.offload import NotJson

PAUSES_S: Final = (0.5, 2.0, 5.0, 10.0)
"""Pauses before a failed call of the source is repeated."""
REPEATED: Final = 3
"""After so many claims in a row that bring only rows which failed in this loop, the source counts as empty."""

CallSource = Callable[[str, Inputs, str, str], Outcome]
"""`call(kind, inputs, what, key)` calls a tool for the loop itself: `what` names the operation, `key` is the idempotency key."""


class SourceFailed(Exception):
    """The source failed. The loop fails with `error`."""

    def __init__(self, error: Failure) -> None:
        super().__init__(error["message"])
        self.error = error


class LoopFrames:
    """The frames of an activation's cursor loop."""

    def __init__(self, activation: Activation, collections: LoopCollections, call: CallSource) -> None:
        self._activation, self._collections, self._call = activation, collections, call
        self._items = FrameItems(activation.values.resolve)
        self._source: Source | None = None
        self._size, self._lease_s = 1, 0.0
        self._claims = 0
        """Frames that this run has claimed, including the empty one; not those that an earlier run claimed before a redrive."""
        self._done: set[str] = set()
        self._failed: set[str] = set()
        """Keys of rows that this loop has done, and of those that failed in it."""
        self._unsettled: list[Frame] = []
        self._renewed_at = 0

    # --- beginning ------------------------------------------------------------------------------------------------------

    def begin(self, loop: Loop, cursor: Cursor, ctx: CtxLayer, outer: dict[str, Any]) -> LoopNode:
        """Return the loop with the recorded frames. Raises `LoopFailed`."""
        activation, collections = self._activation, self._collections
        self._source = self._open_source(cursor, ctx, outer)
        self._size = int(collections.number(loop.frame, FRAME, "frame", ctx, outer) or 1)
        self._lease_s = collections.number(cursor.lease_s, LEASE, "cursor.lease_s", ctx, outer) or 1.0
        node = LoopNode(loop, (), self._items, ctx, outer, limit=collections.limit(loop, ctx, outer))
        node.more, node.outcomes = True, {}
        node.commit_every = collections.commit_every(loop, ctx, outer)
        for claimed in activation.claim.history.frames:
            own = claimed["run"] == activation.step_run
            self._claims += own
            if self._items.add(claimed) is None and own:
                node.more = False
        self._update_tolerance(node)
        return node

    def _open_source(self, cursor: Cursor, ctx: CtxLayer, outer: dict[str, Any]) -> Source:
        try:
            return source_of(cursor.kind, render(cursor.fields, self._activation.values.scope(ctx.view, outer)))
        except TemplateError as error:
            raise LoopFailed(error.kind, f"loop.cursor: {error}") from None
        except NotFound as error:
            raise LoopFailed("not_found", f"loop.cursor: {error}") from None
        except BadInput as error:
            raise LoopFailed("schema", str(error)) from None

    def take_up(self, node: LoopNode) -> None:
        """Continue after another activation: prolong the claims of rows that have not run. Rows that others hold now do not
        run."""
        try:
            self._take_up(node)
        except SourceFailed as failed:
            node.error = node.error or failed.error
            node.begun.clear()

    def _take_up(self, node: LoopNode) -> None:
        frames, outcomes = self._items.frames, node.outcomes or {}
        for frame in frames:
            left = [index for index in frame.indexes if index not in outcomes]
            for index in frame.indexes:
                if index in outcomes:
                    self._remember(frame, index, outcomes[index])
            if left:
                self._prolong(node, frame, left, self._lease_s)
            if left or frame is frames[-1]:
                self._unsettled.append(frame)
            else:
                for index in frame.indexes:
                    outcomes.pop(index, None)
        self._renewed_at = self._activation.clock.now()

    # --- the claims of the rows that run --------------------------------------------------------------------------------

    @property
    def has_claims(self) -> bool:
        """True if claimed rows are not yet settled. A pause waits until they have run."""
        return bool(self._unsettled)

    def prolong_if_due(self, node: LoopNode) -> bool:
        """Prolong the claims when a third of the lease has passed. Returns whether rows turned out to be lost."""
        now = self._activation.clock.now()
        if not self._unsettled or now - self._renewed_at < self._lease_s * SECOND / 3:
            return False
        self._renewed_at = now
        try:
            lost = [self._prolong(node, frame, self._unfinished(node, frame), self._lease_s) for frame in self._unsettled]
            return any(lost)
        except SourceFailed:
            return False  # running iterations continue; it is tried again after a third of the lease

    def prolong_until(self, node: LoopNode, until: int) -> None:
        """Prolong the claims for a suspension that ends at `until` (microseconds)."""
        wait = max(0.0, (until - self._activation.clock.now()) / SECOND)
        for frame in self._unsettled:
            try:
                self._prolong(node, frame, self._unfinished(node, frame), self._lease_s + wait)
            except SourceFailed:
                continue  # the worker that resumes the run checks whether it still holds the rows

    def _unfinished(self, node: LoopNode, frame: Frame) -> list[int]:
        outcomes = node.outcomes or {}
        return [index for index in frame.indexes if index not in outcomes]

    def _prolong(self, node: LoopNode, frame: Frame, indexes: list[int], lease_s: float) -> bool:
        """Prolong the claims of rows. Returns whether iterations ended because others hold their rows now."""
        rows = self._items.rows(frame, indexes)
        requests = self._opened_source.renew(frame.ids, rows, frame.key_type, lease_s)
        if not requests:
            return False
        held: set[str] = set()
        for inputs in requests:
            held.update(self._opened_source.held(self._result(inputs, "renew", frame.ids.claim), rows))
        begun = self._activation.claim.history.begun
        lost = [i for i, row in zip(indexes, rows, strict=True) if row.key not in held and not node.running(i)]
        for index in lost:
            path, key = (index,), frame.keys[index - frame.first]
            message = (
                f"the claim of row {key} ended before the row was run (lease_s: {self._lease_s:g}):"
                " the next loop that claims the row runs it, possibly this one"
            )
            error: Failure = {"kind": "lost", "message": message, "retryable": False}
            done: LoopIterationCompleted = {"path": [index], "status": "error", "error": error}
            begun.discard(path)
            self._activation.claim.history.tasks.pop(path, None)
            self._activation.recorder.record(LoopIterationCompleted, **done)
            node.finished.add(index)
            node.begun.discard(index)
            node.settle(index, done, {})
        return bool(lost)

    # --- from frame to frame --------------------------------------------------------------------------------------------

    def advance(self, node: LoopNode) -> bool:
        """Settle the rows that have run and claim the next frame. Returns whether there are rows to run. Raises `Fenced`,
        `Cancelled`."""
        activation = self._activation
        try:
            self._settle_all(node)
            activation.claim.lease.read_gate()
            activation.claim.lease.check()
            if activation.claim.lease.gate == "pause":
                activation.halt = activation.halt or "pause"
            elif (
                activation.invocation.deadline is not None
                and activation.invocation.left_s(activation.clock.now()) < SPARE_S
                and node.items
            ):
                activation.halt = activation.halt or "deadline"
            if activation.halt:
                return False
            self._claim(node)
        except SourceFailed as failed:
            node.error = node.error or failed.error
            return False
        return node.more

    def close(self, node: LoopNode) -> None:
        """Settle the rows that have run and release the others. Raises `Fenced`, `Cancelled`."""
        try:
            self._settle_all(node)
        except SourceFailed as failed:
            node.error = node.error or failed.error

    def release(self, node: LoopNode) -> None:
        """Settle and release rows of a run that is being stopped. If that fails, the claims expire."""
        try:
            self._settle_all(node)
        except (SourceFailed, Fenced):
            return

    def _claim(self, node: LoopNode) -> None:
        activation, limits = self._activation, self._activation.playbook.executor.limits
        if self._claims >= limits.max_frames or len(self._items) >= LOOP_ITEMS:
            what = f"{self._claims} frames" if self._claims >= limits.max_frames else f"{len(self._items):,} rows"
            remedy = "raise executor.spec.policy.limits.max_frames, or loop.spec.frame; another run can claim the remaining rows"
            raise SourceFailed({"kind": "limit", "message": f"the loop claimed {what}: {remedy}", "retryable": False})
        run = activation.step_run
        claim = ClaimIds(
            ids.claim_id(activation.execution_id, run, self._claims), ids.claim_id(activation.execution_id, run, "failed")
        )
        claimed, repeated = self._new_rows(claim)
        data: LoopFrameClaimed = {
            "run": run,
            "frame": self._claims,
            "claim": claim.claim,
            "failed": claim.failed,
            "first": len(self._items),
            "keys": [row.key for row in claimed.rows],
        }
        if claimed.rows:
            data["rows"] = self._stored([row.value for row in claimed.rows], "rows")
            if any(row.handle is not None for row in claimed.rows):
                data["handles"] = self._stored([row.handle for row in claimed.rows], "handles")
        if claimed.key_type is not None:
            data["key_type"] = claimed.key_type
        if repeated:
            data["repeated"] = repeated
        activation.recorder.record(LoopFrameClaimed, **data)
        activation.claim.journal.flush()
        self._claims += 1
        self._renewed_at = activation.clock.now()
        frame = self._items.add(data)
        if frame is None:
            node.more = False
        else:
            self._unsettled.append(frame)
            self._update_tolerance(node)

    def _new_rows(self, claim: ClaimIds) -> tuple[Claimed, int]:
        """Claim until there are rows that this loop has not run, or none. Rows that it has already done are settled, not run."""
        repeated = fruitless = 0
        while True:
            claimed = self._claim_rows(claim)
            rows = [row for row in claimed.rows if row.key not in self._done and row.key not in self._failed]
            done = [row for row in claimed.rows if row.key in self._done]
            failed = [row for row in claimed.rows if row.key in self._failed]
            self._settle(claim, Settlement(done, failed), claimed.key_type)
            repeated, fruitless = repeated + len(done), fruitless + 1
            if rows or not claimed.rows or (not done and fruitless >= REPEATED):
                return Claimed(rows, claimed.key_type), repeated

    def _claim_rows(self, claim: ClaimIds) -> Claimed:
        rows: dict[str, Row] = {}
        key_type = None
        while len(rows) < self._size:
            inputs = self._opened_source.claim(claim, self._size - len(rows), self._lease_s)
            try:
                claimed = self._opened_source.claimed(self._result(inputs, "claim", claim.claim))
            except BadInput as error:
                raise SourceFailed({"kind": "schema", "message": str(error), "retryable": False}) from None
            known = len(rows)
            rows.update((row.key, row) for row in claimed.rows)
            key_type = claimed.key_type or key_type
            if len(rows) == known or self._opened_source.fills:
                break
        return Claimed(list(rows.values()), key_type)

    def _stored(self, values: Sequence[Any], what: str) -> Any:
        activation = self._activation
        if contains_secret(values):
            raise SourceFailed(
                {"kind": "schema", "message": "claimed rows hold a secret: rows are recorded, so they cannot hold secrets"}
            )
        try:
            return activation.values.store_if_large(list(values), f"loops/{activation.step_run}/{what}-{self._claims}")
        except NotJson as error:
            raise SourceFailed(
                {"kind": "schema", "message": f"claimed rows are not JSON data: {error}", "retryable": False}
            ) from None

    # --- settling -------------------------------------------------------------------------------------------------------

    def _settle_all(self, node: LoopNode) -> None:
        """Commit the results of the frames that ran, then settle their rows. Rows without an outcome are released."""
        self._activation.claim.journal.flush()
        outcomes = node.outcomes or {}
        for frame in list(self._unsettled):
            sorted_out: dict[str, list[int]] = {"done": [], "failed": [], "lost": [], "released": []}
            for index in frame.indexes:
                sorted_out[outcomes.get(index, "released")].append(index)
            rows = {what: self._items.rows(frame, indexes) for what, indexes in sorted_out.items()}
            self._settle(frame.ids, Settlement(rows["done"], rows["failed"], rows["released"]), frame.key_type)
            for index in frame.indexes:
                self._remember(frame, index, outcomes.pop(index, "lost"))
            self._unsettled.remove(frame)
            self._items.forget(frame)

    def _remember(self, frame: Frame, index: int, outcome: Literal["done", "failed", "lost"]) -> None:
        if outcome != "lost":
            (self._done if outcome == "done" else self._failed).add(frame.keys[index - frame.first])

    def _settle(self, claim: ClaimIds, settlement: Settlement, key_type: str | None) -> None:
        if settlement:
            for inputs in self._opened_source.settle(claim, settlement, key_type):
                self._result(inputs, "settle", claim.claim)

    # --- the source -----------------------------------------------------------------------------------------------------

    @property
    def _opened_source(self) -> Source:
        assert self._source is not None
        return self._source

    def _result(self, inputs: Inputs, what: str, key: str) -> Any:
        """Call the source. Raises `SourceFailed`, `Fenced`, `Cancelled`."""
        activation = self._activation
        for pause in (*PAUSES_S, None):
            outcome = self._call(self._opened_source.kind, inputs, what, key)
            activation.claim.lease.check()
            if outcome.error is None:
                break
            failed = outcome.error.as_dict()
            if pause is None or not failed["retryable"]:
                raise SourceFailed({**failed, "message": f"loop.cursor could not {what} rows: {failed['message']}"})
            activation.clock.sleep(pause)
        return outcome.result

    def _update_tolerance(self, node: LoopNode) -> None:
        """Recompute how many rows may fail: a percentage refers to the rows claimed so far."""
        node.tolerated = self._collections.tolerated(node.loop, len(self._items), node.ctx, node.iter)
