"""W515 by the shapes of values: a misspelt field is found wherever it is read, at its place."""

from __future__ import annotations

from time import process_time

import pytest

from noetl_core.dsl.model import Playbook
from noetl_core.dsl.parse import check, parse_playbook
from noetl_core.dsl.versions import Version
from tests.unit.docs.language import completed

CHILD = """
executor: { spec: { result: { total: "{{ steps.work.result }}", parts: [{ size: 1 }] } } }
workload: { n: 0 }
workflow: [{ step: work, tool: { kind: noop, result: "{{ workload.n }}" } }]
"""


def called(path: str, _version: Version) -> Playbook | None:
    return parse_playbook(completed(CHILD)) if path == "docs/child" else None


def reads(template: str, first: str, *, workload: str = "{ top: null }", loop: str = "", args: str = "") -> list[str]:
    """Return what is found where a second step reads `template`, after a first step with the task `first`."""
    text = f"""
workload: {workload}
workflow:
  - step: a
    {loop}
    tool: {first}
    next: {{ arcs: [{{ step: b{args} }}] }}
  - step: b
    tool: {{ kind: noop, result: {{ value: "{template}", top: "{{{{ workload.top }}}}" }} }}
"""
    playbook, found = check(completed(text), called=called)
    assert playbook is not None, found
    return [str(d).partition(" W515 ")[2] for d in found if d.code == "W515"]


SQL = "{ kind: postgres, auth: x, command: 'SELECT Id, count(*) AS n, t.\"Name\" FROM t GROUP BY 1, 3' }"
DUCK = "{ kind: duckdb, command: 'SELECT 1 AS one, 2 AS \"Two\"' }"
NESTED = "{ kind: noop, result: { order: { id: 1, lines: [{ sku: a }, { sku: b, price: 2 }] } } }"
LLM = "{ kind: llm, url: 'http://x/v1', model: m, prompt: p, schema: { type: object, properties: { topic: { type: string } }, additionalProperties: false } }"
ASK = "{ kind: callback, schema: { type: object, properties: { approved: { type: boolean } } } }"
CALL = "{ kind: playbook, path: docs/child, payload: { n: 1 } }"
LOOP = "loop: { in: [1, 2], iterator: n }"
ROW = "{ kind: noop, result: { name: x, size: '{{ iter.n }}' } }"


@pytest.mark.parametrize(
    ("template", "first", "message"),
    [
        ("{{ steps.a.result.order.idd }}", NESTED, 'steps.a.result.order has no idd (did you mean "id"?)'),
        ("{{ a.order.lines[0].skuu }}", NESTED, 'steps.a.result.order.lines[0] has no skuu (did you mean "sku"?)'),
        ("{{ a.order.lines | map(attribute='prise') | list }}", NESTED, 'an element of steps.a.result.order.lines has no prise (did you mean "price"?)'),
        ("{{ (a.order.lines | first).skuu }}", NESTED, 'steps.a.result.order.lines | first has no skuu (did you mean "sku"?)'),
        ("{% for line in a.order.lines %}{{ line.amount }}{% endfor %}", NESTED, "line has no amount (it has price, sku)"),
        ("{{ steps.a.result.rows[0].idd }}", SQL, 'steps.a.result.rows[0] has no idd (did you mean "id"?)'),
        ("{{ steps.a.result.rows | sum(attribute='m') }}", SQL, "an element of steps.a.result.rows has no m (it has Name, id, n)"),
        ("{{ steps.a.result | map(attribute='two') | list }}", DUCK, 'an element of steps.a.result has no two (did you mean "Two"?)'),
        ("{{ steps.a.result.data.topik }}", LLM, 'steps.a.result.data has no topik (did you mean "topic"?)'),
        ("{{ steps.a.result.aproved }}", ASK, 'steps.a.result has no aproved (did you mean "approved"?)'),
        ("{{ steps.a.result.totl }}", CALL, 'steps.a.result has no totl (did you mean "total"?)'),
        ("{{ steps.a.result.parts[0].sise }}", CALL, 'steps.a.result.parts[0] has no sise (did you mean "size"?)'),
    ],
)  # fmt: skip
def test_a_field_that_a_result_does_not_have_is_found(template: str, first: str, message: str) -> None:
    assert reads(template, first) == [message]


@pytest.mark.parametrize(
    ("template", "first"),
    [
        ("{{ steps.a.result.order.lines[0].sku }}", NESTED),
        ("{{ a.order.lines | selectattr('price', 'defined') | map(attribute='sku') | list }}", NESTED),
        ("{{ a.order.idd | default(0) }}", NESTED),
        ("{{ a.order.items() | list }}", NESTED),
        ("{{ a.order.lines[0].cost if a.order.lines[0].cost is defined else 1 }}", NESTED),
        ("{{ steps.a.result.rows[0].id ~ steps.a.result.row_count ~ steps.a.result.data.rows[0].Name }}", SQL),
        ("{{ steps.a.result.rows[0].anything }}", "{ kind: postgres, auth: x, command: 'SELECT * FROM t' }"),
        ("{{ steps.a.result.rows[0].anything }}", "{ kind: postgres, auth: x, command: 'SELECT count(*) FROM t' }"),
        ("{{ steps.a.result.other }}", ASK),
        ("{{ steps.a.result.data.anything.below }}", "{ kind: http, url: 'http://x' }"),
    ],
)
def test_fields_that_may_exist_are_not_reported(template: str, first: str) -> None:
    assert reads(template, first) == []


