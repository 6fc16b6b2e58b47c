"""Long streams stop nobody: timeouts, fences and reconciliations read the end of a run's stream alone."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from noetl_core.control.fence import fence_runs
from noetl_core.control.sweeping.sweep import Swept, reconcile
from noetl_core.engine.outcome import Outcome
from noetl_core.engine.records import Commit, StreamId, envelopes_of
from noetl_core.events.shapes import Failure
from noetl_core.tools.base import ToolCall
from noetl_core.worker.claiming.journal import Fenced, Journal
from tests.raw_events import stored
from tests.sim.liveness import HEAD, TWO, ended, minutes, start
from tests.sim.ports import SECOND, Faults
from tests.sim.world import World

BIG = (
    HEAD
    + """
workflow:
  - step: start
    spec: {policy: {lifecycle: {timeout_s: 5}}}
    loop: {in: "{{ (range(ITERATIONS) | list) + (range(ITERATIONS) | list) }}", iterator: i, spec: {mode: sequential}}
    tool: {name: body, kind: http, url: x}
"""
)


@pytest.mark.nightly
@pytest.mark.parametrize(("lost", "within_s", "task_ms"), [(False, 70, 1), (True, 125, 10)], ids=["woken", "wake lost"])
def test_a_step_timeout_strikes_a_loop_that_commits_every_second(lost: bool, within_s: int, task_ms: int) -> None:
    world = World(Faults(latency_s=0.003))
    iterations = 2 * 62_500

    def tool(call: ToolCall) -> Outcome:
        world.clock.time += SECOND // 1000 * task_ms
        if len(world.calls) % 50 == 0:
            world.meanwhile()
        return Outcome.ok(1)

    world.tool = tool
    execution_id = start(world, BIG.replace("ITERATIONS", str(iterations // 2)))
    began = world.clock.time
    if lost:
        world.queue.messages = [m for m in world.queue.messages if m.command is not None]
    minutes(world, [execution_id], 600)
    state = ended(world, execution_id, "failed")
    assert state.failure is not None
    assert state.failure["kind"] == "timeout"
    assert (state.finished_at or 0) - began < within_s * SECOND


class Committing:
    """A worker of a long run that commits every second, on the events of another's port calls; reading a commit takes time."""

    def __init__(self, world: World, execution_id: str, run_id: str, commits: int) -> None:
        self.world, self.stream = world, StreamId(execution_id, run_id)
        self.stopped = False
        self.tries = 0
        self._read, self._last, self._append = world.store.read, world.store.last, world.store.append
        self.journal = Journal(self, world.clock, self.stream, 0, 0, None)  # type: ignore[arg-type]
        for n in range(commits):
            self._commit(n)
        world.store.read, world.store.last, world.store.append = self.read, self.last, self.other  # type: ignore[method-assign]
        self.next = world.clock.time + SECOND

    def append(self, commit: Commit) -> None:
        self._append(commit)

    def _commit(self, n: int) -> None:
        name, data = (
            ("StepStarted", {"step": "start", "as_of": 0, "worker": "w"})
            if n == 0
            else ("TaskProcessed", {"started": 1, "outcome": {"status": "ok"}})
        )
        self.journal.put(stored(name, self.world.clock.time, {**data, "n": n}))
        self.journal.flush()

    def _time_passes(self, seconds: float) -> None:
        self.world.clock.sleep(seconds)
        while not self.stopped and self.world.clock.time >= self.next:
            self.next += SECOND
            try:
                self._commit(1)
            except Fenced:
                self.stopped = True
            gate = self.world.gates.gate(self.stream.execution_id)
            self.stopped = self.stopped or self.stream.run_id in gate.stopped_runs

    def read(self, stream: StreamId, after: int = -1, limit: int | None = None) -> Any:
        found = self._read(stream, after, limit)
        self._time_passes(0.005 + 0.002 * len(found))
        return found

    def last(self, stream: StreamId) -> Any:
        found = self._last(stream)
        self._time_passes(0.3)
        return found

    def other(self, commit: Commit) -> None:
        self.tries += commit.stream == self.stream
        assert self.tries < 20, "it never wins"
        self._time_passes(0.8)
        self._append(commit)


def test_a_fence_wins_against_a_worker_that_commits_every_second_and_reads_little() -> None:
    world = World()
    execution_id = start(world, TWO)
    (run,) = world.state(execution_id).runs
    worker = Committing(world, execution_id, run, 2_000)
    error: Failure = {"kind": "timeout", "message": "late", "retryable": False}
    state = world.controls[0].load(execution_id)
    before = world.store.reads[worker.stream]
    (boundary,) = fence_runs(world.controls[0], state, {run: error})
    assert boundary.event.name == "StepFailed" and boundary.event.data["error"]["kind"] == "timeout"
    assert worker.tries <= 4
    assert world.store.reads[worker.stream] - before <= 5
    commits = world.store.streams[worker.stream]
    assert boundary.event.data["events"] == sum(envelopes_of(e) for c in commits for e in c.events)


def test_reconciling_a_long_run_reads_its_last_commit_alone() -> None:
    world = World()
    execution_id = start(world, TWO)
    (run,) = world.state(execution_id).runs
    worker = Committing(world, execution_id, run, 2_000)
    world.clock.time += 300 * SECOND
    worker.stopped = True
    before = world.store.reads[worker.stream]
    swept = reconcile(world.controls[0], execution_id, Swept())
    assert swept.takeovers == 1
    assert world.store.reads[worker.stream] - before == 1


def without_tallies(world: World, stream: StreamId) -> None:
    """As an older version wrote it."""
    world.store.streams[stream] = [replace(c, tally=None) for c in world.store.streams[stream]]


def test_older_logs_without_counts_are_counted() -> None:
    worlds = []
    for old in (False, True):
        world = World()
        execution_id = start(world, TWO)
        (run,) = world.state(execution_id).runs
        worker = Committing(world, execution_id, run, 50)
        worker.stopped = True
        if old:
            without_tallies(world, worker.stream)
        state = world.controls[0].load(execution_id)
        (boundary,) = fence_runs(world.controls[0], state, {run: {"kind": "timeout", "message": "late"}})
        worlds.append(boundary.event.data["events"])
    assert worlds[0] == worlds[1] > 50
