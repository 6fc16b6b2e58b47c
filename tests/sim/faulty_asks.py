"""Workers of the simulated world that ask for runs: the port, with calls that are refused, lost, late or made twice, and worlds
that go on while a call is frozen."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from noetl_core.control import asks
from noetl_core.engine.records import Ask, Command, StreamId
from noetl_core.ports import AskFailed, PortError
from tests.sim.ports import SECOND, Crash

if TYPE_CHECKING:
    from tests.sim.world import World

LONGEST_FREEZE_S = 40


@dataclass
class SimAsks:
    """`Asks` of a world: each call reaches one of its control planes."""

    world: World
    asked: list[Ask] = field(default_factory=list)
    replies: list[tuple[Ask, Command]] = field(default_factory=list)
    """The answers with a run that reached workers."""
    carry_out: Callable[..., Command | None] = asks.answer

    def ask(self, ask: Ask) -> Command | None:
        self.asked.append(ask)
        faults = self.world.faults
        if faults.hits("refuse_ask", faults.refuse_ask):
            raise AskFailed("throttled", "refused")
        if faults.hits("late_ask", faults.late_ask):
            self.world.later.append(lambda: self._late(ask))
            raise AskFailed("late", "no answer")
        if faults.hits("duplicate ask", faults.duplicate):
            self._carried_out(ask)
        first = faults.hits("stream_first", faults.stream_first)
        command = self._beside_the_stream(ask) if first else self._carried_out(ask)
        if faults.hits("lose_answer_of_ask", faults.lose_answer_of_ask):
            raise AskFailed("late", "the answer is lost", may_be_done=True)
        if command is not None:
            self.replies.append((ask, command))
            if faults.hits("freeze", faults.freeze):
                self.world.freeze()
        return command

    def _late(self, ask: Ask) -> None:
        with suppress(AskFailed):
            self._carried_out(ask)

    def _beside_the_stream(self, ask: Ask) -> Command | None:
        """Carry out an ask while the stream delivers its boundary: after it, unless the router leaves the boundary to the ask."""
        outcomes: list[Command | AskFailed | None] = []

        def carry_out() -> None:
            try:
                outcomes.append(self._carried_out(ask))
            except AskFailed as failed:
                outcomes.append(failed)

        world = self.world
        world.in_flight.append(carry_out)
        for record in list(world.records):
            if record.commit.stream == StreamId(ask.execution_id, ask.run_id) and record.at <= world.clock.time:
                world.deliver_record(record)
                break
        if carry_out in world.in_flight:
            world.in_flight.remove(carry_out)
            carry_out()
        (outcome,) = outcomes
        if isinstance(outcome, AskFailed):
            raise outcome
        return outcome

    def _carried_out(self, ask: Ask) -> Command | None:
        world = self.world
        control = world.random.choice(world.controls)
        before, world.faults.interlude = world.faults.interlude, world.freeze
        try:
            return self.carry_out(control, ask)
        except (Crash, PortError) as error:
            if isinstance(error, Crash):
                world._restart_control()
            raise AskFailed("failed", repr(error), may_be_done=True) from None
        finally:
            world.faults.interlude = before


def freeze(world: World) -> None:
    """Let time pass, and others do what they can meanwhile: as long as a claim may live, and longer."""
    before, world.faults.interlude = world.faults.interlude, None
    try:
        world.clock.time += int(world.random.uniform(0, LONGEST_FREEZE_S) * SECOND)
        for _ in range(world.random.randrange(4)):
            world.act_now()
    finally:
        world.faults.interlude = before
