"""Processes that end while they evaluate an execution's templates: counted per execution, in its log.

The first such end is known from the mark that the process left. From then on the execution is decided about only where the end
of the process harms no other, and each attempt is recorded before it begins. After `MAX_ATTEMPTS` the execution is stuck.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from noetl_core.engine.state import State
from noetl_core.engine.statuses import MAX_ATTEMPTS
from noetl_core.events.control import EvaluationMarked, ExecutionStuck
from noetl_core.events.event import Fact, fact

if TYPE_CHECKING:
    from noetl_core.control.core import Control

log = logging.getLogger(__name__)

REASON = (
    f"{MAX_ATTEMPTS} processes in a row ended while they evaluated its templates: a template exhausts or crashes its process; "
    "`resume` tries once more, `redrive` with a corrected playbook after `cancel` goes on, `cancel` evaluates nothing"
)
_DECIDES = frozenset({"EvaluationMarked", "ExecutionStuck", "ExecutionCancelled", "ExecutionFailing", "ExecutionRedriven"})
"""Facts that settle the matter: nothing is evaluated with them, or everything anew."""


def record_deaths(control: Control, executions: Iterable[str]) -> int:
    """Record that a process ended while it evaluated templates of `executions`. Returns how many executions were marked. Raises
    nothing: the mark of one must not keep the others from starting."""
    marked = 0
    for execution_id in executions:
        try:
            state = control.load(execution_id)
            if state.seq < 0:
                log.error("a process ended while it evaluated the start of execution %s; nothing was stored", execution_id)
                continue
            log.error("a process ended while it evaluated templates of execution %s", execution_id)
            if state.finished or state.status in ("stuck", "cancelling"):
                continue
            control.route(execution_id, facts=[fact(EvaluationMarked, attempts=state.attempts + 1)])
            control.queue.wake(execution_id)
            marked += 1
        except Exception:  # whatever it is, the process starts
            log.exception("the end of a process for execution %s was not recorded", execution_id)
    return marked


def is_doubtful(state: State, facts: Sequence[Fact]) -> bool:
    """Return whether a decision on `facts` would evaluate templates that have ended a process."""
    return bool(state.attempts) and state.status in ("running", "paused") and not any(f.name in _DECIDES for f in facts)


def given_up(state: State) -> bool:
    """Return whether no further attempt is made."""
    return state.attempts >= MAX_ATTEMPTS


def stuck_by_deaths() -> Fact:
    return fact(ExecutionStuck, reason=REASON)


def next_attempt(state: State) -> Fact:
    return fact(EvaluationMarked, attempts=state.attempts + 1)


def attempt_over() -> Fact:
    return fact(EvaluationMarked, attempts=0)
