"""Functions in containers as `sam local` runs them, against the embedded stack: `make sam-local`.

The stack's own functions are disabled, so that all effects are those of the containers.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from noetl_infra.sam_local import environment, gateway, reachable
from noetl_infra.stack import Stack, down
from noetl_infra.up import free_port, up
from tests.e2e.support import Api, aws

pytestmark = pytest.mark.sam_local
ROOT = Path(__file__).parents[2]
SAM = str(Path(sys.executable).parent / "sam")
EXECUTION = "2691754336839624643"
"""The execution that events/api_start.json starts."""
PATIENCE_S = 600
"""An image is made for each container, with the layer in it."""


@dataclass(frozen=True)
class Containers:
    """`sam local` over the stack."""

    stack: Stack
    variables: Path

    def sam(self, *command: str) -> list[str]:
        return [SAM, "local", *command, "--config-env", "container", "--env-vars", str(self.variables)]

    def invoke(self, function: str, event: Path) -> Any:
        """Return the function's answer to the event."""
        ran = subprocess.run(
            self.sam("invoke", function, "--event", str(event)),
            cwd=ROOT,
            env=signed(),
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
        )
        assert ran.returncode == 0, ran.stderr
        print(f"sam local invoke {function} --event {event.name}: {ran.stdout.strip()[:160]}")
        return json.loads(ran.stdout.strip().splitlines()[-1])


def signed() -> dict[str, str]:
    """Any credentials: the stack asks for a form, not for a name."""
    keys = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_DEFAULT_REGION": "us-east-1"}
    return {**os.environ, **keys, "SAM_CLI_TELEMETRY": "0"}


@pytest.fixture(scope="module")
def containers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Containers]:
    folder = tmp_path_factory.mktemp("stack")
    address = gateway()
    assert (ROOT / ".aws-sam" / "build" / "template.yaml").exists(), (
        "make build ENV=container comes first, where packages can be had"
    )
    try:
        stack = up(folder, port=free_port())
        functions = aws(stack, "lambda")
        for mapping in functions.list_event_source_mappings()["EventSourceMappings"]:
            functions.update_event_source_mapping(UUID=mapping["UUID"], Enabled=False)
        rules = aws(stack, "events")
        for rule in rules.list_rules()["Rules"]:
            rules.disable_rule(Name=rule["Name"])
        with reachable(stack.endpoint, address) as seen_as:
            variables = folder / "environment.json"
            variables.write_text(json.dumps(environment(stack.endpoint, seen_as)))
            yield Containers(stack, variables)
    finally:
        down(folder)


def test_every_function_takes_its_event_from_the_events_folder(containers: Containers, tmp_path: Path) -> None:
    """The events tell one story; the execution they start is ended by the containers alone."""
    events = tmp_path / "events"
    shutil.copytree(ROOT / "events", events)
    put_what_it_tells_of(containers.stack, events / "upload.json")

    def told(function: str, name: str) -> Any:
        return containers.invoke(function, events / f"{name}.json")

    assert told("AdmitFunction", "api_health")["statusCode"] == 200
    assert told("CredentialsFunction", "api_credentials")["statusCode"] == 200
    started = told("AdmitFunction", "api_start")
    assert (started["statusCode"], json.loads(started["body"])["execution_id"]) == (202, EXECUTION)
    for function, name in (
        ("WorkerFunction", "command"),
        ("PythonWorkerFunction", "command"),  # the run has ended: dropped
        ("RouterFunction", "stream"),
        ("RouterFunction", "wake"),
        ("AdmitFunction", "upload"),
    ):
        assert told(function, name) == {"batchItemFailures": []}, (function, name)
    assert told("SweeperFunction", "schedule")["broken"] == 0
    summary = Api(containers.stack.api_url).summary(EXECUTION)
    assert (summary["status"], summary["result"]) == ("completed", {"greeting": "Hello, Ada!"})


def test_a_signed_webhook_starts_its_playbook_through_the_inbox(containers: Containers, tmp_path: Path) -> None:
    """The playbook is the one of docs/triggers.md; the event is signed with the secret that is put here."""
    api = Api(containers.stack.api_url)
    page = (ROOT / "docs" / "triggers.md").read_text()
    source = next(block for block in fenced(page) if "path: ci/build" in block)
    assert api.call("POST", "/api/credentials", {"name": "hooks/github", "data": {"secret": "sam local"}, "paths": ["*"]})[0] in (
        200,
        201,
    )
    status, registered = api.call("POST", "/api/playbooks", source)
    assert status in (200, 201), registered
    answer = containers.invoke("HooksFunction", ROOT / "events" / "api_hook.json")
    assert answer["statusCode"] == 202, answer
    execution = json.loads(answer["body"])["execution_id"]
    inbox = tmp_path / "inbox.json"
    inbox.write_text(json.dumps(held(containers.stack, queue_of(containers.stack, "InboxQueue"), is_webhook)))
    assert containers.invoke("AdmitFunction", inbox) == {"batchItemFailures": []}
    summary = api.summary(execution)
    assert (summary["status"], summary["trigger"]["kind"]) == ("running", "webhook")
    forged = json.loads((ROOT / "events" / "api_hook.json").read_text())
    forged["body"] = forged["body"].replace("7a3f9c1", "0000000")
    event = tmp_path / "forged.json"
    event.write_text(json.dumps(forged))
    assert containers.invoke("HooksFunction", event)["statusCode"] == 401


