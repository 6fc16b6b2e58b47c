"""Deadlines: when an execution or a step run must have ended (canonical step spec 5.2.2, `lifecycle`).

`executor.spec.policy.lifecycle.timeout_s` limits the execution; `step.spec.policy.lifecycle.timeout_s` limits one run of the
step, counted from its scheduling; `deadline_s` limits it counted from the start of the execution. The control plane ends overdue
runs, with `kind: timeout`. Expressions are evaluated once - when the execution starts, when the run is scheduled - and
recorded.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from noetl_core.dsl.model import Playbook, Step
from noetl_core.dsl.numbers import TIMEOUT, value_of
from noetl_core.engine.routing.passes import RoutingPass
from noetl_core.engine.state import Run, State
from noetl_core.events.shapes import Failure
from noetl_core.expr import TemplateError
from noetl_core.values.frozen import frozen
from noetl_core.values.instants import SECOND

DAY_US = 24 * 3600 * SECOND


@frozen
class Deadline:
    """The run, or the execution when `run` is None, must have ended at `at` (microseconds)."""

    at: int
    run: str | None
    message: str

    @property
    def error(self) -> Failure:
        return {"kind": "timeout", "message": self.message, "retryable": False}


def deadlines(playbook: Playbook, state: State) -> Iterator[Deadline]:
    """The deadlines of a live execution and of its open runs."""
    yield from execution_deadlines(playbook, state)
    yield from run_deadlines(playbook, state, state.runs.values())


def execution_deadlines(playbook: Playbook, state: State) -> Iterator[Deadline]:
    """The deadlines of a live execution as a whole."""
    executor = playbook.executor
    began = state.redriven_at or state.started_at
    message = f"the execution lived longer than {executor.lifetime_s:g} s (executor.spec.policy.lifecycle.lifetime_s)"
    yield Deadline(_in_log(state, began + int(executor.lifetime_s * SECOND)), None, message)
    if state.status == "paused":
        return  # time that passes during a pause has no effect before the pause ends
    whole = _seconds(executor.timeout_s, state.timeout_s)
    if whole is not None and not state.awaits_place:
        yield Deadline((state.admitted_at or began) + int(whole * SECOND), None, f"the execution took longer than {whole:g} s")


def run_deadlines(playbook: Playbook, state: State, runs: Iterable[Run]) -> Iterator[Deadline]:
    """The deadlines of open runs. A chunk of a loop ends with its step's."""
    if state.status == "paused":
        return  # as above
    executor, began = playbook.executor, state.redriven_at or state.started_at
    for run in runs:
        if run.undoes is not None:
            what = "the run that stops the work of" if run.undoes.get("stops") else "the compensation of"
            message = f"{what} step {run.step} lived longer than {executor.lifetime_s:g} s"
            yield Deadline(run.opened_at + int(executor.lifetime_s * SECOND), run.id, message)
            continue
        step = playbook.by_name[run.step]
        if step.timeout_s is None and step.deadline_s is None:
            continue
        timeout = _seconds(step.timeout_s, run.limits.get("timeout_s"))
        if timeout is not None:
            yield Deadline(run.opened_at + int(timeout * SECOND), run.id, f"step {run.step} took longer than {timeout:g} s")
        until = _seconds(step.deadline_s, run.limits.get("deadline_s"))
        if until is not None:
            message = f"step {run.step} had not ended {until:g} s after the execution's start"
            yield Deadline(began + int(until * SECOND), run.id, message)


def execution_limit(p: RoutingPass) -> tuple[float | None, TemplateError | None]:
    """Return the timeout of the execution, whose expression is evaluated at the start, or its error."""
    value = p.playbook.executor.timeout_s
    if not isinstance(value, str):
        return None, None
    try:
        return value_of(value, TIMEOUT, "timeout_s of the execution", p.scope({})), None
    except TemplateError as wrong:
        return None, wrong


def run_limits(p: RoutingPass, step: Step, args: Mapping[str, Any]) -> dict[str, float | None]:
    """Return the time limits of a run as their expressions give them when it is scheduled. Raises `TemplateError`."""
    written = (("timeout_s", step.timeout_s), ("deadline_s", step.deadline_s))
    texts = [(key, value) for key, value in written if isinstance(value, str)]
    if not texts:
        return {}
    scope = p.scope(args)
    return {key: value_of(text, TIMEOUT, f"{key} of step {step.name}", scope) for key, text in texts}


def _in_log(state: State, at: int) -> int:
    """Limit an instant to the lifetime of the log, which is fixed when the execution starts, also for a redrive."""
    return min(at, state.expires_at * SECOND - DAY_US) if state.redriven_at and state.expires_at else at


def _seconds(written: Any, recorded: float | None) -> float | None:
    """Return a number of the playbook, or the value of its expression."""
    return recorded if isinstance(written, str) or written is None else float(written)
