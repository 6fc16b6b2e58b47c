"""`kind: artifact`: publishes values for other executions to read by name (docs/tools/artifact.md).

The object is stored with the results of the execution that puts it. The name has two entries in the store of `kind: kv`, in a
bucket that no `kv` task can name: one for the execution, and the latest. Other executions can read only objects below
`published_key`.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Mapping
from hashlib import sha256
from typing import Any, Final

from noetl_core.engine.outcome import Outcome
from noetl_core.log.stored_values import published_key
from noetl_core.ports import Entry, Forbidden, KeyValues, NotFound, Unavailable, retry_conflicts
from noetl_core.tools.actions import action_of, choice, option, optional_text, seconds, text
from noetl_core.tools.base import BadInput, ToolCall, ToolFailed
from noetl_core.tools.rows import bodies
from noetl_core.tools.store import CONTENT_TYPES
from noetl_core.values.instants import SECOND, to_rfc3339
from noetl_core.values.result_streams import pieces

_NAME: Final = re.compile(r"[A-Za-z0-9_=+-][A-Za-z0-9_.=+-]*(/[A-Za-z0-9_=+-][A-Za-z0-9_.=+-]*)*")
MAX_NAME: Final = 200
_VERSION: Final = re.compile(r"[0-9]{1,19}")
_LATEST: Final = "latest"
_GET_FORMATS: Final = ("auto", "text", "base64", "reference")
AS_VALUE: Final = 1024 * 1024
"""The most bytes of JSON that are returned as a value."""


def _now() -> int:
    return time.time_ns() // 1000


class ArtifactTool:
    """Inputs `action`: get (default) | put, `key`, and those of the action."""

    kind = "artifact"
    inline = False
    takes_secrets = False

    def __init__(self, now: Callable[[], int] = _now) -> None:
        """`now` returns the time in microseconds."""
        self._now = now

    def run(self, call: ToolCall) -> Outcome:
        action = action_of(call)
        if call.key_values is None:
            raise Forbidden("workers of this pool cannot keep artifacts: run the step in another pool")
        name = _name(call)
        return Outcome.ok((_put if action == "put" else _get)(call, call.key_values, name, self._now))


def _put(call: ToolCall, store: KeyValues, name: str, now: Callable[[], int]) -> dict[str, Any]:
    lasts = seconds(call, "ttl")
    body = bodies.body_of(call, name, choice(call, "format"))
    limit = option(call, "max_bytes")
    if body.size > limit:
        raise bodies.too_large(call.kind, f"the artifact has {body.size} bytes, `spec.max_bytes` is {limit}")
    key = published_key(call.execution_id, f"{call.task_run_id}.{body.form}")
    reference = bodies.store(call, key, body.form, body.content_type, body.pieces)
    revision = sha256(call.task_run_id.encode()).hexdigest()[:16]
    known = store.get(_bucket(name), call.execution_id, now() // SECOND)
    at = _read(known)["at"] if known is not None and known.revision == revision else now()  # a repeated task
    record = {"version": call.execution_id, "at": at, "reference": reference}
    expires = 0 if lasts is None else at // SECOND + max(1, round(lasts))
    entry = Entry(call.execution_id, json.dumps(record, separators=(",", ":")), revision, expires)
    store.put(_bucket(name), entry, at // SECOND)
    _make_latest(store, name, entry, at)
    return {**_facts(name, record, entry), "data": reference}


def _make_latest(store: KeyValues, name: str, entry: Entry, at: int) -> None:
    """Make a version the latest, unless the latest is newer. Raises `ToolFailed`."""
    bucket, latest = _bucket(name), Entry(_LATEST, entry.value, entry.revision, entry.expires_at)

    def attempt() -> bool:
        there = store.get(bucket, _LATEST, at // SECOND)
        if there is None or (there.revision != entry.revision and _read(there)["at"] <= at):
            store.put(bucket, latest, at // SECOND, "" if there is None else there.revision)
        return True

    try:
        retry_conflicts(attempt, f"artifact {name}")
    except Unavailable as error:
        raise ToolFailed(Outcome.failed("storage", f"artifact: {error}")) from error


def _get(call: ToolCall, store: KeyValues, name: str, now: Callable[[], int]) -> dict[str, Any]:
    version, form = optional_text(call, "version"), choice(call, "format")
    if version is not None and not _VERSION.fullmatch(version):
        raise BadInput(f"`version` must be the id of the execution that put the artifact, not {version[:40]!r}")
    if form not in _GET_FORMATS:
        raise BadInput(f"`format` of get is one of {', '.join(_GET_FORMATS)}, not {form!r}: an artifact keeps its format")
    entry = store.get(_bucket(name), version or _LATEST, now() // SECOND)
    if entry is None:
        of = f" of execution {version}" if version else ""
        raise ToolFailed(Outcome.failed("not_found", f"artifact: there is no artifact `{name}`{of}", retryable=False))
    record = _read(entry)
    try:
        return {**_facts(name, record, entry), "data": _data(call, record["reference"], form)}
    except NotFound:
        message = f"artifact: `{name}` lasts as long as the results of execution {record['version']}, which are gone"
        raise ToolFailed(Outcome.failed("not_found", message, retryable=False)) from None


def _data(call: ToolCall, reference: Mapping[str, Any], form: str) -> Any:
    """Return the artifact as a value or as a reference. Raises `NotFound`, `ToolFailed`."""
    if call.published is None:
        raise Forbidden("workers of this pool cannot read artifacts: run the step in another pool")
    size, own = int(reference["size"]), str(reference["format"])
    if form == "auto":
        form = "text" if own == "text" else own if own in ("json", "jsonl") and size <= AS_VALUE else "reference"
    if form == "reference":
        return _referred(call, reference)
    limit = option(call, "max_value_bytes")
    if size > limit:
        hint = "`format: reference` keeps it by reference"
        raise bodies.too_large(call.kind, f"the artifact has {size} bytes, `spec.max_value_bytes` is {limit}: {hint}")
    return bodies.value_of(call.kind, b"".join(pieces(call.published, reference)), form)


def _referred(call: ToolCall, reference: Mapping[str, Any]) -> dict[str, Any]:
    """Return a reference that this execution may read: for an artifact of another execution, to a copy among its own results.
    Raises `NotFound`, `ToolFailed`."""
    if call.published is None or (call.references is not None and call.references.owns(reference)):
        return dict(reference)
    own = str(reference["format"])
    mark = str(reference["checksum"]).removeprefix("sha256:")[:16]
    key = f"{call.execution_id}/artifact-copies/{call.task_run_id}-{mark}.{own}"
    kind = CONTENT_TYPES.get(own, bodies.BINARY)
    return bodies.store(call, key, own, kind, pieces(call.published, reference))


def _facts(name: str, record: Mapping[str, Any], entry: Entry) -> dict[str, Any]:
    reference = record["reference"]
    facts = {"key": name, "version": record["version"], "at": to_rfc3339(record["at"])}
    if entry.expires_at:
        facts["expires_at"] = to_rfc3339(entry.expires_at * SECOND)
    return {**facts, "size": reference["size"], "format": reference["format"]}


def _name(call: ToolCall) -> str:
    name = text(call, "key")
    if len(name) > MAX_NAME or not _NAME.fullmatch(name):
        raise BadInput(f"`key` {name[:80]!r} must be up to {MAX_NAME} letters, digits and _ . = + - between slashes")
    return name


def _bucket(name: str) -> str:
    return f"~artifacts/{name}"


def _read(entry: Entry) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(entry.value)
    return found
