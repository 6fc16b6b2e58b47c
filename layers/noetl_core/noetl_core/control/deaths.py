"""Processes that end while they evaluate an execution's templates: counted per execution, in its log.

The first such end is known from the mark that the process left. From then on the execution is decided about only where the end
of the process harms no other, and each attempt is recorded before it begins. After `MAX_ATTEMPTS` the execution is stuck.
"""

from __future__ import annotations

from collections.abc import Sequence

from noetl_core.engine.state import State
from noetl_core.engine.statuses import MAX_ATTEMPTS
from noetl_core.events.control import EvaluationMarked, ExecutionStuck
from noetl_core.events.event import Fact, fact

REASON = (
    f"{MAX_ATTEMPTS} processes in a row ended while they evaluated its templates: a template exhausts or crashes its process; "
    "`resume` tries once more, `redrive` with a corrected playbook after `cancel` goes on, `cancel` evaluates nothing"
)
_DECIDES = frozenset({"EvaluationMarked", "ExecutionStuck", "ExecutionCancelled", "ExecutionFailing", "ExecutionRedriven"})
"""Facts that settle the matter: nothing is evaluated with them, or everything anew."""


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
