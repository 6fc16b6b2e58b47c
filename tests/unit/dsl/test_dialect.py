"""The dialect of the field: each accepted form is the canonical one, and what has no effect is reported."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from noetl_core.dsl.parse import check, parse_playbook
from noetl_core.dsl.reading.load import load
from noetl_migrate import migrate
from tests.unit.dsl.broken_playbooks import HEAD, flow
from tests.unit.dsl.dialect import PLAIN, SCHEMA, again, fails, found, one, ruled, same


@pytest.mark.one_in(3)
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
        (
            "{kind: nats, operation: kv_keys, pattern: '*.a'}",
            'E112 pattern of task "a_task" must be the beginning of keys, then *',
        ),
        (
            "{kind: nats, operation: kv_keys, pattern: '{{ ctx.a }}'}",
            'E112 pattern of task "a_task" must be the beginning of keys, then *',
        ),
    ],
)
def test_nats_operations_that_key_values_cannot_express_are_refused(task: str, expected: str) -> None:
    assert found(one(task))[0] == expected


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
def test_options_without_effect_are_noted(text: str, expected: list[str]) -> None:
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
        (flow("step: a\nretry: 3\ntool: [{kind: noop}, {kind: noop}]"), 'E114 retry of step "a" does not say which of its tasks to try again'),
        (flow("step: a\nassert: '{{ ctx.a }}'\nnext: {arcs: [{step: a}]}"), 'E114 assert of step "a" has no task whose result it could check'),
        (flow("step: a\nnext: {spec: {on_no_match: {step: b}}, arcs: [{step: a}]}"), 'E113 on_no_match of step "a" is neither fail nor end'),
    ],
)  # fmt: skip
def test_invalid_options_are_refused(text: str, expected: str) -> None:
    assert found(text)[0] == expected


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


def of_task(key: str, value: Any) -> str:
    return one(json.dumps({"kind": "http", "url": "u", key: value}))


def of_step(key: str, value: Any) -> str:
    return flow(f"step: a\n{key}: {json.dumps(value)}\n" + ("" if key == "tool" else PLAIN))


WRONG = [(of_task, key) for key in ("timeout", "retry", "assert", "spec", "libs", "set", "output", "credential")]


WRONG += [(of_step, key) for key in ("timeout", "retry", "assert", "set", "output", "loop", "compensate", "next", "tool")]


@pytest.mark.one_in(4)
@pytest.mark.parametrize(("made", "key"), WRONG, ids=lambda part: part if isinstance(part, str) else part.__name__)
@pytest.mark.parametrize(
    "value", [None, 0, -1, True, "", "x", "{{ x", "{{ x }}", [], [None], [[]], {}, {"a": None}, {"spec": 5}, {"rules": {}}]
)
def test_nothing_that_is_written_stops_the_reader(made: Callable[[str, Any], str], key: str, value: Any) -> None:
    text = made(key, value)
    check(text)
    migrated = migrate(text)
    assert migrated.failed or check(migrated.text)[0] is not None or migrated.text == text
