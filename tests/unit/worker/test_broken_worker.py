"""A bug in the engine that shows on a worker's thread ends the local run with its reason; it does not let it hang."""

from __future__ import annotations

import pytest

from noetl_core.control.admit import StartRequest
from noetl_core.dsl.model import Playbook
from noetl_core.runtime.local import LocalWiring

PLAYBOOK = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: broken, path: tests/broken}
workflow:
  - {step: start, tool: {kind: python, code: "result = 1"}}
"""


@pytest.mark.parametrize("timeout_s", [None, 30])
def test_a_worker_that_raises_is_heard_of(timeout_s: float | None) -> None:
    local = LocalWiring()

    def broken(_digest: str) -> Playbook:
        raise ZeroDivisionError("a bug")

    local.worker.playbooks = broken
    try:
        started = local.start(StartRequest(playbook=PLAYBOOK))
        with pytest.raises(ZeroDivisionError, match="a bug"):
            local.run(started.execution_id, timeout_s=timeout_s)
    finally:
        local.close()
