"""Leaving a run before its end: what is said, what it exits with, and that `resume` continues at once, however often it happened."""

from __future__ import annotations

import json
import re
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from noetl_core.adapters.local.database import Database
from noetl_core.adapters.local.events import SqliteEventStore
from noetl_core.views.reading.cursor import history
from tests.commands import Command
from tests.raw_events import Stored

NAP = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: nap, path: test/nap }
workflow:
  - step: start
    tool: { kind: python, code: "import time; time.sleep(1.5); result = 'rested'" }
"""
PATIENCE_S = 30


class Folder:
    """A folder to run in, with its store."""

    def __init__(self, path: Path) -> None:
        self.path = path
        (path / "nap.yaml").write_text(NAP)

    def begin(self, *arguments: str) -> Command:
        return Command(*arguments, cwd=self.path)

    def events(self, execution_id: str | None = None) -> list[Stored]:
        if not (self.path / ".noetl/runs.db").exists():
            return []
        database = Database(self.path / ".noetl/runs.db")
        try:
            if execution_id is None:
                rows = database.rows("SELECT execution_id FROM commits LIMIT 1")
                if not rows:
                    return []
                execution_id = rows[0][0]
            return [e for c in history(SqliteEventStore(database), execution_id) for e in c.events]
        finally:
            database.close()

    def until_claimed(self, times: int) -> None:
        """Until workers have begun the run that often."""
        deadline = time.monotonic() + PATIENCE_S
        while sum(e.name == "StepStarted" for e in self.events()) < times:
            assert time.monotonic() < deadline
            time.sleep(0.05)

    def interrupted(self, times: int, number: int, *arguments: str) -> tuple[int, str]:
        """Begin, send a signal once the run is claimed for the `times`-th time; exit code and what was said."""
        with self.begin(*arguments) as command:
            self.until_claimed(times)
            command.send_signal(number)
            return command.wait(PATIENCE_S), command.stderr


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


def resumed(folder: Folder, execution_id: str) -> dict[str, Any]:
    with folder.begin("resume", execution_id, "--output", "json") as command:
        assert command.wait(PATIENCE_S) == 0, command.stderr  # a lease is twice as long
        return dict(json.loads(command.stdout))


def execution_id_of(output: str) -> str:
    found = re.search(r"`noetl resume (\d+)`", output)
    assert found is not None, output
    return found[1]


@pytest.mark.one_in(3)
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_a_signal_releases_the_run_and_says_how_to_go_on(folder: Folder, number: int, code: int) -> None:
    ended, output = folder.interrupted(1, number, "run", "nap.yaml")
    assert ended == code
    assert signal.Signals(number).name in output and "Traceback" not in output
    assert [e.data for e in folder.events() if e.name == "StepReleased"] == [{"reason": signal.Signals(number).name}]
    assert resumed(folder, execution_id_of(output))["result"] == "rested"


@pytest.mark.nightly
def test_six_interrupts_are_nobodys_death(folder: Folder) -> None:
    _, output = folder.interrupted(1, signal.SIGINT, "run", "nap.yaml")
    execution_id = execution_id_of(output)
    for times in range(2, 8):
        code, _ = folder.interrupted(times, signal.SIGINT if times % 2 else signal.SIGTERM, "resume", execution_id)
        assert code in (130, 143)
    assert resumed(folder, execution_id)["status"] == "completed"


@pytest.mark.nightly
def test_six_kills_and_a_resume_each_time_are_no_lost_run(folder: Folder) -> None:
    folder.interrupted(1, signal.SIGKILL, "run", "nap.yaml", "--idempotency-key", "k")
    (execution_id,) = {e.data["worker"] for e in folder.events() if e.name == "StepStarted"} and {c for (c,) in _ids(folder.path)}
    for times in range(2, 8):
        folder.interrupted(times, signal.SIGKILL, "resume", execution_id)
    assert resumed(folder, execution_id)["status"] == "completed"


def _ids(path: Path) -> list[tuple[str]]:
    database = Database(path / ".noetl/runs.db")
    try:
        return database.rows("SELECT DISTINCT execution_id FROM commits")
    finally:
        database.close()
