"""Strict executions: undefined values, and errors that no rule matches, are failures (docs/language/playbook.md, "Strict")."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from noetl_core.control.admit import StartRequest, register
from noetl_core.engine.records import StreamId, request_of
from noetl_core.engine.workload import BadWorkload
from noetl_core.runtime.local import LocalWiring
from noetl_core.views.executions import executions
from noetl_core.views.explain.replay import replay
from noetl_core.views.steps.render import render_context

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: { name: s, path: t/s }\n"
FAILS = '{ kind: python, code: "raise ValueError(\'no\')", spec: { policy: { rules: [{ when: "{{ RULE }}", then: { do: continue } }] } } }'


@pytest.fixture
def local() -> Iterator[LocalWiring]:
    wiring = LocalWiring()
    yield wiring
    wiring.close()


def run(local: LocalWiring, body: str, *, strict: bool = True, **payload: Any) -> dict[str, Any]:
    started = local.start(StartRequest(playbook=HEAD + body, payload=payload, strict=strict))
    local.run(started.execution_id)
    assert replay(local.control, started.execution_id).differences == ()
    return executions.summary(local.control, started.execution_id)


def step(tool: str, more: str = "") -> str:
    return f"workflow:\n  - step: one\n    tool: {tool}\n{more}"


@pytest.mark.parametrize(
    "body",
    [
        step('{ kind: noop, result: "/orders/{{ undef }}/y" }'),
        step('{ kind: noop, result: ["a {{ undef }}"] }'),
        step("{ kind: noop, result: \"{{ 'a' if undef else 'b' }}\" }"),
        step('{ kind: noop, result: 1, set_ctx: { a: "{{ undef }}" } }'),
        step(FAILS.replace("RULE", "undef.status == 429")),
        step(
            "{ kind: noop }",
            '    next: { arcs: [{ step: two, when: "{{ undef }}" }] }\n  - { step: two, tool: { kind: noop } }\n',
        ),
        step(
            "{ kind: noop }",
            '    next: { arcs: [{ step: two, args: { a: "{{ undef }}" } }] }\n  - { step: two, tool: { kind: noop } }\n',
        ),
        step("{ kind: noop }", '    args: { a: "x{{ undef }}" }\n'),
        step('{ kind: noop, result: "{{ iter.n }}" }', '    loop: { in: "{{ undef or [1] }}", iterator: n }\n'),
        'executor: { spec: { result: "{{ undef }}" } }\n' + step("{ kind: noop }"),
    ],
)
def test_an_undefined_name_fails_with_its_name(local: LocalWiring, body: str) -> None:
    out = run(local, body)
    assert (out["status"], out["error"]["kind"]) == ("failed", "template")
    assert "'undef' is undefined" in out["error"]["message"]


def test_without_strict_the_same_text_is_rendered_without_it(local: LocalWiring) -> None:
    body = step('{ kind: noop, result: "/orders/{{ undef }}/y" }')
    assert run(local, body, strict=False)["result"] == "/orders//y"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("x{{ undef | default('d') }}", "xd"),
        ("{{ 'a' if undef is defined else 'b' }}", "b"),
        ("{{ ctx.get('n', 3) }}", 3),
        ("{{ workload.get('n') }}", None),
    ],
)
def test_templates_that_allow_for_a_missing_name_are_rendered(local: LocalWiring, text: str, value: Any) -> None:
    assert run(local, step(f'{{ kind: noop, result: "{text}" }}'))["result"] == value


@pytest.mark.parametrize(
    "rule", ["outcome.http.status == 429", "outcome.error.code == 429", "outcome.status == 'ok' and outcome.result.x == 1"]
)
def test_an_error_that_no_rule_matches_fails_the_step(local: LocalWiring, rule: str) -> None:
    body = step(FAILS.replace("RULE", rule))
    assert run(local, body, strict=False)["status"] == "completed"
    out = run(local, body)
    assert (out["status"], out["error"]["kind"]) == ("failed", "python")


def test_a_policy_with_on_unmatched_continue_continues(local: LocalWiring) -> None:
    body = step(FAILS.replace("RULE", "outcome.http.status == 429").replace("rules:", "on_unmatched: continue, rules:"))
    assert run(local, body)["status"] == "completed"


def test_a_default_of_the_workload_is_strict_too(local: LocalWiring) -> None:
    with pytest.raises(BadWorkload, match="'undef' is undefined"):
        run(local, 'workload: { url: "https://{{ undef }}/" }\n' + step("{ kind: noop }"))


def test_the_start_records_strict_and_children_inherit_it(local: LocalWiring) -> None:
    register(local.control, HEAD.replace("t/s", "t/child") + step('{ kind: noop, result: "x{{ undef }}" }'))
    body = step("{ kind: playbook, path: t/child }")
    out = run(local, body)
    assert request_of(local.store.read(StreamId(out["execution_id"]), limit=1)[0])["strict"] is True
    assert (out["status"], out["strict"]) == ("failed", True)
    lenient = run(local, body, strict=False)
    assert (lenient["status"], "strict" in lenient) == ("completed", False)
    assert "strict" not in request_of(local.store.read(StreamId(lenient["execution_id"]), limit=1)[0])


@pytest.mark.parametrize(
    ("stack", "playbook", "status"), [(True, None, "failed"), (True, False, "completed"), (False, True, "failed")]
)
def test_the_playbook_comes_before_the_stack(local: LocalWiring, stack: bool, playbook: bool | None, status: str) -> None:
    local.control.strict = stack
    spec = "" if playbook is None else f"executor: {{ spec: {{ strict: {str(playbook).lower()} }} }}\n"
    assert run(local, spec + step('{ kind: noop, result: "x{{ undef }}" }'), strict=False)["status"] == status


def test_search_attributes_and_templates_that_people_try_may_be_undefined(local: LocalWiring) -> None:
    out = run(local, 'executor: { spec: { search: { customer: "{{ ctx.customer }}" } } }\n' + step("{ kind: noop }"))
    assert (out["status"], out["search"]) == ("completed", {})
    assert "search_left_out" not in out
    tried = render_context(local.control, out["execution_id"], "{{ ctx.nothing }}")
    assert tried["value"] is None
    assert [each["name"] for each in tried["undefined"]] == ["ctx.nothing"]


CALLED = (
    "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: { name: c, path: t/c }\nworkload: { customer: { id: 0 } }\n"
    "workflow: [{ step: a, tool: { kind: noop, result: '{{ workload.customer }}' } }]\n"
)


@pytest.mark.parametrize("more", ["", ", detach: true", ", detach: true, idempotency_key: k"])
def test_a_payload_key_that_a_called_playbook_does_not_have_fails_the_task(local: LocalWiring, more: str) -> None:
    register(local.control, CALLED)
    body = step("{ kind: playbook, path: t/c, payload: { custmer: 7 }" + more + " }")
    out = run(local, body)
    assert (out["status"], out["error"]["kind"], out["error"]["task"]) == ("failed", "schema", "one_task")
    assert (
        out["error"]["message"]
        == 'playbook t/c failed: the workload of t/c: workload has no "custmer" (did you mean "customer"?)'
    )
    assert run(local, body, strict=False)["status"] == "completed"


@pytest.mark.parametrize(
    "payload", ["{ customer: 7 }", "{ customer: { idd: 7 } }", "{ s3: 1 }", "{ customer: '{{ range(20000) | list }}' }"]
)
def test_a_payload_with_keys_that_a_called_playbook_has_is_taken(local: LocalWiring, payload: str) -> None:
    register(local.control, CALLED)
    assert run(local, step("{ kind: playbook, path: t/c, payload: " + payload + " }"))["status"] == "completed"


def test_a_child_called_in_an_iteration_receives_its_iter_besides(local: LocalWiring) -> None:
    register(local.control, CALLED)
    body = step("{ kind: playbook, path: t/c, payload: { customer: '{{ iter.n }}' } }", "    loop: { in: [1, 2], iterator: n }\n")
    assert run(local, body)["status"] == "completed"
