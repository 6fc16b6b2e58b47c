"""Every file under events/ given to the function it is for, over mocked services made as template.yaml says."""

from __future__ import annotations

import importlib.util
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from noetl_core.adapters.aws.clients import client
from noetl_core.runtime import control_wiring, worker_wiring
from tests.contract.aws import environment, make_bucket, make_queue, make_table
from tests.fast_moto import mock_aws

ROOT = Path(__file__).parents[3]
pytestmark = pytest.mark.filterwarnings("ignore:No application metrics to publish")
EXECUTION = "2691754336839624643"
"""The execution that api_start.json's idempotency key stands for; the other events speak of it."""


@dataclass
class Context:
    """The part of Lambda's context object that functions read."""

    function_name: str = "noetl-function"
    memory_limit_in_mb: int = 512
    invoked_function_arn: str = "arn:aws:lambda:us-east-1:123456789012:function:noetl-function"
    aws_request_id: str = "52fdfc07-2182-154f-163f-5f0f9a621d72"

    def get_remaining_time_in_millis(self) -> int:
        return 60_000


@pytest.fixture
def cloud() -> Iterator[None]:

    with (
        mock_aws(),
        environment(POWERTOOLS_TRACE_DISABLED="1", POWERTOOLS_METRICS_NAMESPACE="test", POWERTOOLS_SERVICE_NAME="test"),
    ):
        named = {
            "EVENTS_TABLE": make_table("EventsTable"),
            "CATALOG_TABLE": make_table("CatalogTable"),
            "RESULTS_BUCKET": make_bucket(),
            "INLINE_STARTERS": "*",
            "COMMAND_QUEUES": json.dumps({"default": make_queue("CommandQueue")}),
            "CONTROL_QUEUE_URL": make_queue("ControlQueue"),
            "DEAD_LETTER_QUEUES": json.dumps([make_queue("CommandDeadLetters"), make_queue("ControlDeadLetters")]),
        }
        client("sqs").create_queue(QueueName="noetl-CommandQueue-1ABC")
        with environment(**named):
            forget()
            yield
            forget()


def forget() -> None:
    for made in (control_wiring.results, control_wiring.control, worker_wiring.worker, control_wiring.inbox):
        made.cache_clear()


def event(name: str) -> dict[str, Any]:
    read: dict[str, Any] = json.loads((ROOT / "events" / f"{name}.json").read_text())
    return read


def app(function: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"{function}_app", ROOT / "functions" / function / "app.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def call(function: str, name: str) -> Any:
    return app(function).handler(event(name), Context())


def commands() -> list[dict[str, Any]]:
    (url,) = json.loads(os.environ["COMMAND_QUEUES"]).values()
    got = client("sqs").receive_message(QueueUrl=url, MaxNumberOfMessages=10).get("Messages", [])
    return [json.loads(m["Body"]) for m in got]


def test_health(cloud: None) -> None:
    answer = call("admit", "api_health")
    assert (answer["statusCode"], json.loads(answer["body"])["status"]) == (200, "ok")


def test_a_start_is_accepted_and_sends_its_first_command(cloud: None) -> None:
    answer = call("admit", "api_start")
    assert (answer["statusCode"], json.loads(answer["body"])["execution_id"]) == (202, EXECUTION)
    (command,) = commands()
    sample = json.loads(event("command")["Records"][0]["body"])
    assert (command["execution_id"], command["run_id"]) == (EXECUTION, sample["run_id"])


def test_a_start_sent_twice_is_one_execution(cloud: None) -> None:
    assert call("admit", "api_start")["statusCode"] == call("admit", "api_start")["statusCode"] == 202
    assert len(commands()) == 1


def upload() -> Any:
    """The sample's object, put, and the function's answer to its notification."""
    notified = event("upload")
    told = json.loads(notified["Records"][0]["body"])
    s3 = told["Records"][0]["s3"]
    bucket, key = s3["bucket"]["name"], s3["object"]["key"]
    client("s3").create_bucket(Bucket=bucket)
    client("s3").put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    s3["object"]["versionId"] = client("s3").put_object(Bucket=bucket, Key=key, Body=b"{}")["VersionId"]
    notified["Records"][0]["body"] = json.dumps(told)
    return lambda: app("admit").handler(notified, Context())


def test_an_upload_for_no_playbook_is_moved_aside_and_done_with(cloud: None) -> None:
    assert upload()() == {"batchItemFailures": []}
    assert commands() == []
    listed = client("s3").list_objects_v2(Bucket="noetl-inboxbucket-1abc")["Contents"]
    assert [o["Key"] for o in listed] == [f"rejected/triggers/examples/hello/today.json{end}" for end in ("", ".error.json")]


@pytest.mark.one_in(3)
@pytest.mark.parametrize("body", ["no json", "[]", '{"Records": 5}', '{"Records": [{"s3": {}}]}', '{"Event": "s3:TestEvent"}'])
def test_a_notification_of_odd_shape_is_reported_and_done_with(cloud: None, body: str) -> None:
    notified = event("upload")
    notified["Records"][0]["body"] = body
    assert app("admit").handler(notified, Context()) == {"batchItemFailures": []}


def test_an_upload_delivered_twice_starts_its_playbook_once(cloud: None) -> None:
    call("admit", "api_start")
    commands()
    start = event("api_start")
    register = {**start, "path": "/api/playbooks", "body": json.dumps({"playbook": json.loads(start["body"])["playbook"]})}
    assert app("admit").handler(register, Context())["statusCode"] in (200, 201)
    deliver = upload()
    assert deliver() == deliver() == {"batchItemFailures": []}
    assert len(commands()) == 1


@pytest.mark.parametrize("news", ["stream", "wake"])
def test_a_command_runs_its_step_and_the_router_hears_of_it(cloud: None, news: str) -> None:
    call("admit", "api_start")
    assert call("worker", "command") == {"batchItemFailures": []}
    assert call("router", news) == {"batchItemFailures": []}
    answer = app("admit").handler({**event("api_health"), "path": f"/api/executions/{EXECUTION}"}, Context())
    summary = json.loads(answer["body"])
    assert (summary["status"], summary["result"]) == ("completed", {"greeting": "Hello, Ada!"})


def test_a_sweep_reconciles_nothing_when_nothing_is_due(cloud: None) -> None:
    assert call("sweeper", "schedule")["looked"] == 0
