"""The sweeper function: what is due first, dead letters after, each execution by itself."""

from __future__ import annotations

import json
import os
from typing import Any

import pytest

from noetl_core.adapters.aws.clients import client
from noetl_core.control.admit import StartRequest, admit
from noetl_core.runtime import control_wiring
from tests.contract.aws import bodies
from tests.unit.functions.conftest import HELLO, Context, Function, lines
from tests.unit.functions.executions import ended, hostile


def overdue(n: int) -> list[str]:
    control = control_wiring.control()
    started = [admit(control, StartRequest(playbook=HELLO)).execution_id for _ in range(n)]
    for execution_id in started:
        control.index.set_due(execution_id, 1)
    return started


def spoil(execution_id: str) -> None:
    client("dynamodb").update_item(
        TableName=os.environ["EVENTS_TABLE"],
        Key={"pk": {"S": f"m#{execution_id}"}, "sk": {"S": "0000000000"}},
        UpdateExpression="SET body = :b",
        ExpressionAttributeValues={":b": {"B": b"broken"}},
    )
    control_wiring.control.cache_clear()


def test_a_broken_execution_with_a_letter_stops_neither_the_sweep_nor_the_letters(
    function: Function, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    sweeper = function("sweeper")
    bad, good = overdue(2)
    spoil(bad)
    (url,) = json.loads(os.environ["DEAD_LETTER_QUEUES"])
    for execution_id in (bad, good):
        body = json.dumps({"execution_id": execution_id, "run_id": "r1", "step": "hello", "expected_seq": 0})
        client("sqs").send_message(QueueUrl=url, MessageBody=body)
    done: dict[str, Any] = sweeper.handler({}, Context())
    assert (done["looked"], done["broken"], done["dead"]) == (2, 1, 2)
    control = control_wiring.control()
    head = control.index.head(bad)
    assert head is not None
    assert head.status == "stuck"
    assert control.load(good).status == "running", "a letter of a run that is not open marks nothing"
    assert [due.execution_id for due in control.index.due(2**60)] == [good]
    (line,) = lines(caplog, "swept")
    assert line["broken"] == 1
    assert sweeper.handler({}, Context())["looked"] == 0


def test_executions_without_sweeping_time_left_are_handed_to_the_router(function: Function) -> None:
    sweeper = function("sweeper")
    started = overdue(25)
    control = control_wiring.control()
    now = control.clock.now()
    times = iter([now, now, now, *[now + 30_000_000] * 99])
    control.clock = _Clock(times)
    done = sweeper.handler({}, Context(left_ms=55_000))
    assert done["looked"] + done["handed"] == len(started)
    assert done["handed"] >= 24
    asked = client("sqs").get_queue_attributes(QueueUrl=os.environ["CONTROL_QUEUE_URL"], AttributeNames=["All"])
    assert int(asked["Attributes"]["ApproximateNumberOfMessages"]) == done["handed"]


@pytest.mark.nightly
def test_an_execution_that_decides_for_minutes_is_left_to_the_router_and_the_others_are_swept(
    function: Function, caplog: pytest.LogCaptureFixture
) -> None:
    sweeper = function("sweeper")
    slow, good = hostile(), ended()
    control = control_wiring.control()
    control.index.set_due(slow, 1)
    control.index.set_due(good, 2)
    done = sweeper.handler({}, Context())
    assert (done["looked"], done["broken"]) == (2, 1)
    assert control.load(good).status == "completed"
    assert control.load(slow).status == "running"
    assert [due.execution_id for due in control.index.due(2**60)] == [slow]
    assert [json.loads(body)["wake"] for body in bodies(os.environ["CONTROL_QUEUE_URL"])] == [slow]


class _Clock:
    def __init__(self, times: Any) -> None:
        self._times = times

    def now(self) -> int:
        return int(next(self._times))

    def sleep(self, seconds: float) -> None:
        return

    def nonce(self) -> str:
        return "n"
