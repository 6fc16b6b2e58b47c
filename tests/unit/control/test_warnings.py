"""Warnings of executions: what went wrong without failing anything, counted and named (docs/warnings.md)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from noetl_core.control.admit import StartRequest, register
from noetl_core.control.lifecycle.redrive import redrive
from noetl_core.engine.redrive.plan import From, Redrive
from noetl_core.engine.snapshots import restore, snapshot
from noetl_core.engine.warnings import MAX_GROUPS, added, count_of, merged, warnings_of
from noetl_core.runtime.local import LocalWiring
from noetl_core.views.executions import executions
from noetl_core.views.explain.replay import replay
from noetl_core.views.explain.why import why

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: { name: w, path: t/w }\n"
RAISES = "name: fetch, kind: python, code: \"raise ValueError('401')\""


@pytest.fixture
def local() -> Iterator[LocalWiring]:
    wiring = LocalWiring()
    yield wiring
    wiring.close()


def run(local: LocalWiring, body: str, **more: Any) -> dict[str, Any]:
    started = local.start(StartRequest(playbook=HEAD + body, **more))
    local.run(started.execution_id)
    assert replay(local.control, started.execution_id).differences == ()
    (head,) = local.control.index.heads(path="t/w")
    summary = executions.summary(local.control, started.execution_id)
    assert head.warnings == summary.get("warnings", {"count": 0})["count"]
    return summary


def passed(then: str) -> str:
    policy = f"spec: {{ policy: {{ rules: [{{ when: \"{{{{ outcome.status == 'error' }}}}\", then: {then} }}] }} }}"
    return f"workflow: [{{ step: load, tool: [{{ {RAISES}, {policy} }}, {{ name: after, kind: noop, result: 1 }}] }}]\n"


PASSED = {"code": "error_passed", "kind": "python", "message": "ValueError: 401", "count": 1}


HANDLED = f"""\
workflow:
  - step: load
    tool: {{ {RAISES} }}
    next: {{ arcs: [{{ step: undo, when: "{{{{ event.name == 'step.failed' }}}}" }}] }}
  - {{ step: undo, tool: {{ kind: noop }} }}
"""


@pytest.mark.parametrize("then", ["{ do: continue }", "{ do: break }"])
def test_an_error_that_a_policy_lets_pass_is_a_warning(local: LocalWiring, then: str) -> None:
    out = run(local, passed(then))
    (group,) = out["warnings"]["groups"]
    assert (out["status"], out["warnings"]["count"]) == ("completed", 1)
    assert group == {**PASSED, "error_code": "ValueError", "step": "load", "task": "fetch"}
    (fact,) = why(local.control, out["execution_id"])["facts"]
    assert (fact["fact"], fact["line"]) == ("warning", 4)
    assert fact["text"] == "load/fetch failed, and its policy let it pass: python: ValueError: 401"


def test_a_policy_without_a_rule_for_an_error_is_named(local: LocalWiring) -> None:
    out = run(local, passed("{ do: retry }").replace("== 'error'", "== 'none'"))
    (fact,) = why(local.control, out["execution_id"])["facts"]
    assert (
        fact["text"]
        == "load/fetch failed: ValueError: 401; the run went on, because its policy has no rule for this, only for outcome.status == 'none'"
    )


def test_an_error_that_no_rule_matches_is_a_warning(local: LocalWiring) -> None:
    policy = 'spec: { policy: { rules: [{ when: "{{ outcome.http.status == 429 }}", then: { do: retry } }] } }'
    out = run(local, f"workflow: [{{ step: load, tool: {{ {RAISES}, {policy} }} }}]\n")
    assert [(g["code"], g["task"]) for g in out["warnings"]["groups"]] == [("error_passed", "fetch")]


@pytest.mark.parametrize(
    "body",
    [
        "workflow: [{ step: load, tool: { kind: noop } }]\n",
        passed("{ do: jump, to: after }"),
        HANDLED,
    ],
)
def test_a_handled_error_is_no_warning(local: LocalWiring, body: str) -> None:
    assert "warnings" not in run(local, body)


@pytest.mark.parametrize("spread", ["auto", "distributed"])
def test_failed_iterations_are_counted_and_named_by_the_first(local: LocalWiring, spread: str) -> None:
    spec = f"{{ chunk_size: 10, mode: parallel, policy: {{ exec: {spread}, failure: {{ mode: best_effort }} }} }}"
    loop = f'{{ in: "{{{{ range(50) | list }}}}", iterator: n, spec: {spec} }}'
    body = f'workflow: [{{ step: each, loop: {loop}, tool: {{ name: divide, kind: noop, result: "{{{{ 1 / (iter.n % 10) }}}} {{{{ undef }}}}" }} }}]\n'
    out = run(local, body)
    groups = {g["code"]: g for g in out["warnings"]["groups"]}
    assert (out["status"], out["steps"]["each"]["loop"]["failed"], out["warnings"]["count"]) == ("completed", 5, 50)
    assert (groups["iteration_failed"]["count"], groups["iteration_failed"]["iteration"]) == (5, [0])
    assert (groups["undefined"]["count"], groups["undefined"]["task"]) == (45, "divide")


def test_undefined_names_of_the_control_plane_are_named_with_their_step(local: LocalWiring) -> None:
    body = (
        'workload: { url: "https://{{ host }}/" }\n'
        'executor: { spec: { result: "r{{ workload.uri }}" } }\n'
        "workflow:\n"
        '  - { step: one, args: { a: "a{{ nothing }}" }, tool: { kind: noop }, next: { arcs: [{ step: two, args: { b: "b{{ steps.oen.result }}" } }] } }\n'
        "  - { step: two, tool: { kind: noop } }\n"
    )
    out = run(local, body)
    assert [(g.get("step"), g["message"]) for g in out["warnings"]["groups"]] == [
        (None, "host is undefined in https://{{ host }}/"),
        (None, "workload.uri is undefined in r{{ workload.uri }}"),
        ("one", "nothing is undefined in a{{ nothing }}"),
        ("one", "steps.oen is undefined in b{{ steps.oen.result }}"),
    ]


ROWS = """\
EXECUTOR
workflow:
  - step: first
    tool: { name: rows, kind: python, code: "result = {'rows': [1, 2]}" }
    next: { arcs: [{ step: two ARC }] }
  - { step: two, tool: TASK }
