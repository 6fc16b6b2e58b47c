"""The dialect of the field: what is accepted runs as it says."""

from __future__ import annotations

from typing import Any

import pytest

from noetl_core.dsl.parse import parse_playbook
from noetl_migrate import migrate
from tests.unit.dsl.broken_playbooks import HEAD, flow
from tests.unit.dsl.dialect import Service, found, one, ran, same


def test_a_bare_set_key_read_as_iter_is_written_to_iter() -> None:
    def text(key: str) -> str:
        return flow(
            f"step: a\ntool:\n  - {{name: t, kind: noop, set: {{{key}: 1}}}}\n  - {{name: u, kind: noop, result: '{{{{ iter.n }}}}'}}"
        )

    same(text("n"), text("iter.n"))
    assert ran(text("n"))["result"] == 1


def test_a_task_is_tried_again_and_then_gives_its_result() -> None:
    service = Service((503, None), (503, None), (200, {"n": 1}))
    out = ran(
        one("{kind: http, url: http://x, retry: {max_attempts: 3, retry_when: '{{ status_code in [502, 503] }}'}}"), service
    )
    assert (out["status"], len(service.calls)) == ("completed", 3)


def test_exhausted_retries_fail_with_the_last_error_or_follow_the_rules() -> None:
    service = Service((503, None))
    out = ran(one("{kind: http, url: http://x, retry: 2}"), service)
    assert (out["status"], out["error"]["kind"], len(service.calls)) == ("failed", "server_error", 2)
    service = Service((503, None))
    lenient = "spec: {policy: {rules: [{when: '{{ outcome.error }}', then: {do: break, set: {missed: true}}}, {else: {then: {do: continue}}}]}}"
    out = ran(one(f"{{kind: http, url: http://x, retry: 2, {lenient}}}"), service)
    assert (out["status"], out["ctx"], len(service.calls)) == ("completed", {"missed": True}, 2)


def test_polling_goes_on_while_the_answer_is_not_the_wanted_one() -> None:
    service = Service((200, {"state": "new"}), (200, {"state": "new"}), (200, {"state": "done"}))
    text = one(
        "{kind: http, url: http://x, retry: {max_attempts: 9, delay: 0.01, stop_when: \"{{ response.state == 'done' }}\"}}"
    )
    out = ran(text, service)
    assert (out["status"], out["result"]["data"], len(service.calls)) == ("completed", {"state": "done"}, 3)
    out = ran(text.replace("9", "2"), service := Service((200, {"state": "new"})))
    assert (out["status"], out["result"]["data"], len(service.calls)) == ("completed", {"state": "new"}, 2)


def test_a_retry_keeps_the_policy_that_the_step_gives_its_tasks() -> None:
    policy = "spec: {policy: {task: {rules: [{else: {then: {do: continue}}}]}}}"
    out = ran(flow(f"step: a\n{policy}\ntool: {{kind: http, url: http://x, retry: 2}}"), service := Service((503, None)))
    assert (out["status"], len(service.calls)) == ("failed", 2)


def test_times_reach_the_tool() -> None:
    service = Service((200, 1))
    ran(one("{kind: http, spec: {url: 'http://x'}, timeout: '7', verify_ssl: false, credential: c}"), service)
    (call,) = service.calls
    assert call.inputs["url"] == "http://x"
    assert call.inputs["auth"] == "c"
    assert call.spec["verify"] is False


@pytest.mark.parametrize(
    "place",
    [
        "step: a\n%s\ntool: {kind: noop, result: {n: 1, rows: []}}",
        "step: a\ntool:\n  kind: noop\n  result: {n: 1, rows: []}\n  %s",
    ],
)
@pytest.mark.parametrize(
    ("asserted", "message"),
    [
        ("assert: '{{ result.n == 1 }}'", None),
        ("assert: ['{{ a.n == 1 }}', 'result.rows == []']", None),
        ("assert: {returns: [n, rows]}", None),
        ("assert: {expects: [workload.city]}", "there is no workload.city"),
        ("assert: {expects: ['{{ workload.city is not defined }}'], returns: [m]}", "the result has no m"),
        ("assert: [{that: '{{ result.n > 1 }}', message: too few}]", "too few"),
        ("assert: {conditions: ['{{ result.n > 1 }}'], message: too few}", "too few"),
        ("assert: '{{ result.n > 1 }}'", "assertion failed: result.n > 1"),
        ("assert: {has_n: '{{ result.n }}', has_rows: '{{ result.rows | length > 0 }}'}", "assertion failed: has_rows"),
    ],
)
def test_a_false_assertion_fails_the_step_with_its_message(place: str, asserted: str, message: str | None) -> None:
    out = ran(flow(place % asserted))
    assert out["status"] == ("completed" if message is None else "failed")
    assert message is None or (out["error"]["kind"], out["error"]["message"]) == ("schema", message)


