"""The results of a loop's iterations, in pages so that memory stays constant, and their merged ctx writes."""

from __future__ import annotations

import json
from typing import Any, cast

from noetl_core.engine.loops import CtxConflict, condense
from noetl_core.expr import TemplateError, is_reference
from noetl_core.worker.activation import Activation
from noetl_core.worker.run_tree import LoopNode, key_suffix
from noetl_core.worker.values.offload import encode

BIG_PAGE = 64 * 1024
"""A page of results over this many bytes goes to the result store instead of staying in memory."""


class LoopResults:
    """Results and ctx writes of the loops of an activation."""

    def __init__(self, activation: Activation) -> None:
        self._activation = activation
        self._load = activation.values.resolve.behind

    def turn_pages(self, node: LoopNode) -> None:
        """Encode or store every full page of results."""
        while (page := node.full_page()) is not None:
            node.pages.append(self._page(node, page))
            node.condense(self._load)

    def _page(self, node: LoopNode, page: list[Any]) -> Any:
        """Return a page of results as bytes, or a reference to it when it is large."""
        body = encode(self._activation.recorder.masked(page))
        if len(body) <= BIG_PAGE:
            return body
        return self._activation.values.store(page, body, f"{self._name(node)}-page-{len(node.pages)}")

    def _name(self, node: LoopNode) -> str:
        return f"loops/{self._activation.step_run}/results{key_suffix(self._activation.chunk, node.path)}"

    def results(self, node: LoopNode) -> Any:
        """Return all results in index order: the list, or a reference to it or to its pages."""
        values = self._activation.values
        rest = self._activation.recorder.masked(node.rest())
        if not any(is_reference(page) for page in node.pages):
            return values.store_if_large([item for page in node.pages for item in json.loads(page)] + rest, self._name(node))
        parts = [{"result": page if is_reference(page) else json.loads(page)} for page in (*node.pages, encode(rest))]
        return {**values.put_object(encode(parts), f"{self._name(node)}-manifest"), "schema_hint": "manifest"}

    def merge(self, node: LoopNode) -> None:
        """Merge the ctx writes of the iterations into the ctx of the loop. Large values that reducers built become references."""
        activation = self._activation
        try:
            merged = node.merged(self._load) if node.writes else {}
            name = f"values/{activation.step_run}-merged{key_suffix(activation.chunk, node.path)}"
            node.ctx.write(activation.values.store_each_if_large(merged, name))
        except CtxConflict as conflict:
            node.error = node.error or {"kind": "ctx_conflict", "message": str(conflict), "retryable": False}
        except TemplateError as error:
            node.error = node.error or {"kind": error.kind, "message": f"ctx of the loop: {error}", "retryable": False}

    def writes(self, node: LoopNode) -> list[tuple[int, dict[str, Any]]]:
        """Return the ctx writes of a chunk's iterations, `[index, patch]`, for the control plane to merge."""
        writes = condense(sorted(node.writes, key=lambda w: w[0]), node.loop.reducers, self._load)
        return cast("list[tuple[int, dict[str, Any]]]", [[index, patch] for index, patch in writes])
