"""The asker's breaker: when a worker asks, and when it leaves its boundaries to the stream."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from noetl_core.engine.records import Ask, Command
from noetl_core.ports import AskFailed
from noetl_core.worker.claiming.asker import FIRST_PAUSE_S, LONGEST_PAUSE_S, SLOW_IN_A_ROW, Asker
from tests.sim.ports import SECOND, SimClock

ASK = Ask("a", "7", "r1", 1, 0, "w", "default", 10**18, 10**18)
COMMAND = Command("7", "r2", "next", 0, "first", 3, "sha256:x")


@dataclass
class Answers:
    """Answers in turn: a command, None, or an error."""

    answers: list[Callable[[], Command | None]]
    asked: list[Ask] = field(default_factory=list)

    def ask(self, ask: Ask) -> Command | None:
        self.asked.append(ask)
        return self.answers.pop(0)()


def fails(reason: str, *, may_be_done: bool = False) -> Callable[[], Command | None]:
    def fail() -> Command | None:
        raise AskFailed(reason, "no", may_be_done=may_be_done)

    return fail


def test_an_answer_that_may_have_been_lost_is_asked_for_once_more_with_the_same_id() -> None:
    port = Answers([fails("late", may_be_done=True), lambda: COMMAND])
    assert Asker(port, SimClock()).ask(ASK) == COMMAND
    assert port.asked == [ASK, ASK]


def test_a_refusal_is_remembered_twice_as_long_each_time_up_to_five_minutes() -> None:
    clock, port = SimClock(), Answers([])
    asker = Asker(port, clock)
    pauses = []
    for _ in range(9):
        port.answers.append(fails("throttled"))
        assert asker.ask(ASK) is None
        began = clock.time
        while asker.is_paused:
            clock.time += SECOND
        pauses.append(round((clock.time - began) / SECOND))
    assert pauses == [5, 10, 20, 40, 80, 160, 300, 300, 300]
    assert (pauses[0], pauses[-1]) == (FIRST_PAUSE_S, LONGEST_PAUSE_S)
    port.answers += [lambda: None, fails("throttled")]
    asker.ask(ASK)
    asker.ask(ASK)
    clock.time += FIRST_PAUSE_S * SECOND
    assert not asker.is_paused, "an answer begins the count anew"


def test_while_it_pauses_nothing_is_asked() -> None:
    port = Answers([fails("unreachable")])
    counts: dict[str, float] = {}
    asker = Asker(port, SimClock(), lambda name, value: counts.__setitem__(name, counts.get(name, 0) + value))
    assert [asker.ask(ASK) for _ in range(3)] == [None] * 3
    assert len(port.asked) == 1
    assert counts == {"AsksRefused": 3, "AsksRefusedUnreachable": 1}


@pytest.mark.parametrize("slow", [SLOW_IN_A_ROW - 1, SLOW_IN_A_ROW])
def test_answers_that_are_slow_several_times_in_a_row_are_not_worth_waiting_for(slow: int) -> None:
    clock = SimClock()

    def late() -> Command | None:
        clock.sleep(1)
        return COMMAND

    asker = Asker(Answers([late] * slow), clock)
    assert [asker.ask(ASK) for _ in range(slow)] == [COMMAND] * slow, "an answer that has come is taken"
    assert asker.is_paused == (slow == SLOW_IN_A_ROW)
