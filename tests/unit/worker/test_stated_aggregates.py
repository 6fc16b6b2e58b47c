"""Aggregates of a loop in progress are stated about once a second; its counts are in every commit, and its end is exact."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from noetl_core.engine.fold.aggregates import FEW_CELLS, RunAggregates
from noetl_core.engine.outcome import Outcome
from noetl_core.engine.records import Commit, StreamId, Tally, run_events
from noetl_core.log.history import progress_of, stated_aggregates
from noetl_core.tools.base import ToolCall
from noetl_core.views.reading.cursor import EventPlace
from noetl_core.views.reading.run_progress import run_at
from noetl_core.worker.claiming.journal import STATED_EVERY_S
from tests.sim.ports import SECOND, Crash

from .one_run import OneRun, loop, on_error, task

EACH = {"commit_every": 1}


def mapped(items: int, script: Callable[[ToolCall], Outcome] | None = None, *rules: Any, **spec: Any) -> OneRun:
    """A loop that commits each of its `items`. Those whose index ends with 3 fail, unless `script` replaces the task."""
    step = {
        "loop": loop(
            f"{{{{ range({items}) | list }}}}", "sequential", policy={"failure": {"mode": "best_effort"}}, **EACH, **spec
        ),
        "tool": task("a", *rules, result="{{ iter.i }}"),
    }
    return OneRun(step, script or some_fail)


def some_fail(call: ToolCall) -> Outcome:
    n = call.inputs["result"]
    return Outcome.failed("server_error", f"no {n}") if n % 10 == 3 else Outcome.ok(n)


def folded(commits: list[Commit]) -> RunAggregates:
    aggregates = RunAggregates()
    for commit in commits:
        for event in run_events(commit):
            aggregates.observe(event)
    return aggregates


def tally(commit: Commit) -> Tally:
    assert commit.tally is not None
    return commit.tally


def stating(run: OneRun) -> list[Commit]:
    return [commit for commit in run.commits if commit.tally is not None and commit.tally.aggregates is not None]


def check(run: OneRun) -> None:
    """Every commit has exact counts and refers to the newest commit with aggregates, which are exact as of that commit."""
    newest: Commit | None = None
    *before, end = run.commits
    for number, commit in enumerate(before, start=1):
        so_far = folded(run.commits[:number])
        assert commit.tally is not None
        if commit.tally.aggregates is not None:
            newest = commit
            assert commit.tally.aggregates == so_far.so_far() and commit.tally.progress is None
        assert (newest is None) == (so_far.ended == 0)
        progress = progress_of(commit.tally)
        if newest is None:
            assert progress is None and stated_aggregates(run.store, commit) is None
        else:
            assert newest.tally is not None and progress is not None
            assert (progress.ended, progress.failed, progress.total) == (so_far.ended, so_far.failures, so_far.items)
            assert commit is newest or progress.stated == newest.seq
            assert stated_aggregates(run.store, commit) == newest.tally.aggregates
    stated: Any = run.events[-1].data
    assert stated["aggregates"] == folded(run.commits).stated()
    assert end.tally is not None and end.tally.aggregates is None and end.tally.progress is None


def test_a_loop_that_commits_each_iteration_states_its_aggregates_once_a_second() -> None:
    def takes(call: ToolCall) -> Outcome:
        run.wait(0.3)
        return some_fail(call)

    run = mapped(20, takes)
    run.handle()
    check(run)
    times = [commit.ts for commit in stating(run)]
    assert times and all(later - earlier >= STATED_EVERY_S * SECOND for earlier, later in pairwise(times))
    assert all(later - earlier <= 1.3 * SECOND for earlier, later in pairwise(times))
    assert len(run.commits) == 21


def test_the_state_after_an_event_of_a_long_loop_needs_no_aggregates() -> None:
    run = mapped(60)
    run.handle()
    stream = run.commits[0].stream
    read = Counter[int]()

    class Reader:
        def read(self, stream: StreamId, after: int = -1, limit: int | None = None) -> Sequence[Commit]:
            found = run.store.read(stream, after, limit)
            read.update(commit.seq for commit in found)
            return found

    for seq in range(1, 60, 7):
        read.clear()
        found = run_at(Reader(), stream, EventPlace(stream.run_id, seq, len(run.commits[seq].events) - 1, False), 10)
        assert found["iterations"] == folded(run.commits[: seq + 1]).ended
        assert len(read) <= 12


def test_a_short_loop_states_its_first_iteration_and_its_end() -> None:
    run = mapped(FEW_CELLS * 4)
    run.handle()
    check(run)
    (first,) = stating(run)
    stated = tally(first).aggregates
    assert stated is not None and sum(stated["us"].values()) == 1


@pytest.mark.one_in(4)
@pytest.mark.parametrize("dies_at", range(1, 12))
@pytest.mark.parametrize("takes_s", [0, 0.4, 1.5])
def test_a_takeover_states_aggregates_that_a_killed_worker_left_unstated(dies_at: int, takes_s: float) -> None:
    died = False

    def dies(call: ToolCall) -> Outcome:
        nonlocal died
        run.wait(takes_s)
        if call.inputs["result"] == dies_at and not died:
            died = True
            raise Crash
        return some_fail(call)

    run = mapped(13, dies)
    with pytest.raises(Crash):
        run.handle()
    left = len(run.commits)
    run.wait(120)
    run.handle("takeover")
    check(run)
    claim, newest = run.commits[left], run.commits[left - 1]
    assert claim.events[0].name == "StepStarted" and claim.tally is not None and newest.tally is not None
    if newest.tally.aggregates is None:
        assert claim.tally.aggregates == folded(run.commits[: left + 1]).so_far()
    else:
        assert claim.tally.progress is not None  # nothing is new since
    assert sum(run.events[-1].data["aggregates"]["us"].values()) == 13


def test_a_takeover_states_aggregates_even_if_its_clock_is_behind() -> None:
    def dies(call: ToolCall) -> Outcome:
        if call.inputs["result"] == 5 and len(run.calls) == 6:
            raise Crash
        return some_fail(call)

    run = mapped(9, dies)
    with pytest.raises(Crash):
        run.handle()
    left = len(run.commits)
    run.store.streams[run.commits[0].stream] = [
        replace(commit, ts=commit.ts + 3_600 * SECOND, lease_until=run.clock.time) for commit in run.commits
    ]
    run.wait(1)
    run.handle("takeover")
    claim = run.commits[left].tally
    assert claim is not None and claim.aggregates is not None
    assert len(stating(run)) == 2


def test_a_suspension_states_aggregates_and_the_next_activation_does_not_again() -> None:
    waits = on_error("retry", attempts=2, delay=60)

    def fails_once(call: ToolCall) -> Outcome:
        n = call.inputs["result"]
        return Outcome.failed("server_error", "later") if n == 4 and call.attempt == 1 else Outcome.ok(n)

    run = mapped(7, fails_once, waits)
    run.handle()
    assert run.names[-1] == "StepSuspended"
    suspended = run.commits[-1]
    assert suspended.tally is not None
    assert suspended.tally.aggregates == folded(run.commits).so_far()
    run.wait(60)
    run.resume({})
    check(run)
    resumed = run.commits[suspended.seq + 1].tally
    assert resumed is not None and resumed.progress is not None and resumed.progress.stated == suspended.seq


def test_a_released_run_states_its_aggregates() -> None:
    def leaves(call: ToolCall) -> Outcome:
        if call.inputs["result"] == 4 and len(run.calls) == 5:
            worker.leave("the machine is reclaimed")
        return some_fail(call)

    run = mapped(7, leaves)
    worker = run.worker()
    worker.handle(run.command())
    assert run.names[-1] == "StepReleased"
    assert tally(run.commits[-1]).aggregates == folded(run.commits).so_far()


@pytest.mark.parametrize("dies_at", [2, 5])
def test_a_log_with_aggregates_in_every_commit_is_continued(dies_at: int) -> None:
    """Iterations of a second state them so, as any did in older versions."""

    def dies(call: ToolCall) -> Outcome:
        if len(run.calls) <= dies_at + 1:
            run.wait(STATED_EVERY_S)
        if call.inputs["result"] == dies_at and len(run.calls) == dies_at + 1:
            raise Crash
        return some_fail(call)

    run = mapped(9, dies)
    with pytest.raises(Crash):
        run.handle()
    assert len(stating(run)) == dies_at
    run.wait(120)
    run.handle("takeover")
    check(run)
    assert len(stating(run)) == dies_at  # the newest says it all


def test_an_older_suspension_without_aggregates_is_continued() -> None:
    waits = on_error("retry", attempts=2, delay=60)

    def fails_once(call: ToolCall) -> Outcome:
        n = call.inputs["result"]
        return Outcome.failed("server_error", "later") if n == 4 and call.attempt == 1 else Outcome.ok(n)

    run = mapped(7, fails_once, waits)
    run.handle()
    stream = run.store.streams[run.commits[0].stream]
    stream[-1] = replace(stream[-1], tally=Tally(tally(stream[-1]).events))
    assert stated_aggregates(run.store, stream[-1]) is None
    left = len(stream)
    run.wait(60)
    run.resume({})
    resumed = run.commits[left].tally
    assert resumed is not None and resumed.aggregates == folded(run.commits[: left + 1]).so_far()
