"""Tasks that the engine itself carries out: `wait`, `callback` and `playbook`. They occupy no worker: either the mail has their
answer, or the run is suspended."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, cast

from noetl_core.dsl.kinds import KINDS, canonical_inputs
from noetl_core.dsl.numbers import YEAR_S, BadNumber, duration
from noetl_core.dsl.versions import BadVersion, split_version, version_of
from noetl_core.engine import ids
from noetl_core.engine.outcome import ERROR_KINDS, Outcome
from noetl_core.engine.waits import BY_TOKEN, beat_by
from noetl_core.events.shapes import Failure, Mail, Occurrence, Wait
from noetl_core.expr import is_reference
from noetl_core.log.run_history import RunHistory
from noetl_core.values.instants import SECOND, from_text, in_microseconds
from noetl_core.values.json_schema import BadSchema, check_schema, problems

INLINE_WAIT_S = 5.0
"""The worker sleeps through waits and retry delays shorter than this, because suspending and resuming costs more."""


class BadWait(ValueError):
    """The task's inputs do not specify a wait. Who acts: the author."""


class TooLong(BadWait):
    """The wait would last longer than its execution. Who acts: the author."""


def wait_for(
    kind: str,
    inputs: Mapping[str, Any],
    task_run: str,
    attempt: int,
    history: RunHistory,
    now: int,
    execution_id: str,
    scope_iter: Mapping[str, Any],
    lives_until: int,
) -> Wait:
    """Return the wait of a task, `{wait_id, kind, ...}`. It is the same whenever the same attempt is executed.

    `lives_until` (microseconds) is when the execution ends at the latest; its log expires soon after. Raises `BadWait`.
    """
    inputs = canonical_inputs(kind, inputs)
    what = {"wait": "timer", "callback": "callback", "playbook": "child"}[kind]
    wait_id = ids.wait_id(task_run, attempt, what)
    known = history.waits.get(wait_id)
    if known is not None:
        return known.copy()
    if kind == "wait":
        wait: Wait = {"wait_id": wait_id, "kind": "timer", "at": _until(inputs, now)}
        if wait["at"] > lives_until:
            raise TooLong(
                f"the wait ends {(wait['at'] - lives_until) // SECOND} s after the latest end of the execution: raise"
                " executor.spec.policy.lifecycle.lifetime_s"
            )
        return {**wait, "result": inputs["result"]} if "result" in inputs else wait
    if kind == "callback":
        return _callback(inputs, wait_id, task_run, now)
    # a retry starts another child, because the first one has ended
    child = ids.child_execution_id(execution_id, task_run if attempt == 1 else f"{task_run}-{attempt}")
    return _child({"wait_id": wait_id, "kind": "child", "child": child}, inputs, scope_iter)


def _child(wait: Wait, inputs: Mapping[str, Any], scope_iter: Mapping[str, Any]) -> Wait:
    """Return the wait with the request for a child execution."""
    if not inputs.get("path"):
        raise BadWait("kind playbook needs `path`: the catalog path of the playbook to run")
    try:
        path, at = split_version(str(inputs["path"]).lstrip("/"))
        version = version_of(inputs.get("version"))
    except BadVersion as error:
        raise BadWait(str(error)) from None
    if at is not None and version is not None:
        raise BadWait(f"`path` names the version {at} and `version` {version}: leave one out")
    wait = {**wait, "path": path, "args": _mapping(inputs, "payload", "args")}
    version = at if version is None else version
    if version is not None:
        wait["version"] = version
    if inputs.get("ctx") is not None:
        wait["ctx"] = _mapping(inputs, "ctx", "ctx")
    detach, key, part = inputs.get("detach", False), inputs.get("idempotency_key"), inputs.get("result")
    if type(detach) is not bool:
        raise BadWait(f"`detach` is true or false, not {detach!r}")
    if detach and part is not None:
        raise BadWait("a detached playbook gives no result: leave `result` or `detach` out")
    if key is not None and not detach:
        raise BadWait("`idempotency_key` needs `detach: true`: a playbook that is waited for starts once anyway")
    if detach:
        wait["detach"] = True
    if key is not None:
        wait["idempotency_key"] = str(key)
    if inputs.get("backfill") is not None:
        wait["backfill"] = _occurrence(inputs)
    if inputs.get("return_step") is not None:
        if detach:
            raise BadWait("a detached playbook gives no result: leave `return_step` or `detach` out")
        wait["return_step"] = str(inputs["return_step"])
    if part is not None:
        wait["part"] = str(part)
    if scope_iter:
        wait["iter"] = dict(scope_iter)
    return wait


def _occurrence(inputs: Mapping[str, Any]) -> Occurrence:
    """Return the occurrence for which a child execution is started."""
    backfill = _mapping(inputs, "backfill", "backfill")
    known = ("name", "scheduled_at", "previous_at")
    wrong = next((key for key in backfill if key not in known), None)
    if wrong is not None:
        raise BadWait(f"`backfill` has an unknown key {wrong!r}: it takes {', '.join(known)}")
    if not backfill.get("scheduled_at"):
        raise BadWait("`backfill` needs `scheduled_at`: the instant of the occurrence")
    fields = {key: str(value) for key, value in backfill.items() if value is not None}
    return cast("Occurrence", {"name": "backfill", **fields})


def _mapping(inputs: Mapping[str, Any], key: str, name: str) -> dict[str, Any]:
    value = inputs.get(key) or {}
    if not isinstance(value, Mapping):
        raise BadWait(f"`{name}` of a playbook is a mapping, not {type(value).__name__}")
    return dict(value)


