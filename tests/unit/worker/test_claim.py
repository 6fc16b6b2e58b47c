"""The claim table, the lease, the fence and the gate (docs/architecture.md, "The way of one step")."""

from __future__ import annotations

from typing import Any

import pytest

from noetl_core.engine.outcome import Outcome
from noetl_core.engine.records import Commit, StreamId
from noetl_core.log.stored_values import Values
from noetl_core.ports import Gate, Unavailable
from noetl_core.tools.base import ToolCall
from noetl_core.worker.claiming.journal import LEASE_S
from noetl_core.worker.claiming.lease_heartbeat import LeaseHeartbeat, Leaseholder
from tests.sim.ports import SECOND, Crash

from .one_run import OneRun, echo, otherwise, task

TWO = {"tool": [task("a", result=1), task("b", result="{{ a + 1 }}")]}
WAITS = {"tool": [task("a", result=1), {"name": "w", "kind": "callback"}, task("b", result="{{ a + 1 }}")]}


def test_a_one_task_step_is_a_claim_and_one_commit() -> None:
    run = OneRun({"tool": {"kind": "noop", "result": 5}})
    assert run.handle().kind == "done"
    assert [[e.name for e in c.events] for c in run.commits] == [["StepStarted"], ["TaskProcessed", "StepDone"]]
    assert run.last.data == {"result": 5}
    assert [(c.wake, bool(c.lease_until)) for c in run.commits] == [(False, True), (True, False)]
    assert run.events[0].data["as_of"] == 3


def test_a_command_delivered_again_after_the_end_is_dropped() -> None:
    run = OneRun(TWO)
    run.handle()
    held = list(run.commits)
    for mode in ("first", "takeover"):
        assert run.handle(mode).kind == "dropped"
    assert run.commits == held


def crash_in(run: OneRun, task_name: str) -> None:
    """The worker dies while it runs `task_name`; what it had committed stands."""
    worker = run.worker()

    def die(call: ToolCall) -> Outcome:
        if call.task == task_name:
            raise Crash
        return echo(call)

    for kind in ("noop", "http", "python"):
        worker.tools.get(kind).run_it = die  # type: ignore[attr-defined]
    with pytest.raises(Crash):
        worker.handle(run.command())


def test_a_duplicate_of_a_run_with_a_live_lease_is_handed_back() -> None:
    run = OneRun(TWO)
    crash_in(run, "a")
    run.wait(20)
    handled = run.handle()
    assert handled.kind == "hand_back"
    assert handled.seconds == pytest.approx(LEASE_S - 20, abs=0.1)
    assert len(run.commits) == 1


@pytest.mark.parametrize("mode", ["first", "takeover"])
def test_an_expired_lease_is_taken_over_and_goes_on_with_the_same_key(mode: str) -> None:
    run = OneRun(TWO)
    crash_in(run, "b")
    run.wait(LEASE_S + 1)
    assert run.handle(mode).kind == "done"
    assert run.names[:2] == ["StepStarted", "StepStarted"]
    assert run.events[1].data["takeover"] == 1
    assert run.last.data == {"result": 2}
    assert {c.task_run_id for c in run.calls if c.task == "b"} == {run.key("b")}


def test_committed_tasks_are_not_run_again_by_a_takeover() -> None:
    run = OneRun(TWO, most_buffered=1)
    crash_in(run, "b")
    run.wait(LEASE_S + 1)
    run.handle()
    assert [c.task for c in run.calls] == ["a", "b", "b"]
    assert run.last.data == {"result": 2}


def test_every_takeover_is_counted() -> None:
    run = OneRun(TWO)
    crash_in(run, "a")
    for _ in range(2):
        run.wait(LEASE_S + 1)
        worker = run.worker()
        worker.tools.get("noop").run_it = lambda call: (_ for _ in ()).throw(Crash())  # type: ignore[attr-defined]
        with pytest.raises(Crash):
            worker.handle(run.command())
    assert [e.get("takeover") for e in run.named("StepStarted")] == [None, 1, 2]


def test_a_command_for_a_suspended_run_is_stale() -> None:
    run = OneRun(WAITS)
    assert run.handle().kind == "suspended"
    assert run.commits[-1].wake
    assert run.commits[-1].lease_until == 0
    for mode in ("first", "takeover"):
        assert run.handle(mode).kind == "dropped"
    assert len(run.commits) == 2


def test_the_resume_of_an_older_suspension_is_stale() -> None:
    run = OneRun({"tool": [{"name": "v", "kind": "callback"}, {"name": "w", "kind": "callback"}]})
    run.handle()
    old = run.command("resume", len(run.commits), mail=({"wait_id": run.last.data["waits"][0]["wait_id"], "kind": "signal"},))
    assert run.worker().handle(old).kind == "suspended"
    assert run.worker().handle(old).kind == "dropped"
    assert run.names.count("StepResumed") == 1


