"""Passes over a pipeline in the worker: policy at work, values, secrets, and everything that waits."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from noetl_core.engine import ids
from noetl_core.engine.outcome import Outcome
from noetl_core.expr import Secret
from noetl_core.tools.base import ToolCall
from tests.sim.ports import SECOND

from .one_run import OneRun, echo, on_error, otherwise, task


def failing(times: int, kind: Any = "server_error") -> Any:
    """Fails the first `times` attempts."""

    def script(call: ToolCall) -> Outcome:
        return Outcome.failed(kind, f"attempt {call.attempt}") if call.attempt <= times else echo(call)

    return script


# --- retries ----------------------------------------------------------------------------------------------------------------


def test_a_short_retry_delay_is_slept_in_place_and_attempts_are_visible() -> None:
    run = OneRun({"tool": [task("a", on_error("retry", attempts=4, delay=2, backoff="exponential"), result=1)]}, failing(2))
    before = run.clock.time
    assert run.handle().kind == "done"
    assert run.clock.time - before == pytest.approx(6 * SECOND, abs=1_000)
    assert [(d["attempt"], d["directive"]["do"]) for d in run.named("TaskProcessed")] == [
        (1, "retry"),
        (2, "retry"),
        (3, "continue"),
    ]
    assert [(d["attempt"], d["delay"], d["error"]["message"]) for d in run.named("TaskRetried")] == [
        (1, 2.0, "attempt 1"),
        (2, 4.0, "attempt 2"),
    ]
    assert len({c.task_run_id for c in run.calls}) == 1


def test_a_long_retry_delay_suspends_and_the_next_attempt_comes_after_it() -> None:
    run = OneRun({"tool": [task("a", on_error("retry", attempts=3, delay=600), result=1)]}, failing(1))
    assert run.handle().kind == "suspended"
    (wait,) = run.last.data["waits"]
    assert (wait["kind"], wait["task"]) == ("timer", "a")
    assert wait["at"] - run.clock.time == pytest.approx(600 * SECOND, abs=1_000)
    run.wait(601)
    assert run.resume({}).kind == "done"
    assert [c.attempt for c in run.calls] == [1, 2]
    assert run.last.data == {"result": 1}


def test_a_resume_that_comes_too_early_waits_again() -> None:
    run = OneRun({"tool": [task("a", on_error("retry", attempts=3, delay=600), result=1)]}, failing(1))
    run.handle()
    first = run.last.data["waits"]
    run.wait(10)
    assert run.resume({"kind": "pause"}).kind == "suspended"
    assert run.last.data["waits"] == first
    assert [c.attempt for c in run.calls] == [1]


def test_exhausted_retries_fail_the_step_with_the_last_error() -> None:
    run = OneRun({"tool": [task("a", on_error("retry", attempts=2), result=1)]}, failing(9))
    run.handle()
    assert run.last.name == "StepFailed"
    assert run.last.data["error"] == {"kind": "server_error", "message": "attempt 2", "retryable": True, "task": "a"}


# --- values -----------------------------------------------------------------------------------------------------------------


def test_results_of_earlier_tasks_are_at_hand_by_name_and_as_prev() -> None:
    run = OneRun(
        {
            "tool": [
                task("a", otherwise(set_ctx={"seen": "{{ outcome.result.n }}"}, set_iter={"k": 2}), result={"n": 3}),
                task("b", result="{{ [a.n, _prev.n, ctx.seen, seen, iter.k, _task, _attempt, _outcome.status, execution_id] }}"),
            ]
        }
    )
    run.handle()
    assert run.last.data == {"result": [3, 3, 3, 3, 2, "b", 1, "ok", "7"], "set_ctx": {"seen": 3}}


def test_a_large_result_is_stored_once_and_read_lazily() -> None:
    rows = [{"n": n, "text": "x" * 100} for n in range(200)]
    run = OneRun({"tool": [task("a"), task("b", result="{{ a.rows[7].n + (_prev.rows | length) }}")]}, big(rows))
    run.handle()
    (stored, _) = run.named("TaskProcessed")
    ref = stored["outcome"]["result"]
    assert (ref["kind"], ref["key"][:-22], ref["store"]) == ("result_ref", f"7/results/{run.key('a')}", "s3")
    assert ref["size"] == len(run.results.objects[ref["key"]])
    assert run.value(ref) == {"rows": rows}
    assert run.last.data == {"result": 207}


def big(rows: Any) -> Any:
    return lambda call: Outcome.ok({"rows": rows}) if call.task == "a" else echo(call)


def test_the_limit_is_the_playbooks() -> None:
    executor = {"spec": {"policy": {"limits": {"max_payload_bytes": 20}}}}
    run = OneRun({"tool": task("a", result="x" * 19)}, root={"executor": executor})
    run.handle()
    assert run.value(run.last.data["result"]) == "x" * 19
    assert run.last.data["result"]["kind"] == "result_ref"


def test_large_written_values_are_references_too_and_read_like_values() -> None:
    writes: dict[str, Any] = {"set_ctx": {"all": "{{ outcome.result.rows }}"}, "set_iter": {"mine": "{{ outcome.result.rows }}"}}
    run = OneRun(
        {"tool": [task("a", otherwise(**writes)), task("b", result="{{ [ctx.all[1], iter.mine | length] }}")]},
        big(["y" * 50] * 300),
    )
    run.handle()
    assert run.last.data["result"] == ["y" * 50, 300]
    assert run.last.data["set_ctx"]["all"]["kind"] == "result_ref"
    assert run.named("TaskProcessed")[0]["set_iter"]["mine"]["kind"] == "result_ref"
    assert all(len(json.dumps(e.data)) < 4_000 for e in run.events)


@pytest.mark.parametrize("result", [math.nan, {"a": [math.inf]}, {"a": {1, 2}}, "\ud800", object(), b"bytes"])
def test_a_result_that_is_no_json_fails_the_task_not_the_worker(result: Any) -> None:
    run = OneRun({"tool": task("a")}, lambda call: Outcome.ok(result))
    assert run.handle().kind == "done"
    assert run.last.data["error"]["kind"] == "schema"


def test_the_details_of_a_tools_failure_become_json() -> None:
    failed = Outcome.failed("parse", "bad \ud800", details={"at": math.nan, "what": {1}}, http={"headers": {"x": object()}})
    run = OneRun({"tool": task("a")}, lambda call: failed)
    run.handle()
    json.dumps(run.last.data, allow_nan=False).encode()
    assert run.last.data["error"]["details"]["at"] is None


def test_a_template_that_fails_is_an_error_like_any_other() -> None:
    run = OneRun(
        {"tool": [task("a", on_error("continue", set_ctx={"kind": "{{ outcome.error.kind }}"}), result="{{ nothing.there }}")]}
    )
    run.handle()
    assert run.last.data == {"result": None, "set_ctx": {"kind": "template"}}
    assert run.calls == []


def test_program_text_is_not_a_template() -> None:
    code = "result = f'{{not}} {{ a template }}'"
    run = OneRun({"tool": {"kind": "python", "code": code, "args": {"x": "{{ 1 + 1 }}"}}})
    run.handle()
    assert run.calls[0].inputs == {"code": code, "args": {"x": 2}}


def test_the_spec_a_tool_gets_is_rendered() -> None:
    run = OneRun(
        {"tool": {**task("a", kind="http", url="http://x"), "spec": {"max_redirects": "{{ workload.n }}"}}}, workload={"n": 3}
    )
    run.handle()
    assert run.calls[0].spec["max_redirects"] == 3


def test_a_pipeline_that_turns_in_circles_ends_with_a_limit() -> None:
    executor = {"spec": {"policy": {"limits": {"max_task_visits": 50}}}}
    run = OneRun({"tool": [task("a"), task("b", otherwise("jump", to="a"))]}, root={"executor": executor})
    run.handle()
    assert run.last.data["error"]["kind"] == "limit"
    assert len(run.calls) == 50


# --- secrets ----------------------------------------------------------------------------------------------------------------

KEYCHAIN = {"keychain": [{"name": "api", "kind": "secret"}]}
CREDENTIALS = {"api": {"token": "s3cr3t-token"}}


def test_a_secret_reaches_the_tool_and_nothing_else() -> None:
    step = {"tool": [task("a", kind="http", url="http://x", headers={"Authorization": "Bearer {{ keychain.api.token }}"})]}
    run = OneRun(step, lambda call: Outcome.ok({"said": call.inputs["headers"]}), KEYCHAIN, credentials=CREDENTIALS)
    run.handle()
    assert run.calls[0].inputs["headers"] == {"Authorization": "Bearer s3cr3t-token"}
    assert run.last.name == "StepDone"
    assert "s3cr3t" not in repr(run.commits) + repr(run.results.objects)


def test_a_secret_that_a_tool_returns_is_usable_and_masked() -> None:
    def script(call: ToolCall) -> Outcome:
        return Outcome.ok({"token": Secret("s3cr3t-token")}) if call.task == "login" else Outcome.ok(len(call.inputs["result"]))

    login = task("login", otherwise(set_ctx={"t": "{{ outcome.result.token }}"}, set_iter={"t": "{{ outcome.result.token }}"}))
    run = OneRun({"tool": [login, task("use", result="{{ login.token }}{{ iter.t }}{{ ctx.t }}")]}, script)
    run.handle()
    assert run.last.data == {"result": 36, "set_ctx": {"t": "***"}}
    assert "s3cr3t" not in repr(run.commits) + repr(run.results.objects)


def test_a_secret_of_before_a_suspension_is_undefined_after_it_and_never_its_mask() -> None:
    def script(call: ToolCall) -> Outcome:
        return Outcome.ok({"token": Secret("s3cr3t-token"), "n": 1}) if call.task == "login" else echo(call)

    tools = [
        task("login"),
        {"name": "w", "kind": "callback"},
        task("n", result="{{ login.n }}"),
        task("use", result="{{ login.token }}"),
    ]
    run = OneRun({"tool": tools}, script)
    run.handle()
    run.resume({"kind": "signal"})
    assert run.named("TaskProcessed")[-2]["outcome"]["result"] == 1
    assert run.last.data["error"]["kind"] == "template"
    assert [c.task for c in run.calls] == ["login", "n"]


def test_a_credential_that_is_not_there_fails_the_task() -> None:
    run = OneRun({"tool": task("a", result="{{ keychain.api.token }}")}, root=KEYCHAIN)
    run.handle()
    assert run.last.data["error"]["kind"] == "not_found"


def test_a_child_playbook_takes_no_secrets_as_its_args_are_recorded() -> None:
    run = OneRun(
        {"tool": {"kind": "playbook", "path": "x", "args": {"t": "{{ keychain.api.token }}"}}},
        echo,
        KEYCHAIN,
        credentials=CREDENTIALS,
    )
    run.handle()
    assert run.last.data["error"]["kind"] == "schema"


# --- waiting ----------------------------------------------------------------------------------------------------------------


def test_a_long_wait_suspends_and_a_short_one_does_not() -> None:
    run = OneRun({"tool": [task("a", result=1), {"name": "w", "kind": "wait", "duration": "10m"}, task("b", result="{{ a }}")]})
    assert run.handle().kind == "suspended"
    (wait,) = run.last.data["waits"]
    assert wait["at"] - run.clock.time == pytest.approx(600 * SECOND, abs=1_000)
    run.wait(600)
    assert run.resume({}).kind == "done"
    assert [c.task for c in run.calls] == ["a", "b"]
    short = OneRun({"tool": {"kind": "wait", "duration": 3}})
    before = short.clock.time
    assert short.handle().kind == "done"
    assert short.clock.time - before == pytest.approx(3 * SECOND, abs=1_000)


def test_until_an_instant_and_until_the_past() -> None:
    run = OneRun({"tool": {"kind": "wait", "until": "{{ workload.at }}"}}, workload={"at": "2027-01-15T09:00:00Z"})
    assert run.handle().kind == "suspended"
    assert run.last.data["waits"][0]["at"] == 1_800_003_600 * SECOND
    past = OneRun({"tool": {"kind": "wait", "until": "2020-01-01", "result": "over"}})
    assert past.handle().kind == "done"
    assert past.last.data["result"] == "over"


@pytest.mark.parametrize(
    "bad",
    [
        {"duration": "{{ -1 }}"},
        {"duration": "{{ 'soon' }}"},
        {"duration": "{{ 'nan' }}"},
        {"until": "{{ 'never' }}"},
        {"duration": "{{ '400d' }}"},
    ],
)
def test_a_wait_that_cannot_be_understood_fails_the_task(bad: dict[str, Any]) -> None:
    run = OneRun({"tool": {"kind": "wait", **bad}})
    assert run.handle().kind == "done"
    assert run.last.data["error"]["kind"] == "schema"


def test_a_child_requested_once_under_a_derived_id_returns_its_result() -> None:
    child = {"name": "c", "kind": "playbook", "path": "lib/child", "version": 3, "args": {"n": "{{ workload.n }}"}}
    run = OneRun({"tool": [child, task("b", result="{{ c.total + 1 }}")]}, workload={"n": 4})
    assert run.handle().kind == "suspended"
    (wait,) = run.last.data["waits"]
    assert wait["child"] == ids.child_execution_id("7", run.key("c"))
    assert (wait["kind"], wait["path"], wait["version"], wait["args"]) == ("child", "lib/child", 3, {"n": 4})
    assert run.resume({"kind": "child", "data": {"status": "completed", "result": {"total": 9}}}).kind == "done"
    assert run.last.data == {"result": 10}


@pytest.mark.parametrize(
    ("status", "error", "kind"),
    [
        ("failed", {"kind": "auth", "message": "no"}, "auth"),
        ("failed", {"kind": "odd"}, "unknown"),
        ("cancelled", None, "cancelled"),
    ],
)
def test_a_child_that_fails_fails_its_task(status: str, error: Any, kind: str) -> None:
    run = OneRun({"tool": {"kind": "playbook", "path": "lib/child"}})
    run.handle()
    run.resume({"kind": "child", "data": {"status": status, "error": error}})
    assert run.last.name == "StepFailed"
    assert run.last.data["error"]["kind"] == kind
    assert "lib/child" in run.last.data["error"]["message"]


def test_a_child_that_is_tried_again_is_another_child() -> None:
    run = OneRun(
        {"tool": {"name": "c", "kind": "playbook", "path": "x", "spec": {"policy": {"rules": [on_error("retry", attempts=2)]}}}}
    )
    run.handle()
    first = run.last.data["waits"][0]
    run.resume({"kind": "child", "data": {"status": "failed", "error": {"kind": "timeout"}}})
    second = run.last.data["waits"][0]
    assert first["wait_id"] != second["wait_id"]
    assert first["child"] != second["child"]


def test_a_callback_returns_its_answer_or_fails_with_schema_or_timeout() -> None:
    step = {"tool": {"kind": "callback", "timeout": "2h", "schema": {"type": "object"}}}
    run = OneRun(step)
    run.handle()
    (wait,) = run.last.data["waits"]
    assert (wait["kind"], wait["schema"]) == ("callback", {"type": "object"})
    assert wait["at"] - run.clock.time == pytest.approx(7_200 * SECOND, abs=1_000)
    run.resume({"kind": "signal", "data": {"approved": True}})
    assert run.last.data["result"] == {"approved": True}
    wrong = OneRun(step)
    wrong.handle()
    wrong.resume({"kind": "signal", "data": "yes"})
    assert wrong.last.data["error"]["kind"] == "schema"
    assert "the answer is string, not object" in wrong.last.data["error"]["message"]
    late = OneRun(step)
    late.handle()
    late.resume({"kind": "timeout"})
    assert late.last.data["error"]["kind"] == "timeout"


def test_an_unsupported_callback_schema_fails_before_the_callback_waits() -> None:
    run = OneRun({"tool": {"kind": "callback", "schema": "{{ workload.form }}"}}, workload={"form": {"allOf": []}})
    assert run.handle().kind == "done"
    assert run.last.data["error"]["kind"] == "schema"


def test_a_named_signal_is_waited_for_by_name() -> None:
    run = OneRun({"tool": {"kind": "callback", "signal": "order-{{ workload.id }}"}}, workload={"id": 4})
    run.handle()
    assert run.last.data["waits"][0]["signal"] == "order-4"


def test_a_takeover_after_a_resume_knows_the_mail() -> None:
    def die(call: ToolCall) -> Outcome:
        from tests.sim.ports import Crash

        if len(run.calls) == 1:
            raise Crash
        return echo(call)

    run = OneRun({"tool": [{"name": "w", "kind": "callback"}, task("b", result="{{ w.x }}")]}, die)
    run.handle()
    from tests.sim.ports import Crash

    with pytest.raises(Crash):
        run.resume({"kind": "signal", "data": {"x": 5}})
    run.wait(61)
    assert run.handle("takeover").kind == "done"
    assert run.last.data == {"result": 5}
