"""Distributed loops: the lead stores the collection in slices and hands over to the control plane; each chunk run takes one."""

from __future__ import annotations

import json
from collections.abc import Sequence
from hashlib import sha256
from typing import Any

from noetl_core.dsl.derived import derived
from noetl_core.dsl.model import Loop, Playbook
from noetl_core.engine.loops import chunk_plan, chunk_range, slice_key
from noetl_core.events.runs import StepSuspended
from noetl_core.events.shapes import ChunkOfLoop, LoopPlan
from noetl_core.ports import NotFound
from noetl_core.values.instants import SECOND
from noetl_core.worker.activation import Activation
from noetl_core.worker.loops.collections import LoopCollections, LoopFailed
from noetl_core.worker.loops.spread import LoopSpread
from noetl_core.worker.run_tree import CtxLayer, LoopNode
from noetl_core.worker.tasks.tool_caller import ToolCaller
from noetl_core.worker.values.execution_view import view_key
from noetl_core.worker.values.offload import NotJson, encode


class LoopChunks:
    """The chunks of an activation's loop, for the lead run and for chunk runs."""

    def __init__(self, activation: Activation, collections: LoopCollections, caller: ToolCaller) -> None:
        self._activation, self._collections, self._caller = activation, collections, caller
        self._began = 0
        """The instant at which this process began the chunk (microseconds)."""

    def is_wanted(self, loop: Loop) -> bool:
        """Return whether the loop is to be distributed: a parallel loop that asks for it, or by default one whose body waits.

        A sequential loop always stays with one worker, because each iteration sees the writes of those before.
        """
        if loop.cursor is not None or loop.mode != "parallel" or () in self._activation.claim.history.collections:
            return False  # a loop that has begun here stays here
        if loop.exec in ("local", "distributed"):
            return loop.exec == "distributed"
        return self._caller.step_waits() and loop.inner is None

    def hand_over(self, loop: Loop, ctx: CtxLayer, outer: dict[str, Any]) -> None:
        """As the lead of a distributed loop, store the slices, then hand over to the control plane. Raises `LoopFailed`."""
        activation, collections = self._activation, self._collections
        items = collections.render_items(loop, ctx, outer)
        limit, size = collections.limit(loop, ctx, outer), collections.chunk_size(loop, ctx, outer)
        collections.commit_every(loop, ctx, outer)  # a wrong value fails the loop here, not in each chunk
        seconds = iteration_seconds(activation.playbook).get(activation.step.name)
        plan = chunk_plan(len(items), limit, size, waits=self._caller.step_waits(), seconds=seconds).as_dict()
        activation.end(StepSuspended, waits=[], loop=self._stored(loop, plan, items, ctx, outer))

    def plan_rest(self, node: LoopNode, spread: LoopSpread) -> LoopPlan:
        """Store the slices of the iterations that have not begun, and return the plan for them. Raises `LoopFailed`."""
        size = self._collections.chunk_size(node.loop, node.ctx, node.iter)
        seconds = spread.pace if spread.busy else spread.seconds
        plan = chunk_plan(len(node.items) - node.next, node.limit, size, busy=spread.busy, seconds=seconds)
        return self._stored(node.loop, plan.after(node.next, seconds), node.items, node.ctx, node.iter)

    def _stored(self, loop: Loop, plan: LoopPlan, items: Sequence[Any], ctx: CtxLayer, outer: dict[str, Any]) -> LoopPlan:
        """Store the slices of `items` and the view of the templates. Return the plan, with the places where chunks find them."""
        activation, results = self._activation, self._activation.values.results
        run = activation.execution_id, activation.step_run
        if activation.claimed_at > 0:
            plan = {**plan, "claim": activation.claimed_at}
        digest = sha256()
        for chunk in range(plan["chunks"]):
            within = chunk_range(plan, chunk)
            try:
                body = encode(items[within.start : within.stop])
            except NotJson as error:
                raise LoopFailed("schema", f"loop.in is not JSON data: {error}") from None
            digest.update(body)
            results.put(slice_key(*run, chunk, plan), body)
        view = results.put(view_key(*run), encode(activation.view.context))
        return {
            **plan,
            "checksum": "sha256:" + digest.hexdigest(),
            "tolerated": self._collections.tolerated(loop, len(items), ctx, outer),
            "view": view["key"],
        }

    def chunk_node(self, loop: Loop, ctx: CtxLayer, outer: dict[str, Any], chunk: ChunkOfLoop) -> LoopNode:
        """Return the loop over the slice of a chunk run. Raises `LoopFailed`."""
        activation = self._activation
        sliced_by = chunk.get("slices", activation.step_run)  # a redrive uses the slices of the earlier run
        key = slice_key(activation.execution_id, sliced_by, chunk["chunk"], chunk)
        try:
            items = json.loads(activation.values.results.get(key))
        except NotFound:
            raise LoopFailed("storage", f"the slice {key} of the loop's collection is gone") from None
        node = LoopNode(loop, (), items, ctx, outer, limit=chunk["per_chunk"], first=chunk_range(chunk, chunk["chunk"]).start)
        node.tolerated = self._collections.tolerated(loop, int(chunk["total"]), ctx, outer)
        node.commit_every = self._collections.commit_every(loop, ctx, outer)
        self._began = activation.clock.now()
        return node

    def remember_pace(self, node: LoopNode) -> None:
        """Remember how long the iterations of a chunk took, as a moving average that weighs the newest by half."""
        ran = node.succeeded + node.failed - node.restored
        if ran <= 0:
            return
        took = (self._activation.clock.now() - self._began) / SECOND * min(node.limit, ran) / ran
        recent, step = iteration_seconds(self._activation.playbook), self._activation.step.name
        recent[step] = (recent.get(step, took) + took) / 2


@derived
def iteration_seconds(_: Playbook) -> dict[str, float]:
    """Return the recent seconds per iteration, by step, of the chunks that this process ran of a playbook."""
    return {}
