"""The command line against the stack: the same commands, outputs and exit codes as in one process."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from noetl_infra.stack import Stack
from tests import commands
from tests.commands import ENV, Completed

EXAMPLES = Path(__file__).parents[2] / "examples"


Run = Callable[..., Completed]


@pytest.fixture
def noetl(stack: Stack, tmp_path: Path) -> Run:
    def run(*arguments: str) -> Completed:
        return commands.run(*arguments, cwd=tmp_path, env={**ENV, "NOETL_API_URL": stack.api_url}, timeout=120)

    return run


def test_status_reports_the_named_stack(noetl: Run, stack: Stack) -> None:
    done = noetl("status", "--on", "stack", "--output", "json")
    found = json.loads(done.stdout)
    assert (found["api"], found["status"]) == (stack.api_url, "ok")
    assert "default" in found["queues"]


def test_run_follow_and_look(noetl: Run) -> None:
    done = noetl("run", str(EXAMPLES / "join" / "playbook.yaml"), "--on", "stack", "--output", "json", "--events")
    assert done.returncode == 0, done.stderr
    summary = json.loads(done.stdout)
    assert summary["result"] == {"total": 31, "largest": 9}
    assert len(summary["event_log"]) == summary["events"]
    execution_id = summary["execution_id"]
    assert execution_id in noetl("ls", "--on", "stack").stdout
    shown = noetl("show", execution_id)
    assert (shown.returncode, "completed" in shown.stdout) == (0, True), "found on the stack without being told"
    lines = [json.loads(line) for line in noetl("events", execution_id, "--output", "jsonl").stdout.splitlines()]
    assert lines == summary["event_log"]
    assert "completed" in noetl("watch", execution_id).stdout


@pytest.mark.nightly
def test_result_for_people(noetl: Run) -> None:
    done = noetl("run", str(EXAMPLES / "weather_loop"), "--on", "stack", "--set", "temperature_threshold=99")
    assert done.returncode == 0, done.stderr
    assert "hotter than 99 F: Newark" in done.stdout
    assert "--on stack" in done.stdout


SLOW = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: slow, path: e2e/slow}
workflow:
  - step: naps
    loop: {in: [1, 2, 3, 4], iterator: n, spec: {mode: sequential}}
    tool: {kind: python, code: "import time; time.sleep(0.3)"}
"""


@pytest.mark.nightly
def test_a_slow_run_shows_its_progress(noetl: Run, tmp_path: Path) -> None:
    (tmp_path / "slow.yaml").write_text(SLOW)  # longer than a run has to be for a picture
    done = noetl("run", str(tmp_path / "slow.yaml"), "--on", "stack")
    assert done.returncode == 0, done.stderr
    assert "naps: ok 4/4" in done.stderr


@pytest.mark.nightly
def test_register_and_run_by_path(noetl: Run) -> None:
    assert noetl("register", str(EXAMPLES / "hello" / "playbook.yaml"), "--on", "stack").returncode == 0
    assert "examples/hello" in noetl("playbooks", "--on", "stack").stdout
    done = noetl("run", "examples/hello@1", "--on", "stack", "--set", "name=Ada", "--output", "json")
    assert json.loads(done.stdout)["result"] == {"greeting": "Hello, Ada!"}
    assert noetl("run", "examples/hello@99", "--on", "stack").returncode == 2


def test_an_invalid_playbook_never_leaves_the_machine(noetl: Run, tmp_path: Path) -> None:
    (tmp_path / "bad.yaml").write_text("apiVersion: noetl.io/v2\nkind: Playbook\n")
    done = noetl("run", "bad.yaml", "--on", "stack")
    assert done.returncode == 2
    assert done.stderr.startswith("bad.yaml:1:1 E111")
