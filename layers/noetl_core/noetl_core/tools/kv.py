"""`kind: kv`: small values that outlive their execution and that all playbooks share (docs/tools/kv.md).

An entry belongs to a bucket. Its revision is derived from the task run that wrote it, so a repeated task writes the same
one.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from hashlib import sha256
from typing import Any, Final

from noetl_core.engine.outcome import Outcome
from noetl_core.ports import Entry, Forbidden, KeyValues, OtherRevision
from noetl_core.tools.actions import action_of, flag_of, option, optional_text, seconds
from noetl_core.tools.base import BadInput, ToolCall, ToolFailed
from noetl_core.values.strict_json import check, parsed

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
_HALF: Final = re.compile("[\ud800-\udfff]")
"""Half of a surrogate pair cannot be stored."""
MAX_KEY: Final = 512
_NONE: Final = ""
"""The revision of a missing entry."""


class KvTool:
    """Inputs `action`: get (default) | put | delete | list, `bucket`, `key`, and those of the action."""

    kind = "kv"
    inline = False
    takes_secrets = False

    def __init__(self, now: Callable[[], float] = time.time) -> None:
        self._now = now

    def run(self, call: ToolCall) -> Outcome:
        action = _ACTIONS[action_of(call)]
        if call.key_values is None:
            raise Forbidden("workers of this pool cannot keep values: run the step in another pool")
        try:
            return Outcome.ok(action(call, call.key_values, _bucket(call), int(self._now())))
        except OtherRevision as other:
            details = {"revision": other.revision or _NONE}
            raise ToolFailed(
                Outcome.failed("client_error", f"kv: {other}", retryable=False, code="OtherRevision", details=details)
            ) from None


def _get(call: ToolCall, store: KeyValues, bucket: str, now: int) -> dict[str, Any]:
    key = _key(call)
    entry = store.get(bucket, key, now)
    if entry is None:
        return {"bucket": bucket, "key": key, "found": False, "value": call.inputs.get("default"), "revision": _NONE}
    return {"bucket": bucket, "found": True, **_view(entry)}


def _put(call: ToolCall, store: KeyValues, bucket: str, now: int) -> dict[str, Any]:
    lasts = seconds(call, "ttl")
    entry = Entry(
        _key(call), _text(call.inputs.get("value")), _revision(call), 0 if lasts is None else now + max(1, round(lasts))
    )
    store.put(bucket, entry, now, _expected(call))
    view = _view(entry)
    del view["value"]
    return {"bucket": bucket, **view}


def _delete(call: ToolCall, store: KeyValues, bucket: str, now: int) -> dict[str, Any]:
    key = _key(call)
    return {"bucket": bucket, "key": key, "deleted": store.delete(bucket, key, now, optional_text(call, "if_revision"))}


def _list(call: ToolCall, store: KeyValues, bucket: str, now: int) -> dict[str, Any]:
    most = option(call, "max_keys")
    found = store.list(bucket, optional_text(call, "prefix") or "", now, most + 1)
    if len(found) > most:
        raise ToolFailed(
            Outcome.failed("limit", f"kv: more than {most} keys: raise `spec.max_keys`, or give a `prefix`", retryable=False)
        )
    return {"bucket": bucket, "count": len(found), "keys": [entry.key for entry in found], "entries": [_view(e) for e in found]}


_ACTIONS: Final[dict[str, Callable[[ToolCall, KeyValues, str, int], dict[str, Any]]]] = {
    "get": _get, "put": _put, "delete": _delete, "list": _list,
}  # fmt: skip


def _bucket(call: ToolCall) -> str:
    bucket = optional_text(call, "bucket") or "default"
    if not _NAME.fullmatch(bucket):
        raise BadInput(f"`bucket` {bucket[:80]!r} must be up to 64 letters, digits and _ . -")
    return bucket


def _key(call: ToolCall) -> str:
    key = optional_text(call, "key")
    if not key or len(key.encode("utf-8", "surrogatepass")) > MAX_KEY or _HALF.search(key):
        raise BadInput(f"`key` must be text of 1 to {MAX_KEY} bytes")
    return key


def _expected(call: ToolCall) -> str | None:
    """Return the revision that the entry must have; empty where there must be none, None where it does not matter."""
    absent, revision = flag_of(call, "if_absent"), call.inputs.get("if_revision")
    if revision is not None and not isinstance(revision, str):
        raise BadInput("`if_revision` must be a revision, as `get` and `put` give it; empty text means that the key has no value")
    if absent and revision is not None:
        raise BadInput("`if_absent` and `if_revision` do not go together")
    return _NONE if absent else revision


def _revision(call: ToolCall) -> str:
    return sha256(call.task_run_id.encode()).hexdigest()[:16]


def _text(value: Any) -> str:
    try:
        check(value)  # readers, and lists of the bucket, must be able to return it
        return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    except ValueError as error:
        raise BadInput(f"`value` is not JSON data: {error}") from error


def _view(entry: Entry) -> dict[str, Any]:
    expires = {"expires_at": entry.expires_at} if entry.expires_at else {}
    return {"key": entry.key, "value": parsed(entry.value.encode()), "revision": entry.revision, **expires}
