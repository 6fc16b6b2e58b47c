"""Task policy: outcome in, directive out (formal specification 6, resolutions 6, 7, 29)."""

from __future__ import annotations

from typing import Any

import pytest

from noetl_core.dsl.model import Rule, Task, TaskPolicy, Then
from noetl_core.engine.outcome import Outcome
from noetl_core.engine.pipelines.policy import MAX_DELAY_S, Directive, delay_of, judge
from noetl_core.expr import Scope, TemplateError

OK = Outcome.ok({"n": 5})
FAILED = Outcome.failed("server_error", "it broke", http={"status": 503, "headers": {"retry-after": "7"}})
FAILED_WHEN = "{{ outcome.status == 'error' }}"


def policy(*rules: Rule, on_unmatched: Any = "continue") -> TaskPolicy:
    return TaskPolicy(rules, on_unmatched)


def task(p: TaskPolicy | None = None, **more: Any) -> Task:
    return Task("fetch", "http", policy=p, **more)


def decide(t: Task, outcome: Outcome, attempt: int = 1, **names: Any) -> Directive:
    scope = Scope({"ctx": {"a": 1}, "iter": {"i": 2}, **names, "outcome": outcome.as_dict()})
    return judge(t, outcome, attempt, "k1", scope)


@pytest.mark.parametrize(
    ("name", "rules", "outcome", "do", "matched"),
    [
        ("no policy, ok", None, OK, "continue", None),
        ("no policy, error", None, FAILED, "fail", None),
        ("first match wins", policy(Rule(FAILED_WHEN, Then("break")), Rule("{{ true }}", Then("fail"))), FAILED, "break", 0),
        ("second rule", policy(Rule(FAILED_WHEN, Then("fail")), Rule("{{ true }}", Then("break"))), OK, "break", 1),
        ("else", policy(Rule(FAILED_WHEN, Then("fail")), Rule(None, Then("jump", to="x"))), OK, "jump", "else"),
        ("nothing matches: continue, even after an error", policy(Rule("{{ false }}", Then("fail"))), FAILED, "continue", None),
        ("nothing matches: fail if asked", policy(Rule("{{ false }}", Then()), on_unmatched="fail"), FAILED, "fail", None),
        ("an undefined condition is false", policy(Rule("{{ outcome.http.status == 503 }}", Then("fail"))), OK, "continue", None),
    ],
)
def test_the_first_rule_that_matches_decides(
    name: str, rules: TaskPolicy | None, outcome: Outcome, do: str, matched: object
) -> None:
    directive = decide(task(rules), outcome)
    assert (directive.do, directive.matched) == (do, matched), name


def test_a_failing_task_fails_with_its_own_error() -> None:
    assert decide(task(), FAILED).error == {"kind": "server_error", "message": "it broke", "retryable": True}


def test_fail_can_set_the_kind_and_the_message_of_the_error() -> None:
    decision = decide(task(policy(Rule(None, Then("fail", error="code {{ outcome.http.status }}")))), FAILED)
    assert decision.error == {"kind": "server_error", "message": "code 503", "retryable": True}
    own = decide(task(policy(Rule(None, Then("fail", error={"kind": "schema", "message": "no"})))), OK)
    assert own.error == {"kind": "schema", "message": "no", "retryable": False}


def test_exhausted_attempts_fail_with_the_tasks_error_and_later_rules_are_not_tried() -> None:
    t = task(policy(Rule(FAILED_WHEN, Then("retry", attempts=3)), Rule(FAILED_WHEN, Then("continue"))))
    assert [decide(t, FAILED, attempt).do for attempt in (1, 2, 3)] == ["retry", "retry", "fail"]
    assert decide(t, FAILED, 3).error == {"kind": "server_error", "message": "it broke", "retryable": True}


def test_polling_that_never_ends_is_a_limit() -> None:
    error = decide(task(policy(Rule("{{ true }}", Then("retry", attempts=2)))), OK, 2).error
    assert error is not None
    assert error["kind"] == "limit"


