"""The worker function: the commands of a batch run side by side, and each succeeds, fails or waits for itself."""

from __future__ import annotations

import json
import os
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from botocore.awsrequest import AWSPreparedRequest

from noetl_core.adapters.aws.clients import client
from noetl_core.control.admit import StartRequest, admit
from noetl_core.dsl.lint.pipelines import LONGEST_INVOCATION_S
from noetl_core.engine.records import Command, StreamId
from noetl_core.ports import Gate
from noetl_core.runtime import control_wiring, worker_wiring
from noetl_core.worker.activation import MARGIN_S
from noetl_core.worker.claiming.handled import Handled
from noetl_core.worker.turns import Share, Turn, Turns
from tests.unit.functions.conftest import Context, Function

DOCS = Path(__file__).parents[3] / "docs"

NOOP = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: noop, path: noop}
workflow:
- step: s
  tool: {kind: noop, result: 1}
"""
COMPUTES = NOOP.replace("{kind: noop, result: 1}", '{kind: python, code: "result = 1"}').replace("noop", "computes")


@pytest.fixture
def worker(function: Function) -> ModuleType:
    return function("worker")


Handle = Callable[..., Handled]
"""`Worker.handle`."""
Replaced = Callable[[Handle], Handle]


@pytest.fixture
def handle_by(worker: ModuleType, monkeypatch: pytest.MonkeyPatch) -> Replaced:
    """Let commands be handled by another function. Returns the worker's own."""

    def replace(instead: Handle) -> Handle:
        own = worker_wiring.worker().handle
        monkeypatch.setattr(worker_wiring.worker(), "handle", instead)
        return own

    return replace


def queue() -> str:
    return str(json.loads(os.environ["COMMAND_QUEUES"])["default"])


def started(count: int, playbook: str = NOOP) -> list[str]:
    return [admit(control_wiring.control(), StartRequest(playbook=playbook)).execution_id for _ in range(count)]


def batch(receive_count: int = 1) -> dict[str, Any]:
    """The messages of the queue as Lambda delivers them; they stay invisible for an hour and a half."""
    messages = client("sqs").receive_message(QueueUrl=queue(), MaxNumberOfMessages=10, VisibilityTimeout=5400)["Messages"]
    return {
        "Records": [
            {
                "messageId": f"m{number}",
                "receiptHandle": message["ReceiptHandle"],
                "body": message["Body"],
                "eventSource": "aws:sqs",
                "eventSourceARN": "arn:aws:sqs:us-east-1:123456789012:" + queue().rpartition("/")[2],
                "attributes": {"ApproximateReceiveCount": str(receive_count)},
            }
            for number, message in enumerate(messages)
        ]
    }


def failed(answer: Mapping[str, Any]) -> set[str]:
    return {failure["itemIdentifier"] for failure in answer["batchItemFailures"]}


def of(event: Mapping[str, Any], message: str) -> str:
    """The execution of a message."""
    (record,) = (r for r in event["Records"] if r["messageId"] == message)
    return str(json.loads(record["body"])["execution_id"])


def ended(executions: list[str]) -> set[str]:
    """Executions whose run has ended."""
    control = control_wiring.control()
    found = set()
    for execution_id in executions:
        (run,) = control.load(execution_id).runs
        last = control.store.last(StreamId(execution_id, run))
        found |= {execution_id} if last is not None and last.wake else set()
    return found


def test_the_commands_of_a_batch_run_at_the_same_time(worker: ModuleType, handle_by: Replaced) -> None:
    executions = started(10)
    together = threading.Barrier(10)

    def meet(command: Command, *more: Any) -> Handled:
        together.wait(30)
        return handle(command, *more)

    handle = handle_by(meet)
    assert worker.handler(batch(), Context()) == {"batchItemFailures": []}
    assert ended(executions) == set(executions)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("error", [RuntimeError("broken"), MemoryError(), SystemExit(1)], ids=repr)
def test_a_command_that_fails_comes_again_alone(
    worker: ModuleType, handle_by: Replaced, caplog: pytest.LogCaptureFixture, error: BaseException
) -> None:
    executions = started(4)

    def fail(command: Command, *more: Any) -> Handled:
        if command.execution_id == executions[1]:
            raise error
        return handle(command, *more)

    handle = handle_by(fail)
    event = batch()
    (comes_again,) = failed(worker.handler(event, Context()))
    assert of(event, comes_again) == executions[1]
    assert ended(executions) == {*executions} - {executions[1]}
    (line,) = [vars(r) for r in caplog.records if r.getMessage() == "a message failed; it comes again"]
    assert line["execution_id"] == executions[1]
    assert line["received"] == "1"


def test_a_message_that_does_not_read_fails_alone(worker: ModuleType) -> None:
    executions = started(2)
    event = batch()
    event["Records"].append({**event["Records"][0], "messageId": "odd", "body": "no command"})
    assert failed(worker.handler(event, Context())) == {"odd"}
    assert ended(executions) == set(executions)


def test_a_task_that_ignores_its_deadline_fails_alone_in_its_batch(worker: ModuleType, handle_by: Replaced) -> None:
    executions = started(3)
    over = threading.Event()

    def deaf(command: Command, *more: Any) -> Handled:
        if command.execution_id == executions[0]:
            over.wait(60)
            return Handled("dropped", "too late")
        return handle(command, *more)

    handle = handle_by(deaf)
    event = batch()
    (comes_again,) = failed(worker.handler(event, Context(left_ms=4_000)))
    over.set()
    assert worker.turns is None, "the turn it keeps is nobody else's"
    assert of(event, comes_again) == executions[0]
    assert ended(executions) == set(executions[1:])


