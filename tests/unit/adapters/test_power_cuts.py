"""A local store that survives a power cut: what the disk has at each moment that somebody sees something, and how often it is
synced. A power cut leaves the database and as much of the write-ahead log as was synced."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from bench.playbooks import chain

from noetl_core.adapters.local import database as module
from noetl_core.adapters.local.database import Database
from noetl_core.adapters.local.events import SqliteEventStore
from noetl_core.control.admit import StartRequest
from noetl_core.control.lifecycle.operate import signal
from noetl_core.engine.outcome import Outcome
from noetl_core.engine.records import StreamId
from noetl_core.ports import StorageFailed
from noetl_core.runtime.local import LocalWiring
from noetl_core.tools.base import ToolCall
from noetl_core.tools.noop import NoopTool
from noetl_core.tools.registry import ToolRegistry


class Power:
    """The store, how much of its log is synced, and what a power cut would leave of it."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.store = folder / "runs.db"
        self.syncs = 0
        self._synced = 0
        self._copies = 0
        sync = module.sync_file

        def counted(handle: int) -> None:
            self._synced = os.fstat(handle).st_size
            self.syncs += 1
            sync(handle)

        monkeypatch.setattr(module, "sync_file", counted)

    def cut(self) -> SqliteEventStore:
        """The log as another process finds it after the power has come back."""
        self._copies += 1
        copy = self.store.parent / f"cut{self._copies}.db"
        shutil.copy(self.store, copy)
        Path(f"{copy}-wal").write_bytes(Path(f"{self.store}-wal").read_bytes()[: self._synced])
        return SqliteEventStore(Database(copy))

    def names(self, execution_id: str, run: str | None = None) -> list[str]:
        return [event.name for commit in self.cut().read(StreamId(execution_id, run)) for event in commit.events]