def test_a_fenced_worker_stops_its_tools_and_commits_nothing() -> None:
    def fenced(call: ToolCall) -> Outcome:
        if call.task == "a":
            run.fence("timeout")
        return Outcome.ok(1)

    run = OneRun(TWO, fenced)
    handled = run.handle()
    assert handled.kind == "dropped"
    assert "fenced" in handled.reason
    assert run.names == ["StepStarted", "StepFailed"]
    assert run.calls[0].cancelled.is_set()


def test_a_run_that_its_gate_names_stops_and_leaves_its_end_to_the_control_plane() -> None:
    def named(call: ToolCall) -> Outcome:
        run.gates.set_gate("7", Gate("run", frozenset({run.run_id})))
        run.wait(2)
        return Outcome.ok(1)

    run = OneRun(TWO, named)
    handled = run.handle()
    assert handled.kind == "dropped"
    assert "control plane ends" in handled.reason
    assert [c.task for c in run.calls] == ["a"]
    assert "StepFailed" not in run.names, "it would say cancelled where the control plane knows better"


def test_a_closed_gate_stops_a_run_before_it_is_claimed() -> None:
    for gate in (Gate("stop"), Gate("pause"), Gate("run", frozenset({"r1"}))):
        run = OneRun(TWO)
        run.gates.set_gate("7", gate)
        assert run.handle().kind == "dropped"
        assert run.commits == []


def slow(run_gate: Gate) -> Any:
    """A script whose first task takes long enough for a periodic commit, while the gate changes."""

    def script(call: ToolCall) -> Outcome:
        if call.task == "a":
            run.gates.set_gate("7", run_gate)
        run.wait(2)
        return echo(call)

    run = OneRun(TWO, script)
    return run


def test_a_pause_suspends_at_the_next_task_boundary_and_resumes_there() -> None:
    run = slow(Gate("pause"))
    assert run.handle().kind == "suspended"
    assert [c.task for c in run.calls] == ["a"]
    assert [w["kind"] for w in run.last.data["waits"]] == ["pause"]
    run.gates.set_gate("7", Gate("run"))
    assert run.resume({"kind": "pause"}).kind == "done"
    assert [c.task for c in run.calls][:2] == ["a", "b"]
    assert run.last.data == {"result": 2}


def test_a_stop_ends_the_run_as_cancelled() -> None:
    run = slow(Gate("stop"))
    assert run.handle().kind == "done"
    assert run.last.name == "StepFailed"
    assert run.last.data["error"]["kind"] == "cancelled"
    assert [c.task for c in run.calls] == ["a"]


def test_a_task_that_might_outlive_the_invocation_is_left_to_the_next() -> None:
    def script(call: ToolCall) -> Outcome:
        run.wait(30)
        return echo(call)

    run = OneRun({"tool": [task("a", result=1), {**task("b", result=2), "spec": {"timeout": 60}}]}, script)
    assert run.handle(deadline=run.clock.time + 80 * SECOND).kind == "suspended"
    assert [w["kind"] for w in run.last.data["waits"]] == ["deadline"]
    assert run.last.data["waits"][0]["at"] <= run.clock.time
    assert run.resume({"kind": "deadline"}, deadline=run.clock.time + 80 * SECOND).kind == "done"
    assert [c.task for c in run.calls] == ["a", "b"]
    assert run.calls[1].timeout_s == 60


def test_a_task_that_would_not_fit_any_invocation_is_tried_with_the_time_there_is() -> None:
    run = OneRun({"tool": {"kind": "noop", "result": 1, "spec": {"timeout": 5_000}}})
    assert run.handle(deadline=run.clock.time + 80 * SECOND).kind == "done"
    timeout = run.calls[0].timeout_s
    assert timeout is not None
    assert 0 < timeout <= 75


@pytest.mark.parametrize("kind", ["noop", "http"])
def test_a_task_that_has_not_finished_goes_on_in_the_next_invocation_as_the_same_task_run(kind: str) -> None:
    answers = iter([Outcome.unfinished(), Outcome.unfinished(), Outcome.ok("all of it")])
    long = {"kind": kind, "url": "http://x"} if kind == "http" else {"kind": kind}
    run = OneRun(
        {"tool": [{"name": "long", **long}, task("b", result="{{ long }}")]},
        lambda call: next(answers) if call.task == "long" else echo(call),
    )
    assert run.handle(deadline=run.clock.time + 100 * SECOND).kind == "suspended"
    assert [w["kind"] for w in run.last.data["waits"]] == ["deadline"]
    assert run.resume({"kind": "deadline"}, deadline=run.clock.time + 100 * SECOND).kind == "suspended"
    assert run.resume({"kind": "deadline"}, deadline=run.clock.time + 100 * SECOND).kind == "done"
    assert run.last.data == {"result": "all of it"}
    assert [c.task for c in run.calls] == ["long", "long", "long", "b"]
    assert len({c.task_run_id for c in run.calls[:3]}) == 1 and {c.attempt for c in run.calls} == {1}
    assert run.calls[0].resume_after_s is not None and 0 < run.calls[0].resume_after_s < 95
    assert [e["task"] for e in run.named("TaskProcessed")] == ["long", "b"]


