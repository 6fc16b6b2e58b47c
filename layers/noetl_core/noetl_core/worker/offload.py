"""Values as the log may hold them: within the inline limit, else in the result store, behind a reference."""

from __future__ import annotations

import json
from collections.abc import Mapping
from hashlib import sha256
from typing import Any

from noetl_core.dsl.model import Executor
from noetl_core.expr import Secret, contains_secret, is_reference, mask
from noetl_core.outlines import outline_of
from noetl_core.ports import ResultStore
from noetl_core.result_refs import MARK, MASKED_NAME
from noetl_core.values import with_outline
from noetl_core.worker.view import Resolver, named


class NotJson(ValueError):
    """A value that is no JSON data: NaN, a lone surrogate, an object. Who acts: the author."""


class Offload:
    """Keeps the values of one activation, an execution's own or its family's, by the limits of its playbook."""

    def __init__(self, results: ResultStore, resolve: Resolver, executor: Executor, execution_id: str, *, tainted: bool) -> None:
        self._results, self._resolve, self._executor = results, resolve, executor
        self._execution_id = execution_id
        self.tainted = tainted
        """Whether secrets may be about - read from the keychain, or given by a tool. Until then nothing needs masking."""

    def small(self, value: Any, name: str) -> Any:
        """Return `value` itself when it is within the inline limit, otherwise a reference to it under
        `<execution_id>/<name>-...`.

        Raises `NotJson` for a value that the log cannot hold. A value with secrets in it is returned as it is: the log gets
        it masked.
        """
        if (
            value is None
            or type(value) is bool
            or type(value) is int
            or (is_reference(value) and self._resolve.family.owns(value))
        ):
            return value
        executor = self._executor
        try:
            body = encode(value)
        except NotJson:
            if contains_secret(value):
                self.tainted = True
                return value
            raise
        first = executor.reference_first and type(value) in (list, dict) and value
        if not first and (len(body) <= executor.limits.max_payload_bytes or not value or type(value) is float):
            return value  # numbers, and what is empty, are asked about as they stand
        return self.referenced(value, body, name)

    def each(self, values: Mapping[str, Any], name: str) -> dict[str, Any]:
        """The values of a mapping, each as `small` keeps it under `<name>-<its place>`."""
        return {key: self.small(value, f"{name}-{n}") for n, (key, value) in enumerate(values.items())}

    def masked(self, value: Any) -> Any:
        """Return what the log has in the place of a value with secrets in it: the value with their mask, or a reference to it
        without them when it is over the inline limit."""
        shown = mask(value)
        if shown is value or type(shown) not in (list, dict) or not contains_secret(value):
            return shown
        try:
            if len(encode(shown)) <= self._executor.limits.max_payload_bytes:
                return shown
            rest = _without_secrets(value)
            return self.referenced(rest, encode(rest), MASKED_NAME)
        except NotJson:
            return shown

    def plain(self, value: Any, name: str) -> Any:
        """As `small`, of what may be no JSON data: the nearest that is."""
        try:
            return self.small(value, name)
        except NotJson:
            return self.small(nearest_json(value), name)

    def referenced(self, value: Any, body: bytes, name: str) -> dict[str, Any]:
        """Store `body`, the JSON text of `value`, and return a reference to it."""
        ref = self.object(body, name)
        ref = with_outline(self._results, ref, outline_of(value, body, ref["checksum"]))
        ref["schema_hint"] = _hint(value)
        self._resolve.remember(named(ref), value, MARK in body)
        return ref

    def object(self, body: bytes, name: str) -> dict[str, Any]:
        """Store JSON text under `<execution_id>/<name>-<digest>.json` and return a reference to it.

        The key contains a digest of the content: a worker that was overtaken and still runs cannot overwrite what its
        successor committed.
        """
        key = f"{self._execution_id}/{name}-{sha256(body).hexdigest()[:16]}.json"
        return dict(self._results.put(key, body))


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
    """Return data without its secrets: whoever reads one later finds nothing, and not the mask."""
    if isinstance(value, Mapping):
        return {key: _without_secrets(part) for key, part in value.items() if not isinstance(part, Secret)}
    return [_without_secrets(part) for part in value if not isinstance(part, Secret)] if isinstance(value, list) else value


def _hint(value: Any) -> Any:
    """A word on what is behind a reference."""
    if isinstance(value, list):
        return {"type": "list", "length": len(value)}
    return {"type": "object", "keys": list(value)[:20]} if isinstance(value, Mapping) else {"type": type(value).__name__}