@pytest.fixture
def power(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Power:
    return Power(tmp_path, monkeypatch)


class Look:
    """A tool that looks at what a power cut would leave while it runs."""

    kind = "look"
    inline = False

    def __init__(self, power: Power) -> None:
        self.power = power
        self.seen: list[tuple[list[str], list[list[str]]]] = []

    def run(self, call: ToolCall) -> Outcome:
        control = self.power.cut().read(StreamId(call.execution_id))
        runs = [e.data["run"] for commit in control for e in commit.events if e.name == "StepScheduled"]
        self.seen.append((runs, [self.power.names(call.execution_id, run) for run in runs]))
        return Outcome.ok(len(runs))


@pytest.fixture
def look(power: Power) -> Look:
    return Look(power)


@pytest.fixture
def local(power: Power, look: Look) -> Iterator[LocalWiring]:
    wiring = LocalWiring(power.store, durable="power", tools=ToolRegistry({"look": look}))
    yield wiring
    wiring.close()


def looking(steps: int) -> str:
    return chain(steps, lambda i: {"kind": "look"}) + "executor: { spec: { extensions: true } }\n"


def test_a_task_begins_when_its_claim_and_all_before_it_are_durable(local: LocalWiring, look: Look) -> None:
    execution_id = local.start(StartRequest(playbook=looking(3))).execution_id
    local.run(execution_id)
    assert len(look.seen) == 3
    for n, (runs, events) in enumerate(look.seen):
        assert len(runs) == n + 1
        assert [names[-1] for names in events] == ["StepDone"] * n + ["StepStarted"]


def test_commits_are_durable_before_the_caller_gets_its_answer(local: LocalWiring, power: Power) -> None:
    execution_id = local.start(StartRequest(playbook=chain(2))).execution_id
    assert "StepScheduled" in power.names(execution_id)
    local.run(execution_id)
    assert power.names(execution_id)[-2:] == ["WorkflowFinished", "PlaybookProcessed"]
    other = local.start(StartRequest(playbook=chain(2))).execution_id
    signal(local.control, other, "go", None)
    assert power.names(other)[-1] == "SignalReceived"


def test_a_step_costs_one_sync(local: LocalWiring, power: Power) -> None:
    execution_id = local.start(StartRequest(playbook=chain(20))).execution_id
    admitted = power.syncs
    local.run(execution_id)
    assert power.syncs - admitted == 19 + 1, "a claim each, that of the first at admission, and the end"
    local.close()
    assert power.syncs - admitted == 19 + 1


def test_executions_with_steps_that_end_together_share_a_sync(local: LocalWiring, power: Power) -> None:
    executions = [local.start(StartRequest(playbook=chain(5))).execution_id for _ in range(40)]
    admitted = power.syncs
    local.run(*executions)
    assert power.syncs - admitted == 5
    assert all(power.names(execution_id)[-1] == "PlaybookProcessed" for execution_id in executions)


def test_a_run_that_ends_at_once_begins_when_its_claim_is_durable(power: Power) -> None:
    scheduled: list[list[str]] = []

    class Looking(NoopTool):
        def run(self, call: ToolCall) -> Outcome:
            commits = power.cut().read(StreamId(call.execution_id))
            claimed = [e.data["step"] for c in commits for e in c.events if e.name == "StepScheduled" and "claim" in e.data]
            scheduled.append(claimed)
            return super().run(call)

    with closing(LocalWiring(power.store, durable="power", tools=ToolRegistry({"noop": Looking()}))) as local:
        local.run(local.start(StartRequest(playbook=chain(4))).execution_id)
    steps = ["s0000", "s0001", "s0002", "s0003"]
    assert scheduled == [steps[: n + 1] for n in range(4)], "the disk has the claim of each run that begins"


def test_a_store_for_killed_processes_only_is_never_synced(power: Power) -> None:
    local = LocalWiring(power.store)
    local.run(local.start(StartRequest(playbook=chain(3))).execution_id)
    local.close()
    assert power.syncs == 0


def test_after_a_failed_sync_nothing_is_called_durable(power: Power, monkeypatch: pytest.MonkeyPatch) -> None:
    """The system drops what it could not write: a later sync that succeeds would not have written it either."""
    local = LocalWiring(power.store, "power")

    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(module, "sync_file", full)
        with pytest.raises(StorageFailed, match="No space left"):
            local.start(StartRequest(playbook=chain(2)))
    with pytest.raises(StorageFailed, match="No space left"):
        local.database.sync()
    with pytest.raises(StorageFailed, match="No space left"):
        local.close()


def test_a_thread_that_writes_during_a_sync_hears_that_it_failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its write came before the sync began, which therefore stands for it, too."""
    begun, fails = threading.Event(), threading.Event()

    def sync(handle: int) -> None:
        begun.set()
        fails.wait(20)
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(module, "sync_file", sync)
    database = Database(tmp_path / "runs.db", "power")
    heard: list[str] = []

    def synced() -> None:
        try:
            database.sync()
        except StorageFailed as error:
            heard.append(str(error))
        else:
            heard.append("durable")

    database.write("DELETE FROM tokens", later=True)
    threads = [threading.Thread(target=synced) for _ in range(2)]
    threads[0].start()
    assert begun.wait(20)
    threads[1].start()
    threads[1].join(0.1)
    assert heard == []
    fails.set()
    for thread in threads:
        thread.join(20)
    assert len(heard) == 2 and all("Input/output error" in text for text in heard)
    with pytest.raises(StorageFailed):
        database.close()


def test_a_directory_entry_that_cannot_be_synced_is_a_failed_sync(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    database = Database(tmp_path / "runs.db", "power")

    def fails(handle: int) -> None:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr("os.fsync", fails)
        with pytest.raises(StorageFailed):
            database.write("DELETE FROM tokens")
    for _ in range(2):
        with pytest.raises(StorageFailed):
            database.sync()
    with pytest.raises(StorageFailed):
        database.leave()
