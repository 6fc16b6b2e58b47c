"""The embedded stack under load: many clients, killed workers, many timers, a spoiled execution among healthy ones.

A small crowd comes with `make nightly`, the large ones with `make load`.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from bench.processes import Peak, peak

from noetl_infra.stack import Stack
from tests.e2e.load import starts
from tests.e2e.support import ENDED, Api, aws, function_processes
from tests.properties import SEED

pytestmark = pytest.mark.skipif("NOETL_E2E_ENDPOINT" in os.environ, reason="reads the processes of the embedded stack")

LARGEST_MB = 2048
"""Megabytes that the whole stack may take."""

TWO_STEPS = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: crowd, path: load/crowd}
workload: {n: 0}
executor: {spec: {result: "{{ steps.second.result }}"}}
workflow:
  - step: first
    tool: {kind: noop, result: "{{ workload.n }}"}
    next: {arcs: [{step: second}]}
  - step: second
    tool: {kind: noop, result: "{{ workload.n * 2 }}"}
"""

TIMER = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: timer, path: load/timer}
workload: {at: ""}
workflow:
  - step: start
    tool: {kind: wait, until: "{{ workload.at }}", result: 1}
"""


@contextmanager
def killing(stack: Stack, times: int, every_s: float) -> Iterator[list[int]]:
    """A worker of the stack is killed every `every_s`, at random, `times` times at most."""
    choose, killed, over = random.Random(SEED + times), list[int](), threading.Event()

    def kill() -> None:
        while len(killed) < times and not over.wait(every_s):
            running = function_processes(stack, stack.outputs["WorkerFunctionName"])
            if running:
                with suppress(ProcessLookupError):
                    os.kill(choose.choice(running), signal.SIGKILL)
                    killed.append(1)

    thread = threading.Thread(target=kill)
    thread.start()
    try:
        yield killed
    finally:
        over.set()
        thread.join()


def ended(api: Api, executions: Sequence[str], timeout_s: float) -> dict[str, dict[str, Any]]:
    """The summaries of `executions`, when all have ended."""
    found: dict[str, dict[str, Any]] = {}
    until = time.monotonic() + timeout_s
    while True:
        for execution_id in executions:
            if execution_id not in found and (summary := api.summary(execution_id))["status"] in ENDED:
                found[execution_id] = summary
        if len(found) == len(executions):
            return found
        assert time.monotonic() < until, f"{len(executions) - len(found)} of {len(executions)} have not ended after {timeout_s} s"
        time.sleep(1)


def say(line: str) -> None:
    """Print a figure for the caller of `make load`."""
    sys.stderr.write(f"\n{line}\n")


def in_words(most: Peak) -> str:
    return f"{most.mb:.0f} MB in {most.processes} processes at most"


@pytest.mark.nightly
def test_forty_starts_of_ten_clients_are_all_taken_and_end(stack: Stack, api: Api) -> None:
    for process in function_processes(stack, stack.outputs["WorkerFunctionName"])[:2]:
        os.kill(process, signal.SIGKILL)  # idle: others are started in their place
    with peak(stack) as most:
        answers = starts(api, {"playbook": TWO_STEPS}, count=40, clients=10)
        summaries = ended(api, answers.accepted, timeout_s=120)
    assert not answers.wrong
    assert set(answers.statuses) <= {202, 429}
    assert len(summaries) == 40
    assert {s["status"] for s in summaries.values()} == {"completed"}
    assert sorted(s["result"] for s in summaries.values()) == [2 * n for n in range(40)]
    assert most.mb < LARGEST_MB


@pytest.mark.load
def test_five_hundred_starts_of_fifty_clients_while_twenty_workers_are_killed(stack: Stack, api: Api) -> None:
    began = time.monotonic()
    with peak(stack) as most, killing(stack, 20, every_s=1) as killed:
        answers = starts(api, {"playbook": TWO_STEPS}, count=500, clients=50)
        taken_s = time.monotonic() - began
        summaries = ended(api, answers.accepted, timeout_s=420)
    all_s = time.monotonic() - began
    log = _log(stack)
    say(
        f"500 starts of 50 clients in {taken_s:.0f} s: {dict(answers.statuses)}, the slowest answer {answers.slowest_s:.1f} s; {len(killed)} workers "
        f"killed; all ended after {all_s:.0f} s; {in_words(most)}; did not start: {log.count(b'did not start')}"
    )
    assert not answers.wrong, answers.wrong[:3]
    assert set(answers.statuses) <= {202, 429}
    assert len(summaries) == 500 == len(answers.accepted)
    assert {s["status"] for s in summaries.values()} == {"completed"}
    assert sorted(s["result"] for s in summaries.values()) == [2 * n for n in range(500)]
    assert len(killed) == 20
    assert most.mb < LARGEST_MB
    assert b"No module named 'app'" not in log
    assert b"/code'" not in log


def _log(stack: Stack) -> bytes:
    """Return the emulator's log."""
    return Path(f"/proc/{stack.pid}/fd/2").read_bytes()


