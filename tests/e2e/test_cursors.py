"""Loops that claim their rows from SQS and DynamoDB on the stack: each row once, by several executions, and with killed workers."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from typing import Any

import pytest

from noetl_infra.stack import Stack
from tests.conformance.wirings import on_stack
from tests.e2e.support import Api, aws, function_processes
from tests.unit.docs.demo_aws import make_items

ROWS = 40
PLAYBOOK = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: {{name: cursor, path: e2e/cursor}}
workflow:
  - step: drain
    loop:
      cursor: {cursor}
      iterator: row
      spec: {{mode: cursor, frame: 5, max_in_flight: 2}}
    tool:
      - {{name: work, kind: python, args: {{seconds: {seconds}}}, code: "import time; time.sleep(seconds)"}}
      - name: count
        kind: dynamodb
        action: update
        table: matrix-cursor-runs
        key: {{pk: {name}, sk: "{{{{ {row} }}}}"}}
        update: ADD n :one
        values: {{one: 1}}
"""
Source = Callable[..., str]


@pytest.fixture(params=["sqs", pytest.param("dynamodb", marks=pytest.mark.nightly)])
def source(request: pytest.FixtureRequest, stack: Stack) -> Source:
    """`source(name, seconds)` fills a source and gives the playbook that drains it."""

    def queue(name: str, seconds: float) -> str:
        sqs = aws(stack, "sqs")
        url = sqs.create_queue(QueueName=f"matrix-cursor-{name}")["QueueUrl"]
        for n in range(ROWS):
            sqs.send_message(QueueUrl=url, MessageBody=f'{{"id": "{n}"}}')
        cursor = f"{{kind: sqs, queue: matrix-cursor-{name}, lease_s: 300}}"
        return PLAYBOOK.format(cursor=cursor, name=f"sqs-{name}", row="iter.row.json.id", seconds=seconds)

    def table(name: str, seconds: float) -> str:
        with on_stack(stack):
            make_items(f"matrix-cursor-{name}")
        for n in range(ROWS):
            aws(stack, "dynamodb").put_item(
                TableName=f"matrix-cursor-{name}", Item={"pk": {"S": "a"}, "sk": {"S": str(n)}, "state": {"S": "ready"}}
            )
        cursor = (
            f"{{kind: dynamodb, table: matrix-cursor-{name}, where: 'pk = :a', filter: '#s = :ready', names: {{s: state}},"
            " values: {a: a, ready: ready}, done: {state: done}}"
        )
        return PLAYBOOK.format(cursor=cursor, name=f"dynamodb-{name}", row="iter.row.sk", seconds=seconds)

    return {"sqs": queue, "dynamodb": table}[request.param]


@pytest.fixture(scope="module", autouse=True)
def counts(stack: Stack) -> None:
    with on_stack(stack):
        make_items("matrix-cursor-runs")


def runs(stack: Stack, source: str) -> dict[str, int]:
    """Return the number of runs of each row."""
    answer = aws(stack, "dynamodb").query(
        TableName="matrix-cursor-runs",
        KeyConditionExpression="pk = :pk",
        ExpressionAttributeValues={":pk": {"S": source}},
        ConsistentRead=True,
    )
    return {item["sk"]["S"]: int(item["n"]["N"]) for item in answer["Items"]}


def left(stack: Stack, name: str) -> list[Any]:
    """Return the rows that are still in the sources of that name, or claimed."""
    sqs, dynamodb = aws(stack, "sqs"), aws(stack, "dynamodb")
    found: list[Any] = []
    for url in sqs.list_queues(QueueNamePrefix=f"matrix-cursor-{name}").get("QueueUrls", []):
        numbers = ("ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible")
        attributes = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=list(numbers))["Attributes"]
        found += [(number, attributes[number]) for number in numbers if attributes[number] != "0"]
    if f"matrix-cursor-{name}" in dynamodb.list_tables()["TableNames"]:
        items = dynamodb.scan(TableName=f"matrix-cursor-{name}", ConsistentRead=True)["Items"]
        found += [item for item in items if item["state"]["S"] != "done" or "claimed_until" in item]
    return found


def counted(playbook: str) -> str:
    """The name under which a playbook counts."""
    return playbook.split("key: {pk: ")[1].split(",")[0]


def test_executions_share_a_source_and_each_row_is_run_once(stack: Stack, api: Api, source: Source) -> None:
    playbook = source("shared", 0.05)
    ended = [api.wait(execution) for execution in [api.start(playbook) for _ in range(2)]]
    assert [summary["status"] for summary in ended] == ["completed", "completed"], ended
    loops = [summary["steps"]["drain"]["loop"] for summary in ended]
    assert sum(loop["succeeded"] for loop in loops) == sum(loop["total"] for loop in loops) == ROWS
    assert runs(stack, counted(playbook)) == {str(n): 1 for n in range(ROWS)}
    assert left(stack, "shared") == []


@pytest.mark.soak
def test_a_killed_worker_loses_no_row_and_claims_none_for_nobody(stack: Stack, api: Api, source: Source) -> None:
    playbook = source("killed", 0.4)
    execution = api.start(playbook)
    until = time.monotonic() + 60
    while len(runs(stack, counted(playbook))) < ROWS // 4:
        assert time.monotonic() < until, api.summary(execution)
        time.sleep(0.1)
    killed = function_processes(stack, stack.outputs["WorkerFunctionName"])
    assert killed, "no worker process was found"
    for pid in killed:
        os.kill(pid, signal.SIGKILL)
    assert len(runs(stack, counted(playbook))) < ROWS
    summary = api.wait(execution, timeout_s=300)
    assert (summary["status"], summary["steps"]["drain"]["loop"]) == (
        "completed",
        {"total": ROWS, "succeeded": ROWS, "failed": 0},
    )
    ran = runs(stack, counted(playbook))
    assert set(ran) == {str(n) for n in range(ROWS)} and set(ran.values()) <= {1, 2}
    assert sum(ran.values()) <= ROWS + 5, "what was committed is not run again"
    assert left(stack, "killed") == []