def test_without_a_deadline_a_task_has_all_the_time() -> None:
    run = OneRun(TWO)
    run.handle()
    assert {c.resume_after_s for c in run.calls} == {None}


def test_the_lease_never_exceeds_the_deadline() -> None:
    run = OneRun(TWO)
    deadline = run.clock.time + 40 * SECOND
    run.handle(deadline=deadline)
    assert run.commits[0].lease_until == deadline


class Forgetful:
    """A store whose answers get lost: the write happened, the caller hears `Unavailable`."""

    def __init__(self, run: OneRun, lost: int) -> None:
        self.run, self.lost = run, lost

    def append(self, commit: Commit) -> None:
        self.run.store.append(commit)
        if self.lost and commit.seq > 0:
            self.lost -= 1
            raise Unavailable("the answer was lost")

    def read(self, stream: StreamId, after: int = -1, limit: int | None = None) -> Any:
        return self.run.store.read(stream, after, limit)


def test_a_commit_with_a_lost_answer_is_recognized_as_our_own() -> None:
    run = OneRun(TWO)
    worker = run.worker()
    worker.store = Forgetful(run, 2)  # type: ignore[assignment]
    assert worker.handle(run.command()).kind == "done"
    assert run.names == ["StepStarted", "TaskProcessed", "TaskProcessed", "StepDone"]


def test_a_store_that_does_not_answer_leaves_the_command_to_the_queue() -> None:
    run = OneRun(TWO)
    worker = run.worker()
    worker.store = Forgetful(run, 99)  # type: ignore[assignment]
    with pytest.raises(Unavailable):
        worker.handle(run.command())
    assert run.handle().kind == "dropped"  # it had been written after all
    assert run.names.count("StepDone") == 1


def test_a_thawed_worker_cannot_commit_over_its_successor() -> None:
    def frozen(call: ToolCall) -> Outcome:
        if len(run.calls) == 1:
            run.wait(LEASE_S + 5)
            assert run.handle().kind == "done"
        return echo(call)

    run = OneRun({"tool": {"kind": "noop", "result": 5}}, frozen)
    assert run.handle().kind == "dropped"
    assert run.names.count("StepDone") == 1
    assert len(run.named("TaskProcessed")) == 1


def test_a_thawed_worker_writes_over_no_object_of_its_successor() -> None:
    def frozen(call: ToolCall) -> Outcome:
        number = len(run.calls)
        if number == 1:
            run.wait(LEASE_S + 5)
            assert run.handle().kind == "done"
        return Outcome.ok([f"of attempt {number}"] * 2_000)

    run = OneRun({"tool": {"kind": "http", "url": "http://x"}}, frozen)
    assert run.handle().kind == "dropped"
    committed = run.last.data["result"]
    assert Values(run.store, run.results, "7").reference(committed) == ["of attempt 2"] * 2_000


def test_long_tasks_are_announced_and_the_lease_is_renewed_while_they_run() -> None:
    renewed: list[list[str]] = []
    leases: list[Leaseholder] = []

    class Captured(LeaseHeartbeat):
        def add(self, holder: Leaseholder) -> None:
            leases.append(holder)

    def script(call: ToolCall) -> Outcome:
        for _ in range(4):
            run.wait(10)
            leases[0].renew_lease()
            renewed.append(run.names[:])
        return echo(call)

    run = OneRun({"tool": {"kind": "noop", "result": 1}}, script)
    worker = run.worker()
    worker.heartbeat = Captured()
    worker.handle(run.command())
    assert renewed[0] == ["StepStarted", "TaskStarted"]
    assert len(run.commits) == 4  # claim, the announcement, one heartbeat after 20 silent seconds, the end
    assert run.commits[2].events == ()
    assert "started" not in run.named("TaskProcessed")[0]
    assert run.last.data == {"result": 1}


def test_a_rule_with_no_policy_effect_is_visible_in_the_event() -> None:
    run = OneRun({"tool": [task("a", {"when": "{{ false }}", "then": {"do": "fail"}}), task("b", otherwise())]})
    run.handle()
    assert [d["directive"] for d in run.named("TaskProcessed")] == [
        {"do": "continue", "matched": None},
        {"do": "continue", "matched": "else"},
    ]