def test_iterations_give_a_list() -> None:
    found = reads("{{ steps.a.result | map(attribute='nam') | list }}", ROW, loop=LOOP)
    assert found == ['an element of steps.a.result has no nam (did you mean "name"?)']


def test_shapes_follow_arcs_and_ctx() -> None:
    args = ', args: { order: "{{ event.result.order }}" }'
    assert reads("{{ args.order.lins }}", NESTED, args=args) == ['args.order has no lins (did you mean "lines"?)']
    assert reads("{{ order.lins }}", NESTED, args=args) == ['order has no lins (did you mean "lines"?)']
    task = NESTED.removesuffix("}") + ', set_ctx: { kept: "{{ outcome.result.order }}" } }'
    assert reads("{{ ctx.kept.lins }}", task) == ['ctx.kept has no lins (did you mean "lines"?)']


def test_requests_may_add_fields_to_defaults_but_a_slip_is_found() -> None:
    workload = "{ top: { shop: { name: x } } }"
    assert reads("{{ workload.top.shop.nmae }}", "{ kind: noop }", workload=workload) == [
        'workload.top.shop has no nmae (did you mean "name"?)'
    ]
    assert reads("{{ workload.top.shop.street }}", "{ kind: noop }", workload=workload) == []


def test_a_schema_of_the_workload_that_is_closed_has_no_other_field() -> None:
    schema = "{ type: object, properties: { name: { type: string } }, additionalProperties: false }"
    workload = f"{{ x-schema: {{ properties: {{ top: {schema} }} }}, top: {{ name: x }} }}"
    assert reads("{{ workload.top.street }}", "{ kind: noop }", workload=workload) == ["workload.top has no street (it has name)"]


STEPS = 200
CHAINS = {
    "ctx": 'set_ctx: {{ c{n}: {{ a: "{{{{ ctx.c{after}.a.b }}}}" }} }}',
    "ctx, written by all": 'set_ctx: {{ c: {{ a: "{{{{ ctx.c }}}}", b{n}: "{{{{ ctx.c.a.a.a.a.a.a }}}}" }} }}',
    "deep templates": 'set_ctx: {{ c{n}: "{{{{ ctx.c{after}' + ".a" * 55 + ' }}}}" }}',
    "results": "spec: {{}}",
    "args": 'args: {{ y: {{ a: "{{{{ args.x.a }}}}", b: "{{{{ args.x }}}}" }} }}',
}


@pytest.mark.one_in(5)
@pytest.mark.parametrize("chain", CHAINS)
def test_hundreds_of_steps_that_pass_values_on_are_checked_at_once(chain: str) -> None:
    steps = [
        f"""
  - step: s{n}
    tool: {{ kind: noop, result: {{ k: "{{{{ steps.s{(n + 1) % STEPS}.result.k }}}}" }} }}
    {CHAINS[chain].format(n=n, after=(n + 1) % STEPS)}
    next: {{ arcs: [{{ step: s{(n + 1) % STEPS}, args: {{ x: {{ a: "{{{{ args.x.a }}}}" }} }} }}] }}"""
        for n in range(STEPS)
    ]
    started = process_time()
    playbook, found = check(completed("\nworkflow:" + "".join(steps)))
    assert playbook is not None, found
    assert process_time() - started < 10


@pytest.mark.one_in(2)
@pytest.mark.parametrize("source", ["steps.a.result", "iter.each"])
def test_thousands_of_misspelt_fields_are_reported_at_once(source: str) -> None:
    fields = ", ".join(f"k{n}: 1" for n in range(1_000))
    read = ", ".join(f'"{{{{ steps.a.result.x{n} }}}}"' for n in range(1_000))
    text = f"""
workflow:
  - step: a
    tool: {{ kind: noop, result: {{ {fields} }} }}
    next: {{ arcs: [{{ step: b }}] }}
  - step: b
    loop: {{ in: [{{ {fields} }}], iterator: each }}
    tool: {{ kind: noop, result: [{read}] }}
"""
    started = process_time()
    playbook, found = check(completed(text.replace("steps.a.result", source)))
    assert playbook is not None and len([d for d in found if d.code == "W515"]) == 1_000
    assert process_time() - started < 10
    assert all(len(d.hint) < 500 for d in found)


def test_a_value_that_an_alias_repeats_is_judged_at_each_step() -> None:
    text = """
workflow:
  - step: a
    tool: { kind: noop }
    args: { q: { one: 1 } }
    next: { arcs: [{ step: b, args: &kept { y: "{{ args.q }}" } }] }
  - step: b
    tool: { kind: noop, result: "{{ args.y.one }}" }
    args: { q: { two: 2 } }
    next: { arcs: [{ step: c, args: *kept }] }
  - step: c
    tool: { kind: noop, result: "{{ args.y.two }}" }
"""
    playbook, found = check(completed(text))
    assert playbook is not None and [str(d) for d in found if d.code == "W515"] == []


def test_values_that_depend_on_each_other_have_no_shape() -> None:
    text = """
workflow:
  - step: a
    tool: { kind: noop, result: "{{ args.x }}" }
    next: { arcs: [{ step: a, args: { x: "{{ event.result }}" }, when: "{{ event.result.n < 3 }}" }] }
"""
    playbook, found = check(completed(text))
    assert playbook is not None and [d for d in found if d.code == "W515"] == []
