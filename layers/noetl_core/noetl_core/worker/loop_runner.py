"""Loops of one activation: it renders the collection once, keeps the window of iterations full, and collects results and ctx
writes (docs/language/loops.md; resolutions 9, 10, 17 and 23)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from noetl_core.dsl.model import Loop
from noetl_core.dsl.numbers import CHUNK_SIZE, TOLERATED_COUNT, TOLERATED_PERCENT, WINDOW, Range, value_of
from noetl_core.engine.loops import CtxConflict, chunk_plan, condense, tolerated
from noetl_core.engine.pipeline import SECOND, Pipeline
from noetl_core.expr import TemplateError, contains_secret, is_reference, render
from noetl_core.expr.values import describe
from noetl_core.ports import NotFound
from noetl_core.worker.nodes import CtxLayer, LoopNode, Path, loop_limit
from noetl_core.worker.tool_caller import NotJson, encode
from noetl_core.worker.view import view_key
from noetl_core.worker.waiting import WAITING_KINDS

if TYPE_CHECKING:
    from noetl_core.worker.runner import Runner

BIG_PAGE = 64 * 1024
"""A page of results over this many bytes goes to the result store at once instead of staying in memory."""


def _shown(value: Any) -> str:
    """Return a value in the words of an author, for a message."""
    return "null" if value is None else f"{describe(value)} ({json.dumps(value, ensure_ascii=False, default=str)[:60]})"


class LoopFailed(Exception):
    """The loop cannot begin, because its collection or one of its numbers is wrong. The run fails with `error`."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.error = {"kind": kind, "message": message, "retryable": False}