"""
DATA = "steps.first.result.data"


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("task", "arc", "executor", "template", "step"),
    [
        (f'{{ kind: noop, result: "x {{{{ {DATA} }}}}" }}', "", "", f"x {{{{ {DATA} }}}}", "two"),
        (f'{{ kind: noop, result: "{{{{ {DATA} | length }}}}" }}', "", "", f"{{{{ {DATA} | length }}}}", "two"),
        (f'{{ kind: noop, result: "{{{{ {DATA} | list }}}}" }}', "", "", f"{{{{ {DATA} | list }}}}", "two"),
        (
            f'{{ kind: noop, result: "{{% for r in {DATA} %}}{{{{ r }}}}{{% endfor %}}" }}',
            "",
            "",
            f"{{% for r in {DATA} %}}{{{{ r }}}}{{% endfor %}}",
            "two",
        ),
        (f'{{ kind: noop, set_ctx: {{ v: "{{{{ {DATA} }}}}" }} }}', "", "", f"{{{{ {DATA} }}}}", "two"),
        (f'{{ kind: noop, set_ctx: {{ v: {{ w: "{{{{ {DATA} }}}}" }} }} }}', "", "", f"{{{{ {DATA} }}}}", "two"),
        (f'{{ kind: noop, set_ctx: {{ v: "{{{{ [{DATA}] }}}}" }} }}', "", "", f"{{{{ [{DATA}] }}}}", "two"),
        ("{ kind: noop }", ', args: { a: "{{ event.result.data }}" }', "", "{{ event.result.data }}", "first"),
        ("{ kind: noop }", "", f'executor: {{ spec: {{ result: "{{{{ {DATA} }}}}" }} }}', f"{{{{ {DATA} }}}}", None),
    ],
    ids=["text", "length", "list", "for", "set_ctx", "below set_ctx", "in a list", "arc", "result"],
)
def test_a_field_that_a_result_does_not_have_is_a_warning_where_it_counts_as_empty(
    local: LocalWiring, task: str, arc: str, executor: str, template: str, step: str | None
) -> None:
    out = run(local, ROWS.replace("EXECUTOR", executor).replace("ARC", arc).replace("TASK", task))
    name = "event.result.data" if "event" in template else DATA
    assert out["status"] == "completed"
    (group,) = out["warnings"]["groups"]
    assert (group["code"], group["message"], group.get("step")) == ("undefined", f"{name} is undefined in {template}", step)


@pytest.mark.parametrize(
    "task",
    [
        f'{{ kind: noop, result: "{{{{ {DATA} | default([]) | length }}}}" }}',
        f'{{ kind: noop, result: "{{{{ {DATA} or [] }}}}" }}',
        f'{{ kind: noop, result: "{{{{ {DATA} is defined }}}}" }}',
        f"{{ kind: noop, result: \"{{{{ 'a' if {DATA} else 'b' }}}}\" }}",
        f'{{ kind: noop, spec: {{ policy: {{ rules: [{{ when: "{{{{ {DATA} | length > 3 }}}}", then: {{ do: fail }} }}] }} }} }}',
    ],
)
def test_testing_whether_a_name_is_defined_is_no_warning(local: LocalWiring, task: str) -> None:
    assert "warnings" not in run(local, ROWS.replace("EXECUTOR", "").replace("ARC", "").replace("TASK", task))


def test_search_attributes_and_keys_of_deduplication_may_be_undefined(local: LocalWiring) -> None:
    executor = 'executor: { spec: { search: { customer: "{{ ctx.customer }}" } } }'
    body = ROWS.replace("EXECUTOR", executor).replace("TASK", "{ kind: noop }")
    body = body.replace(
        "arcs: [{ step: two ARC }]", 'spec: { policy: { dedupe: "{{ event.result.key }}" } }, arcs: [{ step: two }]'
    )
    assert "warnings" not in run(local, body)


def test_a_task_that_waits_keeps_its_warnings(local: LocalWiring) -> None:
    register(local.control, HEAD.replace("t/w", "t/child") + "workflow: [{ step: a, tool: { kind: noop } }]\n")
    out = run(local, 'workflow: [{ step: a, tool: { kind: playbook, path: t/child, payload: { x: "a{{ undef }}" } } }]\n')
    assert [g["message"] for g in out["warnings"]["groups"]] == ["undef is undefined in a{{ undef }}"]


def test_a_secret_is_no_part_of_a_warning(local: LocalWiring, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    body = (
        "keychain: [{ name: k, kind: static, data: { token: sesame-17 } }]\n"
        'workflow: [{ step: a, tool: { kind: python, args: { x: "a{{ ctx[keychain.k.token] }}" }, code: "result = 1" } }]\n'
    )
    out = run(local, body)
    assert [g["message"] for g in out["warnings"]["groups"]] == ["something is undefined in a{{ ctx[keychain.k.token] }}"]
    assert "sesame" not in json.dumps(out["warnings"])


def test_a_redriven_step_begins_without_warnings(local: LocalWiring) -> None:
    out = run(local, passed("{ do: continue }"))
    redrive(local.control, out["execution_id"], Redrive(From("load")))
    local.run(out["execution_id"])
    assert executions.summary(local.control, out["execution_id"])["warnings"]["count"] == 1


def test_snapshots_keep_warnings(local: LocalWiring) -> None:
    out = run(local, passed("{ do: continue }"))
    state = local.control.load(out["execution_id"])
    again = restore(snapshot(state))
    assert warnings_of(again) == warnings_of(state) == out["warnings"]


def test_equal_warnings_form_one_group_and_groups_are_bounded() -> None:
    def group(message: str) -> Any:
        return {"code": "undefined", "message": message, "count": 1}

    known = added(None, (group(f"{letter} row {n}") for n in range(30) for letter in "abcdefghijklmn"))
    assert known is not None
    assert (known["count"], len(known["groups"])) == (420, MAX_GROUPS)
    assert known["groups"][0] == {"code": "undefined", "message": "a row 0", "count": 30}
    both = merged(known, known)
    assert both is not None
    assert (both["count"], both["groups"][0]["count"], known["groups"][0]["count"]) == (840, 60, 30)


ALERT = (
    HEAD.replace("t/w", "ops/alert")
    + "workload: { failure: {} }\nworkflow: [{ step: tell, tool: { kind: noop, result: '{{ workload.failure }}' } }]\n"
)


@pytest.mark.parametrize(("also", "told"), [("", False), (", also: warnings", True)])
def test_the_on_failure_playbook_receives_warnings_only_on_request(local: LocalWiring, also: str, told: bool) -> None:
    register(local.control, ALERT)
    out = run(local, f"executor: {{ spec: {{ on_failure: {{ playbook: ops/alert{also} }} }} }}\n" + passed("{ do: continue }"))
    assert ("on_failure" in out) == told
    if told:
        failure = executions.summary(local.control, out["on_failure"]["execution_id"])["result"]
        assert failure["warnings"] == out["warnings"]
        assert failure["error"]["kind"] == "warnings"
        assert failure["error"]["message"] == "completed with 1 warning, the first: ValueError: 401"


def test_the_end_is_counted_once(local: LocalWiring) -> None:
    ends: list[int] = []
    local.control.on_end = lambda state: ends.append(count_of(state))
    out = run(local, passed("{ do: continue }"))
    local.control.route(out["execution_id"])
    assert ends == [1]
