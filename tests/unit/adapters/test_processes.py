"""Detects processes that have ended."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from noetl_core.adapters.local import processes
from noetl_core.adapters.local.processes import has_ended, name_of, pid_of


def test_this_process_has_not_ended() -> None:
    assert pid_of(name_of()) == os.getpid()
    assert not has_ended(name_of())


def test_a_killed_process_has_ended_even_before_it_is_reaped() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        name = name_of(child.pid)
        assert not has_ended(name)
        child.send_signal(signal.SIGKILL)
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)  # it is a zombie now
        assert has_ended(name)
    assert has_ended(name)


def renamed(**fields: str) -> str:
    """This process's name, with other facts in it."""
    pid, rest = name_of().removeprefix("local-").split(".", 1)
    began, place = rest.split("@")
    machine, boot, pids = place.split(".")
    facts = {"pid": pid, "began": began, "machine": machine, "boot": boot, "pids": pids, **fields}
    return "local-{pid}.{began}@{machine}.{boot}.{pids}".format(**facts)


@pytest.mark.parametrize(
    ("fields", "ended"),
    [
        ({"began": "1"}, True),  # the pid was given to another process
        ({"boot": "deadbeef"}, True),  # this machine was started again
        ({"boot": "deadbeef", "machine": "feedbeef"}, False),  # another machine's: nothing is known
        ({"machine": "feedbeef", "pid": "999999"}, False),  # another container of this machine's
        ({"pids": "1", "pid": "999999"}, False),  # a pid namespace that is not seen from here
        ({"pid": "99999999999999999999"}, True),  # no such pid can be
    ],
)
def test_a_process_name_shows_whether_that_process_has_ended(fields: dict[str, str], ended: bool) -> None:
    assert has_ended(renamed(**fields)) is ended


@pytest.mark.parametrize("name", ["", "w1", "lambda-7", "local-", "local-x"])
def test_foreign_names_have_no_pid_and_never_count_as_ended(name: str) -> None:
    assert not has_ended(name)
    assert pid_of(name) is None


def test_names_of_an_older_version_are_judged_by_pid_only() -> None:
    assert not has_ended(f"local-{os.getpid()}")
    assert has_ended("local-4194305")  # beyond the largest pid there can be


def test_without_proc_a_living_pid_counts_as_the_same_process(monkeypatch: pytest.MonkeyPatch) -> None:
    name = name_of()
    monkeypatch.setattr(processes, "start_of", lambda pid: None)
    assert not has_ended(name)
