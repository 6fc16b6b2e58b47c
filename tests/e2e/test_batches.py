"""Commands in batches on the embedded stack: each succeeds, fails or takes its time for itself."""

from __future__ import annotations

import time

import pytest

from noetl_infra.stack import Stack
from tests.e2e.load import starts
from tests.e2e.support import Api, aws

QUICK = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: quick, path: batches/quick}
workflow:
- step: first
  tool: {kind: noop, result: 1}
  next: {arcs: [{step: second}]}
- step: second
  tool: {kind: noop, result: 2}
"""
SLOW = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: slow, path: batches/slow}
workflow:
- step: slow
  tool: {kind: python, code: "import time; time.sleep(30); result = 1"}
"""
COMPUTES = SLOW.replace("slow", "computes").replace("import time; time.sleep(30); ", "")


def together(api: Api, source: str, count: int) -> list[str]:
    """Return the ids of `count` executions that several clients started at once."""
    answers = starts(api, {"playbook": source}, count=count, clients=6)
    assert len(answers.accepted) == count and not answers.wrong, answers
    return answers.accepted


@pytest.mark.nightly
def test_slow_commands_hold_up_none_of_those_that_come_with_them(api: Api) -> None:
    """Two compute for long, so at least two of four workers are free for the rest."""
    slow = together(api, SLOW, 2)
    quick = together(api, QUICK, 12) + together(api, COMPUTES, 6)
    assert {api.wait(execution_id, 240)["status"] for execution_id in (*quick, *slow)} == {"completed"}
    ends = [api.summary(execution_id)["finished_at"] for execution_id in quick]
    last = max(api.summary(execution_id)["finished_at"] for execution_id in slow)
    assert all(end < last for end in ends)


@pytest.mark.nightly
def test_messages_that_do_not_read_fail_alone(stack: Stack, api: Api) -> None:
    sqs, queue = aws(stack, "sqs"), stack.outputs["CommandQueueUrl"]
    for number in range(3):
        sqs.send_message(QueueUrl=queue, MessageBody=f"no command {number}")
    quick = together(api, QUICK, 12)
    assert {api.wait(execution_id, 240)["status"] for execution_id in quick} == {"completed"}
    names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
    until, left = time.monotonic() + 60, -1
    while left != 3 and time.monotonic() < until:
        time.sleep(0.2)
        found = sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=names)["Attributes"]
        left = sum(map(int, found.values()))
    assert left == 3, "they come again, and the others were deleted"
    sqs.purge_queue(QueueUrl=queue)