@pytest.mark.parametrize(
    ("then", "delays"),
    [
        (Then("retry"), [0, 0, 0]),
        (Then("retry", delay=2), [2, 2, 2]),
        (Then("retry", delay=2, backoff="linear"), [2, 4, 6]),
        (Then("retry", delay=2, backoff="exponential"), [2, 4, 8]),
        (Then("retry", backoff="exponential"), [1, 2, 4]),
        (Then("retry", delay=2, backoff="exponential", backoff_multiplier=3), [2, 6, 18]),
        (Then("retry", delay=2, backoff="exponential", max_delay=5), [2, 4, 5]),
        (Then("retry", delay="{{ outcome.http.headers['Retry-After'] }}"), [7, 7, 7]),
        (Then("retry", delay="{{ outcome.nothing | default(0.5) }}"), [0.5, 0.5, 0.5]),
        (Then("retry", delay=10, backoff="exponential", backoff_multiplier=1e300), [10, MAX_DELAY_S, MAX_DELAY_S]),
    ],
)
def test_delays(then: Then, delays: list[float]) -> None:
    scope = Scope({"outcome": FAILED.as_dict()})
    assert [delay_of(then, attempt, "k", scope) for attempt in (1, 2, 3)] == delays


@pytest.mark.parametrize("delay", [-3, "-0.1", float("nan"), float("inf"), 1e9, "{{ 'soon' }}"])
def test_an_invalid_delay_is_refused(delay: Any) -> None:
    with pytest.raises(TemplateError):
        delay_of(Then("retry", delay=delay), 1, "k", Scope({}))


def test_jitter_is_drawn_from_the_attempt_and_replays() -> None:
    scope = Scope({})
    full = [delay_of(Then("retry", delay=10, jitter=True), a, "k", scope) for a in range(1, 50)]
    assert full == [delay_of(Then("retry", delay=10, jitter=True), a, "k", scope) for a in range(1, 50)]
    assert len(set(full)) == 49
    assert all(0 <= d <= 10 for d in full)
    assert all(9 <= delay_of(Then("retry", delay=10, jitter=0.1), a, "k", scope) <= 10 for a in range(1, 50))


@pytest.mark.parametrize("bad", ["{{ 'soon' }}", "{{ 'nan' }}", "soon", [1]])
def test_a_delay_that_is_no_number_fails_the_task(bad: Any) -> None:
    directive = decide(task(policy(Rule(None, Then("retry", delay=bad)))), FAILED)
    assert directive.do == "fail"
    assert directive.error is not None
    assert directive.error["kind"] == "schema"


def test_writes_keep_their_types_and_undefined_is_null() -> None:
    then = Then(set_iter={"n": "{{ outcome.result.n + 1 }}"}, set_ctx={"x": "{{ outcome.result.nothing }}"}, set_prev="{{ [1] }}")
    directive = decide(task(policy(Rule(None, then))), OK)
    assert (directive.set_iter, directive.set_ctx, directive.prev) == ({"n": 6}, {"x": None}, [1])


def test_a_tasks_own_writes_come_before_its_policy_which_sees_them() -> None:
    rules = policy(Rule("{{ iter.n == 5 and ctx.m == 5 }}", Then("break", set_ctx={"m": "{{ ctx.m + 1 }}"})))
    t = task(rules, set_iter={"n": "{{ outcome.result.n }}"}, set_ctx={"m": "{{ outcome.result.n }}"})
    directive = decide(t, OK)
    assert (directive.do, directive.set_iter, directive.set_ctx) == ("break", {"n": 5}, {"m": 6})
    assert decide(t, FAILED).set_iter == {}


def test_a_rule_that_raises_fails_the_task_as_a_template_error() -> None:
    directive = decide(task(policy(Rule("{{ 1 / 0 }}", Then()))), OK)
    assert directive.do == "fail"
    assert directive.error is not None
    assert directive.error["kind"] == "template"
    assert "policy of task fetch" in directive.error["message"]


@pytest.mark.parametrize(
    "value",
    ["{{ nope }}", "{{ none }}", {"kind": "{{ nope }}", "message": "{{ nope }}"}, {"kind": "", "message": "{{ none }}"}],
)
def test_an_empty_fail_error_falls_back_to_the_error_of_the_task(value: Any) -> None:
    failed = decide(task(policy(Rule(None, Then("fail", error=value)))), FAILED)
    assert failed.error == {"kind": "server_error", "message": "it broke", "retryable": True}


def test_fail_shortens_long_kinds_and_messages() -> None:
    """Messages are copied to the step, the execution, its head and its parent; what is large belongs into `details`."""
    error = {"kind": "{{ 'k' * 5000 }}", "message": "{{ 'm' * 500000 }}"}
    failure = decide(task(policy(Rule(None, Then("fail", error=error)))), OK).error
    assert failure is not None
    assert len(failure["message"]) == 4096
    assert failure["message"].endswith("m...")
    assert len(failure["kind"]) <= 64
