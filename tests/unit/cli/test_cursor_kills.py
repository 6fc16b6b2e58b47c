"""Two executions claim rows of one PostgreSQL table, and their processes are killed again and again: each row is one iteration's."""

from __future__ import annotations

import json
import random
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.commands import ENV, PATIENCE_S, Command
from tests.databases import postgres
from tests.unit.cli.runs import when

ROWS = 240
KILLS = 3
WORK = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: work, path: test/work }
keychain: [{ name: work, kind: postgres }]
workflow:
  - step: work
    loop:
      cursor: { kind: postgres, auth: work, table: jobs, where: "state = 'ready'", done: { state: done } }
      iterator: job
      spec: { mode: cursor, max_in_flight: 3, frame: 10 }
    tool:
      kind: postgres
      auth: work
      commands:
        - SELECT pg_sleep(0.04)
        - command: INSERT INTO ran VALUES (%(id)s, current_setting('noetl.task_run_id')) ON CONFLICT DO NOTHING
          params: { id: "{{ iter.job.id }}" }
"""


@pytest.fixture(scope="module")
def uri() -> Iterator[str]:
    with postgres() as found:
        yield found


def carried_out(folder: Path, environment: dict[str, str], chances: random.Random, brought: list[Any], killed: list[int]) -> None:
    """An execution in a store of its own, whose processes are killed at random moments until the last one may end."""
    arguments = ["run", "work.yaml"]
    for _ in range(KILLS):
        with Command(*arguments, cwd=folder, env=environment) as process:
            execution_id = when(folder, "LoopFrameClaimed", 1)
            time.sleep(chances.uniform(0.0, 0.6))
            process.send_signal(signal.SIGKILL)
            killed.append(process.wait())
        arguments = ["resume", execution_id]
    with Command(*arguments, "--output", "json", cwd=folder, env=environment) as process:
        assert process.wait() == 0, process.stderr
        brought.append(json.loads(process.stdout))


@pytest.mark.nightly
def test_killed_processes_of_two_executions_run_each_row_in_one_iteration(uri: str, tmp_path: Path) -> None:
    with psycopg.connect(uri, autocommit=True) as db:
        db.execute(
            "CREATE TABLE jobs (id int PRIMARY KEY, state text DEFAULT 'ready', claimed_by text, claimed_until timestamptz)"
        )
        db.execute("CREATE TABLE ran (id int, task_run text, PRIMARY KEY (id, task_run))")
        db.execute("INSERT INTO jobs (id) SELECT generate_series(1, %s::int)", [ROWS])
        brought: list[Any] = []
        killed: list[int] = []
        threads = []
        for n in range(2):
            folder = tmp_path / str(n)
            folder.mkdir()
            (folder / "work.yaml").write_text(WORK)
            environment = {
                **ENV,
                "NOETL_CREDENTIAL_WORK": json.dumps({"type": "postgres", "data": {"dsn": uri}}),
                "NOETL_HTTP_ALLOW_PRIVATE": "1",
            }
            threads.append(threading.Thread(target=carried_out, args=(folder, environment, random.Random(n), brought, killed)))
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE_S * 4)
        assert [found["status"] for found in brought] == ["completed"] * 2
        assert killed.count(-9) >= 2, "the first process of each was at work"
        assert sum(found["steps"]["work"]["loop"]["succeeded"] for found in brought) == ROWS
        assert db.execute("SELECT count(*), count(DISTINCT id) FROM ran").fetchone() == (ROWS, ROWS), "one task run for each row"
        assert db.execute("SELECT count(*) FROM jobs WHERE state = 'done' AND claimed_until IS NULL").fetchone() == (ROWS,)
