"""The page of an execution begins with its cause: what failed for which item, what the execution was given, what it waits for."""

from __future__ import annotations

from contextlib import closing

import pytest

from noetl_core.api.shapes.why import Cause
from noetl_core.control.admit import StartRequest
from noetl_core.runtime.local import LocalWiring
from noetl_core.views.changes import changes
from noetl_core.views.executions.executions import summary
from noetl_core.views.explain.why import why
from tests.unit.control.api_client import ASK
from tests.waiting import run_until_it_waits

LOOP = """apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: prices, path: test/prices }
workload: { least: 1, region: eu }
workflow:
  - step: prices
    loop: { in: [{ sku: a }, { sku: b }, { sku: c }], iterator: item, spec: %s }
    tool: { kind: noop, result: "{{ 1 / (0 if iter.item.sku == 'b' else workload.least) }}" }
    next: { arcs: [{ step: end }] }
  - step: end
    tool: { kind: noop }
"""
BEST_EFFORT = "{ policy: { failure: { mode: best_effort } } }"


@pytest.mark.parametrize("mode", ["{}", "{ policy: { exec: distributed } }"])
def test_the_cause_of_a_failed_loop_has_the_item_of_its_iteration(mode: str) -> None:
    with closing(LocalWiring()) as local:
        execution_id = local.start(StartRequest(playbook=LOOP % mode)).execution_id
        assert local.run(execution_id, timeout_s=20)
        (cause,) = why(local.control, execution_id)["causes"]
    assert (cause["iteration"], cause["item"]) == ([1], '{"sku": "b"}')


def test_a_loop_that_went_on_leads_to_its_first_failed_iteration() -> None:
    with closing(LocalWiring()) as local:
        execution_id = local.start(StartRequest(playbook=LOOP % BEST_EFFORT, payload={"region": "us"})).execution_id
        assert local.run(execution_id, timeout_s=20)
        (fact,) = why(local.control, execution_id)["facts"]
        assert (fact["fact"], fact["step"], fact["iteration"]) == ("iterations", "prices", [1])
        assert summary(local.control, execution_id)["input"] == {"least": 1, "region": "us"}


def test_a_waiting_callback_shows_its_schema_and_its_decision() -> None:
    with closing(LocalWiring()) as local:
        execution_id = local.start(StartRequest(playbook=ASK)).execution_id
        run_until_it_waits(local, execution_id)
        (wait,) = changes(local.control, execution_id, b"key")["waiting_for"]
    assert wait["schema"]["required"] == ["ok"]
    assert wait["decision"] == {"key": "ok", "yes": "Approve", "no": "Reject"}


ORDER = "workload: { order: { id: 7, currency: EUR, amount: 5 }, orders: [{ sku: s1, price: 2 }], token: secret-word }\n"
PLAYBOOK = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: { name: sums, path: test/sums }\n"


def caused(rest: str) -> Cause:
    with closing(LocalWiring()) as local:
        execution_id = local.start(StartRequest(playbook=f"{PLAYBOOK}{ORDER}{rest}")).execution_id
        assert local.run(execution_id, timeout_s=20)
        return why(local.control, execution_id)["causes"][0]


@pytest.mark.parametrize(
    ("rest", "hint"),
    [
        pytest.param(
            'workflow: [{ step: a, tool: { kind: noop, result: "{{ workload.order.amuont }}" } }]',
            'workload.order.amuont is undefined, did you mean "amount"? workload.order has: amount, currency, id',
            id="input of a task",
        ),
        pytest.param(
            'workflow: [{ step: a, loop: { in: "{{ workload.orders }}", iterator: o }, tool: { kind: noop, result: "{{ iter.o.id }}" } }]',
            "iter.o.id is undefined; iter.o has: price, sku",
            id="item of a loop",
        ),
        pytest.param(
            'workflow: [{ step: a, tool: [{ b: { kind: noop, result: { sum: 1 } } }, { c: { kind: noop, result: "{{ _prev.summ }}" } }] }]',
            '_prev.summ is undefined, did you mean "sum"? _prev has: sum',
            id="result of the task before",
        ),
        pytest.param(
            'workflow: [{ step: a, loop: { in: "{{ workload.ordres }}", iterator: o }, tool: { kind: noop } }]',
            'workload.ordres is undefined, did you mean "orders"? workload has: orders, order, token',
            id="collection of a loop",
        ),
        pytest.param(
            "executor: { spec: { strict: true } }\nworkflow:\n  - step: a\n    tool: { kind: noop }\n"
            '    next: { arcs: [{ step: b, when: "{{ workload.order.settled }}" }] }\n  - step: b\n    tool: { kind: noop }',
            "workload.order.settled is undefined; workload.order has: id, amount, currency",
            id="condition of an arc",
        ),
        pytest.param(
            'workflow: [{ step: a, tool: { kind: noop, result: "{{ workload.token.sort }}" } }]', None, id="a text has no keys"
        ),
    ],
)
def test_an_undefined_part_names_the_keys_that_exist(rest: str, hint: str | None) -> None:
    assert caused(rest).get("hint") == hint


def test_a_hint_names_only_the_nearest_of_many_keys() -> None:
    many = ", ".join(f"column_{n}: {n}" for n in range(20))
    cause = caused(
        f'workflow: [{{ step: a, tool: [{{ b: {{ kind: noop, result: {{ {many} }} }} }}, {{ c: {{ kind: noop, result: "{{{{ _prev.column_21 }}}}" }} }}] }}]'
    )
    assert cause["hint"].endswith("and 12 more") and "_prev has: column_1, column_2, " in cause["hint"]


def test_a_cause_has_the_text_of_the_playbook_at_its_line() -> None:
    task = 'kind: noop\nresult:\n  sum: "{{ workload.order.sum }}"'
    cause = caused(
        "workflow:\n  - step: a\n    tool:\n"
        + "".join(f"      {line}\n" for line in task.splitlines())
        + "    next: { arcs: [] }\n"
    )
    assert cause["source"] == task


def test_a_timeout_names_the_iteration_and_the_line_that_ran() -> None:
    code = "import time\\ntime.sleep(9 if o['sku'] == 's1' else 0)"
    cause = caused(
        'workflow:\n  - step: a\n    loop: { in: "{{ workload.orders }}", iterator: o }\n'
        f'    tool: {{ kind: python, args: {{ o: "{{{{ iter.o }}}}" }}, code: "{code}", spec: {{ timeout: 0.4 }} }}'
    )
    assert (cause["kind"], cause["iteration"], cause["item"]) == ("timeout", [0], '{"sku": "s1", "price": 2}')
    assert [(line["line"], line["source"]) for line in cause["traceback"]] == [(8, "time.sleep(9 if o['sku'] == 's1' else 0)")]
