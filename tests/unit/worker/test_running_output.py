"""The output of running tasks: published by the lease's heartbeat, once for each change, without secrets."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from noetl_core.adapters.local.output import FileRunningOutput
from noetl_core.engine.records import Command, StreamId
from noetl_core.ports import RunningTask
from noetl_core.tools.base import ToolCall
from noetl_core.worker.claiming.run_lease import MOST_SHOWN, RunLease, StartedTask
from noetl_core.worker.values.task_log import TAIL, TaskLog
from tests.sim.ports import Faults, SimClock, SimGates

RUN = StreamId("17", "r1")


@dataclass
class Shown:
    """A `RunningOutput` that keeps what it was told."""

    told: list[list[RunningTask]] = field(default_factory=list)
    refuses: bool = False

    def show(self, run: StreamId, tasks: Sequence[RunningTask]) -> bool:
        assert run == RUN
        if self.refuses:
            return False
        self.told.append(list(tasks))
        return True

    def of(self, execution_id: str) -> list[RunningTask]:
        return self.told[-1]


COMMAND = Command("17", "r1", "start", 0, "first", 0, "sha256:0")


def lease(shown: Shown | None) -> RunLease:
    return RunLease(SimGates(Faults()), SimClock(), COMMAND, shown)


def begun(of: RunLease, number: int = 0, *, hidden: bool = False) -> tuple[TaskLog, StartedTask]:
    log = TaskLog(hidden=hidden)
    call = ToolCall(
        kind="python", inputs={}, step="start", task="work", task_run_id=f"t{number}", cancelled=threading.Event(), log=log
    )
    return log, of.task_started(call, [number], number)


def test_each_change_is_shown_once_and_nothing_after_all_tasks_ended() -> None:
    shown = Shown()
    held = lease(shown)
    log, started = begun(held, 3)
    held.show_output()
    assert shown.told == []
    log("one")
    log("wrong", "stderr")
    held.show_output()
    held.show_output()
    ((task,),) = shown.told
    assert (task["stdout"], task["stderr"], task["written"]) == ("one\n", "wrong\n", {"stdout": 4, "stderr": 6})
    assert (task["step"], task["task"], task["iteration"]) == ("start", "work", [3])
    held.task_ended(started)
    held.show_output()
    assert shown.told[1:] == [[]]
    held.hide_output()
    assert len(shown.told) == 2


def test_a_run_that_ends_between_two_updates_leaves_no_output_shown() -> None:
    shown = Shown()
    held = lease(shown)
    begun(held)[0]("one")
    held.show_output()
    held.hide_output()
    assert shown.told[-1] == []


def test_output_of_a_task_with_a_secret_result_is_not_shown() -> None:
    shown = Shown()
    held = lease(shown)
    begun(held, hidden=True)[0]("the token is 17")
    held.show_output()
    held.hide_output()
    assert shown.told == []


def test_only_the_newest_tasks_and_the_ends_of_long_output_are_shown() -> None:
    shown = Shown()
    held = lease(shown)
    for number in range(MOST_SHOWN + 5):
        log, _ = begun(held, number)
        for _ in range(100):
            log("x" * 99)
    held.show_output()
    (tasks,) = shown.told
    assert [t["task_run_id"] for t in tasks] == [f"t{n}" for n in range(5, MOST_SHOWN + 5)]
    assert all(len(t["stdout"]) == TAIL and t["written"] == {"stdout": 10_000} for t in tasks)


def test_no_output_is_kept_without_a_place_to_show_it() -> None:
    held = lease(None)
    log, started = begun(held)
    log("one")
    held.show_output()
    held.hide_output()
    assert started.log is None and held._published_sizes == {}


def some(text: str = "one\n") -> RunningTask:
    return {
        "step": "start",
        "task": "work",
        "task_run_id": "t",
        "attempt": 1,
        "started_at": "2026-11-22T10:00:00.000000Z",
        "stdout": text,
        "written": {"stdout": len(text)},
    }


def test_output_that_could_not_be_shown_is_shown_later() -> None:
    shown = Shown(refuses=True)
    held = lease(shown)
    log, _ = begun(held)
    log("one")
    held.show_output()
    held.hide_output()
    shown.refuses = False
    held.show_output()
    assert [[task["stdout"] for task in told] for told in shown.told] == [["one\n"]]


def test_another_process_sees_running_output_until_the_run_ends(tmp_path: Path) -> None:
    writing, reading = FileRunningOutput(tmp_path / "running"), FileRunningOutput(tmp_path / "running")
    assert reading.of("17") == []
    writing.show(RUN, [some()])
    writing.show(RUN, [some("one\ntwo\n")])
    assert reading.of("17") == [some("one\ntwo\n")]
    assert reading.of("1") == []
    assert oct((tmp_path / "running").stat().st_mode)[-3:] == "700"
    writing.show(RUN, [])
    assert list((tmp_path / "running").iterdir()) == []


def test_output_that_a_killed_process_left_is_removed_and_not_shown(tmp_path: Path) -> None:
    folder = tmp_path / "running"
    FileRunningOutput(folder).show(RUN, [some()])
    (file,) = folder.iterdir()
    held = json.loads(file.read_text())
    pid = os.fork()
    if not pid:
        os._exit(0)
    os.waitpid(pid, 0)
    file.write_text(json.dumps({**held, "process": f"local-{pid}"}))
    assert FileRunningOutput(folder).of("17") == []
    assert list(folder.iterdir()) == []


def test_an_unwritable_disk_stops_no_task(tmp_path: Path) -> None:
    (tmp_path / "running").write_text("a file")
    FileRunningOutput(tmp_path / "running").show(RUN, [some()])
    assert FileRunningOutput(tmp_path / "running").of("17") == []


@pytest.mark.parametrize("length", [0, 1, TAIL - 1, TAIL, TAIL + 1, 3 * TAIL])
def test_the_end_of_a_stream_is_the_end_of_its_whole_text(length: int) -> None:
    log = TaskLog()
    log("first")
    log("y" * length)
    whole = "first\n" + "y" * length + "\n"
    assert log.ends() == {"stdout": whole[-TAIL:]}
    assert log.written() == {"stdout": len(whole)}