def _callback(inputs: Mapping[str, Any], wait_id: str, task_run: str, now: int) -> Wait:
    """Return the wait for a signal, or for an answer by token."""
    wait: Wait = {"wait_id": wait_id, "kind": "signal" if inputs.get("signal") else "callback"}
    if inputs.get("signal"):
        wait["signal"] = str(inputs["signal"])
        if wait["signal"].startswith(BY_TOKEN):
            raise BadWait(f"a signal's name does not begin with {BY_TOKEN!r}: that prefix is for answers by token")
    else:
        wait["callback"] = task_run
    if "timeout" in inputs:
        wait["at"] = now + int(_seconds("callback", "timeout", inputs["timeout"]) * SECOND)
    if "heartbeat" in inputs:
        if "signal" in wait:
            raise BadWait("`heartbeat` needs a callback by token: leave `signal` out")
        wait["heartbeat"] = _seconds("callback", "heartbeat", inputs["heartbeat"])
        wait["beat_by"] = beat_by(wait["heartbeat"], now)
    if inputs.get("schema") is not None:
        _checked(inputs["schema"])
    if inputs.get("schema") is not None:
        wait["schema"] = inputs["schema"]
    if inputs.get("description") is not None:
        wait["description"] = inputs["description"]
    return wait


def outcome_of(wait: Wait, mail: Mail, resolve: Callable[[Any], Any]) -> Outcome:
    """Return the outcome of a task whose wait was answered. `resolve` loads the value of a reference."""
    if mail["kind"] == "timeout":
        return Outcome.failed("timeout", "nobody answered in time", retryable=False)
    if mail["kind"] == "heartbeat":
        return Outcome.failed("timeout", f"no heartbeat within {wait['heartbeat']:g} s", retryable=False)
    if wait["kind"] == "timer" and "result" in wait:
        return Outcome.ok(wait["result"])
    if wait["kind"] == "timer":
        return Outcome.ok({"waited_until": datetime.fromtimestamp(wait["at"] / SECOND, UTC).isoformat()})
    data = mail.get("data")
    if wait["kind"] != "child":
        if mail.get("error") is not None:
            return _answered_with_error(mail["error"])
        wrong = problems(resolve(data) if is_reference(data) else data, wait["schema"]) if "schema" in wait else []
        return Outcome.failed("schema", "; ".join(wrong), retryable=False, details=data) if wrong else Outcome.ok(data)
    assert isinstance(data, Mapping)  # ChildFinished carries {status, result?, error?}
    if data["status"] == "started":
        return Outcome.ok({"execution_id": data["execution_id"], "status": "started"})
    if data["status"] == "completed":
        return _part_of(data.get("result"), wait, resolve)
    error = data.get("error") or {}
    error_kind = str(error.get("kind"))
    kind: Any = "cancelled" if data["status"] == "cancelled" else error_kind if error_kind in ERROR_KINDS else "unknown"
    message = f"playbook {wait['path']} {data['status']}: {error.get('message', 'no reason given')}"
    retryable, details = bool(error.get("retryable", False)), {"execution_id": wait["child"]}
    return Outcome.failed(kind, message, retryable=retryable, code=error.get("code"), details=details)


def _part_of(result: Any, wait: Wait, resolve: Callable[[Any], Any]) -> Outcome:
    """Return the part of a child's result that `result: a.b.0` names; without `result`, all of it."""
    value = result
    for name in str(wait["part"]).split(".") if "part" in wait else ():
        value = resolve(value) if is_reference(value) else value
        if isinstance(value, Mapping) and name in value:
            value = value[name]
        elif isinstance(value, list) and name.isdecimal() and int(name) < len(value):
            value = value[int(name)]
        else:
            message = f"the result of playbook {wait['path']} has no {wait['part']!r}"
            return Outcome.failed("not_found", message, retryable=False, details={"execution_id": wait["child"]})
    return Outcome.ok(value)


def _answered_with_error(error: Failure) -> Outcome:
    """Return the outcome of a callback that was answered with `{status: error, error}`, as `control.callbacks` accepted it."""
    more = {key: error[key] for key in ("code", "details") if error.get(key) is not None}
    kind: Any = error["kind"]  # one of ERROR_KINDS: `control.callbacks` refuses others
    return Outcome.failed(kind, error["message"], retryable=bool(error.get("retryable")), **more)


def _checked(schema: Any) -> None:
    try:
        check_schema(schema)
    except BadSchema as error:
        raise BadWait(f"`schema` of a callback: {error}") from None


def _until(inputs: Mapping[str, Any], now: int) -> int:
    until = inputs.get("until")
    if until is None:
        for key in ("duration", "seconds"):
            if key in inputs:
                return now + int(_seconds("wait", key, inputs[key]) * SECOND)
        raise BadWait("kind wait needs `duration` (seconds) or `until` (an instant)")
    try:
        if isinstance(until, int | float) and not isinstance(until, bool):
            at = int(until * SECOND)
        else:
            at = in_microseconds(from_text(str(until)))
    except (ValueError, OverflowError) as error:
        raise BadWait(f"`until` is not an instant: {error}") from None
    if at - now > YEAR_S * SECOND:
        raise BadWait(f"`until` is more than {YEAR_S} seconds away")
    return max(at, 0)


def _seconds(kind: str, key: str, value: Any) -> float:
    """Return seconds from a number or from a text such as `90`, `15m`, `2h`. Raises `BadWait`."""
    try:
        return duration(value, KINDS[kind].durations[key], f"`{key}`")
    except BadNumber as error:
        raise BadWait(str(error)) from None
