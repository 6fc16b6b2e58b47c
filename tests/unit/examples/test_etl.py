"""The ETL example, killed in the middle and carried on: every flight once."""

from __future__ import annotations

import json
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any

import psycopg
import pytest

from noetl_cli.inputs.services import services_for
from noetl_core.runtime.local import LocalWiring
from noetl_core.views.executions import executions
from tests.examples_runner import EXAMPLES

RUN = """
import json, sys
from noetl_core.control.admit import StartRequest
from noetl_core.runtime.local import LocalWiring
store, playbook, payload = sys.argv[1:]
local = LocalWiring(store)
started = local.start(StartRequest(playbook=open(playbook).read(), payload=json.loads(payload)))
print(started.execution_id, flush=True)
local.run(started.execution_id, timeout_s=300)
"""


def got(url: str) -> Any:
    with urllib.request.urlopen(url) as answer:
        return json.load(answer)


@pytest.mark.nightly
def test_killed_in_the_middle_of_a_transfer_it_ends_with_every_flight_once(tmp_path: Path) -> None:
    playbook, store = EXAMPLES / "etl" / "playbook.yaml", tmp_path / "log.sqlite"
    with services_for(playbook, {}) as addresses:
        payload = {**addresses, "months": [1]}
        dsn = got(f"{addresses['services_url']}/database")["dsn"]
        source = playbook.read_text().replace("chunk_rows: 5000", "chunk_rows: 100")
        (tmp_path / "playbook.yaml").write_text(source)
        arguments = [str(store), str(tmp_path / "playbook.yaml"), json.dumps(payload)]
        child = subprocess.Popen([sys.executable, "-c", RUN, *arguments], stdout=subprocess.PIPE, text=True)
        assert child.stdout is not None
        execution_id = child.stdout.readline().strip()
        with psycopg.connect(dsn, autocommit=True) as connection:
            before = (0,)
            while before[0] < 500:
                assert child.poll() is None
                time.sleep(0.02)
                before = connection.execute("SELECT count(*) FROM flights").fetchone() or (0,)
        child.kill()
        child.wait()
        child.stdout.close()
        local = LocalWiring(store)
        try:
            local.runner.adopt(execution_id)
            assert local.run(execution_id, timeout_s=300)
            out: Any = executions.summary(local.control, execution_id)
        finally:
            local.close()
        assert out["error"] is None
        assert before[0] < 27_004, "it was over before it was killed"
        assert out["result"]["flights"] == out["result"]["rows_read"] == 27_004
        assert out["result"]["chunks"] == 271 and out["result"]["matches_source"] is True
        assert got(f"{addresses['services_url']}/notified") == [{"flights": 27_004, "execution_id": execution_id}]
