"""Schedules on a stack: each minute for ten minutes, while router and sweeper are killed (`make soak`); and what takes a moment."""

from __future__ import annotations

import os
import random
import signal
import sys
import time
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from noetl_infra.stack import Stack
from tests.e2e.support import Api, function_processes

PLAYBOOK = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: {{name: minutely, path: {path}}}
executor:
  spec:
    triggers:
      - {{schedule: "* * * * *", overlap: {overlap}, catch_up: {catch_up}, payload: {{at: "{{{{ trigger.scheduled_at }}}}"}}, enabled: {on}}}
workload: {{at: null}}
workflow:
  - step: start
    tool: {{kind: noop, result: "{{{{ [workload.at, trigger.previous_at] }}}}"}}
"""
MINUTES = 10


def registered(api: Api, path: str, *, on: bool = True, overlap: str = "queue", catch_up: str = "all") -> str:
    """The path of the trigger in the API."""
    source = PLAYBOOK.format(path=path, overlap=overlap, catch_up=catch_up, on=str(on).lower())
    status, answer = api.call("POST", "/api/playbooks", source)
    assert status == 201, answer
    return f"/api/triggers/{path}/schedule"


def asked(api: Api, method: str, path: str, body: Any = None) -> Any:
    status, answer = api.call(method, path, body)
    assert status in (200, 202), answer
    return answer


def test_a_trigger_is_fired_and_shown_on_a_stack(api: Api) -> None:
    trigger = registered(api, "schedules/by-hand", on=False)
    fired = asked(api, "POST", f"{trigger}/fire", {"at": "2026-11-22T10:30:00Z"})
    summary = api.wait(fired["execution_id"])
    assert summary["result"] == ["2026-11-22T10:30:00Z", "2026-11-22T10:29:00Z"]
    assert asked(api, "POST", f"{trigger}/fire", {"at": "2026-11-22T10:30:00Z"}) == fired
    (past,) = asked(api, "GET", trigger)["firings"]
    assert past == {**fired, "execution": past["execution"]}
    (listed,) = api.executions("schedules/by-hand")
    assert listed["trigger"] == {"kind": "schedule", "name": "schedule"}
    assert asked(api, "POST", f"{trigger}/enable")["next_at"] is not None
    assert asked(api, "POST", f"{trigger}/disable")["next_at"] is None


@pytest.mark.soak
def test_ten_minutes_of_a_schedule_start_once_each_while_router_and_sweeper_are_killed(stack: Stack, api: Api) -> None:
    choose = random.Random(7)
    trigger = registered(api, "schedules/minutely")
    first = datetime.fromisoformat(asked(api, "GET", trigger)["next_at"])
    wanted = [(first + timedelta(minutes=n)).strftime("%Y-%m-%dT%H:%M:%SZ") for n in range(MINUTES)]
    kills, end = 0, first + timedelta(minutes=MINUTES)
    while datetime.now(UTC) < end:
        time.sleep(choose.uniform(2, 20))
        for function in (stack.outputs["RouterFunctionName"], stack.outputs["SweeperFunctionName"]):
            for process in function_processes(stack, function):
                os.kill(process, signal.SIGKILL)
                kills += 1
    late = time.monotonic() + 240
    found: dict[str, dict[str, Any]] = {}
    while not set(wanted) <= found.keys():
        assert time.monotonic() < late, f"of {wanted} there are {sorted(found)}"
        time.sleep(2)
        found = {f["id"]: f for f in asked(api, "GET", trigger)["firings"]}
    asked(api, "POST", f"{trigger}/disable")
    assert {found[one]["result"] for one in wanted} == {"started"}
    delays = []
    for one in wanted:
        summary = api.wait(found[one]["execution_id"], timeout_s=240)
        assert (summary["status"], summary["result"][0]) == ("completed", one)
        delays.append((datetime.fromisoformat(summary["started_at"]) - datetime.fromisoformat(one)).total_seconds())
    executions = api.executions("schedules/minutely")
    assert len({e["execution_id"] for e in executions}) == len(executions)
    assert {found[one]["execution_id"] for one in wanted} <= {e["execution_id"] for e in executions}
    assert len(executions) <= MINUTES + 5, "an occurrence started twice"
    assert kills >= MINUTES
    sys.stdout.write(
        f"\n{MINUTES} occurrences, {kills} kills: started {min(delays):.1f} to {max(delays):.1f} s after their time\n"
    )