def slow_first(handle_by: Replaced, let_go: threading.Event) -> list[str]:
    """Let the worker's first command hold its turn until it is released. Returns the list of handled commands, which grows."""
    handled = list[str]()

    def hold(command: Command, *more: Any) -> Handled:
        handled.append(command.execution_id)
        if len(handled) == 1:
            let_go.wait(60)
        return handle(command, *more)

    handle = handle_by(hold)
    return handled


@pytest.mark.nightly
def test_waiting_computations_go_to_other_workers_while_one_runs_long(worker: ModuleType, handle_by: Replaced) -> None:
    """Not at the end of the invocation: the long one may take a quarter of an hour."""
    started(10, COMPUTES)
    let_go = threading.Event()
    handled = slow_first(handle_by, let_go)
    event = batch()
    answers: list[Mapping[str, Any]] = []
    invocation = threading.Thread(target=lambda: answers.append(worker.handler(event, Context())))
    invocation.start()
    visible: list[dict[str, Any]] = []
    until = time.monotonic() + 60
    while len(visible) < 9 and time.monotonic() < until:
        visible += client("sqs").receive_message(QueueUrl=queue(), MaxNumberOfMessages=10).get("Messages", [])
    assert len(visible) == 9 and invocation.is_alive(), "others may have them while the first is at work"
    let_go.set()
    invocation.join(60)
    over_to_others = failed(answers[0])
    assert len(over_to_others) == 9
    assert {of(event, m) for m in over_to_others}.isdisjoint(handled), "nothing of them has begun"


def test_a_command_that_failed_often_becomes_a_dead_letter_soon(worker: ModuleType, handle_by: Replaced) -> None:
    started(1)
    paused: list[int] = []

    def note(params: dict[str, Any], **_: Any) -> None:
        paused.append(params["VisibilityTimeout"])

    client("sqs").meta.events.register("provide-client-params.sqs.ChangeMessageVisibility", note)
    handle_by(lambda command, *more: Handled("dropped"))
    event = batch()
    event["Records"].append({**event["Records"][0], "messageId": "odd", "body": "no command"})
    for received in (1, worker.MAX_RECEIVES, worker.MAX_RECEIVES + 1):
        event["Records"][1]["attributes"] = {"ApproximateReceiveCount": str(received)}
        assert failed(worker.handler(event, Context())) == {"odd"}
    assert paused == [worker.RETRY_AFTER_S, worker.RETRY_AFTER_S, worker.LAST_RETRIES_S]


def test_a_takeover_shares_a_worker_after_several_tries_for_its_own(worker: Any, handle_by: Replaced) -> None:
    started(1)
    shares: list[str] = []

    class Noted(Turns):
        @contextmanager
        def turn(self, share: Share, wait_s: float) -> Iterator[Turn]:
            shares.append(share)
            with super().turn(share, wait_s) as turn:
                yield turn

    worker.turns = Noted(1)
    handle_by(lambda command, *more: Handled("dropped"))
    event = batch()
    event["Records"][0]["body"] = json.dumps({**json.loads(event["Records"][0]["body"]), "mode": "takeover"})
    for received in (1, worker.ALONE_ATTEMPTS, worker.ALONE_ATTEMPTS + 1):
        event["Records"][0]["attributes"]["ApproximateReceiveCount"] = str(received)
        worker.handler(event, Context())
    assert shares == ["alone", "alone", "computes"]


def test_a_takeover_runs_when_the_others_have_ended(worker: Any, handle_by: Replaced) -> None:
    executions = started(4)
    event = batch()
    suspect = json.loads(event["Records"][0]["body"])
    event["Records"][0]["body"] = json.dumps({**suspect, "mode": "takeover"})
    order: list[str] = []
    ends = threading.Lock()

    def note(command: Command, *more: Any) -> Handled:
        with ends:
            order.append(command.mode)
        return Handled("dropped", "noted")

    handle_by(note)

    class Late(Turns):
        @contextmanager
        def turn(self, share: Share, wait_s: float) -> Iterator[Turn]:
            if share == "alone":
                threading.Event().wait(0.2)  # as the last of the threads
            with super().turn(share, wait_s) as turn:
                yield turn

    worker.turns = Late(1)
    assert worker.handler(event, Context()) == {"batchItemFailures": []}
    assert order[-1] == "takeover" and len(order) == len(executions)


def test_the_gates_of_a_batch_are_read_by_one_request(worker: ModuleType) -> None:
    executions = started(10)
    event = batch()
    asked: list[str] = []

    def note(request: AWSPreparedRequest, **_: Any) -> None:
        target: Any = request.headers["X-Amz-Target"]
        asked.append((target if isinstance(target, str) else target.decode()).rpartition(".")[2])

    events = client("dynamodb").meta.events
    events.register("before-send.dynamodb.*", note)
    assert worker.handler(event, Context()) == {"batchItemFailures": []}
    events.unregister("before-send.dynamodb.*", note)
    assert ended(executions) == set(executions)
    assert asked.count("BatchGetItem") == 1
    assert asked.count("PutItem") == 20, "a claim and an end each"
    assert asked.count("GetItem") == 1, "the playbook"


def test_a_closed_gate_in_a_batch_stops_its_execution_alone(worker: ModuleType) -> None:
    executions = started(3)
    control_wiring.control().gates.set_gate(executions[2], Gate("stop"))
    assert worker.handler(batch(), Context()) == {"batchItemFailures": []}
    assert ended(executions) == set(executions[:2])


def test_the_manual_states_the_longest_time_of_a_task(function: Function) -> None:
    longest = LONGEST_INVOCATION_S - function("worker").SPARE_MS / 1000 - MARGIN_S
    for page in ("operating.md", "language/steps.md", "language/lint/W535.md"):
        assert re.search(rf"\b{longest:g} s", (DOCS / page).read_text()), page