class LoopRunner:
    """Runs the loops of one run. `Runner` drives the passes over the pipeline that the loops start."""

    def __init__(self, runner: Runner) -> None:
        self._r = runner
        self._began, self._restored = 0, 0
        """When a chunk began here, and how many of its iterations had been finished elsewhere."""

    # --- beginning ------------------------------------------------------------------------------------------------------

    def begin(self, loop: Loop, ctx: CtxLayer, outer: dict[str, Any]) -> None:
        """Begin the step's loop: in this process, as the lead run that cuts it into chunks, or as the run of one chunk."""
        r = self._r
        try:
            if r.chunk is not None:
                self._begin_chunk(loop, ctx, outer, r.chunk)
            elif self._distributed(loop):
                self._lead(loop, self._rendered(loop, ctx, outer), ctx, outer)
            else:
                self._begin_loop(loop, (), ctx, outer, None)
        except LoopFailed as failed:
            r.end("StepFailed", {"error": failed.error})

    def _begin_chunk(self, loop: Loop, ctx: CtxLayer, outer: dict[str, Any], chunk: Mapping[str, Any]) -> None:
        first = chunk["chunk"] * chunk["chunk_size"]
        sliced_by = chunk.get("slices", self._r.step_run)  # a redrive goes on with the slices of the run before
        key = slice_key(self._r.view.execution_id, sliced_by, chunk["chunk"])
        try:
            items = json.loads(self._r.tool_caller.results.get(key))
        except NotFound:
            raise LoopFailed("storage", f"the slice {key} of the loop's collection is gone") from None
        node = LoopNode(loop, (), items, ctx, outer, limit=chunk["per_chunk"], first=first)
        node.tolerated = self._tolerated(loop, int(chunk["total"]), ctx, outer)
        self._began = self._r.tool_caller.clock.now()
        self._start(node)

    def _begin_loop(self, loop: Loop, path: Path, ctx: CtxLayer, outer: dict[str, Any], parent: LoopNode | None) -> None:
        items = self._collection(loop, path, ctx, outer)
        limit = loop_limit(loop, self._whole(loop.max_in_flight, WINDOW, "max_in_flight", ctx, outer))
        node = LoopNode(loop, path, items, ctx, outer, limit=limit, parent=parent)
        node.tolerated = self._tolerated(loop, len(items), ctx, outer)
        self._start(node)

    def _start(self, node: LoopNode) -> None:
        history = self._r.history
        node.restore(history.finished.pop(node.path, {}))
        self._restored = node.succeeded + node.failed
        depth = len(node.path)
        self._turn_pages(node)
        node.begun = {p[depth] for p in history.begun if len(p) == depth + 1 and p[:depth] == node.path}
        self.fill(node)

    def _tolerated(self, loop: Loop, total: int, ctx: CtxLayer, outer: dict[str, Any]) -> int:
        count = self._number(loop.tolerated_count, TOLERATED_COUNT, "tolerated_count", ctx, outer) or 0
        percent = self._number(loop.tolerated_percent, TOLERATED_PERCENT, "tolerated_percent", ctx, outer) or 0
        return tolerated(count, percent, total)

    def _whole(self, value: Any, allowed: Range, what: str, ctx: CtxLayer, outer: dict[str, Any]) -> int | None:
        number = self._number(value, allowed, what, ctx, outer)
        return None if number is None else int(number)

    def _number(self, value: Any, allowed: Range, what: str, ctx: CtxLayer, outer: dict[str, Any]) -> float | None:
        try:
            return value_of(value, allowed, f"{what} of the loop", self._r.scope(ctx, outer))
        except TemplateError as error:
            raise LoopFailed(error.kind, str(error)) from None

    # --- collections ----------------------------------------------------------------------------------------------------

    def _collection(self, loop: Loop, path: Path, ctx: CtxLayer, outer: dict[str, Any]) -> Sequence[Any]:
        """Return the collection `loop.in`. It is rendered once and recorded; later activations read the record."""
        r = self._r
        known = r.history.collections.get(path)
        if known is not None:
            held = known["items"]
            return list(r.tool_caller.resolve(held) if is_reference(held) else held)
        items = self._rendered(loop, ctx, outer)
        try:
            stored = r.tool_caller.small(items, f"loops/{r.step_run}/items{_suffix(r.chunk, path)}")
        except NotJson as error:
            raise LoopFailed("schema", f"loop.in is no JSON data: {error}") from None
        r.tool_caller.record("LoopCollected", {**({"path": list(path)} if path else {}), "total": len(items), "items": stored})
        return items

    def _rendered(self, loop: Loop, ctx: CtxLayer, outer: dict[str, Any]) -> list[Any]:
        try:
            value = render(loop.in_, self._r.scope(ctx, outer))
            if is_reference(value):
                value = self._r.tool_caller.resolve(value)
        except TemplateError as error:
            raise LoopFailed(error.kind, f"loop.in: {error}") from None
        except NotFound as error:
            raise LoopFailed("not_found", f"loop.in: {error}") from None
        if contains_secret(value):
            raise LoopFailed("schema", "loop.in holds a secret: collections are recorded, so they cannot")
        if isinstance(value, Mapping):
            return [{"key": k, "value": v} for k, v in value.items()]
        if isinstance(value, Sequence) and not isinstance(value, str | bytes):
            return list(value)
        raise LoopFailed("schema", f"loop.in must give a list or a mapping, not {_shown(value)}")

    def _distributed(self, loop: Loop) -> bool:
        """Return whether the loop is distributed over chunk runs: a parallel loop that asks for it, or whose body waits
        (unless the playbook says otherwise).

        A sequential loop always runs in one worker: each iteration follows the one before and sees its writes.
        """
        if loop.mode != "parallel" or () in self._r.history.collections:
            return False  # what has begun here goes on here
        if loop.exec is not None:
            return loop.exec == "distributed"
        return self._waits and loop.inner is None

    @property
    def _waits(self) -> bool:
        return any(t.kind in WAITING_KINDS for t in self._r.step.tasks)

    def _lead(self, loop: Loop, items: list[Any], ctx: CtxLayer, outer: dict[str, Any]) -> None:
        """Store the slices of a distributed loop, then hand it over to the control plane."""
        r = self._r
        limit = loop_limit(loop, self._whole(loop.max_in_flight, WINDOW, "max_in_flight", ctx, outer))
        size = self._whole(loop.chunk_size, CHUNK_SIZE, "chunk_size", ctx, outer)
        plan = chunk_plan(len(items), limit, size, waits=self._waits, seconds=self._measured.get(r.step.name))
        digest = sha256()
        for chunk in range(plan.chunks):
            try:
                body = encode(items[chunk * plan.chunk_size : (chunk + 1) * plan.chunk_size])
            except NotJson as error:
                raise LoopFailed("schema", f"loop.in is no JSON data: {error}") from None
            digest.update(body)
            r.tool_caller.results.put(slice_key(r.view.execution_id, r.step_run, chunk), body)
        view = r.tool_caller.results.put(view_key(r.view.execution_id, r.step_run), encode(r.view.context))["key"]
        allowed = self._tolerated(loop, len(items), ctx, outer)
        spread = {"checksum": "sha256:" + digest.hexdigest(), "tolerated": allowed, "view": view}
        r.end("StepSuspended", {"waits": [], "loop": {**plan.as_dict(), **spread}})

    @property
    def _measured(self) -> dict[str, float]:
        """Seconds that an iteration took recently, by step, as this process measured it in chunks of the playbook."""
        seen: dict[str, float] = self._r.playbook.memo.setdefault("iteration_s", {})
        return seen

    def _measure(self, node: LoopNode) -> None:
        """Record how long the iterations of a chunk took; the new value counts as much as all earlier ones together."""
        ran = node.succeeded + node.failed - self._restored
        if ran <= 0:
            return
        took = (self._r.tool_caller.clock.now() - self._began) / SECOND * min(node.limit, ran) / ran
        self._measured[self._r.step.name] = (self._measured.get(self._r.step.name, took) + took) / 2

    # --- iterations -----------------------------------------------------------------------------------------------------

    def fill(self, node: LoopNode) -> None:
        """Start iterations until the loop's window is full, and close the loop when it is over. An iteration that ends at
        once calls `finish` while this method is still active."""
        if node.filling:
            return
        node.filling = True
        while not self._r.halt and (index := node.take()) is not None:
            self._begin_iteration(node, index)
        node.filling = False
        if node.over:
            self._close(node)

    def _begin_iteration(self, node: LoopNode, index: int) -> None:
        r = self._r
        path = (*node.path, index)
        if path in r.history.begun:
            r.history.begun.discard(path)
        else:
            r.tool_caller.record("LoopIterationStarted", {"path": list(path)})
        layer, scope = node.layer(), node.scope_iter(index)
        if node.loop.inner is None:
            r.push(Pipeline(r.step_run, path), layer, node, scope)
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
        error: Mapping[str, Any] | None = None,
        broke: bool = False,
        counts: Mapping[str, int] | None = None,
    ) -> None:
        """End one iteration of `node`, with its `result` or its `error`. `counts` are those of the loop inside the iteration."""
        done: dict[str, Any] = {"path": list(path), "status": "success" if error is None else "error"}
        done["result" if error is None else "error"] = result if error is None else error
        if counts is not None and (error is None or counts["failed"]):
            done["loop"] = counts
        if layer.writes:
            done["set_ctx"] = layer.writes
        if broke:
            done["broke"] = True
        self._r.tool_caller.record("LoopIterationCompleted", done)
        node.live -= 1
        node.settle(path[-1], done, layer.writes)
        self._turn_pages(node)
        self.fill(node)

    # --- ending ---------------------------------------------------------------------------------------------------------

    def _turn_pages(self, node: LoopNode) -> None:
        while (page := node.full_page()) is not None:
            node.pages.append(self._page(node, page))
            node.condense(self._r.tool_caller.behind)

    def _page(self, node: LoopNode, page: list[Any]) -> Any:
        """Return a page of results as bytes, or a reference to it when it is large. Memory use stays constant."""
        r = self._r
        body = encode(r.tool_caller.masked(page))
        return (
            body if len(body) <= BIG_PAGE else r.tool_caller.referenced(page, body, f"{self._name(node)}-page-{len(node.pages)}")
        )

    def _name(self, node: LoopNode) -> str:
        return f"loops/{self._r.step_run}/results{_suffix(self._r.chunk, node.path)}"

    def _results(self, node: LoopNode) -> Any:
        """Return all results in index order: the list itself, a reference to it, or a reference to its pages (resolution 23)."""
        r = self._r
        rest = r.tool_caller.masked(node.rest())
        if not any(is_reference(page) for page in node.pages):
            return r.tool_caller.small([item for page in node.pages for item in json.loads(page)] + rest, self._name(node))
        parts = [{"result": page if is_reference(page) else json.loads(page)} for page in (*node.pages, encode(rest))]
        return {**r.tool_caller.object(encode(parts), f"{self._name(node)}-manifest"), "schema_hint": "manifest"}

    def _close(self, node: LoopNode) -> None:
        if node.parent is not None or self._r.chunk is None:
            self._merge(node)
        result = self._results(node)
        if node.parent is not None:
            self.finish(node.parent, node.path, node.ctx, result=result, error=node.error, counts=node.counts)
            return
        data: dict[str, Any] = {**node.counts, "result": result}
        if self._r.chunk is None:
            data.update({} if node.loop.inner is None else {"items": len(node.items)})
        else:
            self._measure(node)
            data.update(total=len(node.items), succeeded=node.succeeded, failed=node.failed)
            data.update({} if node.loop.inner is None else {"innermost": node.innermost})
            data.update(first=node.first, count=len(node.items), broke=node.broke)
            writes = condense(sorted(node.writes, key=lambda w: w[0]), node.loop.reducers, self._r.tool_caller.behind)
            data["ctx_writes"] = [[index, patch] for index, patch in writes]
        if self._r.chunk is None and node.ctx.writes:
            data["set_ctx"] = self._r.written(node.ctx)
        if node.error is not None:
            data["error"] = node.error
        self._r.end("LoopChunkDone", data)

    def _merge(self, node: LoopNode) -> None:
        """Merge the ctx writes of the iterations. Large values that reducers built are stored behind references like any
        other value."""
        tool_caller = self._r.tool_caller
        try:
            merged = node.merged(tool_caller.behind) if node.writes else {}
            name = f"values/{self._r.step_run}-merged{_suffix(self._r.chunk, node.path)}"
            node.ctx.write({k: tool_caller.small(v, f"{name}-{n}") for n, (k, v) in enumerate(merged.items())})
        except CtxConflict as conflict:
            node.error = node.error or {"kind": "ctx_conflict", "message": str(conflict), "retryable": False}
        except TemplateError as error:
            node.error = node.error or {"kind": error.kind, "message": f"ctx of the loop: {error}", "retryable": False}


def _suffix(chunk: Mapping[str, Any] | None, path: Path) -> str:
    """Return the part of a derived key that names the chunk and the iteration."""
    where = "" if chunk is None else f"-chunk-{chunk['chunk']}"
    return where + "".join(f"-{i}" for i in path)


def slice_key(execution_id: str, step_run: str, chunk: int) -> str:
    """Return the key under which the slice of a chunk is stored."""
    return f"{execution_id}/loops/{step_run}/{chunk}.json"
