"""The router function: one record or execution that cannot be routed never holds up the others of its batch."""

from __future__ import annotations

import json
import os
import random
import threading
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any
from unittest.mock import Mock

import pytest

from noetl_core.adapters.aws.clients import client
from noetl_core.adapters.aws.functions import concurrent_calls
from noetl_core.adapters.aws.functions.concurrent_calls import in_time
from noetl_core.control.asks import HEAD_START_S
from noetl_core.engine.records import Commit
from noetl_core.ports import Deadline
from noetl_core.runtime import control_wiring
from noetl_core.values.instants import SECOND
from tests.aws_calls import through_botocore
from tests.contract.aws import bodies
from tests.properties import TIMES, some
from tests.unit.functions.conftest import HELLO, Context, Function, lines
from tests.unit.functions.executions import ended, hostile
from tests.unit.functions.stream import records


@pytest.fixture
def router(function: Function) -> ModuleType:
    return function("router")


def test_a_record_that_does_not_read_leaves_the_others_of_its_batch_alone(router: ModuleType) -> None:
    bad, good = ended(), ended()
    batch = sorted(records(), key=lambda r: r["dynamodb"]["NewImage"]["execution_id"]["S"] != bad)
    batch[0]["dynamodb"]["NewImage"]["v"] = {"N": "99"}
    assert router.handler({"Records": batch}, Context()) == {"batchItemFailures": []}
    control = control_wiring.control()
    assert control.load(good).status == "completed"
    assert control.load(bad).status == "running"
    assert bad in [due.execution_id for due in control.index.due(control.clock.now())]


