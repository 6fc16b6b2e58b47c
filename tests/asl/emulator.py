"""Runs cases on the emulator's Step Functions. Each task sends its token to a function, which keeps the inputs and answers as scripted.

Functions that raise would be simpler, but the emulator's local executor loses the type of their error.
"""

from __future__ import annotations

import io
import json
import os
import socket
import subprocess
import sys
import time
import uuid
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, field
from functools import cached_property
from inspect import getsource
from pathlib import Path
from typing import Any

from noetl_infra.stack import answers as responds
from noetl_infra.stack import stop
from tests.asl.cases import Case, Outcome, contains, task_states
from tests.stacks import client

ROLE = "arn:aws:iam::000000000000:role/asl"
LIMIT_S = 40
AT_ONCE = 4
HANDLER = """
import fcntl, json, os, urllib.request
FOLDER = {folder!r}

{contains}

def handler(event, context):
    with open(f"{{FOLDER}}/{{event['call']}}.answers") as file:
        answers = json.load(file)
    with open(f"{{FOLDER}}/{{event['call']}}.jsonl", "a+") as calls:
        fcntl.flock(calls, fcntl.LOCK_EX)
        calls.seek(0)
        count = len(calls.readlines())
        calls.write(json.dumps(event["event"]) + "\\n")
    print("called")
    fitting = [each for each in answers if "input" in each and contains(event["event"], each["input"])]
    others = [each for each in answers if "input" not in each]
    answer = fitting[0] if fitting else others[min(count, len(others) - 1)]
    if "error" in answer:
        action, body = "SendTaskFailure", {{"error": answer["error"], "cause": answer.get("cause", "")}}
    else:
        action, body = "SendTaskSuccess", {{"output": json.dumps(answer["return"])}}
    headers = {{"X-Amz-Target": f"AWSStepFunctions.{{action}}", "Content-Type": "application/x-amz-json-1.0"}}
    headers["Authorization"] = "AWS4-HMAC-SHA256 Credential=test/20260101/us-east-1/states/aws4_request"
    data = json.dumps({{"taskToken": event["token"], **body}}).encode()
    urllib.request.urlopen(urllib.request.Request({endpoint!r}, data, headers)).read()
"""


@contextmanager
def emulator(folder: Path) -> Iterator[Emulator]:
    """A MiniStack of its own, whose waits take no time."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    env = {**os.environ, "GATEWAY_PORT": str(port), "BIND_HOST": "127.0.0.1", "SFN_WAIT_SCALE": "0", "LAMBDA_EXECUTOR": "local"}
    with (folder / "ministack.log").open("wb") as log:
        process = subprocess.Popen(
            [Path(sys.executable).parent / "ministack"], env=env, stdout=log, stderr=log, start_new_session=True
        )
    endpoint, end = f"http://127.0.0.1:{port}", time.monotonic() + LIMIT_S
    try:
        while not responds(endpoint):
            if time.monotonic() > end or process.poll() is not None:
                raise RuntimeError((folder / "ministack.log").read_text()[-2000:])
            time.sleep(0.1)
        yield Emulator(folder, endpoint)
    finally:
        stop(process.pid)
        process.wait()


@dataclass
class Emulator:
    """Runs cases on one MiniStack."""

    folder: Path
    endpoint: str
    clients: dict[str, Any] = field(default_factory=dict)

    def client(self, service: str) -> Any:
        if service not in self.clients:
            self.clients[service] = client(service, self.endpoint)
        return self.clients[service]

    def run(self, case: Case) -> Outcome:
        """Return how a case ends."""
        mark, calls = uuid.uuid4().hex[:8], dict[str, str]()
        definition = deepcopy(dict(case.definition))
        for number, (_, name, state) in enumerate(task_states(definition)):
            calls[name] = f"{mark}-{number}"
            (self.folder / f"{calls[name]}.answers").write_text(json.dumps(case.answers.get(name, [{"return": {}}])))
            language = state.get("QueryLanguage", case.definition.get("QueryLanguage"))
            _rewrite(state, self.function, calls[name], language == "JSONata")
        _bound(definition)
        for bucket, objects in case.objects.items():
            self.client("s3").create_bucket(Bucket=bucket)
            for key, text in objects.items():
                self.client("s3").put_object(Bucket=bucket, Key=key, Body=text.encode())
        states = self.client("stepfunctions")
        machine = states.create_state_machine(name=f"asl-{mark}", definition=json.dumps(definition), roleArn=ROLE)[
            "stateMachineArn"
        ]
        started = states.start_execution(stateMachineArn=machine, input=json.dumps(case.input))["executionArn"]
        end = time.monotonic() + LIMIT_S
        while (found := states.describe_execution(executionArn=started))["status"] == "RUNNING":
            if time.monotonic() > end:
                return Outcome("RUNNING", note=f"not ended after {LIMIT_S} s")
            time.sleep(0.02)
        inputs = {name: _lines(self.folder / f"{call}.jsonl") for name, call in calls.items()}
        output = json.loads(found["output"]) if found.get("output") else None
        return Outcome(found["status"], output, found.get("error") or "", inputs, found.get("cause") or "")

    @cached_property
    def function(self) -> str:
        """The ARN of the function that answers all tasks."""
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w") as archive:
            source = HANDLER.format(folder=str(self.folder), endpoint=self.endpoint, contains=getsource(contains))
            archive.writestr("handler.py", source)
        created = self.client("lambda").create_function(
            FunctionName="answers",
            Runtime="python3.12",
            Role=ROLE,
            Handler="handler.handler",
            Code={"ZipFile": packed.getvalue()},
        )
        return str(created["FunctionArn"])


def _bound(machine: dict[str, Any]) -> None:
    """Limit the Maps without a limit: each of their items at once would be a process of the emulator."""
    for state in machine["States"].values():
        for inner in (state.get("ItemProcessor"), state.get("Iterator"), *state.get("Branches", ())):
            if inner:
                _bound(inner)
        if state["Type"] == "Map" and "MaxConcurrencyPath" not in state:
            state["MaxConcurrency"] = min(state.get("MaxConcurrency") or AT_ONCE, AT_ONCE)


def _rewrite(state: dict[str, Any], function: str, call: str, jsonata: bool) -> None:
    """Have a Task state call a function that answers by token; its inputs stay as they are evaluated."""
    state["Resource"] = "arn:aws:states:::lambda:invoke.waitForTaskToken"
    if jsonata:
        event = state.get("Arguments", "{% $states.input %}")
        payload = {"token": "{% $states.context.Task.Token %}", "call": call, "event": event}
        state["Arguments"] = {"FunctionName": function, "Payload": payload}
    else:
        event = {"event": state["Parameters"]} if "Parameters" in state else {"event.$": "$"}
        state["Parameters"] = {"FunctionName": function, "Payload": {"token.$": "$$.Task.Token", "call": call, **event}}


def _lines(file: Path) -> list[Any]:
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
