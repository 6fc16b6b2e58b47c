"""Shared by end-to-end tests: the stack's HTTP API and its AWS clients."""

from __future__ import annotations

import json
import os
import time
import urllib.error
import urllib.request
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from noetl_infra.stack import Stack
from tests.stacks import client

ENDED = frozenset({"completed", "failed", "cancelled", "stuck"})


@dataclass(frozen=True)
class Api:
    """The HTTP API of a stack."""

    url: str
    patience_s: float = 60

    def call(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        """Return status and JSON answer; a text `body` is sent unchanged, any other as JSON."""
        data = None if body is None else (body if isinstance(body, str) else json.dumps(body)).encode()
        request = urllib.request.Request(self.url + path, data, {"Content-Type": "application/json"}, method=method)
        try:
            with urllib.request.urlopen(request, timeout=self.patience_s) as answer:
                return answer.status, json.loads(answer.read())
        except urllib.error.HTTPError as refused:
            with refused:
                return refused.code, json.loads(refused.read())

    def start(self, source: str, payload: Mapping[str, Any] | None = None, **more: Any) -> str:
        status, answer = self.call("POST", "/api/executions", {"playbook": source, "payload": payload or {}, **more})
        assert status == 202, answer
        return str(answer["execution_id"])

    def summary(self, execution_id: str) -> dict[str, Any]:
        status, answer = self.call("GET", f"/api/executions/{execution_id}")
        assert status == 200, answer
        return dict(answer)

    def wait(self, execution_id: str, timeout_s: float = 120, until: Collection[str] = ENDED) -> dict[str, Any]:
        """Wait until the execution has one of these statuses (default: has ended), and return its summary."""
        deadline = time.monotonic() + timeout_s
        while True:
            summary = self.summary(execution_id)
            if summary["status"] in until:
                return summary
            assert time.monotonic() < deadline, f"still {summary['status']} after {timeout_s} s: {summary}"
            time.sleep(0.2)

    def run(self, source: str, payload: Mapping[str, Any] | None = None, timeout_s: float = 120) -> dict[str, Any]:
        return self.wait(self.start(source, payload), timeout_s)

    def executions(self, path: str) -> list[dict[str, Any]]:
        """Return the newest executions of a playbook path."""
        status, answer = self.call("GET", f"/api/executions?path={path}")
        assert status == 200, answer
        return list(answer["executions"])


def aws(stack: Stack, service: str) -> Any:
    """Return a boto3 client of the stack."""
    return client(service, stack.endpoint)


def function_processes(stack: Stack, function: str) -> list[int]:
    """Return the process ids of the environments of `function`: emulators run each as a process of its own.

    MiniStack's are in its process group, with the same names in every stack; LocalStack's have names of their own.
    """
    group = None if stack.pid is None else os.getpgid(stack.pid)
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdecimal() or int(entry.name) == stack.pid:
            continue
        try:
            environment = (entry / "environ").read_bytes().split(b"\0")
            if group in (None, os.getpgid(int(entry.name))) and f"AWS_LAMBDA_FUNCTION_NAME={function}".encode() in environment:
                found.append(int(entry.name))
        except (ProcessLookupError, FileNotFoundError, PermissionError):
            continue  # it has ended meanwhile
    return found
