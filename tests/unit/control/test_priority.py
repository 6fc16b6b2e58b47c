"""The priority of a request: it comes before that of the playbook, orders who waits, and reaches children and redrives."""

from __future__ import annotations

from typing import Any

import pytest

from noetl_core.control.admit import StartRequest, admit, register
from noetl_core.engine.outcome import Outcome
from tests.sim.concurrency import SHARED, Server, all_end, start
from tests.sim.redrives import again
from tests.sim.world import World
from tests.unit.control.api_client import HELLO, Client, client

__all__ = ["client"]

ONE = SHARED.replace("max: 5", "max: 1")


def test_the_higher_priority_of_a_request_comes_first() -> None:
    world = World(concurrency=10)
    server = Server(world)
    ids = start(world, ONE, 3, priority=5)
    high = world.start(ONE, {"n": 9}, idempotency_key="high", priority=7.5).execution_id
    low = world.start(ONE, {"n": 9, "priority": 9}, idempotency_key="low", priority=-1).execution_id
    assert world.state(high).limits[high].priority == 7.5
    all_end(world, [*ids, high, low])
    assert server.began == [ids[0], high, *ids[1:], low], "it wins over that of the playbook"


def test_a_redrive_keeps_the_priority() -> None:
    world = World(concurrency=10)
    world.tool = lambda call: Outcome.failed("client_error", "no", retryable=False)
    first = world.start(ONE, priority=3).execution_id
    assert world.run(first).status == "failed"
    Server(world)
    others = start(world, ONE, 2, priority=1)
    again(world, first)
    state = world.state(first)
    assert state.limits[state.holder].priority == 3
    all_end(world, [*others, first])


def test_children_have_the_priority_of_the_request() -> None:
    world = World(concurrency=10)
    server = Server(world)
    register(world.controls[0], ONE)
    caller = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: caller, path: sim/caller}
workflow:
  - step: start
    tool: {name: child, kind: playbook, path: sim/shared}
"""
    busy = start(world, ONE, 3)
    urgent = world.start(caller, idempotency_key="urgent", priority=2).execution_id
    all_end(world, [*busy, urgent])
    (child,) = {*server.began} - {*busy}
    assert server.began.index(child) < 3, "it did not wait for all that came before it"


def test_the_api_accepts_a_priority_and_refuses_invalid_ones(client: Client) -> None:
    execution_id = client.run(priority=2.5)
    assert client.local.control.load(execution_id).priority == 2.5
    assert client("GET", f"/api/executions/{execution_id}")[1]["priority"] == 2.5
    assert "priority" not in client("GET", f"/api/executions/{client.run()}")[1]
    for wrong in (1e7, "high", True):
        answer = client("POST", "/api/executions", {"playbook": HELLO, "priority": wrong})
        assert answer[0] == 400, answer
        assert "body.priority" in str(answer[1]["error"]), answer


@pytest.mark.parametrize("fields", [{}, {"priority": 1.0}])
def test_the_same_key_with_another_priority_is_another_request(client: Client, fields: dict[str, Any]) -> None:
    body = {"playbook": HELLO, "idempotency_key": "k"}
    first = client("POST", "/api/executions", {**body, **fields})
    assert client("POST", "/api/executions", {**body, **fields})[1]["execution_id"] == first[1]["execution_id"]
    assert client("POST", "/api/executions", {**body, "priority": 2})[0] == 409


def test_a_priority_template_can_read_the_trigger() -> None:
    by_trigger = ONE.replace('priority: "{{ workload.priority }}"', "priority: \"{{ 4 if trigger.kind == 'schedule' else 0 }}\"")
    world = World(concurrency=10)
    Server(world, seconds=1_000)
    start(world, by_trigger, 1)
    triggered: Any = {"kind": "schedule", "name": "nightly", "id": "1"}
    request = StartRequest(playbook=by_trigger, idempotency_key="t", trigger=triggered)
    execution_id = admit(world.controls[0], request).execution_id
    assert world.state(execution_id).limits[execution_id].priority == 4
