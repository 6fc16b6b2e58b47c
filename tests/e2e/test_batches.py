"""Commands in batches on the embedded stack: each succeeds, fails or takes its time for itself."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from noetl_infra.stack import Stack
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
  tool: {kind: python, code: "import time; time.sleep(20); result = 1"}
"""
COMPUTES = SLOW.replace("slow", "computes").replace("import time; time.sleep(20); ", "")


def together(api: Api, sources: list[str]) -> list[str]:
    with ThreadPoolExecutor(8) as pool:
        return list(pool.map(api.start, sources))


def test_slow_commands_hold_up_none_of_those_that_come_with_them(api: Api) -> None:
    """Two compute for long, so at least two of four workers are free for the rest."""
    slow, *others = together(api, [SLOW, SLOW, *[QUICK] * 12, *[COMPUTES] * 6])
    second, *quick = others
    ended = [api.wait(execution_id, 240) for execution_id in quick]
    assert {summary["status"] for summary in ended} == {"completed"}
    slowest = [api.wait(execution_id, 240) for execution_id in (slow, second)]
    assert [summary["status"] for summary in slowest] == ["completed"] * 2
    assert min(s["finished_at"] for s in slowest) > sorted(s["finished_at"] for s in ended)[-3]


def test_messages_that_do_not_read_fail_alone(stack: Stack, api: Api) -> None:
    sqs, queue = aws(stack, "sqs"), stack.outputs["CommandQueueUrl"]
    for number in range(3):
        sqs.send_message(QueueUrl=queue, MessageBody=f"no command {number}")
    ended = [api.wait(execution_id, 240) for execution_id in together(api, [QUICK] * 12)]
    assert {summary["status"] for summary in ended} == {"completed"}
    names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
    left = sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=names)["Attributes"]
    assert sum(map(int, left.values())) == 3, "they come again, and the others were deleted"
    sqs.purge_queue(QueueUrl=queue)
