"""Carrying an execution to where it waits, however slow the machine is."""

from __future__ import annotations

import time
from collections.abc import Callable

from noetl_core.runtime.local import LocalWiring


def run_until_it_waits(local: LocalWiring, execution_id: str, timeout_s: float = 20) -> None:
    """Until nothing runs: every open run is suspended, or the execution has ended."""
    until = time.monotonic() + timeout_s
    while True:
        local.run(execution_id, timeout_s=0.05)
        state = local.control.load(execution_id)
        if state.finished or (state.runs and all(run.status == "suspended" for run in state.runs.values())):
            return
        assert time.monotonic() < until, f"{execution_id} does not come to a wait"


def eventually(holds: Callable[[], bool], timeout_s: float = 60) -> None:
    """Until something that happens elsewhere has happened."""
    until = time.monotonic() + timeout_s
    while not holds():
        assert time.monotonic() < until, "it does not happen"
        time.sleep(0.02)
