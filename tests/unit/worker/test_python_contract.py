"""The run as the code of a `python` task sees it, for values of any size."""

from __future__ import annotations

from typing import Any

import pytest

from noetl_core.log.stored_values import Values
from noetl_core.views.executions import executions
from tests.running import run_text

TEXT = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: contract, path: tests/contract }
executor: { spec: { policy: { limits: { max_payload_bytes: %(limit)d, max_input_bytes: %(most)d } } } }
workload: { factor: 3, rows: [1, 2, 3] }
workflow:
  - step: start
    tool: { kind: noop, result: "{{ range(100) | list }}", set_ctx: { seen: "{{ outcome.result }}" } }
    next: { arcs: [{ step: work, args: { rows: "{{ event.result }}", n: 2 } }] }
  - step: work
    input: { unit: "{{ 'km ' * 40 }}" }
    loop: { in: [5, 6], iterator: i }
    tool:
      - name: one
        kind: python
        args: { i: "{{ iter.i }}" }
        code: |
          %(code)s
"""


def result(code: str, limit: int, most: int = 1_000_000) -> Any:
    local, state = run_text(TEXT % {"code": code, "limit": limit, "most": most})
    try:
        out = executions.summary(local.control, state.execution_id)
        values = Values(local.store, local.results, state.execution_id, limit=None)
        return values.whole(out["result"]) if out["error"] is None else [out["error"]["kind"], out["error"]["message"]]
    finally:
        local.close()


@pytest.mark.one_in(2)
@pytest.mark.parametrize("limit", [8192, 64])
@pytest.mark.parametrize(
    ("code", "gives"),
    [
        ("return [sum(rows), len(unit), i * n]", [[4950, 120, 10], [4950, 120, 12]]),
        ("return sorted(input_data) + [input_data['rows'][-1]]", [["i", "n", "rows", "unit", 99]] * 2),
        ("return [sorted(args), context['ctx']['seen'][7], context['workload']['rows']]", [[["i"], 7, [1, 2, 3]]] * 2),
        ("return [context['step'], context['task'], context['attempt']]", [["work", "one", 1]] * 2),
    ],
)
def test_the_code_sees_values(code: str, limit: int, gives: object) -> None:
    assert result(code, limit) == gives


def test_values_that_the_code_does_not_name_are_not_loaded() -> None:
    assert result("return [i, context['execution_id'] != '']", 64, most=200) == [[5, True], [6, True]]


def test_an_input_larger_than_max_input_bytes_is_refused_by_name() -> None:
    kind, message = result("return len(rows)", 64, most=200)
    assert kind == "limit" and "rows" in message and "max_input_bytes is 200" in message
