"""The size of values has no part in what a playbook does: random values, with an inline limit of a few bytes and with a large one."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from noetl_core.control.admit import StartRequest
from noetl_core.engine.outcome import Outcome
from noetl_core.expr import references_in
from noetl_core.log.stored_values import Values
from noetl_core.runtime.local import LocalWiring
from noetl_core.tools.base import ToolCall
from noetl_core.tools.registry import ToolRegistry
from noetl_core.views.executions import executions
from tests.properties import examples
from tests.running import events_of

PLAYBOOK = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: sizes, path: sim/sizes}
executor: {spec: {result: {ctx: "{{ ctx }}", all: "{{ steps.loop.result }}", spread: "{{ steps.spread.result }}"}, policy: {limits: {max_payload_bytes: LIMIT}}}}
workflow:
  - step: start
    tool:
      - {name: make, kind: noop, result: "{{ workload.values }}", set_iter: {kept: "{{ outcome.result }}"}, set_ctx: {made: "{{ outcome.result }}"}}
      - {name: call, kind: http, method: POST, url: "http://x", json: {prev: "{{ _prev }}", deep: [{iter: "{{ iter }}"}]}, headers: {first: "{{ make[0] | tojson }}"}}
    next:
      spec: {mode: inclusive}
      arcs:
        - {step: meet, args: {left: "{{ event.result }}", both: "{{ ctx.made }}"}, when: "{{ event.result.json.prev == ctx.made }}"}
        - {step: meet, args: {right: ["{{ ctx.made }}", {made: "{{ ctx.made }}"}], both: "{{ event.result.json.deep }}"}}
        - {step: none, when: "{{ ctx.made != workload.values or ctx.made | length == 6 }}"}
        - {step: many, when: "{{ ctx.made | unique | list | length > 2 or ctx.made | select('mapping') | list | length > 1 }}"}
  - {step: none, tool: {kind: noop}}
  - {step: many, tool: {kind: noop}}
  - step: meet
    spec: {join: all}
    tool: {kind: postgres, auth: {}, command: "SELECT 1", params: "{{ args }}"}
    next: {arcs: [{step: loop, args: {items: "{{ args.right[1].made }}"}}]}
  - step: loop
    loop: {in: "{{ args.items }}", iterator: v, spec: {mode: parallel, policy: {reducers: {list: append, flat: extend, n: count}}}}
    tool:
      - {name: call, kind: python, args: {item: "{{ iter.v }}", all: "{{ args['items'] }}"}, code: x, set_ctx: {list: "{{ outcome.result }}", flat: "{{ iter.v }}", n: 1}}
      - {name: same, kind: noop, result: ["{{ call.args.item }}", "{{ call.args.item == iter.v }}", "{{ iter.v in ctx.made }}"], set_ctx: {agreed: "{{ ctx.made }}"}}
    next: {arcs: [{step: spread}]}
  - step: spread
    loop: {in: "{{ steps.loop.result }}", iterator: v, spec: {mode: parallel, policy: {exec: distributed, reducers: {flat: extend}}}}
    tool: {kind: python, args: {got: "{{ iter.v }}", ctx: "{{ ctx }}"}, code: x, set_ctx: {flat: "{{ iter.v }}", agreed: "{{ ctx.made }}"}}
"""
texts = st.one_of(
    st.text(max_size=6),
    st.builds(lambda t, n: t * n, st.text('ab\u00fc\U0001f600"\\{', min_size=1, max_size=3), st.integers(10, 90)),
)
scalars = st.one_of(st.none(), st.booleans(), st.integers(-10, 10**12), st.floats(allow_nan=False, allow_infinity=False), texts)
looks = st.builds(lambda more: {"kind": "result_ref", "store": "s3", "key": "1/x.json", "more": more}, texts)
data = st.recursive(
    scalars, lambda d: st.one_of(st.lists(d, max_size=5), st.dictionaries(texts, d, max_size=4), looks), max_leaves=12
)


class Echo:
    """Answers what it was given, and notes what of it was a reference."""

    inline = True

    def __init__(self, kind: str, noted: list[Any]) -> None:
        self.kind, self._noted = kind, noted

    def run(self, call: ToolCall) -> Outcome:
        assert call.references is not None
        self._noted += references_in(call.inputs, call.references.owns)
        return Outcome.ok(dict(call.inputs))


def outcome(values: list[Any], limit: int) -> tuple[str, list[Any]]:
    """Return a run's visible outcome, whole and without ids; and the path that it took."""
    noted: list[Any] = []
    local = LocalWiring(tools=ToolRegistry({kind: Echo(kind, noted) for kind in ("http", "postgres", "python")}))
    try:
        source = PLAYBOOK.replace("LIMIT", str(limit))
        started = local.start(StartRequest(playbook=source, payload={"values": values}))
        assert local.run(started.execution_id, timeout_s=60)
        summary = executions.summary(local.control, started.execution_id)
        events, _ = events_of(local.control, started.execution_id)
        whole = Values(local.control.store, local.control.results, started.execution_id, limit=None).whole
        assert noted == []
        path = sorted(json.dumps([e.get(k) for k in ("name", "step", "task", "iteration", "status")]) for e in events)
        return json.dumps(whole({k: summary[k] for k in ("status", "result", "ctx", "error", "steps")}), sort_keys=True), path
    finally:
        local.close()


@pytest.mark.nightly
@given(st.lists(data, min_size=1, max_size=6))
@examples(25)
def test_a_run_gives_the_same_whatever_the_size_of_its_values(values: list[Any]) -> None:
    small, path = outcome(values, 64)
    assert (small, path) == outcome(values, 200 * 1024)
    assert json.loads(small)["status"] == "completed", json.loads(small)["error"]
