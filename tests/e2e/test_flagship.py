"""The flagship on the stack: every flight once, with retries; also when the worker is killed in the middle."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from typing import Any

import pytest

from noetl_cli.inputs.services import services_for
from noetl_infra.stack import Stack
from tests.e2e.support import Api, aws, function_processes
from tests.examples_runner import EXAMPLES
from tests.flights_truth import assert_is_the_truth

PLAYBOOK = EXAMPLES / "flights" / "playbook.yaml"
FAULTS = 28
"""Pages of the API that fail on their first request."""


@pytest.fixture(scope="module")
def payload() -> Iterator[dict[str, Any]]:
    with services_for(PLAYBOOK) as addresses:
        yield addresses


def result_of(api: Api, summary: dict[str, Any]) -> dict[str, Any]:
    assert summary["status"] == "completed", summary["error"]
    result = summary["result"]
    assert isinstance(result, dict)
    return result


@pytest.mark.soak
def test_every_flight_is_counted_once_though_the_source_is_moody(stack: Stack, api: Api, payload: dict[str, Any]) -> None:
    summary = api.run(PLAYBOOK.read_text(), payload, timeout_s=240)
    result = result_of(api, summary)
    assert_is_the_truth(result)
    assert result["retries"] == FAULTS
    assert summary["steps"]["fetch_months"]["loop"] == {"total": 12, "succeeded": 12, "failed": 0}
    assert summary["steps"]["report"]["status"] == "ok"
    pages = (
        aws(stack, "s3")
        .get_paginator("list_objects_v2")
        .paginate(Bucket=stack.outputs["ResultsBucketName"], Prefix=f"{summary['execution_id']}/")
    )
    large = [o["Key"] for page in pages for o in page.get("Contents", ()) if o["Size"] > 8 * 1024 and "/commits/" not in o["Key"]]
    assert len(large) <= result["pages"] + 5, "a page is stored once"


@pytest.mark.nightly
@pytest.mark.slow
def test_a_worker_killed_in_the_middle_costs_two_minutes_and_not_a_row(stack: Stack, api: Api, payload: dict[str, Any]) -> None:
    execution_id = api.start(PLAYBOOK.read_text(), payload)
    wait_until_pages_are_stored(api, execution_id)
    killed = function_processes(stack, stack.outputs["WorkerFunctionName"])
    assert killed, "no worker process was found"
    for pid in killed:
        os.kill(pid, signal.SIGKILL)
    began = time.monotonic()
    until_it_went_on = wait_for_takeover(api, execution_id) - began
    summary = api.wait(execution_id, timeout_s=240)
    assert_is_the_truth(result_of(api, summary))
    assert until_it_went_on < 170, "first look (90 s) or lease (60 s), then a sweep (60 s)"


def wait_for_takeover(api: Api, execution_id: str) -> float:
    """Return the time at which another worker had taken over."""
    until = time.monotonic() + 200
    while not takeovers(api, execution_id):
        assert time.monotonic() < until, "nobody took over"
        time.sleep(1)
    return time.monotonic()


def wait_until_pages_are_stored(api: Api, execution_id: str) -> None:
    until = time.monotonic() + 60
    while time.monotonic() < until:
        tasks = events(api, execution_id, "TaskProcessed")
        if sum(1 for e in tasks if e.get("task") == "store_page") >= 20:
            return
        assert api.summary(execution_id)["status"] == "running", "it ended before it could be killed"
        time.sleep(0.1)
    raise AssertionError("no page was stored within a minute")


def takeovers(api: Api, execution_id: str) -> int:
    return sum(1 for e in events(api, execution_id, "StepStarted") if e["data"].get("takeover"))


def events(api: Api, execution_id: str, name: str) -> list[dict[str, Any]]:
    status, answer = api.call("GET", f"/api/executions/{execution_id}/events?name={name}&limit=1000")
    assert status == 200, answer
    return list(answer["events"])
