"""Requests to the routes of the API, over a local store."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from noetl_core.adapters.local.secrets import LocalSecrets
from noetl_core.control.admit import StartRequest
from noetl_core.runtime.local import LocalWiring
from noetl_core.service.api_service import Service
from noetl_core.service.operations.base import cursor_key
from tests import api_requests
from tests.api_requests import Answer
from tests.waiting import run_until_it_waits

SOURCE = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: views, path: test/views }
keychain: [{ name: pg, kind: credential, ref: pg.main }]
workload: { n: 2 }
workflow:
  - step: start
    tool:
      - { name: say, kind: noop, message: "%s" }
      - { name: list, kind: noop, result: "{{ range(10 * workload.n) | list }}", set_ctx: { seen: "{{ workload.n }}" } }
    next: { arcs: [{ step: ask, args: { to: Ada } }] }
  - step: ask
    tool: { kind: callback, signal: go }
""" % ("x" * 9_000)


class Asker:
    """Requests to the routes, over a local store."""

    def __init__(self, folder: Path) -> None:
        self.local = LocalWiring(folder / "runs.db")
        self.secrets = LocalSecrets(folder / "credentials.json")
        self.service = Service(
            lambda: self.local.control,
            cursor_key(lambda: self.local.control),
            facts={"name": "local", "pools": {"default": {"concurrency": 16}}},
            secrets=lambda: self.secrets,
            rights=lambda caller, right: right != "secrets:read" or bool(caller.get("may")),
        )

    def __call__(self, method: str, path: str, body: Any = None, caller: dict[str, Any] | None = None, **query: str) -> Answer:
        text = "" if body is None else json.dumps(body)
        return api_requests.ask(self.service, method, f"/api/{path}", query, body=text, caller=caller)

    def waiting(self) -> str:
        started = self.local.start(StartRequest(playbook=SOURCE))
        run_until_it_waits(self.local, started.execution_id)
        return started.execution_id
