"""The collection of a loop, rendered once and recorded, and its numbers."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from noetl_core.dsl.model import Loop
from noetl_core.dsl.numbers import (
    CHUNK_SIZE,
    COMMIT_EVERY,
    LOOP_ITEMS,
    TOLERATED_COUNT,
    TOLERATED_PERCENT,
    WINDOW,
    Range,
    value_of,
)
from noetl_core.engine.loops import tolerated
from noetl_core.events.runs import LoopCollected
from noetl_core.events.shapes import Failure
from noetl_core.expr import TemplateError, contains_secret, is_reference, render
from noetl_core.expr.values import describe
from noetl_core.expr.views import rows
from noetl_core.ports import NotFound
from noetl_core.worker.activation import Activation
from noetl_core.worker.run_tree import CtxLayer, Path, key_suffix, loop_limit
from noetl_core.worker.values.offload import NotJson


class LoopFailed(Exception):
    """The loop cannot begin, because its collection or one of its numbers is wrong. The run fails with `error`."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.error: Failure = {"kind": kind, "message": message, "retryable": False}


class LoopCollections:
    """Collections and numbers of the loops of an activation. Every method raises `LoopFailed`."""

    def __init__(self, activation: Activation) -> None:
        self._activation = activation

    def collection(self, loop: Loop, path: Path, ctx: CtxLayer, outer: dict[str, Any]) -> Sequence[Any]:
        """Return `loop.in`: recorded when it is first rendered, afterwards read from the log."""
        activation = self._activation
        known = activation.claim.history.collections.get(path)
        if known is not None:
            held = known["items"]
            return list(activation.values.resolve(held) if is_reference(held) else held)
        items = self.render_items(loop, ctx, outer)
        try:
            stored = activation.values.store_if_large(
                items, f"loops/{activation.step_run}/items{key_suffix(activation.chunk, path)}"
            )
        except NotJson as error:
            raise LoopFailed("schema", f"loop.in is not JSON data: {error}") from None
        collected: LoopCollected = {"total": len(items), "items": stored}
        if path:
            collected["path"] = list(path)
        activation.recorder.record(LoopCollected, **collected)
        return items

    def render_items(self, loop: Loop, ctx: CtxLayer, outer: dict[str, Any]) -> list[Any]:
        """Return `loop.in` as a list."""
        activation = self._activation
        try:
            value = render(loop.in_, activation.values.scope(ctx.view, outer))
            if is_reference(value):
                value = activation.values.resolve(value)
            listed = rows(value) if isinstance(value, dict) else None
            if listed is not None:
                value = activation.values.resolve(listed) if is_reference(listed) else listed
        except TemplateError as error:
            raise LoopFailed(error.kind, f"loop.in: {error}") from None
        except NotFound as error:
            raise LoopFailed("not_found", f"loop.in: {error}") from None
        if contains_secret(value):
            raise LoopFailed("schema", "loop.in holds a secret: collections are recorded, so they cannot hold secrets")
        if isinstance(value, Mapping | Sequence) and not isinstance(value, str | bytes):
            if len(value) > LOOP_ITEMS:
                found = f"loop.in has {len(value):,} items, and a loop takes at most {LOOP_ITEMS:,}"
                remedy = "loop over parts of it, with a child playbook for each part (kind: playbook) or a loop inside the loop"
                raise LoopFailed("limit", f"{found}: {remedy}")
            return [{"key": k, "value": v} for k, v in value.items()] if isinstance(value, Mapping) else list(value)
        raise LoopFailed("schema", f"loop.in must give a list or a mapping, not {_quoted(value)}")

    def limit(self, loop: Loop, ctx: CtxLayer, outer: dict[str, Any]) -> int:
        """Return how many iterations run at the same time."""
        return loop_limit(loop, self._integer(loop.max_in_flight, WINDOW, "max_in_flight", ctx, outer))

    def chunk_size(self, loop: Loop, ctx: CtxLayer, outer: dict[str, Any]) -> int | None:
        """Return how many iterations a chunk has, if the loop says so."""
        return self._integer(loop.chunk_size, CHUNK_SIZE, "chunk_size", ctx, outer)

    def commit_every(self, loop: Loop, ctx: CtxLayer, outer: dict[str, Any]) -> int | None:
        """Return how many iterations may end between two commits, if the loop says so."""
        return self._integer(loop.commit_every, COMMIT_EVERY, "commit_every", ctx, outer)

    def tolerated(self, loop: Loop, total: int, ctx: CtxLayer, outer: dict[str, Any]) -> int:
        """Return how many of `total` iterations may fail."""
        count = self.number(loop.tolerated_count, TOLERATED_COUNT, "tolerated_count", ctx, outer) or 0
        percent = self.number(loop.tolerated_percent, TOLERATED_PERCENT, "tolerated_percent", ctx, outer) or 0
        return tolerated(count, percent, total)

    def _integer(self, value: Any, allowed: Range, what: str, ctx: CtxLayer, outer: dict[str, Any]) -> int | None:
        number = self.number(value, allowed, what, ctx, outer)
        return None if number is None else int(number)

    def number(self, value: Any, allowed: Range, what: str, ctx: CtxLayer, outer: dict[str, Any]) -> float | None:
        """Return a number of the loop, if it states one."""
        try:
            return value_of(value, allowed, f"{what} of the loop", self._activation.values.scope(ctx.view, outer))
        except TemplateError as error:
            raise LoopFailed(error.kind, str(error)) from None


def _quoted(value: Any) -> str:
    """Return a value and its type, for a message."""
    return "null" if value is None else f"{describe(value)} ({json.dumps(value, ensure_ascii=False, default=str)[:60]})"
