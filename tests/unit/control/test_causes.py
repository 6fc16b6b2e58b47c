"""The page of an execution begins with its cause: what failed for which item, what the execution was given, what it waits for."""

from __future__ import annotations

from contextlib import closing

import pytest

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


def test_what_waits_for_an_answer_says_what_would_be_one() -> None:
    with closing(LocalWiring()) as local:
        execution_id = local.start(StartRequest(playbook=ASK)).execution_id
        run_until_it_waits(local, execution_id)
        (wait,) = changes(local.control, execution_id, b"key")["waiting_for"]
    assert wait["schema"]["required"] == ["ok"]
    assert wait["decision"] == {"key": "ok", "yes": "Approve", "no": "Reject"}
