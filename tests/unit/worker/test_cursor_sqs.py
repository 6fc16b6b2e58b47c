"""Cursor loops over the messages of a queue (moto): received, hidden, deleted."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from noetl_core.aws.clients import client
from noetl_core.engine.outcome import Outcome
from noetl_core.tools.aws import rights
from noetl_core.tools.base import ToolCall
from noetl_core.tools.cursors.sqs import SqsCalls
from noetl_core.tools.invoke import invoke
from tests.contract.aws import environment
from tests.fast_moto import mock_aws
from tests.properties import CRASHES_IN
from tests.sim.ports import Crash

from .cursor_runs import ClaimingRun, dying_at
from .one_run import Script, echo, fail_at, task

BEST_EFFORT = {"failure": {"mode": "best_effort"}}


@pytest.fixture(autouse=True)
def queue(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A queue with messages 1 to 13, each the JSON text of its number."""
    monkeypatch.delenv(rights.OWN, raising=False)
    with mock_aws(), environment():
        yield filled("work")


def filled(name: str) -> str:
    url: str = client("sqs").create_queue(QueueName=name, Attributes={"VisibilityTimeout": "600"})["QueueUrl"]
    for number in range(1, 14):
        client("sqs").send_message(QueueUrl=url, MessageBody=str(number))
    return url


def claiming(
    script: Script = echo, *, run_id: str = "r1", mode: str = "parallel", policy: Any = None, **cursor: Any
) -> ClaimingRun:
    step = {
        "loop": {
            "cursor": {"kind": "sqs", "queue": "work", "wait_s": 0, **cursor},
            "iterator": "message",
            "spec": {"mode": mode, "frame": 5, "policy": dict(policy or {})},
        },
        "tool": task("a", result="{{ iter.message.json }}"),
    }
    return ClaimingRun(step, script, run_id=run_id, tool=SqsCalls())


def left(url: str) -> tuple[int, int]:
    """Messages that anybody may receive, and those that are hidden."""
    attributes: Mapping[str, str] = client("sqs").get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"]
    return int(attributes["ApproximateNumberOfMessages"]), int(attributes["ApproximateNumberOfMessagesNotVisible"])


def show_all(run: ClaimingRun, url: str) -> None:
    """End the hiding of the run's messages."""
    for frame in run.named("LoopFrameClaimed"):
        for handle in run.value(frame.get("handles", [])):
            client("sqs").change_message_visibility(QueueUrl=url, ReceiptHandle=handle, VisibilityTimeout=0)


def test_messages_are_received_in_frames_and_deleted_when_their_results_are_committed(queue: str) -> None:
    run = claiming()
    hidden: list[tuple[int, int]] = []
    run.seen = lambda what: (
        hidden.append((len(run.named("LoopIterationCompleted")), left(queue)[1])) if what == "settle" else None
    )
    run.handle()
    assert sorted(run.last.data["result"]) == list(range(1, 14)) and run.last.data["succeeded"] == 13
    assert [len(f["keys"]) for f in run.named("LoopFrameClaimed")] == [5, 5, 3, 0]
    assert hidden == [(5, 5), (10, 5), (13, 3)]
    assert left(queue) == (0, 0)


def test_a_message_row_has_id_body_json_attributes_and_receive_count(queue: str) -> None:
    client("sqs").purge_queue(QueueUrl=queue)
    attributes = {"color": {"DataType": "String", "StringValue": "red"}}
    client("sqs").send_message(QueueUrl=queue, MessageBody="no json", MessageAttributes=attributes)
    run = claiming(queue=queue)
    run.handle()
    (message,) = run.named("LoopFrameClaimed")[0]["rows"]
    assert message == {"id": message["id"], "body": "no json", "json": None, "attributes": {"color": "red"}, "received": 1}


@pytest.mark.one_in(2)
@pytest.mark.sized
@pytest.mark.parametrize("after", [False, True])
def test_wherever_a_worker_dies_no_message_is_lost(after: bool, queue: str) -> None:
    """Received messages without a record come back when they are no longer hidden: another run gets them."""
    point = CRASHES_IN // 2 if after else 1
    while True:
        url = filled(f"work-{point}")
        run = claiming(run_id=f"r{point}", queue=url)
        run.faults.crash_at, run.faults.crash_after = point, after
        died = run.to_the_end()
        done = [number for number in run.last.data["result"] if number is not None]
        lost = left(url)[1]
        assert len(done) == len(set(done)) and len(done) + lost == 13, point
        assert lost <= 5, "only messages of the claim that was not recorded"
        if not died:
            break
        point += CRASHES_IN
    assert point > 15


def test_a_successor_goes_on_with_the_messages_that_are_still_hidden(queue: str) -> None:
    run = claiming(dying_at(3))
    assert run.to_the_end() == 1
    assert "renew" in run.asked and sorted(run.last.data["result"]) == list(range(1, 14))
    assert left(queue) == (0, 0)


