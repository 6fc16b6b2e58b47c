"""Tasks the engine runs itself: `wait`, `callback`, `playbook`. They wait for free: a fact answers them, or they suspend."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from noetl_core.engine import ids
from noetl_core.engine.outcome import ERROR_KINDS, Outcome
from noetl_core.engine.pipeline import SECOND
from noetl_core.worker.past import Past

WAITING_KINDS = frozenset({"wait", "callback", "playbook"})
INLINE_WAIT_S = 5.0
"""A shorter wait or retry delay is slept in place: suspending and resuming costs more."""


class BadWait(ValueError):
    """The task's inputs do not say what to wait for. Who acts: the author."""


def wait_for(
    kind: str,
    inputs: Mapping[str, Any],
    task_run: str,
    attempt: int,
    past: Past,
    now: int,
    execution_id: str,
    scope_iter: Mapping[str, Any],
) -> dict[str, Any]:
    """The wait a task stands for: `{wait_id, kind, ...}`; the same on every execution of the same attempt."""
    what = {"wait": "timer", "callback": "callback", "playbook": "child"}[kind]
    wait_id = ids.wait_id(task_run, attempt, what)
    known = past.waits.get(wait_id)
    if known is not None:
        return dict(known)
    if kind == "wait":
        return {"wait_id": wait_id, "kind": "timer", "at": _until(inputs, now)}
    if kind == "callback":
        wait: dict[str, Any] = {"wait_id": wait_id, "kind": "signal" if inputs.get("signal") else "callback"}
        if inputs.get("signal"):
            wait["signal"] = str(inputs["signal"])
        if inputs.get("timeout") is not None:
            wait["at"] = now + int(_seconds(inputs["timeout"]) * SECOND)
        return wait
    if not inputs.get("path"):
        raise BadWait("kind playbook needs `path`: the catalog path of the playbook to run")
    args = {**(inputs.get("args") or {}), **(inputs.get("payload") or {})}
    wait = {
        "wait_id": wait_id,
        "kind": "child",
        "child": ids.child_execution_id(execution_id, task_run),
        "path": inputs["path"],
        "args": args,
    }
    if inputs.get("version") is not None:
        wait["version"] = int(inputs["version"])
    if scope_iter:
        wait["iter"] = dict(scope_iter)
    return wait


def outcome_of(wait: Mapping[str, Any], mail: Mapping[str, Any]) -> Outcome:
    """What an answered wait gives its task."""
    if mail["kind"] == "timeout":
        return Outcome.failed("timeout", "nobody answered in time", retryable=False)
    if wait["kind"] == "timer":
        return Outcome.ok({"waited_until": datetime.fromtimestamp(wait["at"] / SECOND, UTC).isoformat()})
    data = mail.get("data")
    if wait["kind"] != "child":
        return Outcome.ok(data)
    assert isinstance(data, Mapping)
    if data["status"] == "completed":
        return Outcome.ok(data.get("result"))
    error = data.get("error") or {}
    said = str(error.get("kind"))
    kind: Any = "cancelled" if data["status"] == "cancelled" else said if said in ERROR_KINDS else "unknown"
    message = f"playbook {wait['path']} {data['status']}: {error.get('message', 'no reason given')}"
    return Outcome.failed(kind, message, retryable=bool(error.get("retryable", False)), details={"execution_id": wait["child"]})


def _until(inputs: Mapping[str, Any], now: int) -> int:
    until = inputs.get("until")
    if until is None:
        for key in ("duration", "seconds"):
            if inputs.get(key) is not None:
                return now + int(_seconds(inputs[key]) * SECOND)
        raise BadWait("kind wait needs `duration` (seconds) or `until` (an instant)")
    if isinstance(until, int | float) and not isinstance(until, bool):
        return int(until * SECOND)
    try:
        at = datetime.fromisoformat(str(until))
    except ValueError as error:
        raise BadWait(f"`until` is not an instant: {error}") from None
    return int((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() * SECOND)


_UNITS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400}
MAX_WAIT_S = 366 * 86400


def _seconds(value: Any) -> float:
    """Seconds from a number or from text such as `90`, `15m`, `2h`; raises `BadWait`."""
    text = str(value).strip().lower()
    unit = next((u for u in ("ms", "s", "m", "h", "d") if text.endswith(u)), "")
    try:
        seconds = float(text[: len(text) - len(unit)]) * _UNITS.get(unit, 1)
    except ValueError:
        raise BadWait(f"{value!r} is not a duration; write seconds, or 15m, 2h, 1d") from None
    if not 0 <= seconds <= MAX_WAIT_S:
        raise BadWait(f"a wait is between 0 and {MAX_WAIT_S} seconds, not {value!r}")
    return seconds
