"""A cursor loop: rows are claimed frame by frame until there are none (docs/language/loops.md, "Cursors").

The order is: the results of a frame are committed, then its rows are settled at their source, then the next frame is claimed,
then that is committed, then its iterations run. Each part may be done again by another worker: a claim has an id that is derived
from its frame, a settlement names that id, and rows that this loop has done already are settled without being run again.
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
from noetl_core.instants import SECOND
from noetl_core.ports import NotFound
from noetl_core.tools.base import BadInput
from noetl_core.tools.cursors.base import Claimed, ClaimIds, Inputs, Row, Settlement, Source, source_of
from noetl_core.worker.activation import Activation
from noetl_core.worker.frame_items import Frame, FrameItems
from noetl_core.worker.journal import Fenced
from noetl_core.worker.loop_collections import LoopCollections, LoopFailed
from noetl_core.worker.nodes import CtxLayer, LoopNode
from noetl_core.worker.offload import NotJson
from noetl_core.worker.waiting_passes import SPARE_S

PAUSES_S: Final = (0.5, 2.0, 5.0, 10.0)
"""Pauses before a call of the source that failed is made again."""
REPEATED: Final = 3
"""So many claims in a row may bring nothing but rows that failed in this loop, before they count as no rows."""

CallSource = Callable[[str, Inputs, str, str], Outcome]
"""`call(kind, inputs, what, key)` calls a tool for the loop itself: `what` it does, under the idempotency key `key`."""


class SourceFailed(Exception):
    """The source did not do what the loop asked of it. The loop fails with `error`."""

    def __init__(self, error: Failure) -> None:
        super().__init__(error["message"])
        self.error = error


class LoopFrames:
    """The frames of an activation's cursor loop."""

    def __init__(self, activation: Activation, collections: LoopCollections, call: CallSource) -> None:
        self._activation, self._collections, self._call = activation, collections, call
        self._items = FrameItems(activation.resolve)
        self._source: Source | None = None
        self._size, self._lease_s = 1, 0.0
        self._claims = 0
        """Frames that this run has claimed, that of no rows among them; those before a redrive were another run's."""
        self._done: set[str] = set()
        self._failed: set[str] = set()
        """Keys of rows that were run in this loop."""
        self._unsettled: list[Frame] = []
        self._renewed_at = 0

    # --- beginning ------------------------------------------------------------------------------------------------------

    def begin(self, loop: Loop, cursor: Cursor, ctx: CtxLayer, outer: dict[str, Any]) -> LoopNode:
        """Return the loop with the frames that the log has. Raises `LoopFailed`."""
        activation, collections = self._activation, self._collections
        self._source = self._opened(cursor, ctx, outer)
        self._size = int(collections.number(loop.frame, FRAME, "frame", ctx, outer) or 1)
        self._lease_s = collections.number(cursor.lease_s, LEASE, "cursor.lease_s", ctx, outer) or 1.0
        node = LoopNode(loop, (), self._items, ctx, outer, limit=collections.limit(loop, ctx, outer))
        node.more, node.outcomes = True, {}
        node.commit_every = collections.commit_every(loop, ctx, outer)
        for claimed in activation.history.frames:
            own = claimed["run"] == activation.step_run
            self._claims += own
            if self._items.add(claimed) is None and own:
                node.more = False
        self._tolerate(node)
        return node

    def _opened(self, cursor: Cursor, ctx: CtxLayer, outer: dict[str, Any]) -> Source:
        try:
            return source_of(cursor.kind, render(cursor.fields, self._activation.scope(ctx, outer)))
        except TemplateError as error:
            raise LoopFailed(error.kind, f"loop.cursor: {error}") from None
        except NotFound as error:
            raise LoopFailed("not_found", f"loop.cursor: {error}") from None
        except BadInput as error:
            raise LoopFailed("schema", str(error)) from None

    def take_up(self, node: LoopNode) -> None:
        """Go on where another activation stopped: prolong the claims of rows that are still to be run. Rows that are ours no
        longer are not run."""
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
    def holds(self) -> bool:
        """Whether rows are claimed: a pause waits until they are run."""
        return bool(self._unsettled)

    def keep(self, node: LoopNode) -> bool:
        """Prolong the claims when a third of the lease has passed. Returns whether rows were found to be lost."""
        now = self._activation.clock.now()
        if not self._unsettled or now - self._renewed_at < self._lease_s * SECOND / 3:
            return False
        self._renewed_at = now
        try:
            lost = [self._prolong(node, frame, self._left(node, frame), self._lease_s) for frame in self._unsettled]
            return any(lost)
        except SourceFailed:
            return False  # what runs goes on; a third of the lease later it is tried again

    def keep_until(self, node: LoopNode, until: int) -> None:
        """Prolong the claims for a suspension that ends at `until` (microseconds)."""
        wait = max(0.0, (until - self._activation.clock.now()) / SECOND)
        for frame in self._unsettled:
            try:
                self._prolong(node, frame, self._left(node, frame), self._lease_s + wait)
            except SourceFailed:
                continue  # whoever resumes the run finds out whether the rows are still ours

    def _left(self, node: LoopNode, frame: Frame) -> list[int]:
        outcomes = node.outcomes or {}
        return [index for index in frame.indexes if index not in outcomes]

    def _prolong(self, node: LoopNode, frame: Frame, indexes: list[int], lease_s: float) -> bool:
        """Prolong the claims of rows. Returns whether iterations ended, because others have their rows now."""
        rows = self._items.rows(frame, indexes)
        asked = self._ready.renew(frame.ids, rows, frame.key_type, lease_s)
        if not asked:
            return False
        held: set[str] = set()
        for inputs in asked:
            held.update(self._ready.held(self._result(inputs, "renew", frame.ids.claim), rows))
        begun = self._activation.history.begun
        lost = [i for i, row in zip(indexes, rows, strict=True) if row.key not in held and not node.running(i)]
        for index in lost:
            path, key = (index,), frame.keys[index - frame.first]
            message = (
                f"the claim of row {key} ended before it was run (lease_s: {self._lease_s:g}):"
                " whoever claims it next runs it, which may be this loop"
            )
            error: Failure = {"kind": "lost", "message": message, "retryable": False}
            done: LoopIterationCompleted = {"path": [index], "status": "error", "error": error}
            begun.discard(path)
            self._activation.history.tasks.pop(path, None)
            self._activation.recorder.record(LoopIterationCompleted, **done)
            node.finished.add(index)
            node.begun.discard(index)
            node.settle(index, done, {})
        return bool(lost)

    # --- from frame to frame --------------------------------------------------------------------------------------------

    def advance(self, node: LoopNode) -> bool:
        """Settle what has ended and claim the next frame. Returns whether there are rows to run. Raises `Fenced`, `Cancelled`."""
        activation = self._activation
        try:
            self._settle_all(node)
            activation.lease.read_gate()
            activation.lease.check()
            if activation.lease.gate == "pause":
                activation.halt = activation.halt or "pause"
            elif (
                activation.deadline is not None and activation.clock.now() + SPARE_S * SECOND > activation.deadline and node.items
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
        """Settle what has ended, and give back what was not run. Raises `Fenced`, `Cancelled`."""
        try:
            self._settle_all(node)
        except SourceFailed as failed:
            node.error = node.error or failed.error

    def let_go(self, node: LoopNode) -> None:
        """The run is being stopped: settle what has ended and give back the rest, as far as that is possible now. Where it is
        not, the claims run out."""
        try:
            self._settle_all(node)
        except (SourceFailed, Fenced):
            return

    def _claim(self, node: LoopNode) -> None:
        activation, limits = self._activation, self._activation.playbook.executor.limits
        if self._claims >= limits.max_frames or len(self._items) >= LOOP_ITEMS:
            what = f"{self._claims} frames" if self._claims >= limits.max_frames else f"{len(self._items):,} rows"
            remedy = (
                "raise executor.spec.policy.limits.max_frames, or loop.spec.frame; what is left can be claimed by another run"
            )
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
        activation.journal.flush()
        self._claims += 1
        self._renewed_at = activation.clock.now()
        frame = self._items.add(data)
        if frame is None:
            node.more = False
        else:
            self._unsettled.append(frame)
            self._tolerate(node)

    def _new_rows(self, claim: ClaimIds) -> tuple[Claimed, int]:
        """Claim until there are rows that this loop has not run, or none. Rows that it has done already are settled, not run."""
        repeated = fruitless = 0
        while True:
            claimed = self._filled(claim)
            rows = [row for row in claimed.rows if row.key not in self._done and row.key not in self._failed]
            done = [row for row in claimed.rows if row.key in self._done]
            failed = [row for row in claimed.rows if row.key in self._failed]
            self._settle(claim, Settlement(done, failed), claimed.key_type)
            repeated, fruitless = repeated + len(done), fruitless + 1
            if rows or not claimed.rows or (not done and fruitless >= REPEATED):
                return Claimed(rows, claimed.key_type), repeated

    def _filled(self, claim: ClaimIds) -> Claimed:
        rows: dict[str, Row] = {}
        key_type, asked = None, 0
        while len(rows) < self._size:
            inputs = self._ready.claim(claim, self._size - len(rows), self._lease_s)
            try:
                claimed = self._ready.claimed(self._result(inputs, "claim", claim.claim))
            except BadInput as error:
                raise SourceFailed({"kind": "schema", "message": str(error), "retryable": False}) from None
            known = len(rows)
            rows.update((row.key, row) for row in claimed.rows)
            key_type, asked = claimed.key_type or key_type, asked + 1
            if len(rows) == known or self._ready.fills:
                break
        return Claimed(list(rows.values()), key_type)

    def _stored(self, values: Sequence[Any], what: str) -> Any:
        activation = self._activation
        if contains_secret(values):
            raise SourceFailed({"kind": "schema", "message": "claimed rows hold a secret: they are recorded, so they cannot"})
        try:
            return activation.offload.small(list(values), f"loops/{activation.step_run}/{what}-{self._claims}")
        except NotJson as error:
            raise SourceFailed(
                {"kind": "schema", "message": f"claimed rows are no JSON data: {error}", "retryable": False}
            ) from None

    # --- settling -------------------------------------------------------------------------------------------------------

    def _settle_all(self, node: LoopNode) -> None:
        """Commit the results of the frames that ran, then settle their rows. Rows without an outcome go back."""
        self._activation.journal.flush()
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
            for inputs in self._ready.settle(claim, settlement, key_type):
                self._result(inputs, "settle", claim.claim)

    # --- the source -----------------------------------------------------------------------------------------------------

    @property
    def _ready(self) -> Source:
        assert self._source is not None
        return self._source

    def _result(self, inputs: Inputs, what: str, key: str) -> Any:
        """Call the source. Raises `SourceFailed`, `Fenced`, `Cancelled`."""
        activation = self._activation
        for pause in (*PAUSES_S, None):
            outcome = self._call(self._ready.kind, inputs, what, key)
            activation.lease.check()
            if outcome.error is None:
                break
            failed = outcome.error.as_dict()
            if pause is None or not failed["retryable"]:
                raise SourceFailed({**failed, "message": f"loop.cursor could not {what} rows: {failed['message']}"})
            activation.clock.sleep(pause)
        return outcome.result

    def _tolerate(self, node: LoopNode) -> None:
        """A share of the rows that may fail is one of those that were claimed so far."""
        node.tolerated = self._collections.tolerated(node.loop, len(self._items), node.ctx, node.iter)
