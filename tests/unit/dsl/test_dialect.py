"""The dialect of the field: each accepted form is the canonical one, is told what has no effect, and runs as it says."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from noetl_core.control import pages, read
from noetl_core.control.admit import StartRequest, register
from noetl_core.dsl.load import load
from noetl_core.dsl.parse import check, parse_playbook
from noetl_core.dsl.schema import playbook_schema
from noetl_core.engine.outcome import Outcome
from noetl_core.local import LocalWiring
from noetl_core.tools.base import ToolCall
from noetl_core.tools.registry import ToolRegistry
from noetl_migrate import migrate
from tests.unit.dsl.broken import HEAD, flow

SCHEMA = Draft202012Validator(playbook_schema())


def one(task: str) -> str:
    """A playbook of one step with one task."""
    return flow(f"step: a\ntool:\n  {task}")


def same(accepted: str, canonical: str, *, editors: bool = True) -> None:
    """Both texts are one playbook; the schema takes both; and `noetl migrate` makes the one of the other, once."""
    for text in (accepted, canonical) if editors else (canonical,):
        root = load(text).root
        assert root is not None
        SCHEMA.validate(root.plain())
    assert parse_playbook(accepted) == parse_playbook(canonical)
    migrated = migrate(accepted)
    assert not migrated.failed, migrated.diagnostics
    assert migrated.changed
    assert parse_playbook(migrated.text) == parse_playbook(canonical)
    assert not migrate(migrated.text).changed


def found(text: str, severity: str = "error") -> list[str]:
    return [f"{d.code} {d.message}" for d in check(text)[1] if d.severity == severity]


class Service:
    """`kind: http`: answers with what it was told to, one after the other, and then with the last; keeps the calls."""

    kind = "http"
    inline = True

    def __init__(self, *answers: tuple[int, Any]) -> None:
        self.answers, self.calls = list(answers), list[ToolCall]()

    def run(self, call: ToolCall) -> Outcome:
        self.calls.append(call)
        status, data = self.answers[min(len(self.calls), len(self.answers)) - 1]
        helper: Mapping[str, Any] = {"status": status, "headers": {}}
        if status == 200:
            return Outcome.ok({"status": status, "headers": {}, "data": data}, http=helper)
        return Outcome.failed("server_error" if status >= 500 else "not_found", f"the service answered {status}", http=helper)


def ran(text: str, service: Service | None = None, *, others: tuple[str, ...] = (), payload: Any = None) -> dict[str, Any]:
    """The summary of a run, with the steps in `order`."""
    local = LocalWiring(tools=ToolRegistry({"http": service}) if service is not None else ToolRegistry())
    try:
        for other in others:
            register(local.control, other)
        started = local.start(StartRequest(playbook=text, payload=payload or {}))
        assert local.run(started.execution_id, timeout_s=30)
        out = read.summary(local.control, started.execution_id)
        log = pages.events(local.control, started.execution_id)[0]
        out["order"] = [e["step"] for e in log if e["name"] == "StepScheduled"]
        return out
    finally:
        local.close()


# --- one playbook, two texts --------------------------------------------------------------------------------------------

LIKE_NONE = "{when: \"{{ outcome.status == 'error' }}\", then: {do: fail}}, {else: {then: {do: continue}}}"


def again(attempts: int, more: str = "", when: str = "outcome.status == 'error'") -> str:
    return f'{{when: "{{{{ {when} }}}}", then: {{do: retry, attempts: {attempts}{more}}}}}'


def fails(when: str, message: str) -> str:
    when = f"outcome.status == 'ok' and not ({when})"
    return f'{{when: "{{{{ {when} }}}}", then: {{do: fail, error: {{kind: schema, message: "{message}"}}}}}}'


def ruled(task: str, *rules: str) -> str:
    listed = ", ".join((*rules, LIKE_NONE))
    return f"{{{task}, spec: {{policy: {{rules: [{listed}]}}}}}}"


@pytest.mark.parametrize(
    ("accepted", "canonical"),
    [
        ("{kind: noop, timeout: 30}", "{kind: noop, spec: {timeout: 30}}"),
        ("{kind: noop, timeout_s: 30}", "{kind: noop, spec: {timeout: 30}}"),
        ('{kind: noop, timeout_seconds: "30"}', "{kind: noop, spec: {timeout: 30}}"),
        ("{kind: noop, timeout: 1.5m}", "{kind: noop, spec: {timeout: 90}}"),
        ("{kind: noop, timeout: '{{ workload.t }}'}", "{kind: noop, spec: {timeout: '{{ workload.t }}'}}"),
        ("{kind: http, url: u, timeout: {connect: 5, read: 9}}", "{kind: http, url: u, spec: {timeout: {connect: 5, read: 9}}}"),
        ("{kind: noop, timeout: 5, spec: {tracing: {a: 1}}}", "{kind: noop, spec: {timeout: 5, tracing: {a: 1}}}"),
        ("{kind: noop, spec: {timeout_seconds: 5}}", "{kind: noop, spec: {timeout: 5}}"),
        ("{kind: http, url: u, verify_ssl: false}", "{kind: http, url: u, spec: {verify: false}}"),
        ("{kind: http, url: u, spec: {verify_ssl: false}}", "{kind: http, url: u, spec: {verify: false}}"),
        ("{kind: http, url: u, follow_redirects: false}", "{kind: http, url: u, spec: {follow_redirects: false}}"),
        ("{kind: http, url: u, credential: c}", "{kind: http, url: u, auth: c}"),
        ("{kind: postgres, credential: c, command: SELECT 1}", "{kind: postgres, auth: c, command: SELECT 1}"),
        ("{kind: python, spec: {code: pass, args: {a: 1}, timeout: 5}}", "{kind: python, code: pass, args: {a: 1}, spec: {timeout: 5}}"),
        ("{kind: http, spec: {url: u, method: POST, json: {a: 1}}}", "{kind: http, url: u, method: POST, json: {a: 1}}"),
        ("{kind: postgres, auth: c, spec: {query: SELECT 1, credential: x}, max_rows: 5}", None),
        ("{kind: postgres, auth: c, query: SELECT 1, max_rows: 5}", "{kind: postgres, auth: c, query: SELECT 1, spec: {max_rows: 5}}"),
        ("{kind: python, code: pass, libs: [json, numpy]}", "{kind: python, code: pass, libs: {json: json, numpy: numpy}}"),
        ("{kind: python, code: pass, libs: [numpy as np, os.path]}", "{kind: python, code: pass, libs: {np: numpy, os: os}}"),
        ("{kind: python, code: pass, libs: [{np: numpy}, {name: pandas, as: pd}]}", "{kind: python, code: pass, libs: {np: numpy, pd: pandas}}"),
        (
            "{kind: python, code: pass, libs: [from math import sqrt, {from: math, import: pi, as: PI}]}",
            "{kind: python, code: pass, libs: {sqrt: {from: math, import: sqrt}, PI: {from: math, import: pi}}}",
        ),
        ("{kind: playbook, path: /a/b}", "{kind: playbook, path: a/b}"),
        ("{kind: noop, set: {ctx: {a: 1}, iter: {b: 2}}}", "{kind: noop, set: {ctx.a: 1, iter.b: 2}}"),
        ("{kind: noop, retry: 4}", ruled("kind: noop", again(4))),
        ("{kind: noop, retry: true}", ruled("kind: noop", again(3))),
        ("{kind: noop, retry: {max_retries: 2}}", ruled("kind: noop", again(3))),
        (
            "{kind: noop, retry: {max_attempts: 5, initial_delay: 2s, max_delay: 1m, backoff: exponential, jitter: true}}",
            ruled("kind: noop", again(5, ", backoff: exponential, delay: 2, max_delay: 60, jitter: true")),
        ),
        (
            "{kind: noop, retry: {attempts: 5, delay: '0.5', backoff: 1.5}}",
            ruled("kind: noop", again(5, ", backoff: exponential, backoff_multiplier: 1.5, delay: 0.5")),
        ),
        (
            "{kind: noop, retry: {attempts: 2, 'on': [timeout, 503]}}",
            ruled(
                "kind: noop",
                again(
                    2,
                    when="outcome.status == 'error' and (((outcome.http.status | default(0)) in [503]) or"
                    " outcome.error.kind in ['timeout'])",
                ),
            ),
        ),
        (
            "{kind: noop, retry: {attempts: 2, retry_when: '{{ error.status == 500 }}', stop_when: '{{ attempt > 1 }}'}}",
            ruled(
                "kind: noop",
                again(2, when="(((outcome.http.status | default(0)) == 500) and not (_attempt > 1)) and _attempt < 2"),
            ),
        ),
        (
            "{kind: noop, retry: 2, spec: {policy: {rules: [{else: {then: {do: continue}}}]}}}",
            f"""{{kind: noop, spec: {{policy: {{rules: [{again(2, when="outcome.status == 'error' and _attempt < 2")}, {{else: {{then: {{do: continue}}}}}}]}}}}}}""",
        ),
        ("{kind: noop, retry: {enabled: false, attempts: 5}, timeout: 5}", "{kind: noop, spec: {timeout: 5}}"),
        (
            "{kind: noop, result: 1, assert: '{{ result == 1 }}'}",
            ruled("kind: noop, result: 1", fails("outcome.result == 1", "assertion failed: result == 1")),
        ),
        (
            "{kind: http, url: u, assert: [{that: '{{ response.n > 0 }}', message: none}, status_code == 200]}",
            ruled(
                "kind: http, url: u",
                fails("outcome.result.data.n > 0", "none"),
                fails("(outcome.http.status | default(0)) == 200", "assertion failed: status_code == 200"),
            ),
        ),
    ],
)  # fmt: skip
def test_a_task(accepted: str, canonical: str | None) -> None:
    if canonical is None:
        assert [e.split(" ")[0] for e in found(one(accepted))] == ["E114"]
    else:
        same(one(accepted), one(canonical))


@pytest.mark.parametrize(
    ("accepted", "canonical"),
    [
        ("{kind: nats, auth: n, operation: kv_get, bucket: b, key: k}", "{kind: kv, action: get, bucket: b, key: k}"),
        ("{kind: nats, operation: kv_put, key: k, value: [1], ttl: 60, url: 'nats://x'}", "{kind: kv, action: put, key: k, value: [1], ttl: 60}"),
        ("{kind: nats, operation: kv_purge, key: '{{ workload.k }}'}", "{kind: kv, action: delete, key: '{{ workload.k }}'}"),
        ("{kind: nats, operation: kv_keys, pattern: 'a.*'}", "{kind: kv, action: list, prefix: a.}"),
        ("{kind: nats, operation: kv_keys, pattern: '>'}", "{kind: kv, action: list}"),
        ("{kind: nats, operation: kv_get, spec: {bucket: b, key: k, timeout: 5}}", "{kind: kv, action: get, bucket: b, key: k, spec: {timeout: 5}}"),
    ],
)  # fmt: skip
def test_key_values_of_nats(accepted: str, canonical: str) -> None:
    same(one(accepted), one(canonical), editors=False)
    told = [m for m in found(one(accepted), "note") if m.startswith("W403")]
    assert len(told) == ("auth" in accepted) + ("url" in accepted)


@pytest.mark.parametrize(
    ("task", "expected"),
    [
        ("{kind: nats, operation: js_publish, subject: s}", 'E118 "nats" is not a tool kind'),
        ("{kind: nats, operation: kv_keys, pattern: '*.a'}", 'E112 pattern of task "a_task" must be a beginning with * after it'),
        (
            "{kind: nats, operation: kv_keys, pattern: '{{ ctx.a }}'}",
            'E112 pattern of task "a_task" must be a beginning with * after it',
        ),
    ],
)
def test_what_of_nats_is_none(task: str, expected: str) -> None:
    assert found(one(task))[0] == expected


PLAIN = "tool: {kind: noop, result: 1}"


@pytest.mark.parametrize(
    ("accepted", "canonical"),
    [
        (f"step: a\ntimeout: 5m\n{PLAIN}", f"step: a\nspec: {{policy: {{lifecycle: {{timeout_s: 300}}}}}}\n{PLAIN}"),
        ("step: a\nretry: 2\ntool: {kind: noop}", "step: a\ntool: " + ruled("kind: noop", again(2))),
        (
            "step: a\nloop: {items: [1], item: x, spec: {mode: parallel, concurrency: 3}}\ntool: {run: {kind: noop}, two: {kind: noop, timeout: 5}}",
            "step: a\nloop: {in: [1], iterator: x, spec: {mode: parallel, max_in_flight: 3}}\ntool: [{run: {kind: noop}}, {two: {kind: noop, spec: {timeout: 5}}}]",
        ),
        ("step: a\nloop:\nargs:\nset:\nspec:\ntool: {kind: python, code: pass, set: null, spec: null, libs: json}\nnext:", "step: a\ntool: {kind: python, code: pass, libs: {json: json}}"),
        ("step: a\nset: {n: 1}\n" + PLAIN, "step: a\nset: {ctx.n: 1}\n" + PLAIN),
        (
            "step: a\nloop: {in: [1], iterator: x, mode: parallel, max_in_flight: 3}\n" + PLAIN,
            "step: a\nloop: {in: [1], iterator: x, spec: {mode: parallel, max_in_flight: 3}}\n" + PLAIN,
        ),
        (
            "step: a\nnext: {mode: inclusive, arcs: [{step: a, when: '{{ args.n }}', set: {m: 1}}]}",
            "step: a\nnext: {spec: {mode: inclusive}, arcs: [{step: a, when: '{{ args.n }}', set: {ctx.m: 1}}]}",
        ),
        (
            "step: a\ntool:\n  - choose: [{when: '{{ ctx.x }}', then: [{kind: noop, timeout: 5}]}, {else: {kind: noop, timeout: 6}}]\n  - while: '{{ ctx.x }}'\n    do: [{w: {kind: noop, timeout: 7}}]",
            "step: a\ntool:\n  - choose: [{when: '{{ ctx.x }}', then: [{kind: noop, spec: {timeout: 5}}]}, {else: {kind: noop, spec: {timeout: 6}}}]\n  - while: '{{ ctx.x }}'\n    do: [{w: {kind: noop, spec: {timeout: 7}}}]",
        ),
        ("step: a\n" + PLAIN + "\ncompensate: {kind: noop, timeout: 5}", "step: a\n" + PLAIN + "\ncompensate: {kind: noop, spec: {timeout: 5}}"),
    ],
)  # fmt: skip
def test_a_step(accepted: str, canonical: str) -> None:
    same(flow(accepted), flow(canonical), editors="items:" not in accepted and "loop:\n" not in accepted)


def test_paths_and_workbooks() -> None:
    book = "workbook: {w: {kind: noop, %s}}\n"
    steps = "workflow: [{step: a, tool: {kind: workbook, task: w, %s}}]\n"
    same(
        HEAD.replace("team/demo", "/team/demo") + book % "timeout: 5" + steps % "timeout: '9'",
        HEAD + book % "spec: {timeout: 5}" + steps % "spec: {timeout: 9}",
    )


@pytest.mark.parametrize(
    ("loop", "reads", "scope"),
    [
        ("loop: {in: [1], iterator: x}", "tool: {kind: noop}", "iter"),
        ("loop: {in: [1], iterator: x}", "tool: {kind: noop, result: '{{ n }}'}", "ctx"),
        ("loop: {in: [1], iterator: x}", "tool: {kind: noop, result: '{{ ctx.n }}'}", "ctx"),
        ("loop: {in: [1], iterator: x}", "tool: {kind: noop, set: {n: 5}}", "ctx"),
        ("", "tool: {kind: noop}", "ctx"),
    ],
)
def test_set_writes_where_it_is_read(loop: str, reads: str, scope: str) -> None:
    def text(key: str, other: str) -> str:
        first = f"step: a\n{loop}\ntool:\n  - {{name: t, kind: noop, set: {{{key}: 1}}}}\n  - {{name: u, kind: noop, result: '{{{{ n }}}}'}}\nnext: {{arcs: [{{step: b}}]}}"
        return flow(first.replace("\n\n", "\n"), f"step: b\n{other}")

    same(text("n", reads), text(f"{scope}.n", reads.replace("{n:", "{ctx.n:")))


def test_set_of_a_pipeline_without_a_loop_is_scratch_where_it_is_read_as_such() -> None:
    def text(key: str) -> str:
        return flow(
            f"step: a\ntool:\n  - {{name: t, kind: noop, set: {{{key}: 1}}}}\n  - {{name: u, kind: noop, result: '{{{{ iter.n }}}}'}}"
        )

    same(text("n"), text("iter.n"))
    assert ran(text("n"))["result"] == 1


# --- what is said -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (HEAD + "tracing: {on: true}\nworkflow: [{step: a, tool: {kind: noop}}]\n", ['"tracing" in the playbook']),
        (
            HEAD + "executor: {profile: local, version: x/1, requires: {features: []}, spec: {final_step: a}}\nworkflow: [{step: a, tool: {kind: noop}}]\n",
            ['"profile" in executor', '"version" in executor', '"requires" in executor', '"final_step" in spec of executor'],
        ),
        (flow("step: a\noutput: {store: {kind: auto}}\ntool: {kind: noop, output: {output_select: [a]}}"), ['"output" in step "a"', '"output" in task "a_task"']),
        (one("{kind: postgres, auth: x, command: SELECT 1, pool: main}"), ['"pool" in task "a_task"']),
        (one("{kind: playbook, path: a/b, return_result: true}"), ['"return_result" in task "a_task"']),
    ],
)  # fmt: skip
def test_what_has_no_effect_is_told(text: str, expected: list[str]) -> None:
    assert found(text) == []
    told = [m for m in found(text, "note") if m.startswith("W403")]
    assert sorted(told) == sorted(f"W403 {name} is accepted but has no effect" for name in expected)
    root = load(text).root
    assert root is not None
    SCHEMA.validate(root.plain())


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (one("{kind: noop, retry: {atempts: 3}}"), 'E110 unknown key "atempts" in retry of task "a_task"'),
        (one("{kind: noop, retry: [3]}"), 'E112 retry of task "a_task" must be a number of attempts or a mapping, not a list'),
        (one("{kind: noop, retry: {attempts: 3, max_attempts: 4}}"), 'E114 retry of task "a_task" says attempts twice'),
        (one("{kind: http, url: u, retry: {on_success: {while: x}}}"), 'E114 "on_success" in retry of task "a_task" asks for another call: retrying repeats the same one'),
        (one("{kind: noop, retry: {retry_when: 'n >'}}"), "E301 template: unexpected 'end of print statement'"),
        (one("{kind: noop, retry: {backoff: sometimes}}"), 'E113 backoff of retry of task "a_task" cannot be "sometimes"'),
        (one("{kind: noop, timeout: 5, spec: {timeout: 6}}"), "E114 the task has timeout and spec.timeout"),
        (one("{kind: noop, timeout: soon}"), 'E112 spec of task "a_task".timeout (seconds) must be a number, not text'),
        (one("{kind: noop, assert: {mesage: x}}"), 'E110 unknown key "mesage" in assert of task "a_task"'),
        (one("{kind: noop, assert: [{message: x}]}"), 'E111 assert of task "a_task" has no condition'),
        (one("{kind: python, code: pass, libs: [5]}"), 'E112 a library of task "a_task" must be a module'),
        (one("{kind: http, url: u, credential: a, auth: b}"), 'E114 task "a_task" has credential and auth'),
        (one("{kind: playbook, path: a, return_step: x, detach: true}"), 'E114 task "a_task" has return_step and detach'),
        (flow("step: a\nretry: 3\ntool: [{kind: noop}, {kind: noop}]"), 'E114 retry of step "a" says not which of its tasks is tried again'),
        (flow("step: a\nassert: '{{ ctx.a }}'\nnext: {arcs: [{step: a}]}"), 'E114 assert of step "a" has no task whose result it could be about'),
        (flow("step: a\nnext: {spec: {on_no_match: {step: b}}, arcs: [{step: a}]}"), 'E113 on_no_match of step "a" is neither fail nor end'),
    ],
)  # fmt: skip
def test_what_is_refused(text: str, expected: str) -> None:
    assert found(text)[0] == expected


# --- runs ---------------------------------------------------------------------------------------------------------------


def test_a_task_is_tried_again_and_then_gives_its_result() -> None:
    service = Service((503, None), (503, None), (200, {"n": 1}))
    out = ran(
        one("{kind: http, url: http://x, retry: {max_attempts: 3, retry_when: '{{ status_code in [502, 503] }}'}}"), service
    )
    assert (out["status"], len(service.calls)) == ("completed", 3)


def test_a_task_that_stays_wrong_fails_with_its_own_error_or_as_its_rules_say() -> None:
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
def test_an_assertion_fails_what_does_not_hold(place: str, asserted: str, message: str | None) -> None:
    out = ran(flow(place % asserted))
    assert out["status"] == ("completed" if message is None else "failed")
    assert message is None or (out["error"]["kind"], out["error"]["message"]) == ("schema", message)


def test_what_is_expected_leaves_prev_and_names_as_they_were() -> None:
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
def test_what_returns_from_a_sub_playbook_is_chosen(task: str, expected: Any) -> None:
    out = ran(one(task), others=(CHILD,), payload={"wanted": "score", "where": "team"})
    assert (out["status"], out["result"]) == ("completed", expected)


def test_a_step_that_the_sub_playbook_has_not() -> None:
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


# --- robust -------------------------------------------------------------------------------------------------------------


def test_an_anchored_task_is_changed_once_and_for_each_of_its_uses() -> None:
    text = HEAD + (
        "x-http: &call {kind: http, url: u, timeout: 5, retry: 2}\n"
        "workflow:\n  - step: a\n    tool: *call\n    next: {arcs: [{step: b}]}\n  - step: b\n    tool: *call\n"
    )
    first, second = parse_playbook(text).steps
    assert first.tasks[0].timeout_s == second.tasks[0].timeout_s == 5
    assert first.tasks[0].policy == second.tasks[0].policy is not None
    migrated = migrate(text)
    assert not migrated.failed, migrated.diagnostics
    assert parse_playbook(migrated.text) == parse_playbook(text)


def test_what_a_merge_key_brings_runs_and_is_not_rewritten() -> None:
    text = (
        HEAD
        + "x-all: &all {timeout: 5, retry: 2}\nworkflow:\n  - step: a\n    tool: {<<: *all, kind: noop}\n  - step: b\n    tool: {<<: *all, kind: noop}\n"
    )
    a, b = parse_playbook(text).steps
    assert a.tasks[0].timeout_s == b.tasks[0].timeout_s == 5
    migrated = migrate(text)
    assert [d.code for d in migrated.diagnostics] == ["E127"]
    assert migrated.text == text


def of_task(key: str, value: Any) -> str:
    return one(json.dumps({"kind": "http", "url": "u", key: value}))


def of_step(key: str, value: Any) -> str:
    return flow(f"step: a\n{key}: {json.dumps(value)}\n" + ("" if key == "tool" else PLAIN))


WRONG = [(of_task, key) for key in ("timeout", "retry", "assert", "spec", "libs", "set", "output", "credential")]
WRONG += [(of_step, key) for key in ("timeout", "retry", "assert", "set", "output", "loop", "compensate", "next", "tool")]


@pytest.mark.parametrize(("made", "key"), WRONG, ids=lambda part: part if isinstance(part, str) else part.__name__)
@pytest.mark.parametrize(
    "value", [None, 0, -1, True, "", "x", "{{ x", "{{ x }}", [], [None], [[]], {}, {"a": None}, {"spec": 5}, {"rules": {}}]
)
def test_nothing_that_is_written_stops_the_reader(made: Callable[[str, Any], str], key: str, value: Any) -> None:
    text = made(key, value)
    check(text)
    migrated = migrate(text)
    assert migrated.failed or check(migrated.text)[0] is not None or migrated.text == text
