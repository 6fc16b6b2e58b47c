"""The shell carries effects out as they are: over the ports, in their order, whatever decided on them."""

from __future__ import annotations

import inspect
from dataclasses import replace

import pytest

from noetl_core.control import core
from noetl_core.control.core import Control
from noetl_core.engine.dispatch.effects import (
    ClearDue,
    EndChild,
    HandleFailure,
    SendCommands,
    SetDue,
    StartChild,
    TellParent,
    WakeAt,
    WriteHead,
)
from noetl_core.engine.heads import Head
from noetl_core.engine.records import Command
from noetl_core.ports import Unavailable
from tests.golden import logs
from tests.sim.ports import SECOND, Faults
from tests.sim.world import World

EXECUTION = "42"
HEAD = Head(EXECUTION, "paused", "a/b", 1, "digest", 1, 2)
COMMAND = Command(EXECUTION, "r1", "start", 0, "first", 0, "digest")
CHILD = StartChild(EXECUTION, "43", "r1", {"path": "a/b"}, 1)


class Recorded:
    """Children that are only asked for."""

    def __init__(self) -> None:
        self.asked: list[StartChild | EndChild | HandleFailure] = []

    def start(self, control: Control, wanted: StartChild) -> None:
        self.asked.append(wanted)

    def end(self, control: Control, wanted: EndChild) -> None:
        self.asked.append(wanted)

    def handle_failure(self, control: Control, ended: HandleFailure) -> None:
        self.asked.append(ended)


def test_every_effect_reaches_its_port() -> None:
    world = World()
    control = replace(world.controls[0], children=(children := Recorded()))
    end = EndChild(CHILD, "nobody waits", 9)
    soon = world.clock.time + 60 * SECOND
    control.carry_out(EXECUTION, [SetDue(soon), SendCommands((COMMAND,)), WakeAt(soon), CHILD, end, WriteHead(HEAD)])
    assert world.index.due_at == {EXECUTION: soon}
    assert [m.command for m in world.queue.messages] == [COMMAND, None]
    assert world.queue.messages[1].visible_at >= soon
    assert children.asked == [CHILD, end]
    assert world.index.head(EXECUTION) == HEAD
    control.carry_out(EXECUTION, [ClearDue()])
    assert world.index.due_at == {}


def test_a_wake_beyond_the_reach_of_the_queue_is_left_to_the_due_index() -> None:
    world = World()
    world.controls[0].carry_out(EXECUTION, [WakeAt(world.clock.time + 901 * SECOND), WakeAt(world.clock.time - SECOND)])
    (due,) = world.queue.messages
    assert due.visible_at <= world.clock.time, "what is late is woken for at once"


def test_effects_after_a_failing_one_are_not_carried_out() -> None:
    """An execution whose parent could not be notified stays due."""
    world = World(Faults(throttle=1.0))
    world.index.due_at[EXECUTION] = 7
    world.faults.quiet = False
    with pytest.raises(Unavailable):
        world.controls[0].carry_out(EXECUTION, [TellParent("41", EXECUTION, "failed"), ClearDue()])
    assert world.index.due_at == {EXECUTION: 7}


def test_a_parent_that_is_gone_holds_nobody_up() -> None:
    world = World()
    world.index.due_at[EXECUTION] = 7
    world.controls[0].carry_out(EXECUTION, [TellParent("41", EXECUTION, "failed"), ClearDue()])
    assert world.index.due_at == {}


def test_the_shell_knows_no_event_by_its_name() -> None:
    golden = [logs.read(path.stem) for path in logs.FOLDER.glob("*.json")]
    names = {event.name for history in golden for commit in history.commits for event in commit.events}
    assert len(names) > 40
    assert [name for name in names if f'"{name}"' in inspect.getsource(core)] == []
