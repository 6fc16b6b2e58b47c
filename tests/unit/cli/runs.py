"""Runs in a folder of their own, and waiting for them to come to a point."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from noetl_core.runtime.local import LocalWiring
from tests.commands import PATIENCE_S, Completed
from tests.running import events_of

HELLO = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: hello, path: test/hello }
workload: { name: world, deep: { n: 1 } }
workflow:
  - step: start
    tool: { kind: noop, result: { greeting: "Hello, {{ workload.name }}!", n: "{{ workload.deep.n }}" } }
"""


SLOW = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: slow, path: test/slow }
workflow:
  - step: start
    loop: { in: "{{ range(16) | list }}", iterator: n }
    tool:
      kind: python
      args: { n: "{{ iter.n }}" }
      code: |
        import time
        time.sleep(0.3)
        result = n
"""


Run = Callable[..., Completed]


def result_of(done: Completed) -> dict[str, Any]:
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))


def when_two_are_done(folder: Path) -> str:
    return when(folder, "LoopIterationCompleted", 2)


def when(folder: Path, name: str, number: int) -> str:
    """The execution's id, once its log has `number` events of that name."""
    store = folder / ".noetl" / "runs.db"
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        if store.exists():
            local = LocalWiring(store)
            try:
                for head in local.index.heads():
                    done, _ = events_of(local.control, head.execution_id, name=name)
                    if len(done) >= number:
                        return head.execution_id
            finally:
                local.close()
        time.sleep(0.05)
    raise AssertionError("the run did not get going")
