"""A run that is left, and what other processes do with it meanwhile: resume, pause, cancel, signals, a log that breaks."""

from __future__ import annotations

import json
import signal
import sqlite3
import threading
import time
from contextlib import closing
from http.server import ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.commands import PATIENCE_S, Command
from tests.servers import Handler, serving, url_of
from tests.unit.cli.runs import HELLO, Run, result_of, when, when_two_are_done


def test_following_ends_at_the_timeout_and_the_execution_can_be_resumed(noetl: Run) -> None:
    done = noetl("run", "slow.yaml", "--timeout", "0.7")
    assert done.returncode == 124
    assert "noetl resume" in done.stderr
    execution_id = json.loads(noetl("ls", "--output", "json").stdout)[0]["execution_id"]
    assert result_of(noetl("resume", execution_id, "--output", "json"))["result"] == list(range(16))


@pytest.mark.nightly
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_an_interrupted_run_continues_where_it_was(noetl: Run, tmp_path: Path, how: signal.Signals) -> None:
    with Command("run", "slow.yaml", cwd=tmp_path) as process:
        execution_id = when_two_are_done(tmp_path)
        process.send_signal(how)
        assert process.wait() == (130 if how == signal.SIGINT else -9)
        assert how == signal.SIGKILL or f"noetl resume {execution_id}" in process.stderr
    resumed = noetl("resume", execution_id, "--output", "json")
    assert result_of(resumed)["result"] == list(range(16))
    assert resumed.stderr == "", "it does not wait for the lease of a process that is no more"
    done = json.loads(noetl("events", execution_id, "--name", "task.processed", "--output", "json").stdout)
    assert len(done) == 16, "finished iterations are not run again"


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("command", "ends"), [("pause", "paused"), ("cancel", "cancelled")])
def test_another_process_may_pause_or_cancel_it(noetl: Run, tmp_path: Path, command: str, ends: str) -> None:
    with Command("run", "slow.yaml", "--output", "json", cwd=tmp_path) as process:
        execution_id = when_two_are_done(tmp_path)
        assert noetl(command, execution_id).returncode == 0
        assert process.wait() == 1
        assert json.loads(process.stdout)["status"] == ends
    if command == "pause":
        assert result_of(noetl("resume", execution_id, "--output", "json"))["result"] == list(range(16))


def test_a_signal_from_another_process_is_taken_up_at_once(noetl: Run, tmp_path: Path) -> None:
    (tmp_path / "ask.yaml").write_text(
        HELLO[: HELLO.index("  - step")] + "  - step: ask\n    tool: { kind: callback, signal: answer }\n"
    )
    with Command("run", "ask.yaml", "--output", "json", cwd=tmp_path) as process:
        execution_id = when(tmp_path, "StepSuspended", 1)
        assert "ask: task ask_task waits for the signal answer" in noetl("show", execution_id).stdout
        assert noetl("signal", execution_id, "answer", "--data", '{"yes": true}').returncode == 0
        assert process.wait() == 0
        assert json.loads(process.stdout)["result"] == {"yes": True}


def test_resume_says_which_process_it_waits_for(tmp_path: Path) -> None:
    with serving(_Door()) as door:
        step = f"  - step: start\n    tool: {{ kind: http, url: {url_of(door)} }}\n"
        (tmp_path / "held.yaml").write_text(HELLO[: HELLO.index("  - step")] + step)
        with Command("run", "held.yaml", cwd=tmp_path) as holder:
            assert door.reached.wait(PATIENCE_S)
            execution_id = when(tmp_path, "StepStarted", 1)
            with Command("resume", execution_id, cwd=tmp_path) as resumed:
                until = time.monotonic() + PATIENCE_S
                while f"process {holder.pid} runs execution {execution_id}" not in resumed.stderr:
                    assert time.monotonic() < until, resumed.stderr
                    time.sleep(0.05)
                door.opened.set()
                assert (holder.wait(), resumed.wait()) == (0, 0)


class _Door(ThreadingHTTPServer):
    """A service that answers once it is opened."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Answer)
        self.reached, self.opened = threading.Event(), threading.Event()


class _Answer(Handler):
    server: _Door

    def do_GET(self) -> None:
        self.server.reached.set()
        self.server.opened.wait(PATIENCE_S)
        self.say()


def test_a_log_corrupted_during_a_run_marks_it_stuck_with_a_remedy(noetl: Run, tmp_path: Path) -> None:
    broken = HELLO[: HELLO.index("workflow:")] + (
        "workflow:\n  - step: start\n    tool:\n      - { name: a, kind: wait, duration: 6 }\n      - { name: b, kind: noop }\n"
    )
    (tmp_path / "broken.yaml").write_text(broken)
    with Command("run", "broken.yaml", cwd=tmp_path) as run:
        when(tmp_path, "StepSuspended", 1)
        with closing(sqlite3.connect(tmp_path / ".noetl/runs.db", timeout=10)) as store, store:
            store.execute("update commits set body = x'5b5b'")
        assert run.wait() == 3
        output = run.stderr
    assert "CorruptLog" not in output
    assert "is stuck: restore its log" in output
    assert json.loads(noetl("ls", "--output", "json").stdout)[0]["status"] == "stuck"
