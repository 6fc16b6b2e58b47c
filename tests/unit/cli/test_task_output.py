"""The output of tasks is printed while they run, each line once."""

from __future__ import annotations

import pytest

from noetl_cli.commands.history import print_entry
from noetl_cli.display.running import Running
from noetl_core.api.shapes.views import LogEntry, RunningLog


def running(text: str, written: int | None = None, run: str = "t") -> RunningLog:
    return {
        "step": "start",
        "task": "work",
        "task_run_id": run,
        "attempt": 1,
        "started_at": "2026-11-22T10:00:00.000000Z",
        "stdout": text,
        "written": {"stdout": len(text) if written is None else written},
    }


def ended(text: str, run: str = "t") -> LogEntry:
    return {
        "event_id": "17.r.1.0",
        "timestamp": "2026-11-22T10:00:09.000000Z",
        "step": "start",
        "task": "work",
        "task_run_id": run,
        "attempt": 1,
        "status": "ok",
        "stdout": text,
    }


def test_each_line_is_printed_once_and_the_rest_when_it_has_ended(capsys: pytest.CaptureFixture[str]) -> None:
    seen = Running()
    seen.print([running("one\n")])
    seen.print([running("one\n")])
    seen.print([running("one\ntwo\n")])
    print_entry(seen.rest(ended("one\ntwo\nthree")))
    assert capsys.readouterr().out.splitlines() == [
        "10:00:00.000 start/work running",
        "  one",
        "  two",
        "10:00:09.000 start/work ok",
        "  three",
    ]


def test_output_of_parallel_tasks_has_a_header_at_each_change_of_task(capsys: pytest.CaptureFixture[str]) -> None:
    seen = Running()
    seen.print([running("one\n", run="a"), running("uno\n", run="b")])
    seen.print([running("one\ntwo\n", run="a")])
    assert [line.strip() for line in capsys.readouterr().out.splitlines()] == [
        "10:00:00.000 start/work running",
        "one",
        "10:00:00.000 start/work running",
        "uno",
        "10:00:00.000 start/work running",
        "two",
    ]


def test_output_that_came_too_fast_to_be_printed_is_reported_as_missing(capsys: pytest.CaptureFixture[str]) -> None:
    seen = Running()
    seen.print([running("end\n", written=9000)])
    assert "more before this" in capsys.readouterr().out
    whole: LogEntry = {**ended("the end"), "more": {"ref": "..."}}
    assert seen.rest(whole) == whole