def test_the_metrics_count_executions_that_failed(router: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    good = ended()
    bad = ended(f"{HELLO}  next: {{arcs: [{{step: bye, when: '{{{{ 1 / 0 }}}}'}}]}}\n- step: bye\n  tool: {{kind: noop}}\n")
    router.handler({"Records": records()}, Context())
    control = control_wiring.control()
    assert (control.load(good).status, control.load(bad).status) == ("completed", "failed")
    sent = [json.loads(line) for line in capsys.readouterr().out.splitlines() if '"CloudWatchMetrics"' in line]
    assert [metrics["ExecutionsFailed"] for metrics in sent if "ExecutionsFailed" in metrics] == [[1.0]]


def before_commits(do: Callable[[str], object]) -> None:
    """Let the control plane do something, with the execution's id, before each commit that routes."""
    control = control_wiring.control()
    store = control.store

    def append(commit: Commit) -> None:
        do(commit.stream.execution_id)
        store.append(commit)

    control.store = Mock(wraps=store, append=append)


def test_an_execution_that_fails_to_route_is_woken_and_others_continue(router: ModuleType) -> None:
    bad, good = ended(), ended()
    control = control_wiring.control()

    def fail(execution_id: str) -> None:
        if execution_id == bad:
            raise RuntimeError("a bug")

    before_commits(fail)
    router.handler({"Records": records()}, Context())
    assert control.load(good).status == "completed"
    assert bad in [due.execution_id for due in control.index.due(control.clock.now())]
    url = os.environ["CONTROL_QUEUE_URL"]
    asked = client("sqs").get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"]
    assert asked["ApproximateNumberOfMessagesDelayed"] == "1"


def due() -> list[str]:
    control = control_wiring.control()
    return [one.execution_id for one in control.index.due(control.clock.now())]


@pytest.mark.one_in(9)
@pytest.mark.parametrize(
    "odd",
    [
        {"execution_id": {"N": "7"}},
        {"execution_id": None},
        {"pk": {"S": "m#no number"}, "execution_id": {"S": "no number"}},
        {"pk": {}},
        {"v": {"S": "one"}},
        {"sk": {"S": "r#x"}},
        {"body": {"S": "text"}},
    ],
    ids=str,
)
def test_a_record_of_odd_shape_leaves_the_others_of_its_batch_alone(
    router: ModuleType, odd: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    bad, good = ended(), ended()
    batch = sorted(records(), key=lambda r: r["dynamodb"]["NewImage"]["execution_id"]["S"] != bad)
    image = batch[0]["dynamodb"]["NewImage"]
    image.update(odd)
    batch.insert(0, {"eventSource": "aws:dynamodb", "dynamodb": {}})
    assert router.handler({"Records": batch}, Context()) == {"batchItemFailures": []}
    assert control_wiring.control().load(good).status == "completed"
    errors = lines(caplog, "a stream record is unreadable; the sweeper reconciles its execution")
    assert len(errors) == 2, "each is told of once"
    if image["pk"] == {"S": f"m#{bad}"} or image["pk"].get("S", "").startswith(f"r#{bad}#"):
        assert errors[1]["execution_id"] == bad
        assert bad in due()


def test_executions_without_routing_time_left_are_woken_and_due(router: ModuleType) -> None:
    first, second = ended(), ended()
    context = Context(left_ms=5_000)
    assert router.handler({"Records": records()}, context) == {"batchItemFailures": []}
    assert {control_wiring.control().load(x).status for x in (first, second)} == {"running"}
    assert sorted(due()) == sorted([first, second])
    woken = [json.loads(body)["wake"] for body in bodies(os.environ["CONTROL_QUEUE_URL"])]
    assert sorted(woken) == sorted([first, second])
    asked = {"eventSource": "aws:sqs", "messageId": "1", "body": json.dumps({"wake": first}), **RECEIVED}
    assert router.handler({"Records": [asked]}, Context()) == {"batchItemFailures": []}
    assert control_wiring.control().load(first).status == "completed"


RECEIVED = {"attributes": {"ApproximateReceiveCount": "1"}, "receiptHandle": "h"}


@pytest.mark.nightly
def test_an_execution_that_decides_for_minutes_ends_at_its_limit_and_the_others_go_on(
    router: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow, others = hostile(), [ended() for _ in range(4)]
    route = router.route

    def hurried(execution_id: str, boundaries: Any, deadline: Deadline) -> None:
        route(execution_id, boundaries, Deadline.after(0.5) if execution_id == slow else deadline)

    monkeypatch.setattr(router, "route", hurried)
    monkeypatch.setattr(router, "LONGEST_S", 200.0)  # nothing is left behind meanwhile
    batch = sorted(records(), key=lambda r: r["dynamodb"]["NewImage"]["execution_id"]["S"] != slow)
    assert router.handler({"Records": batch}, Context()) == {"batchItemFailures": []}
    control = control_wiring.control()
    assert {control.load(x).status for x in others} == {"completed"}
    assert control.load(slow).status == "running"
    assert due() == [slow]


@pytest.mark.nightly
def test_a_wake_that_decides_for_minutes_comes_again_and_the_next_is_routed(
    router: ModuleType, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    slow, good = hostile(), ended()
    monkeypatch.setattr(concurrent_calls, "GRACE_S", 200.0)  # nothing is left behind meanwhile
    monkeypatch.setattr(router, "in_time", lambda call, seconds: in_time(call, 0.5 if slow in call.args else seconds))
    wakes = [
        {"eventSource": "aws:sqs", "messageId": f"m{n}", "body": json.dumps({"wake": x}), **RECEIVED}
        for n, x in enumerate((slow, good))
    ]
    answer = router.handler({"Records": wakes}, Context())
    assert answer == {"batchItemFailures": [{"itemIdentifier": "m0"}]}
    assert control_wiring.control().load(good).status == "completed"
    (failed,) = lines(caplog, "a message failed; it comes again")
    assert "took longer than 0.5 s" in failed["reason"]
    assert not list(marked()), "nobody counts it as the end of a process"


def marked() -> Iterator[bytes]:
    """Yield the executions that this process has marked as being evaluated."""
    file = control_wiring.marks().file
    content = file.read_bytes() if file is not None else b""
    return (slot for slot in content.split(b"\0") if slot)


def test_a_wake_that_fails_comes_again_and_says_why_once_with_its_execution(
    router: ModuleType, caplog: pytest.LogCaptureFixture
) -> None:
    good, slow = ended(), ended()
    wakes = [
        {"eventSource": "aws:sqs", "messageId": f"m{n}", "body": json.dumps({"wake": x}), **RECEIVED}
        for n, x in enumerate((slow, good))
    ]
    wakes.append({"eventSource": "aws:sqs", "messageId": "m2", "body": "no wake", **RECEIVED})
    over = threading.Event()
    before_commits(lambda execution_id: execution_id == slow and over.wait(60))
    answer = router.handler({"Records": wakes}, Context(left_ms=router.SPARE_S * 1000 + 2_000))
    over.set()
    assert [f["itemIdentifier"] for f in answer["batchItemFailures"]] == ["m0", "m2"]
    assert control_wiring.control().load(good).status == "completed"
    failed = lines(caplog, "a message failed; it comes again")
    assert len(failed) == 2
    assert failed[0]["execution_id"] == slow
    assert "took longer than" in failed[0]["reason"]
    assert failed[1]["text"] == "no wake"
    assert failed[1]["exc_info"]


TWO = HELLO + "  next: {arcs: [{step: bye}]}\n- step: bye\n  tool: {kind: noop}\n"


@pytest.mark.nightly
def test_the_commands_of_a_batch_leave_in_full_requests(router: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    executions = [ended(TWO) for _ in range(20)]
    monkeypatch.setattr(concurrent_calls, "PULSE_S", 60.0)
    sent: list[int] = []

    def note(params: dict[str, Any], **_: Any) -> None:
        sent.append(len(params["Entries"]))

    client("sqs").meta.events.register("provide-client-params.sqs.SendMessageBatch", note)
    with through_botocore():
        assert router.handler({"Records": records()}, Context()) == {"batchItemFailures": []}
    assert sent == [10, 10]
    assert all(len(control_wiring.control().load(x).runs) == 1 for x in executions)


def test_executions_with_unsent_commands_become_due(router: ModuleType) -> None:
    executions = [ended(TWO) for _ in range(2)]
    batch = records()
    queue = json.loads(os.environ["COMMAND_QUEUES"])["default"]

    def refuse(params: dict[str, Any], **_: Any) -> Any:
        asked = json.loads(params["body"])
        failed = [{"Id": entry["Id"], "Code": "InternalError", "SenderFault": False} for entry in asked["Entries"]]
        return (Mock(status_code=200), {"Failed": failed}) if asked["QueueUrl"] == queue else None

    client("sqs").meta.events.register("before-call.sqs.SendMessageBatch", refuse)
    with through_botocore():
        assert router.handler({"Records": batch}, Context()) == {"batchItemFailures": []}
    client("sqs").meta.events.unregister("before-call.sqs.SendMessageBatch", refuse)
    assert sorted(due()) == sorted(executions)


def test_the_executions_of_a_batch_are_routed_at_the_same_time(router: ModuleType) -> None:
    executions = [ended() for _ in range(4)]
    together = threading.Barrier(4)
    before_commits(lambda _: together.wait(30))
    control = control_wiring.control()
    assert router.handler({"Records": records()}, Context()) == {"batchItemFailures": []}
    assert {control.load(x).status for x in executions} == {"completed"}


def test_an_execution_that_blocks_is_left_behind_and_woken(router: ModuleType) -> None:
    """It checks nothing, as a call of a library would: the others end, and it is tried again."""
    stuck, *others = [ended() for _ in range(3)]
    control, over = control_wiring.control(), threading.Event()
    before_commits(lambda execution_id: execution_id == stuck and over.wait(60))
    context = Context(left_ms=router.SPARE_S * 1000 + 500)
    assert router.handler({"Records": records()}, context) == {"batchItemFailures": []}
    over.set()
    assert {control.load(x).status for x in others} == {"completed"}
    assert due() == [stuck]


def test_boundaries_that_workers_ask_about_wait_once_after_all_others(router: ModuleType) -> None:
    control = control_wiring.control()
    now = control.clock.now()
    fresh = [ended(ts=now - 1_000 * age, asks=True) for age in (0, 1)]
    others = [ended(ts=now - 1_000), ended(ts=now - SECOND, asks=True), ended(ts=now + SECOND, asks=True)]
    statuses: list[list[str]] = []

    def sleep(seconds: float) -> None:
        statuses.append([control.load(x).status for x in (*fresh, *others)])
        assert 0 < seconds <= HEAD_START_S

    control.clock = Mock(wraps=control.clock, sleep=sleep, now=lambda: now)
    assert router.handler({"Records": records()}, Context()) == {"batchItemFailures": []}
    assert statuses == [["running"] * 2 + ["completed"] * 3], "it waits once, for the younger of the two"
    assert {control.load(x).status for x in fresh} == {"completed"}


def test_a_boundary_that_was_asked_about_costs_one_read(router: ModuleType) -> None:
    """Its process has an older state of the execution, from which it would decide again."""
    execution_id = ended(TWO, ts=0, asks=True)
    control = control_wiring.control()
    stale = control.load(execution_id)
    (run,) = stale.runs
    assert router.handler({"Records": records()}, Context()) == {"batchItemFailures": []}
    control.states.put(stale)
    store = Mock(wraps=control.store)
    control.store = store
    assert router.handler({"Records": records()}, Context()) == {"batchItemFailures": []}
    assert [call[0] for call in store.method_calls] == ["read"], "no put that would be refused"
    assert run not in control.load(execution_id).runs


@pytest.mark.nightly
@pytest.mark.sized
@pytest.mark.parametrize("seed", some(range(3), 3))
def test_executions_that_run_out_of_time_anywhere_leave_nothing_locked_and_nothing_lost(
    router: ModuleType, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    executions = [ended(TWO) for _ in range(30 if TIMES else 8)]
    batch, chance = {"Records": records()}, random.Random(seed)
    purge(*json.loads(os.environ["COMMAND_QUEUES"]).values())
    monkeypatch.setattr(concurrent_calls, "PULSE_S", 0.001)
    monkeypatch.setattr(concurrent_calls, "GRACE_S", 20.0)
    woken: set[str] = set()
    with monkeypatch.context() as hurried:
        hurried.setattr(router, "wake_later", lambda execution_id, delay_s: woken.add(execution_id))
        for _ in range(5):
            hurried.setattr(router, "LONGEST_S", chance.uniform(0.001, 0.05))
            assert router.handler(batch, Context()) == {"batchItemFailures": []}
    control = control_wiring.control()
    assert router.handler(batch, Context()) == {"batchItemFailures": []}
    states = [control.load(x) for x in executions]
    assert all([run.step for run in state.runs.values()] == ["bye"] for state in states), "each was routed, once"
    sent = {json.loads(body)["execution_id"] for body in bodies(json.loads(os.environ["COMMAND_QUEUES"])["default"])}
    assert sent | woken == set(executions), "what was not sent is looked at again"
    assert control.states.get(executions[0]) is not None  # this and the next would wait for a lock that is left
    with control_wiring.commands().gathering() as unsent:
        assert not unsent


def purge(*queues: str) -> None:
    for queue in queues:
        client("sqs").purge_queue(QueueUrl=queue)
