"""Functions whose process has ended in an evaluation: the others of a batch are done, and the evaluation is tried last and alone."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest

from noetl_core.control.admit import StartRequest, admit
from noetl_core.engine.records import Event, StreamId
from noetl_core.runtime import control_wiring
from noetl_core.testing.contracts.event_store import commit
from tests.contract.aws import bodies
from tests.unit.control.deaths import POISONED, Deadly, Died, Kept
from tests.unit.functions.conftest import HELLO, Context, Function
from tests.unit.functions.stream import records

pytestmark = pytest.mark.filterwarnings("ignore:No application metrics to publish")


@pytest.fixture
def marks() -> Iterator[Kept]:
    yield Kept()
    for cached in (control_wiring.control, control_wiring.marks, control_wiring.left_messages):
        cached.cache_clear()


@pytest.fixture
def deaths(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    return Deadly(monkeypatch).died


def process(function: Function, name: str, marks: Kept, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Load the function of a new process in the same environment."""
    for cached in (control_wiring.control, control_wiring.marks, control_wiring.left_messages):
        cached.cache_clear()
    monkeypatch.setattr(control_wiring, "FileMarks", lambda folder: marks)
    return function(name)


def ended_step(playbook: str) -> str:
    control = control_wiring.control()
    execution_id = admit(control, StartRequest(playbook=playbook)).execution_id
    (run,) = control.load(execution_id).runs
    step = control.load(execution_id).runs[run].step
    stream = StreamId(execution_id, run)
    control.store.append(commit(stream, 0, events=(Event("StepStarted", 1, {"step": step, "as_of": 0, "worker": "w"}),)))
    control.store.append(commit(stream, 1, events=(Event("StepDone", 2, {"result": 1, "set_ctx": {}}),), wake=True))
    return execution_id


def wakes(*executions: str) -> dict[str, Any]:
    received = {"attributes": {"ApproximateReceiveCount": "1"}, "receiptHandle": "h", "eventSource": "aws:sqs"}
    return {"Records": [{"messageId": str(n), "body": json.dumps({"wake": x}), **received} for n, x in enumerate(executions)]}


def test_an_execution_that_ended_the_router_delays_no_other_and_is_stuck_after_three(
    function: Function, marks: Kept, deaths: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    router = process(function, "router", marks, monkeypatch)
    bad = ended_step(POISONED)
    with pytest.raises(Died):
        router.handler({"Records": records()}, Context())
    router = process(function, "router", marks, monkeypatch)
    good = ended_step(HELLO)
    assert router.handler({"Records": records()}, Context()) == {"batchItemFailures": []}
    assert control_wiring.control().load(good).status == "completed", "the batch comes again, and the others of it are done"
    assert len(deaths) == 1
    assert bad in [json.loads(body)["wake"] for body in bodies(os.environ["CONTROL_QUEUE_URL"])]
    for number in (2, 3):
        other = ended_step(HELLO)
        with pytest.raises(Died):
            router.handler(wakes(bad, other), Context())
        assert control_wiring.control().load(other).status == "completed", "it was evaluated after the others"
        assert len(deaths) == number
        router = process(function, "router", marks, monkeypatch)
    assert router.handler(wakes(bad), Context()) == {"batchItemFailures": []}
    assert control_wiring.control().load(bad).status == "stuck"
    head = control_wiring.control().index.head(bad)
    assert head is not None
    assert head.status == "stuck"
    for _ in range(2):
        assert router.handler({"Records": records()}, Context()) == {"batchItemFailures": []}
        assert router.handler(wakes(bad), Context()) == {"batchItemFailures": []}
    assert len(deaths) == 3
    sweeper = process(function, "sweeper", marks, monkeypatch)
    assert sweeper.handler({}, Context())["looked"] == 0


def test_the_sweeper_leaves_an_execution_that_killed_it_to_the_router(
    function: Function, marks: Kept, deaths: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    sweeper = process(function, "sweeper", marks, monkeypatch)
    bad = ended_step(POISONED)
    control_wiring.control().index.set_due(bad, 1)
    with pytest.raises(Died):
        sweeper.handler({}, Context())
    sweeper = process(function, "sweeper", marks, monkeypatch)
    control_wiring.control().index.set_due(bad, 1)
    assert sweeper.handler({}, Context())["broken"] == 0
    assert len(deaths) == 1
    assert bad in [json.loads(body)["wake"] for body in bodies(os.environ["CONTROL_QUEUE_URL"])]


def test_a_message_that_ended_admit_is_taken_last_and_evaluated_three_times(
    function: Function, marks: Kept, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken: list[str] = []

    def take(record: Any, *, first: bool) -> None:
        taken.append(record.message_id)
        if record.message_id == "bad":
            raise Died

    def batch(received: int) -> dict[str, Any]:
        attributes = {"ApproximateReceiveCount": str(received)}
        one = {"attributes": attributes, "receiptHandle": "h", "eventSource": "aws:sqs", "body": "{}", "eventSourceARN": "a:q"}
        return {"Records": [{"messageId": name, **one} for name in ("bad", "good")]}

    def new_process() -> ModuleType:
        admit_app = process(function, "admit", marks, monkeypatch)
        monkeypatch.setattr(admit_app, "take_all", take)
        return admit_app

    admit_app = new_process()
    for received, before in ((1, ["bad"]), (2, ["good", "bad"]), (3, ["good", "bad"])):
        taken.clear()
        with pytest.raises(Died):
            admit_app.handler(batch(received), Context())
        assert taken == before
        admit_app = new_process()
    taken.clear()
    assert admit_app.handler(batch(4), Context()) == {"batchItemFailures": [{"itemIdentifier": "bad"}]}
    assert taken == ["good"], "it goes to the dead letters and ends no process"
