"""The end of a task of ECS as an outcome: its exit code, or why it did not come to one."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from noetl_core.engine.outcome import ErrorKind, Outcome
from noetl_core.values.instants import to_rfc3339

_NOT_THERE: Final = re.compile(r"not found|does not exist|manifest unknown|no such", re.I)
_NOT_ALLOWED: Final = re.compile(r"denied|unauthorized|forbidden|not authorized|\b40[13]\b", re.I)
_CAPACITY: Final = re.compile(r"capacity|RESOURCE:|AGENT", re.I)
OOM: Final = "OutOfMemoryError"
_STOP_CODES: Final[Mapping[str, tuple[ErrorKind, bool]]] = {
    "SpotInterruption": ("server_error", True),
    "TerminationNotice": ("server_error", True),
    "TaskFailedToStart": ("server_error", True),
    "ServiceSchedulerInitiated": ("cancelled", False),
    "UserInitiated": ("cancelled", False),
}
"""Reasons of ECS for stopping a task -> the kind of error, and whether a retry is useful."""


def not_started(failures: list[Mapping[str, Any]]) -> Outcome:
    """Return the outcome where ECS started nothing, and says why."""
    first: Mapping[str, Any] = failures[0] if failures else {}
    reason = str(first.get("reason") or "no reason given")
    message = f"container: ECS started nothing: {reason}" + (f" ({first['detail']})" if first.get("detail") else "")
    if _CAPACITY.search(reason):
        return Outcome.failed("server_error", message, retryable=True, code=reason)
    kind: ErrorKind = "not_found" if reason in ("MISSING", "INACTIVE") else "client_error"
    return Outcome.failed(kind, message, retryable=False, code=reason)


def outcome_of(task: Mapping[str, Any], container: str | None) -> Outcome:
    """Return what the end of a task of ECS is. `container` is the one whose exit code counts; None: that of the only one, or the
    first that is not 0."""
    containers = [_seen(one) for one in task.get("containers", ())]
    result: dict[str, Any] = {
        "exit_code": None,
        "task": task["taskArn"],
        "stopped_reason": task.get("stoppedReason") or None,
        "containers": containers,
    }
    for key, name in (("startedAt", "started_at"), ("stoppedAt", "stopped_at")):
        if task.get(key) is not None:
            result[name] = to_rfc3339(int(task[key].timestamp() * 1_000_000))
    judged = [one for one in containers if container is None or one["name"] == container]
    if not judged:
        names = ", ".join(one["name"] for one in containers)
        return _failed("schema", f"the task has no container {container!r} (it has: {names})", result, retryable=False)
    worst = next((one for one in judged if one["exit_code"] != 0), judged[0])
    result["exit_code"] = worst["exit_code"]
    reason = f"{worst.get('reason', '')} {task.get('stoppedReason') or ''}".strip()
    code = str(task.get("stopCode") or "")
    if worst["exit_code"] == 0:
        return Outcome.ok(result)
    if OOM in reason:
        message = f"{worst['name']} ran out of memory: {reason}"
        return _failed("limit", message, result, code=OOM, retryable=False)
    if worst["exit_code"] is not None and code in ("", "EssentialContainerExited"):
        message = f"{worst['name']} ended with exit code {worst['exit_code']}" + (
            f": {worst['reason']}" if "reason" in worst else ""
        )
        return _failed("client_error", message, result, code=worst["exit_code"], retryable=False)
    if "CannotPull" in reason or "ResourceInitialization" in reason:
        return _unable(reason, result)
    kind, retryable = _STOP_CODES.get(code, ("server_error", True))
    message = f"the task was stopped ({code or 'no code'}): {reason or 'no reason given'}"
    return _failed(kind, message, result, code=code or None, retryable=retryable)


def gone(task: str) -> Outcome:
    """Return the outcome where ECS knows the task no more."""
    message = (
        f"container: ECS no longer knows the task {task}, so its outcome is unknown: ECS keeps a stopped task for an hour,"
        " and nobody looked within that hour (was the execution paused?)"
    )
    return Outcome.failed("not_found", message, retryable=False, code="MISSING")


def _unable(reason: str, result: Mapping[str, Any]) -> Outcome:
    """Return the outcome where an image was not pulled, or what the task needs was not there."""
    code = next((word for word in re.findall(r"\w+Error", reason)), "TaskFailedToStart")
    if _NOT_ALLOWED.search(reason):
        return _failed("auth", reason, result, code=code, retryable=False)
    if _NOT_THERE.search(reason):
        return _failed("not_found", reason, result, code=code, retryable=False)
    return _failed("connection", reason, result, code=code, retryable=True)


def _failed(
    kind: ErrorKind, message: str, result: Mapping[str, Any], *, retryable: bool, code: str | int | None = None
) -> Outcome:
    return Outcome.failed(kind, f"container: {message}"[:2000], retryable=retryable, code=code, details=dict(result))


def _seen(container: Mapping[str, Any]) -> dict[str, Any]:
    seen = {"name": container["name"], "exit_code": container.get("exitCode")}
    return {**seen, "reason": container["reason"]} if container.get("reason") else seen