def test_assert_expects_changes_neither_prev_nor_task_names() -> None:
    tool = "tool:\n  - {name: one, kind: noop, result: 5}\n  - {name: two, kind: noop, result: '{{ _prev + one }}', assert: {expects: [one]}}"
    assert ran(flow(f"step: a\n{tool}"))["result"] == 10


@pytest.mark.parametrize(
    ("spec", "executor", "status"),
    [
        ("spec: {on_no_match: fail}, ", "", "failed"),
        ("spec: {on_no_match: end}, ", "", "completed"),
        ("", "executor: {spec: {no_next_is_error: true}}\n", "failed"),
        ("", "executor: {spec: {no_next_is_error: false}}\n", "completed"),
        ("mode: inclusive, spec: {on_no_match: error}, ", "", "failed"),
        ("spec: {on_no_match: end}, ", "executor: {spec: {no_next_is_error: true}}\n", "completed"),
    ],
)
def test_no_arc_matches(spec: str, executor: str, status: str) -> None:
    steps = f"step: a\ntool: {{kind: noop, result: 1}}\nnext: {{{spec}arcs: [{{step: b, when: '{{{{ event.result > 5 }}}}'}}, {{step: b, when: '{{{{ event.result > 6 }}}}'}}]}}"
    text = flow(steps, "step: b\ntool: {kind: noop}").replace("workflow:", executor + "workflow:")
    out = ran(text)
    assert out["status"] == status
    if status == "failed":
        assert out["error"]["message"] == "no arc of step a matches"
    matching = ran(text.replace("result: 1}", "result: 6}"))
    assert (matching["status"], matching["order"]) == ("completed", ["a", "b"])


CHILD = """apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: child, path: team/child}
workflow:
  - step: score
    tool: {kind: noop, result: {score: 7}}
    next: {arcs: [{step: tidy}]}
  - step: tidy
    tool: {kind: noop, result: tidy}
  - step: never
    tool: {kind: noop}
"""


@pytest.mark.parametrize(
    ("task", "expected"),
    [
        ("{kind: playbook, path: /team/child}", "tidy"),
        ("{kind: playbook, path: '/{{ workload.where }}/child'}", "tidy"),
        ("{kind: playbook, path: team/child, return_step: score, return_result: true}", {"score": 7}),
        ("{kind: playbook, path: team/child, return_step: '{{ workload.wanted }}', result: score}", 7),
        ("{kind: playbook, path: team/child, return_step: never}", None),
    ],
)
def test_return_step_and_result_choose_the_result_of_a_sub_playbook(task: str, expected: Any) -> None:
    out = ran(one(task), others=(CHILD,), payload={"wanted": "score", "where": "team"})
    assert (out["status"], out["result"]) == ("completed", expected)


def test_an_unknown_return_step_fails_with_a_suggestion() -> None:
    out = ran(one("{kind: playbook, path: team/child, return_step: scor}"), others=(CHILD,))
    assert (out["status"], out["error"]["kind"]) == ("failed", "not_found")
    assert "did you mean" in out["error"]["message"]


def test_bare_keys_of_set_run_where_they_were_decided() -> None:
    text = flow(
        "step: a\nloop: {in: [1, 2, 3], iterator: x, mode: parallel}\ntool:\n"
        "  - {name: t, kind: noop, set: {page: '{{ iter.x * 10 }}'}}\n  - {name: u, kind: noop, result: '{{ page }}'}\n"
        "set: {pages: '{{ event.result }}'}"
    )
    out = ran(text)
    assert (out["status"], out["ctx"]) == ("completed", {"pages": [10, 20, 30]})


def test_a_list_of_libraries_is_imported() -> None:
    out = ran(
        one(
            "{kind: python, libs: [json, math as m, from math import pi], code: 'result = [json.dumps([1]), m.floor(2.5), round(pi)]'}"
        )
    )
    assert out["result"] == ["[1]", 2, 3]


def test_numbers_in_quotes_count() -> None:
    task = '{kind: http, url: http://x, spec: {policy: {rules: [{when: "{{ outcome.error }}", then: {do: retry, attempts: "2", delay: "0"}}, {else: {then: {do: continue}}}]}}}'
    ran(one(task), service := Service((503, None)))
    assert len(service.calls) == 2
    assert (
        found(flow('step: a\nloop: {in: [1], iterator: x, spec: {mode: parallel, max_in_flight: "2"}}\ntool: {kind: noop}')) == []
    )


def test_fields_of_a_yaml_merge_key_run_and_are_not_migrated() -> None:
    text = (
        HEAD
        + "x-all: &all {timeout: 5, retry: 2}\nworkflow:\n  - step: a\n    tool: {<<: *all, kind: noop}\n  - step: b\n    tool: {<<: *all, kind: noop}\n"
    )
    a, b = parse_playbook(text).steps
    assert a.tasks[0].timeout_s == b.tasks[0].timeout_s == 5
    migrated = migrate(text)
    assert [d.code for d in migrated.diagnostics] == ["E127"]
    assert migrated.text == text
