"""Tells what each answer to a question led to in past executions of the playbook, from their logs.

The work is bounded: the newest ended executions are read, and no further ones after `READ_S`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, cast

from noetl_core.control.callbacks import callback_waits, form_of
from noetl_core.control.core import Control
from noetl_core.engine.records import StreamId
from noetl_core.engine.state import State
from noetl_core.engine.statuses import TERMINAL
from noetl_core.expr import is_reference
from noetl_core.log.concurrent_reads import read_concurrently
from noetl_core.log.load_budgets import LoadLimitExceeded
from noetl_core.log.stored_values import Values
from noetl_core.ports import CorruptLog, Head, NewerLog, NotFound
from noetl_core.values.frozen import frozen
from noetl_core.values.instants import SECOND
from noetl_core.views.executions import executions
from noetl_core.views.explain.cost import cost

if TYPE_CHECKING:
    from noetl_core.api.shapes import following as following_shapes

READ: Final = 20
"""Maximum number of executions whose logs are read."""
READ_S: Final = 3
"""Time after which no further execution is read."""
READ_AT_ONCE: Final = 5
LISTED: Final = 100
"""Number of executions among which ended ones are looked for."""
COMMITS: Final = 100
"""Maximum number of commits of a step's run in which answers are looked for."""
ANSWERS: Final = ("yes", "no", "answered", "failed")
NEWEST: Final = 3
"""Number of executions that are named for each answer."""


@frozen
class Question:
    """A question: the task that asks, and the words of its answers."""

    step: str
    task: str
    decision: Mapping[str, str] | None

    def answer(self, outcome: Mapping[str, Any], values: Values) -> str:
        """Return the name of an answer. Raises `NotFound`, `ValueError`."""
        if outcome.get("error") is not None:
            return "failed"
        result = outcome.get("result")
        if isinstance(result, Mapping) and is_reference(result):
            result = values.reference(result)
        decided = result.get(self.decision["key"]) if self.decision is not None and isinstance(result, Mapping) else None
        return {True: "yes", False: "no"}.get(decided, "answered") if isinstance(decided, bool) else "answered"

    def words(self, answer: str) -> str:
        other = {"answered": "Answered", "failed": "Failed or timed out"}
        return other[answer] if answer in other or self.decision is None else self.decision[answer]


def past_answers(control: Control, execution_id: str, wait_id: str, most: int = READ) -> following_shapes.PastAnswers:
    """Return what the answers to a waiting callback led to in past executions; at most `most` are read. Raises `NotFound`."""
    state = executions.load(control, execution_id)
    found = next(((run, wait) for run, wait in callback_waits(state) if wait["wait_id"] == wait_id), None)
    if found is None:
        raise NotFound(f"no callback waits under {wait_id[:200]} in execution {execution_id}: it was answered, or is over")
    run, wait = found
    question = Question(run.step, wait["task"], form_of(wait).get("decision"))
    heads = control.index.heads(None, state.path, limit=LISTED)
    ended = [head for head in heads if head.status in TERMINAL and head.execution_id != execution_id]
    over = control.clock.now() + READ_S * SECOND
    read = 0
    led_to: dict[str, list[following_shapes.LedTo]] = {}
    for first in range(0, min(len(ended), most), READ_AT_ONCE):
        if control.clock.now() > over:
            break
        some = ended[first : min(first + READ_AT_ONCE, most)]
        read += len(some)
        for answers, outcome in read_concurrently(lambda head: _past(control, question, head), some):
            for answer in answers:
                led_to.setdefault(answer, []).append(outcome)
    return {
        "path": state.path,
        "step": question.step,
        "task": question.task,
        "read": read,
        "more": read < len(ended) or len(heads) == LISTED,
        "answers": [_account(question, answer, led_to[answer]) for answer in ANSWERS if answer in led_to],
    }


def _past(control: Control, question: Question, head: Head) -> tuple[set[str], following_shapes.LedTo]:
    """Return the answers to the question in an execution (several in a loop), and what it came to."""
    outcome: dict[str, Any] = {
        "execution_id": head.execution_id,
        "status": head.status,
        "duration_ms": None if head.finished_at is None else (head.finished_at - head.started_at) // 1000,
        "cost": None,
    }
    answers: set[str] = set()
    try:
        state = control.load(head.execution_id)
        values = Values(control.store, control.results, head.execution_id)
        answers |= {question.answer(each, values) for each in _outcomes(control, question, state)}
        if answers:
            outcome["cost"] = cost(control, head.execution_id)["total"]["cost"]
            if head.status == "completed":
                outcome["result"] = values.at(state.result)
            elif state.failure is not None:
                outcome["error"] = state.failure.get("message", "")
    except (CorruptLog, NewerLog, NotFound, ValueError, LoadLimitExceeded):
        pass  # unreadable: its head is all that is known
    return answers, cast("following_shapes.LedTo", outcome)


def _outcomes(control: Control, question: Question, state: State) -> Iterator[Mapping[str, Any]]:
    """Yield the outcomes of the task in the newest run of its step."""
    known = state.steps.get(question.step)
    if known is None or known.last_run is None:
        return
    for commit in control.recent.read(StreamId(state.execution_id, known.last_run), limit=COMMITS):
        for event in commit.events:
            if event.name == "TaskProcessed" and event.data["task"] == question.task and event.data["directive"]["do"] != "retry":
                yield cast("Mapping[str, Any]", event.data["outcome"])


def _account(question: Question, answer: str, led_to: list[following_shapes.LedTo]) -> following_shapes.PastAnswer:
    statuses: dict[str, int] = {}
    for each in led_to:
        statuses[each["status"]] = statuses.get(each["status"], 0) + 1
    durations = [each["duration_ms"] for each in led_to if each["duration_ms"] is not None]
    costs = [each["cost"] for each in led_to if each["cost"] is not None]
    return {
        "answer": answer,
        "words": question.words(answer),
        "count": len(led_to),
        "statuses": statuses,
        "duration_ms": _median(durations),
        "cost": _median(costs),
        "newest": led_to[:NEWEST],
    }


def _median(numbers: list[Any]) -> Any:
    """Return the number in the middle, the greater one of two; None if there is none."""
    return sorted(numbers)[len(numbers) // 2] if numbers else None
