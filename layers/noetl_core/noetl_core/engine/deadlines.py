"""When something must have ended: the execution, or a step run (canonical 5.2.2 `lifecycle`, DESIGN section 4).

`executor.spec.policy.lifecycle.timeout_s` bounds the execution, `step.spec.policy.lifecycle.timeout_s` one run of the step from
its scheduling, `deadline_s` the same from the execution's start. What is late is ended by the control plane: `kind: timeout`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from noetl_core.dsl.model import Playbook
from noetl_core.engine.passes import merge_workload
from noetl_core.engine.state import State
from noetl_core.expr import Scope, TemplateError, render

SECOND = 1_000_000
DAY_US = 24 * 3600 * SECOND


@dataclass(frozen=True, slots=True)
class Deadline:
    """`at` (microseconds) the run, or with `run` None the execution, must have ended."""

    at: int
    run: str | None
    message: str

    @property
    def error(self) -> dict[str, Any]:
        return {"kind": "timeout", "message": self.message, "retryable": False}


def deadlines(playbook: Playbook, state: State) -> Iterator[Deadline]:
    """Every deadline of a live execution. A chunk of a loop ends with its step's."""
    executor = playbook.executor
    began = state.redriven_at or state.started_at
    message = f"the execution lived longer than {executor.lifetime_s:g} s (executor.spec.policy.lifecycle.lifetime_s)"
    yield Deadline(_in_log(state, began + int(executor.lifetime_s * SECOND)), None, message)
    if state.status == "paused":
        return  # time that passes in a pause brings nothing about before it ends
    whole = _seconds(executor.timeout_s, playbook, state, {})
    if whole is not None:
        yield Deadline(began + int(whole * SECOND), None, f"the execution took longer than {whole:g} s")
    for run in state.runs.values():
        if run.undoes is not None:
            message = f"the compensation of step {run.step} lived longer than {executor.lifetime_s:g} s"
            yield Deadline(run.opened_at + int(executor.lifetime_s * SECOND), run.id, message)
            continue
        step = playbook.by_name[run.step]
        if step.timeout_s is None and step.deadline_s is None:
            continue
        timeout = _seconds(step.timeout_s, playbook, state, run.args)
        if timeout is not None:
            yield Deadline(run.opened_at + int(timeout * SECOND), run.id, f"step {run.step} took longer than {timeout:g} s")
        until = _seconds(step.deadline_s, playbook, state, run.args)
        if until is not None:
            message = f"step {run.step} had not ended {until:g} s after the execution's start"
            yield Deadline(began + int(until * SECOND), run.id, message)


def _in_log(state: State, at: int) -> int:
    """Not later than the log allows: it is kept for a fixed time from the execution's start, redriven or not."""
    return min(at, state.expires_at * SECOND - DAY_US) if state.redriven_at and state.expires_at else at


def _seconds(value: Any, playbook: Playbook, state: State, args: Mapping[str, Any]) -> float | None:
    """A number, or a template over workload, ctx and args; one that gives no number is no deadline to keep."""
    if isinstance(value, str):
        scope = Scope({"workload": merge_workload(playbook.workload, state.payload), "ctx": state.ctx, "args": args})
        try:
            value = render(value, scope, undefined_ok=True)
        except TemplateError:
            return None
    try:
        return None if value is None else float(value)
    except (TypeError, ValueError):
        return None
