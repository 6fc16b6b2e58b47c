"""Commits of a loop: their number, and the state that a crash or a stop between two of them leaves."""

from __future__ import annotations

from threading import Lock
from typing import Any

import pytest

from noetl_core.engine.outcome import Outcome
from noetl_core.ports import Gate
from noetl_core.tools.base import ToolCall
from tests.sim.ports import Crash

from .one_run import OneRun, loop, task


def ended_by_commit(run: OneRun) -> list[int]:
    """Return the number of iterations that each commit ends, for commits that end any."""
    ended = [sum(e.name == "LoopIterationCompleted" for e in commit.events) for commit in run.commits]
    return [n for n in ended if n]


@pytest.mark.parametrize(
    ("every", "one_by_one", "together"),
    [
        pytest.param({}, [7], [7], id="as many as end within a second"),
        pytest.param({"commit_every": 1}, [1] * 7, [3, 3, 1], id="each"),
        pytest.param({"commit_every": "{{ workload.every }}"}, [2, 2, 2, 1], [4, 3], id="some, by a template"),
        pytest.param({"commit_every": 100}, [7], [7], id="more than there are"),
    ],
)
@pytest.mark.parametrize("mode", ["sequential", "parallel"])
def test_a_loop_commits_as_often_as_it_asks(mode: str, every: dict[str, Any], one_by_one: list[int], together: list[int]) -> None:
    """Iterations that run at the same time and end together share a commit."""
    at_once = {"max_in_flight": 3} if mode == "parallel" else {}
    step = {"loop": loop("{{ range(7) | list }}", mode, **every, **at_once), "tool": task("a", result="{{ iter.i }}")}
    run = OneRun(step, workload={"every": 2})
    run.handle()
    assert run.last.data["result"] == list(range(7))
    assert ended_by_commit(run) == (together if mode == "parallel" else one_by_one)
    plain = OneRun({**step, "loop": loop("{{ range(7) | list }}", mode, **at_once)}, workload={"every": 2})
    plain.handle()
    assert sorted(run.names) == sorted(plain.names)


@pytest.mark.parametrize(("kind", "inputs"), [("noop", {}), ("http", {"url": "http://x"})])
@pytest.mark.parametrize("every", [1, 2])
def test_no_iteration_takes_the_place_of_an_uncommitted_one(kind: str, inputs: dict[str, Any], every: int) -> None:
    """So a crash repeats those in progress, and those that ended without a commit being due."""
    lock = Lock()

    def sees(call: ToolCall) -> Outcome:
        with lock:
            committed = sum(e.name == "LoopIterationCompleted" for e in run.events)
            begun.append((len(begun) + 1) - committed)
        return Outcome.ok(call.path[0])

    begun: list[int] = []
    block = loop("{{ range(40) | list }}", max_in_flight=4, commit_every=every)
    run = OneRun({"loop": block, "tool": task("a", kind=kind, **inputs)}, sees)
    run.handle()
    assert run.last.data["result"] == list(range(40))
    assert len(begun) == 40 and max(begun) <= 4 + every - 1


def test_a_due_commit_waits_ten_milliseconds_for_others() -> None:
    def slow(call: ToolCall) -> Outcome:
        run.wait(0.006)
        return Outcome.ok(1)

    run = OneRun({"loop": loop("{{ range(8) | list }}", max_in_flight=8, commit_every=1), "tool": task("a")}, slow)
    run.handle()
    assert ended_by_commit(run) == [3, 3, 2]


def test_an_iteration_is_committed_before_the_next_begins_where_each_is() -> None:
    def sees(call: ToolCall) -> Outcome:
        committed = sum(e.name == "LoopIterationCompleted" for e in run.events)
        return Outcome.ok(committed)

    run = OneRun({"loop": loop("{{ range(5) | list }}", "sequential", commit_every=1), "tool": task("a")}, sees)
    run.handle()
    assert run.last.data["result"] == [0, 1, 2, 3, 4]


def test_a_crash_repeats_no_iteration_that_was_to_be_committed() -> None:
    def dies_at_four(call: ToolCall) -> Outcome:
        if call.inputs["result"] == 4 and len(run.calls) == 5:
            raise Crash
        return Outcome.ok(call.inputs["result"])

    run = OneRun(
        {"loop": loop("{{ range(7) | list }}", "sequential", commit_every=1), "tool": task("a", result="{{ iter.i }}")},
        dies_at_four,
    )
    with pytest.raises(Crash):
        run.handle()
    run.wait(120)
    run.handle("takeover")
    assert [call.inputs["result"] for call in run.calls] == [0, 1, 2, 3, 4, 4, 5, 6]
    assert run.last.data["result"] == list(range(7))


def test_an_inner_loop_commits_as_often_as_it_asks_itself() -> None:
    inner = loop("{{ range(3) | list }}", "sequential", commit_every=1)
    run = OneRun({"loop": loop("{{ range(2) | list }}", "sequential", inner), "tool": task("a", result=1)})
    run.handle()
    commits = [[tuple(e.data["path"]) for e in c.events if e.name == "LoopIterationCompleted"] for c in run.commits]
    assert [paths for paths in commits if paths] == [[(0, 0)], [(0, 1)], [(0, 2)], [(0,), (1, 0)], [(1, 1)], [(1, 2)], [(1,)]]


def test_a_loop_that_commits_each_iteration_still_hears_of_a_stop() -> None:
    """Commits of its own keep those of the driver, with which it reads the gate, from ever being due."""

    def stopped(call: ToolCall) -> Outcome:
        if len(run.calls) == 3:
            run.gates.set_gate("7", Gate("stop"))
        run.wait(0.4)
        return Outcome.ok(1)

    run = OneRun({"loop": loop("{{ range(50) | list }}", "sequential", commit_every=1), "tool": task("a")}, stopped)
    run.handle()
    assert len(run.calls) <= 7


@pytest.mark.parametrize("where", ["local", "distributed"])
def test_a_number_of_iterations_that_is_none_fails_the_loop(where: str) -> None:
    block = loop("{{ range(3) | list }}", commit_every="{{ 'often' }}", policy={"exec": where})
    run = OneRun({"loop": block, "tool": task("a")})
    run.handle()
    assert run.names[-1] == "StepFailed" and run.calls == []
    assert "commit_every of the loop" in run.last.data["error"]["message"]
