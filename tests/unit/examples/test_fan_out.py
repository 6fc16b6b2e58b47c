"""The example of 500 files: exact counts, and the same when it is killed in the middle and carried on."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from noetl_core.runtime.local import LocalWiring
from noetl_core.views.executions import executions
from tests.examples_runner import EXAMPLES, run_example
from tests.fan_out_files import RESULT, make
from tests.unit.tools.aws_playbooks import mocked

RUN = """
import sys
from noetl_core.control.admit import StartRequest
from noetl_core.runtime.local import LocalWiring
from tests.fan_out_files import make
from tests.unit.tools.aws_playbooks import mocked
store, playbook = sys.argv[1:]
with mocked():
    make("fan-out")
    local = LocalWiring(store)
    started = local.start(StartRequest(playbook=open(playbook).read(), payload={}))
    print(started.execution_id, flush=True)
    local.run(started.execution_id, timeout_s=300)
"""


def parts(store: Path) -> int:
    """Return the number of Parquet files."""
    return sum(1 for _ in store.parent.rglob("*.parquet"))


@pytest.mark.soak
def test_unreadable_files_are_named_and_all_others_merged_into_one_file(tmp_path: Path) -> None:
    with mocked():
        make("elsewhere")
        ended = run_example("fan_out", tmp_path / "log.sqlite", {"bucket": "elsewhere"})
    assert (ended.status, ended.error) == ("completed", None)
    assert ended.result == RESULT


@pytest.mark.nightly
def test_killed_in_the_middle_it_ends_with_the_same(tmp_path: Path) -> None:
    playbook, store = EXAMPLES / "fan_out" / "playbook.yaml", tmp_path / "log.sqlite"
    child = subprocess.Popen([sys.executable, "-c", RUN, str(store), str(playbook)], stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    execution_id = child.stdout.readline().strip()
    while parts(store) < 150:
        assert child.poll() is None
        time.sleep(0.02)
    child.kill()
    child.wait()
    child.stdout.close()
    before = parts(store)
    with mocked():
        make("fan-out")
        local = LocalWiring(store)
        try:
            local.runner.adopt(execution_id)
            assert local.run(execution_id, timeout_s=300)
            out: Any = executions.summary(local.control, execution_id)
        finally:
            local.close()
    assert before < 495, "it was over before it was killed"
    assert (out["error"], out["result"]) == (None, RESULT)
    assert out["steps"]["read"]["loop"] == {"total": 500, "succeeded": 495, "failed": 5}
    assert parts(store) == 496, "a repeated iteration writes the same object"
