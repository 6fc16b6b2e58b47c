"""Tests that take minutes: twenty killed workers, ten idle minutes, a stack without its stream (`make soak`)."""

from __future__ import annotations

import os
import random
import signal
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from bench.meter import Functions

from noetl_infra.stack import Stack
from tests.e2e.ledger import ledger
from tests.e2e.support import ENDED, Api, aws, function_processes
from tests.properties import SEED

pytestmark = pytest.mark.soak

MANY = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: many, path: soak/many}
workload: {url: ""}
executor: {spec: {result: "{{ steps.work.result | map(attribute='data') | sum }}"}}
workflow:
  - step: work
    loop:
      in: "{{ range(500) | list }}"
      iterator: n
      spec: {mode: parallel, max_in_flight: 50, chunk_size: 10, policy: {exec: distributed}}
    tool: {name: append, kind: http, method: POST, url: "{{ workload.url }}/", params: {delay: 2}, json: "{{ iter.n }}"}
"""


def test_twenty_workers_killed_at_random_lose_nothing_and_double_nothing(stack: Stack, api: Api, tmp_path: Path) -> None:
    choose = random.Random(SEED)
    kills = 0
    with ledger(tmp_path / "calls") as book:
        execution_id = api.start(MANY, {"url": book.url})
        until = time.monotonic() + 1500
        while kills < 20:
            seen = len(book.calls()) + choose.randrange(3, 18)
            while len(book.calls()) < seen:  # the next victim is at work
                assert api.summary(execution_id)["status"] not in ENDED, f"it ended after {kills} kills"
                assert time.monotonic() < until, f"it stands still after {kills} kills"
                time.sleep(0.2)
            running = function_processes(stack, stack.outputs["WorkerFunctionName"])
            os.kill(choose.choice(running), signal.SIGKILL)
            kills += 1
        summary = api.wait(execution_id, timeout_s=1800)
        calls = book.calls()
    assert summary["status"] == "completed", summary["error"]
    assert summary["result"] == sum(range(500))
    assert summary["steps"]["work"]["loop"] == {"total": 500, "succeeded": 500, "failed": 0}
    assert {body for _, body in calls} == set(range(500)), "an iteration was lost"
    assert len({key for key, _ in calls}) == 500, "an iteration was called under two keys"
    log = history(api, execution_id)
    recorded = Counter(e["task_run_id"] for e in log if e["name"] == "TaskProcessed")
    assert len(recorded) == 500
    assert set(recorded.values()) == {1}, "an iteration was recorded twice"
    takeovers = sum(1 for e in log if e["name"] == "StepStarted" and e["data"].get("takeover"))
    assert takeovers >= 1, "attempts are not visible"
    say(f"20 kills: {len(calls)} calls for 500 iterations, {takeovers} takeovers, {summary['duration_ms'] / 1000:.0f} s")


WAIT = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: patient, path: soak/patient}
workload: {url: ""}
workflow:
  - step: start
    tool:
      name: call
      kind: http
      method: POST
      url: "{{ workload.url }}/"
      params: {fail_first: 1}
      json: 1
      spec: {policy: {rules: [{when: "{{ outcome.status == 'error' }}", then: {do: retry, attempts: 2, delay: 600}}]}}
"""


def test_ten_minutes_of_waiting_by_policy_use_no_function_time(stack: Stack, api: Api, tmp_path: Path) -> None:
    functions = Functions(stack)
    with ledger(tmp_path / "calls") as book:
        execution_id = api.start(WAIT, {"url": book.url})
        api.wait(execution_id, until={"waiting"})
        time.sleep(5)
        before = functions.take()
        time.sleep(570)
        during = functions.take()
        summary = api.wait(execution_id, timeout_s=120)
        assert len(book.calls()) == 2
    assert summary["status"] == "completed", summary["error"]
    assert summary["duration_ms"] >= 600_000
    spent = {name: during[name] - before[name] for name in during}
    say(f"while it waited 570 s: {spent}; the sweeper looks once a minute, whatever waits")
    assert spent["worker"].invocations == spent["router"].invocations == spent["admit"].invocations == 0
    assert spent["worker"].billed_ms == spent["router"].billed_ms == spent["admit"].billed_ms == 0


def test_without_its_stream_the_stack_gets_there_by_the_sweeper_alone(stack: Stack, api: Api) -> None:
    source = Path("examples/join/playbook.yaml").read_text()
    expected = api.run(source)
    functions = aws(stack, "lambda")
    mapping = next(
        m
        for m in functions.list_event_source_mappings(FunctionName=stack.outputs["RouterFunctionName"])["EventSourceMappings"]
        if ":table/" in m["EventSourceArn"]
    )
    functions.update_event_source_mapping(UUID=mapping["UUID"], Enabled=False)
    try:
        summary = api.wait(api.start(source), timeout_s=1500)
    finally:
        functions.update_event_source_mapping(UUID=mapping["UUID"], Enabled=True)
    assert (summary["status"], summary["result"]) == ("completed", expected["result"])
    assert summary["duration_ms"] > 60_000, "the stream was on"
    say(f"without the stream: {summary['duration_ms'] / 1000:.0f} s, with it {expected['duration_ms'] / 1000:.1f} s")


def say(line: str) -> None:
    """Print a figure for the caller of `make soak`."""
    sys.stdout.write(f"\n{line}\n")


def history(api: Api, execution_id: str) -> list[dict[str, Any]]:
    """The whole history, page by page."""
    out: list[dict[str, Any]] = []
    cursor = ""
    while True:
        status, answer = api.call("GET", f"/api/executions/{execution_id}/events?limit=1000{cursor}")
        assert status == 200, answer
        out += answer["events"]
        if not answer.get("cursor"):
            return out
        cursor = f"&after={answer['cursor']}"
