"""Counts processes that died while evaluating an execution's templates, in the execution's log.

The mark that a process leaves reveals the first death. Later decisions are taken only where the death of the process harms no
other execution, and each attempt is recorded before it begins. After `MAX_ATTEMPTS` the execution is stuck.
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
"""Facts after which nothing is evaluated, or everything is evaluated again."""


def is_doubtful(state: State, facts: Sequence[Fact]) -> bool:
    """Return whether a decision on `facts` would evaluate templates that have killed a process."""
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