def test_a_takeover_leaves_reappeared_messages_to_other_receivers(queue: str) -> None:
    run = claiming(dying_at(3))
    with pytest.raises(Crash):
        run.handle()
    show_all(run, queue)
    other = claiming(run_id="r2")
    other.handle()
    assert other.last.data["succeeded"] == 13
    before = len(run.calls)
    run.wait(61)
    run.handle("takeover")
    assert len(run.calls) == before and (run.last.data["failed"], "error" in run.last.data) == (5, False)


def test_failed_messages_come_back_later_and_are_not_run_again_here(queue: str) -> None:
    run = claiming(fail_at(2, 7), policy=BEST_EFFORT)
    run.handle()
    assert (run.last.data["succeeded"], run.last.data["failed"], left(queue)) == (11, 2, (0, 2))


def test_a_failed_message_that_comes_back_while_the_loop_runs_is_not_run_again(queue: str) -> None:
    run = claiming(fail_at(2), policy=BEST_EFFORT)
    run.seen = lambda what: show_all(run, queue) if what == "claim" else None
    run.handle()
    assert run.ran.count(2) == 1 and run.last.data["failed"] == 1


def test_failed_messages_may_be_deleted(queue: str) -> None:
    run = claiming(fail_at(2, 7), policy=BEST_EFFORT, failed="delete")
    run.handle()
    assert left(queue) == (0, 0)


def test_a_failed_loop_makes_unprocessed_messages_visible_again(queue: str) -> None:
    run = claiming(fail_at(1), mode="sequential")
    run.handle()
    assert run.last.data["failed"] == 1
    visible, hidden = left(queue)
    assert (visible + hidden, hidden) == (13 - run.last.data["succeeded"], 1)


def test_a_message_that_comes_twice_though_it_was_done_is_deleted_and_not_run(queue: str) -> None:
    """Its deletion was lost, and what hid it ended, before the loop came to its end."""
    run = claiming()
    deleting = run.tool

    class Forgetful(SqsCalls):
        def run(self, call: ToolCall) -> Outcome:
            if call.inputs["action"] == "delete" and not shown:
                shown.append(True)
                show_all(run, queue)
                return Outcome.ok([])
            assert deleting is not None
            return deleting.run(call)

    shown: list[bool] = []
    run.tool = Forgetful()
    run.handle()
    assert sorted(run.ran) == list(range(1, 14)) and left(queue) == (0, 0)
    assert sum(f.get("repeated", 0) for f in run.named("LoopFrameClaimed")) == 5


@pytest.mark.parametrize("form", ["{url}?x=/work", "{url}#/work", "{url}/?/work/"])
def test_a_queue_url_with_extra_parts_cannot_reach_an_ungranted_queue(
    form: str, queue: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SQS and its emulators may take the queue name from another part of the URL than its end."""
    own = filled("noetl-commands")
    monkeypatch.setenv("STACK_RESOURCES", '{"queues": ["noetl-commands"]}')
    monkeypatch.setenv("NOETL_TOOL_QUEUES", "work")
    inputs = {"queue": form.format(url=own), "action": "receive", "limit": 1, "hide_s": 60, "wait_s": 0}
    invoke(SqsCalls(), ToolCall("cursor.sqs", inputs))
    assert left(own) == (13, 0)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("body", ['{"a": 1e999}', '"\\ud800"', '{"a": NaN}', "[" * 90_000, "[" * 500 + "]" * 500])
def test_a_body_that_is_not_strict_json_has_no_json_value(body: str) -> None:
    url = client("sqs").create_queue(QueueName="hostile")["QueueUrl"]
    client("sqs").send_message(QueueUrl=url, MessageBody=body)
    inputs = {"queue": "hostile", "action": "receive", "limit": 1, "hide_s": 60, "wait_s": 0}
    ((message, _),) = invoke(SqsCalls(), ToolCall("cursor.sqs", inputs)).result
    assert (message["body"], message["json"]) == (body, None)


def test_an_unknown_or_ungranted_queue_is_an_error(queue: str, monkeypatch: pytest.MonkeyPatch) -> None:
    run = claiming(queue="nowhere")
    run.handle()
    assert run.last.data["error"]["kind"] == "not_found"
    monkeypatch.setenv(rights.OWN, '{"queues": ["commands"]}')
    for name, words in (("work", "ToolQueues does not name queue `work`"), ("commands", "the engine's own")):
        refused = claiming(run_id=f"r {name}", queue=name)
        refused.handle()
        assert refused.last.data["error"]["kind"] == "auth" and words in refused.last.data["error"]["message"]
    monkeypatch.setenv(rights.QUEUES.variable, "work")
    allowed = claiming(run_id="r9")
    allowed.handle()
    assert allowed.last.data["succeeded"] == 13
