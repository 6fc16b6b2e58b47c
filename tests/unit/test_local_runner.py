"""The local runner: the ends of short runs and what follows from them are one transaction, and nothing that happens between two
calls changes what an execution comes to."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest
from bench.playbooks import chain

from noetl_core.adapters.local.database import Database, Transaction
from noetl_core.adapters.local.events import SqliteEventStore
from noetl_core.adapters.local.processes import name_of
from noetl_core.control.admit import StartRequest
from noetl_core.control.lifecycle.operate import cancel, pause, resume, signal
from noetl_core.engine.outcome import Outcome
from noetl_core.engine.records import Command, Commit, StreamId
from noetl_core.engine.state import State
from noetl_core.ports import StorageFailed, Unavailable
from noetl_core.runtime import local_runner
from noetl_core.runtime.local import LocalWiring
from noetl_core.runtime.local_runner import Interrupted
from noetl_core.tools.base import ToolCall
from noetl_core.tools.noop import NoopTool
from noetl_core.tools.registry import ToolRegistry


class Acting(NoopTool):
    """Calls `act` in each task."""

    def __init__(self) -> None:
        self.act: Callable[[ToolCall], None] = lambda _call: None

    def run(self, call: ToolCall) -> Outcome:
        self.act(call)
        return super().run(call)


@pytest.fixture
def noop() -> Acting:
    return Acting()


@pytest.fixture
def local(tmp_path: Path, noop: Acting) -> Iterator[LocalWiring]:
    wiring = LocalWiring(tmp_path / "runs.db", tools=ToolRegistry({"noop": noop}))
    yield wiring
    wiring.close()


def others(local: LocalWiring) -> SqliteEventStore:
    """The log as another process reads it."""
    return SqliteEventStore(Database(local.database.path))


def started(local: LocalWiring, steps: int = 3, executions: int = 1) -> list[str]:
    return [local.start(StartRequest(playbook=chain(steps))).execution_id for _ in range(executions)]


def runs_of(store: SqliteEventStore, execution_id: str) -> list[str]:
    return [e.data["run"] for c in store.read(StreamId(execution_id)) for e in c.events if e.name == "StepScheduled"]


def events_of(store: SqliteEventStore, execution_id: str) -> list[str]:
    return [e.name for c in store.read(StreamId(execution_id)) for e in c.events]


def no_sweep(*_: object, **__: object) -> None:
    raise AssertionError("a command was lost")


def test_a_step_has_two_commits_in_one_transaction(local: LocalWiring) -> None:
    (execution_id,) = started(local, 5)
    store = others(local)
    seen: list[tuple[str | None, int, int]] = []

    def observer(stored: Commit) -> None:
        runs = runs_of(store, execution_id)
        seen.append(
            (
                stored.stream.run_id,
                len(store.read(StreamId(execution_id))),
                sum(len(store.read(StreamId(execution_id, r))) for r in runs),
            )
        )

    local.observe(observer)
    local.run(execution_id)
    assert len(seen) == 10
    for n, (end, routed) in enumerate(zip(seen[::2], seen[1::2], strict=True)):
        assert end[0] is not None
        assert routed[0] is None, "the end comes before its routing"
        assert end[1:] == routed[1:] == (n + 2, n + 1), "observers see both commits"


def test_many_executions_need_no_sweep(local: LocalWiring, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_runner, "sweep", no_sweep)
    executions = started(local, 3, 21)
    assert local.run(*executions)
    assert {local.control.load(execution_id).status for execution_id in executions} == {"completed"}


def test_a_claimed_run_records_its_start_in_its_only_commit(local: LocalWiring) -> None:
    (execution_id,) = started(local)
    local.run(execution_id)
    for run in runs_of(local.store, execution_id):
        (only,) = local.store.read(StreamId(execution_id, run))
        assert [e.name for e in only.events] == ["StepStarted", "TaskProcessed", "StepDone"]


def test_an_end_that_another_process_overtook_does_not_count(local: LocalWiring, monkeypatch: pytest.MonkeyPatch) -> None:
    executions = started(local, 3, 2)
    first = runs_of(local.store, executions[0])[0]
    append = local.store.append

    def overtaken(end: Commit) -> None:
        if end.stream.run_id == first and end.wake:
            others(local).append(replace(end, writer="another"))
        append(end)

    monkeypatch.setattr(local.store, "append", overtaken)
    assert local.run(executions[1])
    assert local.control.load(executions[0]).status == "running", "its end is for the other process to route"
    (only,) = local.store.read(StreamId(executions[0], first))
    assert only.writer == "another"
    local.runner.adopt(executions[0])
    assert local.run(executions[0])
    assert local.control.load(executions[0]).status == "completed"


def test_another_process_writes_between_decision_and_commit(local: LocalWiring, noop: Acting) -> None:
    (execution_id,) = started(local, 4)
    other = LocalWiring(local.database.path)
    handled: list[str] = []

    def signalled(call: ToolCall) -> None:
        handled.append(call.step)
        if len(handled) == 2:
            pause(other.control, execution_id)
            resume(other.control, execution_id)

    noop.act = signalled
    assert local.run(execution_id, timeout_s=30)
    assert handled == ["s0000", "s0001", "s0002", "s0003"]
    assert events_of(others(local), execution_id).count("BoundaryRouted") == 4
    other.close()


def before_each_end(database: Database, act: Callable[[Transaction], None]) -> Callable[[], AbstractContextManager[Transaction]]:
    """Return transactions of `database` that call `act` before they are committed."""
    begin, blocks = database.transaction, list[Transaction]()

    @contextmanager
    def transaction() -> Iterator[Transaction]:
        with begin() as begun:
            blocks.append(begun)
            try:
                yield begun
            finally:
                blocks.pop()
                if not blocks:  # a block within another one is part of its transaction
                    act(begun)

    return transaction


@pytest.mark.parametrize("when", range(1, 9))
def test_a_transaction_that_is_lost_is_made_again(local: LocalWiring, when: int, monkeypatch: pytest.MonkeyPatch) -> None:
    executions = started(local, 3, 2)
    ends: list[int] = []

    def lose(transaction: Transaction) -> None:
        ends.append(transaction.begun)
        if len(ends) == when and transaction.begun:
            transaction.lost = Unavailable("lost")

    monkeypatch.setattr(local.database, "transaction", before_each_end(local.database, lose))
    for _ in range(2):
        try:
            local.run(*executions)
        except Unavailable:
            continue
        break
    store = others(local)
    for execution_id in executions:
        assert local.control.load(execution_id).status == "completed"
        assert events_of(store, execution_id).count("StepScheduled") == 3
        assert all(len(store.read(StreamId(execution_id, run))) == 1 for run in runs_of(store, execution_id))


def test_no_command_and_no_observer_hears_of_a_lost_transaction(local: LocalWiring, monkeypatch: pytest.MonkeyPatch) -> None:
    (execution_id,) = started(local)
    seen: list[Commit] = []
    local.observe(seen.append)
    write, returning = local.database.write, local.database.returning
    lost: list[str] = []

    def lose(transaction: Transaction) -> None:
        if transaction.begun:
            transaction.lost = StorageFailed("full")
            lost.append("the transaction")

    def full(execute: Callable[..., Any]) -> Callable[..., Any]:
        def executed(statement: str, *values: Any, **settings: Any) -> Any:
            if lost:
                lost.append(statement)
                raise StorageFailed("full")
            return execute(statement, *values, **settings)

        return executed

    with monkeypatch.context() as patch:
        patch.setattr(local.database, "transaction", before_each_end(local.database, lose))
        patch.setattr(local.database, "write", full(write))
        patch.setattr(local.database, "returning", full(returning))
        with pytest.raises(StorageFailed):
            local.run(execution_id)
    assert len(lost) > 1
    assert (seen, local.queue.depth("default")) == ([], 1), "the command of the run itself is put back"
    assert events_of(others(local), execution_id).count("StepScheduled") == 1
    monkeypatch.setattr(local_runner, "sweep", no_sweep)
    assert local.run(execution_id)
    assert local.control.load(execution_id).status == "completed"


def test_a_decision_of_another_thread_does_not_follow_from_a_lost_one(
    local: LocalWiring, monkeypatch: pytest.MonkeyPatch
) -> None:
    (execution_id,) = started(local)
    append = local.store.append
    signals: list[Thread] = []
    monkeypatch.setattr(local.control, "due_soon", lambda execution_id: None)  # it waits for the transaction, too
    decided = Event()

    def lose(transaction: Transaction) -> None:
        if transaction.begun and not signals:
            signals.append(Thread(target=signal, args=(local.control, execution_id, "go", None)))
            signals[0].start()
            assert decided.wait(10)
            transaction.lost = Unavailable("lost")

    def deciding(commit: Commit) -> None:
        if threading.current_thread() in signals:
            decided.set()
        append(commit)

    monkeypatch.setattr(local.database, "transaction", before_each_end(local.database, lose))
    monkeypatch.setattr(local.store, "append", deciding)
    assert local.run(execution_id)
    signals[0].join(5)
    assert local.control.load(execution_id).status == "completed"
    assert "SignalReceived" in events_of(local.store, execution_id)


def test_a_process_that_leaves_has_written_all_that_ended(local: LocalWiring, monkeypatch: pytest.MonkeyPatch) -> None:
    executions = started(local, 3, 3)
    handle = local.worker.handle

    def leaving(command: Any, deadline: int | None = None) -> Any:
        handled = handle(command, deadline)
        local.runner.leave("SIGTERM")
        return handled

    monkeypatch.setattr(local.worker, "handle", leaving)
    with pytest.raises((Interrupted, Unavailable)):
        local.run(*executions)
    store = others(local)
    ended = [len(store.read(StreamId(x, run))) for x in executions for run in runs_of(store, x)]
    assert ended == [1, 0, 0, 0], "an end, and what it leads to"
    with LocalWiringOf(local) as next_:
        for execution_id in executions:
            next_.runner.adopt(execution_id)
        assert next_.run(*executions, timeout_s=30)
        assert {next_.control.load(x).status for x in executions} == {"completed"}


def test_an_end_is_written_though_the_process_leaves_before_its_routing(
    local: LocalWiring, monkeypatch: pytest.MonkeyPatch
) -> None:
    (execution_id,) = started(local)
    route = local.control.route

    def leaving(*inputs: Any, **settings: Any) -> Any:
        local.runner.leave("SIGTERM")
        return route(*inputs, **settings)

    monkeypatch.setattr(local.control, "route", leaving)
    with pytest.raises((Interrupted, Unavailable)):
        local.run(execution_id)
    store = others(local)
    (run,) = runs_of(store, execution_id)
    assert [e.name for c in store.read(StreamId(execution_id, run)) for e in c.events][-1] == "StepDone"
    assert "BoundaryRouted" not in events_of(store, execution_id)


def test_a_claim_is_good_for_one_attempt(local: LocalWiring, monkeypatch: pytest.MonkeyPatch) -> None:
    (execution_id,) = started(local)
    carry_out = local.worker._run
    attempts: list[Command] = []

    def failing(command: Command, *more: Any) -> Any:
        attempts.append(command)
        if len(attempts) == 1:
            raise Unavailable("busy")
        return carry_out(command, *more)

    monkeypatch.setattr(local.worker, "_run", failing)
    assert local.run(execution_id, timeout_s=10)
    first, *_ = runs_of(local.store, execution_id)
    names = [e.name for c in local.store.read(StreamId(execution_id, first)) for e in c.events]
    assert "StepReleased" in names
    assert names[-1] == "StepDone"


def test_adopting_an_execution_queues_the_lost_command_of_its_claim_again(local: LocalWiring) -> None:
    (execution_id,) = started(local)
    assert local.queue.receive() is not None
    local.runner.adopt(execution_id)
    assert local.queue.receive() is not None


def test_a_loop_is_not_claimed(local: LocalWiring) -> None:
    text = chain(1).replace('"tool"', '"loop": {"in": [1, 2], "iterator": "i"}, "tool"')
    execution_id = local.start(StartRequest(playbook=text)).execution_id
    events = [e for c in local.store.read(StreamId(execution_id)) for e in c.events if e.name == "StepScheduled"]
    assert ["claim" in e.data for e in events] == [False]


class LocalWiringOf:
    """A wiring over the same store, as the next process has it."""

    def __init__(self, local: LocalWiring) -> None:
        self._wiring = LocalWiring(local.database.path)

    def __enter__(self) -> LocalWiring:
        return self._wiring

    def __exit__(self, *_: object) -> None:
        self._wiring.close()


@pytest.mark.parametrize("alive", [True, False])
def test_only_claims_of_living_processes_are_waited_for(local: LocalWiring, alive: bool) -> None:
    local.worker.name = local.runner.own.name
    (execution_id,) = started(local)
    with LocalWiringOf(local) as other:
        other.worker.name = "another"
        other.worker.gone = lambda name: not alive and name == name_of()
        other.runner.adopt(execution_id)
        assert other.queue.receive() is None if alive else other.queue.receive() is not None


def test_a_claimed_run_that_a_pause_meets_is_carried_out(local: LocalWiring) -> None:
    execution_id, other = started(local, executions=2)
    pause(local.control, execution_id)
    assert local.run(execution_id, other)
    assert local.control.load(execution_id).status == "paused"
    run, *_ = runs_of(local.store, execution_id)
    assert len(local.store.read(StreamId(execution_id, run))) == 1
    resume(local.control, execution_id)
    assert local.run(execution_id, timeout_s=10)
    assert local.control.load(execution_id).status == "completed"


def test_a_cancelled_execution_ends_while_runs_are_claimed(local: LocalWiring) -> None:
    (execution_id,) = started(local)
    cancel(local.control, execution_id, "no longer needed")
    assert local.run(execution_id, timeout_s=10)
    assert local.control.load(execution_id).status == "cancelled"


@pytest.mark.parametrize("times", [1, 2])
def test_a_decision_that_raises_leaves_the_end_and_shows_its_error(
    local: LocalWiring, times: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    (execution_id,) = started(local)
    route = local.control.route
    raised: list[int] = []

    def failing(*inputs: Any, **settings: Any) -> Any:
        if len(raised) < times:
            raised.append(1)
            raise ArithmeticError("a decision fails")
        return route(*inputs, **settings)

    monkeypatch.setattr(local.control, "route", failing)
    if times == 2:
        with pytest.raises(ArithmeticError, match="a decision fails"):
            local.run(execution_id)
        (run,) = runs_of(others(local), execution_id)
        assert len(others(local).read(StreamId(execution_id, run))) == 1
        local.runner.adopt(execution_id)
    assert local.run(execution_id)
    assert events_of(others(local), execution_id).count("StepScheduled") == 3


def test_a_failed_routing_of_one_execution_leaves_the_others_routed(local: LocalWiring) -> None:
    first, second = started(local, 1, 2)
    for _ in range(2):
        delivery = local.queue.receive()
        assert delivery is not None and delivery.command is not None
        local.worker.handle(delivery.command)

    def ended(state: State) -> None:
        if state.execution_id == first:
            raise ArithmeticError("its end cannot be counted")

    local.control.on_end = ended
    with pytest.raises(ArithmeticError):
        local.run(first, second)
    assert local.run(second, timeout_s=20), "it is not left to a sweep"
