"""The pipeline machine: its state is the fold of its events (pipeline execution, formal specification 6.4, resolution 8)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from noetl_core.dsl.model import Rule, Task, TaskPolicy, Then
from noetl_core.engine.outcome import Outcome
from noetl_core.engine.pipelines.pipeline import Pipeline, fold, process
from noetl_core.events.event import TaskEvent
from noetl_core.expr import Scope
from noetl_core.values.instants import SECOND


def rules(*then: Then) -> TaskPolicy:
    """The n-th attempt or visit takes the n-th `then`; the last one afterwards."""
    return TaskPolicy(tuple(Rule(f"{{{{ outcome.result == {n} }}}}", t) for n, t in enumerate(then)))


def step(p: Pipeline, tasks: Sequence[Task], outcome: Outcome) -> TaskEvent:
    task = tasks[p.pc]
    scope = Scope({"ctx": p.ctx, "iter": p.iter}).over(p.locals(task))
    event, _ = process(p, task, outcome, scope, now=10 * SECOND, started=9 * SECOND)
    fold(p, tasks, event)
    return event


def plain(*policies: TaskPolicy | None) -> list[Task]:
    return [Task(name, "noop", policy=policy) for name, policy in zip("abcdef", policies, strict=False)]


def test_tasks_run_in_order_and_the_last_result_is_the_pipelines() -> None:
    p, tasks = Pipeline("r"), plain(None, None)
    step(p, tasks, Outcome.ok(1))
    assert (p.pc, p.prev, p.locals(tasks[1])) == (
        1,
        1,
        {"a": 1, "_prev": 1, "_task": "b", "_attempt": 1, "_outcome": Outcome.ok(1).as_dict()},
    )
    step(p, tasks, Outcome.ok(2))
    assert (p.status, p.result, p.results) == ("done", 2, {"a": 1, "b": 2})


def test_an_error_that_continues_leaves_prev_alone() -> None:
    p, tasks = Pipeline("r"), plain(None, rules(), None)
    step(p, tasks, Outcome.ok("kept"))
    event = step(p, tasks, Outcome.failed("timeout", "late"))
    assert event.data["directive"] == {"do": "continue", "matched": None}
    assert (p.prev, p.last and p.last["status"], p.results) == ("kept", "error", {"a": "kept"})


def test_fail_ends_with_the_error_and_names_the_task() -> None:
    p, tasks = Pipeline("r"), plain(None, None)
    step(p, tasks, Outcome.failed("auth", "no"))
    assert (p.status, p.error) == ("failed", {"kind": "auth", "message": "no", "retryable": False, "task": "a"})


def test_break_ends_successfully_and_may_end_the_loop() -> None:
    p, tasks = Pipeline("r"), plain(rules(Then("break", scope="loop", set_prev="said")), None)
    step(p, tasks, Outcome.ok(0))
    assert (p.status, p.broke_loop, p.result) == ("done", True, "said")


def test_a_jump_back_is_a_new_visit_with_a_new_key() -> None:
    p, tasks = Pipeline("r", (3,)), plain(None, rules(Then("jump", to="a"), Then("break")))
    first = [step(p, tasks, Outcome.ok(0)), step(p, tasks, Outcome.ok(0))]
    second = [step(p, tasks, Outcome.ok(1)), step(p, tasks, Outcome.ok(1))]
    assert [e.data["visit"] for e in first + second] == [1, 1, 2, 2]
    assert len({e.data["run"] for e in first + second}) == 4
    assert first[0].data["path"] == [3]


def test_a_retry_keeps_the_key_and_the_inputs_of_the_first_attempt() -> None:
    policy = TaskPolicy((Rule("{{ _attempt < 3 }}", Then("retry", attempts=5, delay=4, set_iter={"tries": "{{ _attempt }}"})),))
    p, tasks = Pipeline("r"), plain(None, policy)
    step(p, tasks, Outcome.ok("before"))
    one = step(p, tasks, Outcome.ok("not yet"))
    assert (p.pc, p.attempt, p.not_before, p.prev, p.iter) == (1, 2, 14 * SECOND, "before", {"tries": 1})
    assert p.last == Outcome.ok("before").as_dict()
    two = step(p, tasks, Outcome.ok("not yet"))
    three = step(p, tasks, Outcome.ok("now"))
    assert [e.data["attempt"] for e in (one, two, three)] == [1, 2, 3]
    assert len({e.data["run"] for e in (one, two, three)}) == 1
    assert (p.status, p.result, p.attempt, p.not_before) == ("done", "now", 1, 0)


def test_the_attempt_counter_starts_again_when_the_task_is_left() -> None:
    again = TaskPolicy((Rule("{{ outcome.status == 'error' }}", Then("retry", attempts=2)), Rule(None, Then("jump", to="a"))))
    p, tasks = Pipeline("r"), plain(again)
    for _ in range(3):
        step(p, tasks, Outcome.failed("timeout", "x"))
        assert p.attempt == 2
        step(p, tasks, Outcome.ok(1))
        assert (p.attempt, p.status) == (1, "running")


def test_writes_go_to_iter_and_ctx_in_order() -> None:
    set_both = rules(Then(set_iter={"n": 1}, set_ctx={"c": 1}), Then("break", set_iter={"n": 2}))
    p, tasks = Pipeline("r"), plain(set_both, set_both)
    step(p, tasks, Outcome.ok(0))
    step(p, tasks, Outcome.ok(1))
    assert (p.iter, p.ctx) == ({"n": 2}, {"c": 1})


DIRECTIVES = st.sampled_from(
    [Then(), Then("jump", to="a"), Then("jump", to="c"), Then("break"), Then("fail"), Then("retry", attempts=3, delay=1)]
)
WRITES = st.sampled_from([{}, {"set_iter": {"i": "{{ outcome.result }}"}}, {"set_ctx": {"c": "{{ _attempt }}"}}, {"set_prev": 7}])


@given(
    policies=st.lists(
        st.none() | st.lists(st.builds(lambda t, w: replace(t, **w), DIRECTIVES, WRITES), max_size=3), min_size=3, max_size=3
    ),
    outcomes=st.lists(st.integers(0, 3) | st.none(), max_size=25),
)
def test_folding_the_events_gives_the_state(policies: list[Any], outcomes: list[int | None]) -> None:
    tasks = plain(*(None if p is None else rules(*p) for p in policies))
    p, events = Pipeline("r"), []
    for value in outcomes:
        if p.status != "running":
            break
        events.append(step(p, tasks, Outcome.failed("timeout", "x") if value is None else Outcome.ok(value)))
        again = Pipeline("r")
        for event in events:
            fold(again, tasks, event)
        again.task_run(tasks[min(again.pc, 2)])
        p.task_run(tasks[min(p.pc, 2)])
        assert again == p
    keys = [(e.data["run"], e.data["attempt"]) for e in events]
    assert len(set(keys)) == len(keys)


@pytest.mark.parametrize("outcome", [Outcome.ok({"a": [1, None]}), Outcome.failed("parse", "x", details={"d": 1})])
def test_the_event_holds_the_outcome_once(outcome: Outcome) -> None:
    event = step(Pipeline("r"), plain(rules()), outcome)
    assert event.data["outcome"] == outcome.as_dict()
    assert set(event.data) == {"task", "run", "visit", "attempt", "started", "outcome", "directive"}
