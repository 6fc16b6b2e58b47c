"""Commands that compute, in batches of ten, over few workers with a processor each: a model of the queue, in virtual time.

What decides is the worker's own: how long a command waits for its turn, and for how long it is invisible when it had none.
"""

from __future__ import annotations

import heapq
import random
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from noetl_core.worker.turns import MAX_SPREAD_S, TURN_S, hand_over_s
from noetl_infra.template_file import read_template
from tests.properties import some

ROOT = Path(__file__).parents[2]


def max_receives() -> int:
    """After how many deliveries a command becomes a dead letter."""
    queue = read_template(ROOT / "template.yaml")["Resources"]["CommandQueue"]
    return int(queue["Properties"]["RedrivePolicy"]["maxReceiveCount"])


@dataclass
class Model:
    """The queue and its workers. A worker that is free receives as many visible messages as a batch may have, at random."""

    seconds: list[float]
    """Seconds for which each command computes."""
    workers: int
    seed: int
    batch: int = 10
    receives: Counter[int] = field(default_factory=Counter)
    runs: Counter[int] = field(default_factory=Counter)
    now: float = 0.0

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)
        self._visible_at = dict.fromkeys(range(len(self.seconds)), 0.0)
        self._events: list[tuple[float, int]] = [(0.0, worker) for worker in range(self.workers)]

    def run(self) -> float:
        """Until no message is left; returns when the last command has ended."""
        last = 0.0
        while self._visible_at:
            self.now, worker = heapq.heappop(self._events)
            ended = self._invocation()
            if ended is None:  # nothing is visible now
                ended = max(self.now + 0.1, min(self._visible_at.values()))
            else:
                last = max(last, ended)
            heapq.heappush(self._events, (ended, worker))
        return last

    def _invocation(self) -> float | None:
        """One batch: commands take their turns for as long as the others wait."""
        visible = [message for message, at in self._visible_at.items() if at <= self.now]
        if not visible:
            return None
        batch = self._random.sample(visible, min(self.batch, len(visible)))
        free_at = self.now
        for message in batch:
            self.receives[message] += 1
            if free_at - self.now <= TURN_S:
                free_at += self.seconds[message]
                self.runs[message] += 1
                del self._visible_at[message]
            else:
                self._visible_at[message] = self.now + TURN_S + hand_over_s(self.receives[message], self._random.random())
        return free_at


@pytest.mark.one_in(4)
@pytest.mark.sized
@pytest.mark.parametrize("seed", some(range(5), 3))
@pytest.mark.parametrize(("count", "seconds", "workers"), [(400, 800.0, 8), (1000, 20.0, 4), (1000, 0.05, 4), (30, 800.0, 50)])
def test_long_commands_in_batches_all_run_once_and_none_becomes_a_dead_letter(
    count: int, seconds: float, workers: int, seed: int
) -> None:
    model = Model([seconds] * count, workers, seed)
    took = model.run()
    assert model.runs == Counter(range(count))
    assert max(model.receives.values()) < max_receives() / 2
    rounds = -(-count // workers)
    assert took <= rounds * seconds * 1.1 + 2 * (TURN_S + MAX_SPREAD_S), "no worker is idle for long while commands wait"


@pytest.mark.parametrize("seed", range(5))
def test_short_commands_pass_between_long_ones(seed: int) -> None:
    """A tenth computes for a quarter of an hour: the others do not wait for these, but for a turn."""
    model = Model([900.0] * 40 + [0.05] * 360, 50, seed)
    model.run()
    assert model.runs == Counter(range(400))
    assert max(model.receives.values()) < max_receives() / 2


@pytest.mark.parametrize("seed", range(5))
def test_in_batches_computing_commands_begin_later_than_they_could(seed: int) -> None:
    """This is the reason for the default of one command per invocation."""
    assert Model([5.0] * 100, 50, seed, batch=1).run() == 10.0
    assert Model([5.0] * 100, 50, seed).run() > 60.0


def test_in_a_long_backlog_a_command_is_received_some_ten_times() -> None:
    model = Model([20.0] * 1000, 4, 1)
    model.run()
    assert 8 < model.receives.total() / 1000 < 12
    assert 30 < max(model.receives.values()) < 70
