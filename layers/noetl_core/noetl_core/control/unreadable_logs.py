"""Handles executions whose log cannot be read, or kills the process that reads it: only the head can record this.

No fact can be recorded in such a log, so the execution is marked stuck, or cancelled, in its head, and a closed gate stops its
workers. When the log can be read again, `resume` continues the execution.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import Any

from noetl_core.control.core import Control
from noetl_core.engine.statuses import TERMINAL
from noetl_core.ports import Gate, Head, NotFound, PortError
from noetl_core.values.instants import to_rfc3339

REMEDY = "restore its log and `noetl resume` it, or close it with `noetl cancel`"


def mark_head_stuck(control: Control, execution_id: str, why: str) -> None:
    """Show in lists that the execution is stuck, and why."""
    head = control.index.head(execution_id)
    if head is not None and head.status not in TERMINAL:
        # keep the instant of the previous head: the head of a log that is readable again replaces it
        control.index.put_head(replace(head, status="stuck", error=_error(why)))


def close(control: Control, execution_id: str, reason: str) -> Head:
    """Cancel the execution in its head. Raises `NotFound`."""
    head = _head(control, execution_id)
    control.gates.set_gate(execution_id, Gate("stop", expires_at=head.expires_at))
    if head.status not in TERMINAL:
        now = control.clock.now()
        error = {"kind": "cancelled", "message": reason or "the execution was cancelled; its log is unreadable"}
        head = replace(head, status="cancelled", error=error, updated_at=now, finished_at=now)
        control.index.put_head(head)
    control.index.clear_due(execution_id)
    return head


def summary(control: Control, execution_id: str, why: str) -> dict[str, Any]:
    """Return the summary as far as the head has it. Raises `NotFound`."""
    head = _head(control, execution_id)
    over = head.status in TERMINAL
    if not over and head.status != "stuck":
        with suppress(PortError):  # show it even if a read-only store cannot mark it
            mark_head_stuck(control, execution_id, why)
    out = {
        "execution_id": execution_id,
        "status": head.status if over else "stuck",
        "playbook": {"path": head.path, "version": head.version, "digest": head.digest},
        "input": {},
        "result": None,
        "ctx": {},
        "error": head.error if over else _error(why),
        "steps": {},
        "started_at": to_rfc3339(head.started_at),
        "finished_at": to_rfc3339(head.finished_at) if head.finished_at else None,
        "duration_ms": ((head.finished_at or control.clock.now()) - head.started_at) // 1000,
        "events": 0,
        "reason": f"{why}; {REMEDY}",
    }
    return {**out, "parent": head.parent} if head.parent else out


def _head(control: Control, execution_id: str) -> Head:
    head = control.index.head(execution_id)
    if head is None:
        raise NotFound(f"there is no execution {execution_id}")
    return head


def _error(why: str) -> dict[str, str]:
    return {"kind": "storage", "message": why}
