"""Args of a step with a loop that read its iterator: they belong to the iteration."""

from __future__ import annotations

from typing import Any

import pytest

from noetl_core.dsl.dump import dump
from noetl_core.dsl.parse import check, parse_playbook
from noetl_core.views.executions import executions
from tests.running import run_text
from tests.unit.dsl.broken_playbooks import HEAD


def results(body: str, **payload: Any) -> Any:
    local, state = run_text(HEAD + body, payload)
    try:
        out = executions.summary(local.control, state.execution_id)
        assert out["error"] is None
        return out["steps"]["each"]["result"]
    finally:
        local.close()


SPECS = ["{mode: sequential}", "{mode: parallel}", "{mode: parallel, policy: {exec: distributed}}"]


@pytest.mark.one_in(3)
@pytest.mark.parametrize("spec", SPECS)
@pytest.mark.parametrize("kind", ["noop", "python"])
def test_an_arg_named_like_the_iterator_is_the_element(spec: str, kind: str) -> None:
    use = "result: '{{ city }}'" if kind == "noop" else "args: {c: '{{ args.city }}'}, code: 'result = c'"
    body = f"""
workflow:
  - step: each
    loop: {{ in: [a, b, c], iterator: city, spec: {spec} }}
    args: {{ city: "{{{{ city }}}}" }}
    tool: {{ kind: {kind}, {use} }}
"""
    assert results(body) == ["a", "b", "c"]


def test_args_combine_step_values_with_values_of_the_iteration() -> None:
    body = """
workload: { base: x }
workflow:
  - step: start
    tool: { kind: noop }
    next: { arcs: [{ step: each, args: { given: 7, over: token } }] }
  - step: each
    loop: { in: [{ n: 1 }, { n: 2 }], iterator: row }
    args:
      plain: "{{ workload.base }}"
      n: "{{ row.n * 10 }}"
      at: "{{ iter.index }}"
      over: "{{ row.n }}"
      deep: { list: ["{{ iter.row.n }}", "{{ plain }}"] }
    tool:
      - { name: one, kind: noop, result: "{{ [plain, n, at, given, over, deep.list] }}" }
      - { name: two, kind: noop, result: "{{ one + [args.n] }}", set_ctx: { last: "{{ args.n }}" },
          spec: { policy: { rules: [{ when: "{{ args.n > 0 }}", then: { do: continue } }, { else: { then: { do: fail } } }] } } }
"""
    text = body.replace(
        "in: [{ n: 1 }, { n: 2 }], iterator: row", "in: [{ n: 1 }, { n: 2 }], iterator: row, spec: { mode: sequential }"
    )
    assert results(text) == [["x", 10, 0, 7, "token", [1, "x"], 10], ["x", 20, 1, 7, "token", [2, "x"], 20]]


def test_the_element_of_an_inner_loop_is_known_too() -> None:
    body = """
workflow:
  - step: each
    loop: { in: [1, 2], iterator: a, loop: { in: [10, 20], iterator: b } }
    args: { sum: "{{ iter.parent.a + b }}" }
    tool: { kind: noop, result: "{{ sum }}" }
"""
    assert results(body) == [[11, 21], [12, 22]]


def test_an_arg_that_cannot_be_evaluated_fails_its_iteration() -> None:
    body = """
workflow:
  - step: each
    loop: { in: [1, 0], iterator: n }
    args: { q: "{{ 1 // n }}" }
    tool: { kind: noop, result: "{{ q }}" }
"""
    local, state = run_text(HEAD + body)
    try:
        out = executions.summary(local.control, state.execution_id)
        assert (out["status"], out["error"]["kind"]) == ("failed", "template")
        assert "{{ 1 // n }}" in out["error"]["message"]
    finally:
        local.close()


def test_lint_knows_where_such_args_are_bound_and_where_not() -> None:
    text = (
        HEAD
        + """
workload: { x: 1 }
workflow:
  - step: each
    loop: { in: "{{ [workload.x] }}", iterator: row }
    args: { n: "{{ row.n }}", m: "{{ rwo.m }}", i: "{{ iter.rwo }}" }
    tool: { kind: noop, result: "{{ args.n }}" }
    next: { arcs: [{ step: each, when: "{{ args.n > 1 }}" }] }
"""
    )
    assert [(d.code, d.message) for d in check(text)[1] if d.code == "W515"] == [
        ("W515", 'nothing binds "rwo" in args of a step'),
        ("W515", "nothing binds iter.rwo"),
        ("W515", "nothing binds args.n"),
    ]
    assert parse_playbook(dump(parse_playbook(text))) == parse_playbook(text)


@pytest.mark.parametrize("spec", SPECS)
def test_a_result_of_iter_or_ctx_keeps_its_value_after_later_writes(spec: str) -> None:
    look = "kind: noop, result: { iter: '{{ iter }}', ctx: '{{ ctx }}' }"
    write = "set_iter: { n: '{{ (iter.n or 0) + 1 }}' }, set_ctx: { n: '{{ (ctx.n or 0) + 1 }}' }"
    body = f"""
workflow:
  - step: each
    loop: {{ in: [a], iterator: city, spec: {spec} }}
    tool:
      - {{ name: one, {look}, {write} }}
      - {{ name: two, {look}, {write} }}
      - {{ name: all, kind: noop, result: ["{{{{ one }}}}", "{{{{ two }}}}"], {write} }}
"""
    begun = {"city": "a", "index": 0}
    assert results(body) == [[{"iter": begun, "ctx": {}}, {"iter": {**begun, "n": 1}, "ctx": {"n": 1}}]]