@pytest.mark.load
def test_two_thousand_timers_of_one_minute_fire_within_two(stack: Stack, api: Api) -> None:
    count, ahead_s = 2000, 240
    due = datetime.now(UTC).replace(microsecond=0) + timedelta(seconds=ahead_s)
    source = TIMER.replace('at: ""', f'at: "{due:%Y-%m-%dT%H:%M:%SZ}"')
    with peak(stack) as most:
        answers = starts(api, {"playbook": source}, count=count, clients=20)
        assert not answers.wrong, answers.wrong[:3]
        started_s = ahead_s - (due - datetime.now(UTC)).total_seconds()
        assert started_s < ahead_s, "some were due before they were started"
        while datetime.now(UTC) < due:
            time.sleep(1)
        while len(_completed(api)) < count and datetime.now(UTC) < due + timedelta(seconds=300):
            time.sleep(20)  # looking takes of what the timers need
        ended_s = (datetime.now(UTC) - due).total_seconds()
        fired_s = sorted((_fired(api, execution_id) - due).total_seconds() for execution_id in answers.accepted)
    say(
        f"{count} timers: started in {started_s:.0f} s, fired {fired_s[0]:.1f} to {fired_s[-1]:.1f} s after they were due "
        f"(half of them by {fired_s[count // 2]:.1f} s), ended by {ended_s:.0f} s; {in_words(most)}"
    )
    assert _completed(api) == set(answers.accepted)
    assert fired_s[0] >= 0
    assert fired_s[-1] < 120
    assert most.mb < LARGEST_MB


def _fired(api: Api, execution_id: str) -> datetime:
    status, page = api.call("GET", f"/api/executions/{execution_id}/events?name=TimerFired")
    assert status == 200, page
    (event,) = page["events"]
    return datetime.fromisoformat(event["timestamp"])


def _completed(api: Api) -> set[str]:
    """The timers that have ended well, page by page."""
    found: set[str] = set()
    after = ""
    while True:
        status, page = api.call("GET", f"/api/executions?status=completed&path=load/timer&limit=100{after}")
        assert status == 200, page
        found |= {e["execution_id"] for e in page["executions"]}
        if not page["cursor"]:
            return found
        after = f"&cursor={page['cursor']}"


@pytest.mark.one_in(3)
@pytest.mark.parametrize("key", ["m#17", "m#noetl", "r#1#0", "nothing"])
def test_a_stream_record_of_odd_shape_stops_nobody(stack: Stack, api: Api, key: str) -> None:
    odd = {"pk": {"S": key}, "sk": {"S": "9999999999"}, "wake": {"N": "1"}, "execution_id": {"N": "17"}, "v": {"S": "x"}}
    dynamodb, table = aws(stack, "dynamodb"), stack.outputs["EventsTableName"]
    dynamodb.put_item(TableName=table, Item=odd)
    try:
        assert api.run(TWO_STEPS, {"n": 4}, timeout_s=60)["result"] == 8
    finally:
        dynamodb.delete_item(TableName=table, Key={"pk": odd["pk"], "sk": odd["sk"]})


@contextmanager
def without_stream(stack: Stack) -> Iterator[None]:
    """The router hears nothing from the log: all is left to the sweeper."""
    functions = aws(stack, "lambda")
    mappings = functions.list_event_source_mappings(FunctionName=stack.outputs["RouterFunctionName"])["EventSourceMappings"]
    (stream,) = [m["UUID"] for m in mappings if ":table/" in m["EventSourceArn"]]
    functions.update_event_source_mapping(UUID=stream, Enabled=False)
    try:
        yield
    finally:
        functions.update_event_source_mapping(UUID=stream, Enabled=True)


def spoil(stack: Stack, execution_id: str) -> None:
    """The next commit of the execution does not read, and one of its commands is a dead letter."""
    table, dynamodb = stack.outputs["EventsTableName"], aws(stack, "dynamodb")
    query = {"KeyConditionExpression": "pk = :pk", "ExpressionAttributeValues": {":pk": {"S": f"m#{execution_id}"}}}
    last = dynamodb.query(TableName=table, ScanIndexForward=False, Limit=1, **query)["Items"][0]
    spoiled = {**last, "sk": {"S": f"{int(last['sk']['S']) + 1:010d}"}, "body": {"B": b"spoiled"}}
    dynamodb.put_item(TableName=table, Item=spoiled)
    letter = {"execution_id": execution_id, "run_id": "1-1", "step": "start", "expected_seq": 0}
    aws(stack, "sqs").send_message(QueueUrl=stack.outputs["CommandDeadLettersUrl"], MessageBody=json.dumps(letter))


@pytest.mark.load
def test_a_spoiled_execution_with_a_dead_letter_holds_up_nobody_where_the_stream_is_off(stack: Stack, api: Api) -> None:
    def healthy() -> float:
        began = time.monotonic()
        summaries = ended(api, [api.start(TWO_STEPS, {"n": n}) for n in range(20)], timeout_s=400)
        assert {s["status"] for s in summaries.values()} == {"completed"}
        return time.monotonic() - began

    source = TIMER.replace("load/timer", "load/spoiled").replace(
        'at: ""', f'at: "{datetime.now(UTC) + timedelta(days=1):%Y-%m-%dT%H:%M:%SZ}"'
    )
    spoiled = api.start(source)
    while api.summary(spoiled)["status"] != "waiting":
        time.sleep(0.2)
    with without_stream(stack):
        spoil(stack, spoiled)
        beside_s = healthy()
        until = time.monotonic() + 150
        while _listed(api, spoiled) != "stuck" or _letters(stack):  # by the sweeper: nobody has asked for it
            assert time.monotonic() < until, f"{_listed(api, spoiled)}, {_letters(stack)} letters"
            time.sleep(1)
    say(f"without the stream, beside a spoiled execution and its dead letter: 20 healthy ones ended after {beside_s:.0f} s")
    assert beside_s < 240


def _listed(api: Api, execution_id: str) -> str:
    return next(str(e["status"]) for e in api.executions("load/spoiled") if e["execution_id"] == execution_id)


def _letters(stack: Stack) -> int:
    """Dead letters of commands that nobody has dealt with."""
    queue = stack.outputs["CommandDeadLettersUrl"]
    attributes = aws(stack, "sqs").get_queue_attributes(QueueUrl=queue, AttributeNames=["All"])["Attributes"]
    return int(attributes["ApproximateNumberOfMessages"]) + int(attributes["ApproximateNumberOfMessagesNotVisible"])
