"""A machine whose clock is set between two processes: what waits, waits as long as it should, and time never runs back."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from noetl_core.adapters.clock import SteadyClock, SystemClock
from noetl_core.control.admit import StartRequest
from noetl_core.runtime.local import LocalWiring
from noetl_core.views.reading.cursor import history

SECOND = 1_000_000
DAY = 86_400
SPEED = 200
"""Seconds that pass here in one of the test's."""
WAITS_S = 120
PLAYBOOK = f"""\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {{ name: w, path: test/w }}
workflow:
  - step: start
    tool: {{ kind: wait, duration: {WAITS_S}, result: rested }}
"""


def machine(set_by_s: int) -> SteadyClock:
    """The clock of a process on a machine whose clock was set by so much, and on which time flies."""
    return SteadyClock(wall=lambda: SystemClock().now() + set_by_s * SECOND, elapsed=lambda: time.monotonic_ns() * SPEED)


@pytest.mark.parametrize("jump", [-DAY, DAY], ids=["back", "forwards"])
def test_a_timer_of_the_process_before_comes_when_it_is_due(tmp_path: Path, jump: int) -> None:
    first = LocalWiring(tmp_path / "runs.db", clock=machine(0))
    execution_id = first.start(StartRequest(playbook=PLAYBOOK)).execution_id
    assert not first.run(execution_id, timeout_s=WAITS_S / 10)
    first.runner.leave("SIGINT")
    first.close()
    second = LocalWiring(tmp_path / "runs.db", clock=machine(jump))
    began = second.clock.now()
    second.runner.adopt(execution_id)
    assert second.run(execution_id, timeout_s=DAY / 2), "it waited for the machine's clock to come round again"
    state = second.control.load(execution_id)
    assert state.status == "completed"
    if jump < 0:
        assert second.clock.now() - began > DAY / 2 * SECOND, "the process goes on from what the log has seen"
    stamps = [c.ts for c in history(second.store, execution_id)]
    assert stamps == sorted(stamps)
    second.close()