def fenced(page: str) -> list[str]:
    """The snippets of YAML of a page."""
    return [block.removeprefix("yaml\n") for block in page.split("```")[1::2] if block.startswith("yaml\n")]


def queue_of(stack: Stack, name: str) -> str:
    return next(str(url) for url in aws(stack, "sqs").list_queues()["QueueUrls"] if f"-{name}-" in str(url))


def put_what_it_tells_of(stack: Stack, notification: Path) -> None:
    """Put the object that the notification names into the stack's own inbox - objects of others start nothing -, and let it name
    that bucket and this version, and come from the stack's own queue: messages of others are for triggers."""
    event = json.loads(notification.read_text())
    told = json.loads(event["Records"][0]["body"])
    s3 = told["Records"][0]["s3"]
    s3["bucket"]["name"] = stack.outputs["InboxBucketName"]
    put = aws(stack, "s3").put_object(Bucket=s3["bucket"]["name"], Key=s3["object"]["key"], Body=b"{}")
    s3["object"]["versionId"] = put["VersionId"]
    event["Records"][0]["body"] = json.dumps(told)
    queue = queue_of(stack, "InboxQueue").rsplit("/", 1)[1]
    event["Records"][0]["eventSourceARN"] = f"arn:aws:sqs:us-east-1:000000000000:{queue}"
    notification.write_text(json.dumps(event))


def test_an_execution_goes_through_a_local_api_a_worker_and_a_router_in_containers(
    containers: Containers, tmp_path: Path
) -> None:
    """The playbook is one whose library, DuckDB, is in the package of the workers."""
    playbook = (ROOT / "examples" / "upload" / "playbook.yaml").read_text()
    with local_api(containers, tmp_path / "api.log") as api:
        execution = api.start(playbook, {})
        outputs = containers.stack.outputs
        command = tmp_path / "command.json"
        command.write_text(
            json.dumps(held(containers.stack, outputs["CommandQueueUrl"], lambda body: body.get("execution_id") == execution))
        )
        assert containers.invoke("WorkerFunction", command) == {"batchItemFailures": []}
        wake = tmp_path / "wake.json"
        wake.write_text(json.dumps({"Records": [record("wake", json.dumps({"wake": execution}), "ControlQueue")]}))
        assert containers.invoke("RouterFunction", wake) == {"batchItemFailures": []}
        summary = api.summary(execution)
    assert (summary["status"], summary["result"]) == ("completed", {"object": "s3://none/none", "size": 0, "rows": 1})


def is_webhook(body: Mapping[str, Any]) -> bool:
    return "noetl_webhook" in body


def held(stack: Stack, queue: str, wanted: Callable[[Mapping[str, Any]], bool]) -> Mapping[str, Any]:
    """The event that Lambda would make of the one message in the queue that is wanted."""
    messages = aws(stack, "sqs").receive_message(QueueUrl=queue, MaxNumberOfMessages=10)["Messages"]
    (mine,) = [m for m in messages if wanted(json.loads(m["Body"]))]
    return {"Records": [record(mine["MessageId"], mine["Body"], queue.rsplit("/", 1)[1], mine["ReceiptHandle"])]}


def record(message_id: str, body: str, queue: str, handle: str = "none") -> Mapping[str, Any]:
    return {
        "messageId": message_id,
        "receiptHandle": handle,
        "body": body,
        "attributes": {"ApproximateReceiveCount": "1"},
        "messageAttributes": {},
        "eventSource": "aws:sqs",
        "eventSourceARN": f"arn:aws:sqs:us-east-1:000000000000:{queue}",
        "awsRegion": "us-east-1",
    }


@contextmanager
def local_api(containers: Containers, log: Path) -> Iterator[Api]:
    """`sam local start-api` on a port of its own, until the block ends."""
    port = free_port()
    with log.open("wb") as output:
        command = containers.sam("start-api", "--port", str(port), "--warm-containers", "LAZY")
        process = subprocess.Popen(command, cwd=ROOT, env=signed(), stdout=output, stderr=output)
    try:
        until = time.monotonic() + PATIENCE_S
        while not answers(port):
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < until, log.read_text()
            time.sleep(0.5)
        yield Api(f"http://127.0.0.1:{port}", PATIENCE_S)
    finally:
        process.terminate()
        process.wait(60)


def answers(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
