"""The API of a local store, answered in this process."""

from __future__ import annotations

import json
import threading
from base64 import b64encode
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any
from urllib.parse import parse_qsl

from noetl_console import authored_tests, editing
from noetl_console.answering import Answered, Asked
from noetl_console.carrying import Carrier
from noetl_core.adapters.local.home import home
from noetl_core.adapters.local.processes import user_name
from noetl_core.adapters.local.secrets import LocalSecrets
from noetl_core.api.app import Api
from noetl_core.api.callers import Rights
from noetl_core.ports import PortError
from noetl_core.runtime.local import LocalWiring
from noetl_core.runtime.local_runner import THREADS
from noetl_core.service.api_service import Service
from noetl_core.service.operations.base import cursor_key

ACCEPTED = 202
AT_ONCE = 8
"""Concurrently answered requests; a browser sends six."""


class LocalApi:
    """The services over one store. Executions that a request starts or wakes are carried out here, because no other process
    would."""

    name = "local"

    def __init__(self, store: str, folder: Path | None = None) -> None:
        """Serve the store `store`. `folder` has the test files of playbooks, by default the current one."""
        self._folder = Path.cwd() if folder is None else folder
        self._wiring = LocalWiring(store)
        self._carrier = Carrier(lambda: LocalWiring(store))
        self._service = Service(
            lambda: self._wiring.control,
            cursor_key(lambda: self._wiring.control),
            {"name": "local", "pools": {"default": {"concurrency": THREADS}}},
            secrets=lambda: LocalSecrets(home() / "credentials.json"),
            rights=Rights(auth="NONE"),
            user=user_name(),
        )
        self._places = threading.BoundedSemaphore(AT_ONCE)
        self._free: SimpleQueue[Api] = SimpleQueue()
        """Idle instances of `Api`, each of which answers one request at a time; another is created if none is idle."""

    def answer(self, asked: Asked) -> Answered:
        if asked.path == authored_tests.ROUTE and asked.method == "POST":
            return authored_tests.answer(asked, self._folder)
        if asked.path == editing.ROUTE and asked.method == "POST":
            return editing.answer(asked)
        try:
            body, encoded = asked.body.decode(), False
        except UnicodeDecodeError:
            body, encoded = b64encode(asked.body).decode(), True
        event = {
            "httpMethod": asked.method,
            "path": asked.path,
            "headers": dict(asked.headers),
            "queryStringParameters": dict(parse_qsl(asked.query, keep_blank_values=True)) or None,
            "body": body or None,
            "isBase64Encoded": encoded,
        }
        with self._places:
            response = self._resolve(event)
        headers = {name: values[0] for name, values in response["multiValueHeaders"].items() if values}
        answered = Answered(response["statusCode"], response["body"].encode(), headers)
        if asked.method == "POST" and answered.status == ACCEPTED:
            self._carry(answered)
        return answered

    def _resolve(self, event: Mapping[str, Any]) -> dict[str, Any]:
        try:
            api = self._free.get_nowait()
        except Empty:
            api = Api(self._service)
        try:
            return api.resolve(event, None)
        finally:
            self._free.put(api)

    def _carry(self, answered: Answered) -> None:
        """Carry out the executions that an accepted request has started or woken."""
        body = json.loads(answered.body)
        done = [e["execution_id"] for e in body.get("executions", ()) if e["outcome"] == "done"]  # part of a batch
        for execution_id in (body.get("execution_id"), *done):
            if execution_id:
                self._carrier.carry(self._caller_of(str(execution_id)))

    def _caller_of(self, execution_id: str) -> str:
        """Return the execution that has called this one, directly or indirectly, and has not ended.

        The thread that carries it out carries out what it calls, too. A second thread would route the end of this one, and keep
        the command that continues the caller.
        """
        control = self._wiring.control
        with suppress(PortError):  # an execution with an unreadable log is not a caller
            while (parent := control.load(execution_id).parent) and "run_id" in parent:
                if control.load(parent["execution_id"]).finished:
                    break
                execution_id = parent["execution_id"]
        return execution_id

    def close(self) -> None:
        self._carrier.close()
        self._wiring.close()
