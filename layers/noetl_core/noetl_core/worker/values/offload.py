"""Converts values to the form that the log may hold: inline within the limit, otherwise a reference to the result store."""

from __future__ import annotations

import json
from collections.abc import Mapping
from hashlib import sha256
from typing import Any

from noetl_core.dsl.model import Executor
from noetl_core.expr import Scope, Secret, contains_secret, is_reference, mask
from noetl_core.log.stored_values import with_outline
from noetl_core.ports import ResultStore
from noetl_core.values.large_json import JsonText
from noetl_core.values.outlines import outline_of, outlined
from noetl_core.values.result_refs import MARK, MASKED_NAME
from noetl_core.worker.values.execution_view import Resolver, RunView, cache_key


class NotJson(ValueError):
    """A value is not JSON data: NaN, a lone surrogate, an object. Who acts: the author."""


class RunValues:
    """The values of one activation: scopes of its templates, loaded references, and large values, stored by the limits of its
    playbook."""

    def __init__(
        self,
        view: RunView,
        keychain: Mapping[str, Any],
        results: ResultStore,
        resolve: Resolver,
        executor: Executor,
        *,
        tainted: bool,
    ) -> None:
        self.view, self.results, self.resolve, self._executor = view, results, resolve, executor
        self._execution_id = view.execution_id
        self.tainted = tainted
        """True if values may contain secrets, from the keychain or from a tool. Until then nothing needs masking."""
        self._names = {
            "workload": view.workload,
            "args": view.args,
            "steps": view.steps,
            "execution_id": view.execution_id,
            "trigger": view.trigger,
            "keychain": keychain,
        }

    def scope(self, ctx: Mapping[str, Any], scope_iter: Mapping[str, Any]) -> Scope:
        """Return the names that templates see, without those of the pipeline itself."""
        layers, resolve = ({"ctx": ctx, "iter": scope_iter}, self._names), self.resolve
        return Scope(*layers, resolve=resolve, open=resolve.open, strict=self.view.strict)

    def store_if_large(self, value: Any, name: str, text: JsonText | None = None) -> Any:
        """Return `value` itself when it is within the inline limit, otherwise store it under `<execution_id>/<name>-...` and
        return a reference.

        `text` is the text of the value, unless the value was replaced since, because it contains secrets. A value that contains
        secrets is returned as it is, and masked when it is recorded. Raises `NotJson`.
        """
        if (
            value is None
            or type(value) is bool
            or type(value) is int
            or (is_reference(value) and self.resolve.family.owns(value))
        ):
            return value
        executor = self._executor
        try:
            body = text.body if text is not None and text.value is value else encode(value)
        except NotJson:
            if contains_secret(value):
                self.tainted = True
                return value
            raise
        first = executor.reference_first and type(value) in (list, dict) and value
        if not first and (len(body) <= executor.limits.max_payload_bytes or not value or type(value) is float):
            return value  # conditions test numbers and empty values directly
        return self.store(value, body, name)

    def store_each_if_large(self, values: Mapping[str, Any], name: str) -> dict[str, Any]:
        """Return the mapping with `store_if_large` applied to each value, under `<name>-<position>`."""
        return {key: self.store_if_large(value, f"{name}-{n}") for n, (key, value) in enumerate(values.items())}

    def masked(self, value: Any) -> Any:
        """Return the recorded form of a value that may contain secrets: the value with secrets masked, or, over the inline limit,
        a reference to the value without them."""
        shown = mask(value)
        if shown is value or type(shown) not in (list, dict) or not contains_secret(value):
            return shown
        try:
            if len(encode(shown)) <= self._executor.limits.max_payload_bytes:
                return shown
            rest = _without_secrets(value)
            return self.store(rest, encode(rest), MASKED_NAME)
        except NotJson:
            return shown

    def store_as_json(self, value: Any, name: str) -> Any:
        """Like `store_if_large`, but converts a value that is not JSON data to the nearest that is."""
        try:
            return self.store_if_large(value, name)
        except NotJson:
            return self.store_if_large(nearest_json(value), name)

    def store(self, value: Any, body: bytes, name: str) -> dict[str, Any]:
        """Store `body`, the JSON text of `value`, and return a reference to it."""
        ref = self.put_object(body, name)
        ref = with_outline(self.results, ref, outline_of(value, body, ref["checksum"]))
        ref["schema_hint"] = _schema_hint(value)
        self.resolve.remember(cache_key(ref), JsonText(body, value) if outlined(ref) else value, MARK in body)
        return ref

    def put_object(self, body: bytes, name: str) -> dict[str, Any]:
        """Store JSON text under `<execution_id>/<name>-<digest>.json` and return a reference to it.

        The key contains a digest of the content: a worker that was overtaken and still runs cannot overwrite the values that its
        successor committed.
        """
        key = f"{self._execution_id}/{name}-{sha256(body).hexdigest()[:16]}.json"
        return dict(self.results.put(key, body))


def encode(value: Any) -> bytes:
    """Return compact JSON. Raises `NotJson`."""
    try:
        return _encoder.encode(value).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise NotJson(str(error)) from error


_encoder = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def nearest_json(value: Any) -> Any:
    """Return the nearest JSON data: other objects become text, NaN becomes null."""
    body = json.dumps(value, default=str, skipkeys=True, ensure_ascii=False).encode("utf-8", "replace")
    return json.loads(body, parse_constant=lambda _: None)


def _without_secrets(value: Any) -> Any:
    """Return data with its secrets removed rather than masked, so that a later reader finds nothing in their place."""
    if isinstance(value, Mapping):
        return {key: _without_secrets(part) for key, part in value.items() if not isinstance(part, Secret)}
    return [_without_secrets(part) for part in value if not isinstance(part, Secret)] if isinstance(value, list) else value


def _schema_hint(value: Any) -> Any:
    """Return the `schema_hint` of a reference to `value`."""
    if isinstance(value, list):
        return {"type": "list", "length": len(value)}
    return {"type": "object", "keys": list(value)[:20]} if isinstance(value, Mapping) else {"type": type(value).__name__}
