"""Playbooks whose tasks ask AWS's services, in one process over mocked ones."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from noetl_core.control.admit import StartRequest
from noetl_core.dsl.parse import check
from noetl_core.runtime.local import LocalWiring
from noetl_core.views.executions import executions
from tests.contract.aws import environment
from tests.fast_moto import mock_aws

HEAD = """apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: asks, path: tests/asks }
executor: { spec: { policy: { limits: { max_payload_bytes: 200000 } } } }
workflow:
  - step: start
    tool:
"""


@contextmanager
def mocked(**variables: str) -> Iterator[None]:
    """AWS in this process, and these variables of the environment."""
    with mock_aws(), environment(**variables):
        yield


def playbook(*tasks: Any) -> str:
    """A playbook of these tasks, one after the other."""
    named = [{"name": f"t{n}", **task} for n, task in enumerate(tasks)]
    return HEAD + "".join(f"      - {json.dumps(task)}\n" for task in named)


class Ran:
    """A playbook that was carried out, with its values."""

    def __init__(self, *tasks: Any, payload: Any = None, local: LocalWiring | None = None) -> None:
        self.local = local or LocalWiring()
        source = playbook(*tasks)
        wrong = [str(d) for d in check(source)[1] if d.severity == "error"]
        assert wrong == [], wrong
        started = self.local.start(StartRequest(playbook=source, payload=payload or {}))
        self.execution_id = started.execution_id
        assert self.local.run(self.execution_id, timeout_s=60)
        self.summary = executions.summary(self.local.control, self.execution_id)
        if local is None:
            self.local.close()

    @property
    def result(self) -> Any:
        assert self.summary["error"] is None, self.summary["error"]
        return self.summary["result"]

    @property
    def error(self) -> dict[str, Any]:
        assert self.summary["error"] is not None, self.summary["result"]
        return dict(self.summary["error"])
