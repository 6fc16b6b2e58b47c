"""Leaving a run in order, and who is counted as its victim: lease, journal and the count of takeovers that brought nothing."""

from __future__ import annotations

from functools import reduce
from typing import Any

import pytest

from noetl_core.engine.outcome import Outcome
from noetl_core.engine.records import MAX_TAKEOVERS, count_takeovers_without_progress
from noetl_core.ports import Unavailable
from noetl_core.tools.base import ToolCall
from noetl_core.worker.claiming.journal import LEASE_S
from noetl_core.worker.service import Worker
from tests.sim.ports import Crash

from .one_run import OneRun, echo, task

TWO = {"tool": [task("a", result=1), task("b", result="{{ a + 1 }}")]}


def leaves(run: OneRun, worker: Worker, at: str) -> None:
    """The worker is asked to leave while it runs the task `at`."""

    def leave(call: ToolCall) -> Outcome:
        if call.task == at:
            worker.leave("SIGTERM")
        return echo(call)

    worker.tools.get("noop").run_it = leave  # type: ignore[attr-defined]


def dies(run: OneRun, mode: str = "first", **more: Any) -> None:
    worker = run.worker()

    def die(call: ToolCall) -> Outcome:
        raise Crash

    worker.tools.get("noop").run_it = die  # type: ignore[attr-defined]
    with pytest.raises(Crash):
        worker.handle(run.command(mode, **more))


def count(run: OneRun) -> int:
    return reduce(count_takeovers_without_progress, [e for c in run.commits for e in c.events], 0)


def test_a_release_commits_finished_tasks_and_the_takeover_repeats_the_rest() -> None:
    run = OneRun(TWO)
    worker = run.worker()
    leaves(run, worker, "b")
    handled = worker.handle(run.command())
    assert handled.kind == "dropped"
    assert run.names == ["StepStarted", "TaskProcessed", "StepReleased"]
    assert run.last.data == {"reason": "SIGTERM"}
    assert run.commits[-1].lease_until == 0 and not run.commits[-1].wake
    assert run.handle("takeover").kind == "done"  # without waiting for any lease
    assert [c.task for c in run.calls] == ["a", "b", "b"]
    assert run.last.data == {"result": 2}


def test_a_worker_that_leaves_takes_nothing_more() -> None:
    run = OneRun(TWO)
    worker = run.worker()
    worker.leave("SIGINT")
    with pytest.raises(Unavailable, match="about to end"):
        worker.handle(run.command())
    assert run.commits == []


def test_a_run_that_has_ended_is_not_released() -> None:
    run = OneRun(TWO)
    worker = run.worker()
    worker.handle(run.command())
    worker.leave("SIGINT")
    assert "StepReleased" not in run.names


def test_a_release_that_cannot_be_stored_lets_the_lease_expire() -> None:
    run = OneRun(TWO)
    worker = run.worker()

    def leave(call: ToolCall) -> Outcome:
        run.faults.throttle = 1
        worker.leave("SIGINT")
        run.faults.throttle = 0
        return echo(call)

    worker.tools.get("noop").run_it = leave  # type: ignore[attr-defined]
    assert worker.handle(run.command()).kind == "dropped"
    assert run.names == ["StepStarted"]
    assert run.handle("takeover").kind == "hand_back"
    run.wait(LEASE_S + 1)
    assert run.handle("takeover").kind == "done"


def test_workers_that_lived_to_release_a_run_are_not_counted() -> None:
    run = OneRun(TWO)
    for n in range(3 * MAX_TAKEOVERS):
        worker = run.worker()
        leaves(run, worker, "a")
        worker.handle(run.command("first" if n == 0 else "takeover"))
        assert count(run) <= 1
    assert run.handle("takeover").kind == "done"


def test_takeovers_after_deaths_are_limited_until_a_person_asks_for_another() -> None:
    run = OneRun(TWO)
    dies(run)
    for _ in range(MAX_TAKEOVERS):
        run.wait(LEASE_S + 1)
        dies(run, "takeover")
    assert count(run) == MAX_TAKEOVERS
    run.wait(LEASE_S + 1)
    assert run.handle("takeover").kind == "dropped"
    dies(run, "takeover", asked=True)
    assert count(run) == 0
    run.wait(LEASE_S + 1)
    assert run.handle("takeover", asked=True).kind == "done"


def test_a_run_that_this_process_is_at_work_on_is_not_taken_over_from_itself() -> None:
    """A clock that was set forwards makes its lease look over."""
    run = OneRun(TWO)
    worker = run.worker()
    met = []

    def again(call: ToolCall) -> Outcome:
        run.wait(10 * LEASE_S)
        met.append(worker.handle(run.command("takeover")).kind)
        return echo(call)

    worker.tools.get("noop").run_it = again  # type: ignore[attr-defined]
    assert worker.handle(run.command()).kind == "done"
    assert met == ["hand_back", "hand_back"]
    assert [c.task for c in run.calls] == ["a", "b"]
