"""An execution with its first commit is admitted: later failures are repaired, and the client is not told to start again."""

from __future__ import annotations

from typing import Any

import pytest

from noetl_core.control.admit import StartRequest, admit
from noetl_core.engine.records import StreamId
from noetl_core.ports import StorageFailed, Unavailable
from tests.sim.catalog import SimIndex
from tests.sim.ports import SimQueue
from tests.sim.runs import ends
from tests.sim.world import World

ONE = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: one, path: one }
workflow:
  - step: start
    tool: { kind: noop, result: 1 }
"""


class Refuses:
    """Fails a method of a port once it is asked, some times."""

    def __init__(self, error: Exception, times: int = 1) -> None:
        self.error, self.left = error, times

    def of(self, monkeypatch: pytest.MonkeyPatch, where: type, method: str) -> Refuses:
        real = getattr(where, method)

        def asked(*args: Any, **more: Any) -> Any:
            if self.left:
                self.left -= 1
                raise self.error
            return real(*args, **more)

        monkeypatch.setattr(where, method, asked)
        return self


@pytest.mark.parametrize(("where", "method"), [(SimIndex, "put_head"), (SimQueue, "send")])
def test_a_start_with_a_stored_first_commit_succeeds_and_ends_once(
    monkeypatch: pytest.MonkeyPatch, where: type, method: str
) -> None:
    """A refusal would make a client without a key start a second execution."""
    world = World()
    refused = Refuses(Unavailable("throttled")).of(monkeypatch, where, method)
    started = admit(world.controls[0], StartRequest(playbook=ONE))
    assert refused.left == 0, "nothing was refused"
    assert started.created
    ends(world, started.execution_id, "completed")
    assert world.index.head(started.execution_id) is not None, "it is not in the lists"
    assert {s.execution_id for s in world.store.streams} == {started.execution_id}


def test_the_router_is_woken_at_once_without_waiting_for_the_sweeper(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    Refuses(Unavailable("throttled")).of(monkeypatch, SimQueue, "send")
    started = admit(world.controls[0], StartRequest(playbook=ONE))
    woken = [m for m in world.queue.messages if m.command is None and m.execution_id == started.execution_id]
    assert [m.visible_at <= world.clock.time for m in woken] == [True]


def test_a_refusal_before_the_first_commit_is_reported_and_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    Refuses(Unavailable("throttled")).of(monkeypatch, SimIndex, "set_due")
    with pytest.raises(Unavailable):
        admit(world.controls[0], StartRequest(playbook=ONE))
    assert [s for s in world.store.streams if s == StreamId(s.execution_id)] == []


def test_a_full_disk_is_reported_although_the_first_commit_is_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody else continues it: the caller of the command acts, and resumes."""
    world = World()
    Refuses(StorageFailed("disk full")).of(monkeypatch, SimIndex, "put_head")
    with pytest.raises(StorageFailed):
        admit(world.controls[0], StartRequest(playbook=ONE))
