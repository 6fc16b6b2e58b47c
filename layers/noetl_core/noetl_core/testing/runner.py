"""Runs executions in virtual time: one command runs at a time, and when none can continue, time jumps to the next event.

`Arrivals` makes deliveries arrive in another order, or twice, as queues and streams may do (docs/testing.md).
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from math import inf
from typing import Any, Final, Protocol

from noetl_core.adapters.local.queue import Delivery, LocalQueue
from noetl_core.control.sweeping.sweep import sweep
from noetl_core.engine.dispatch.effects import next_instant
from noetl_core.engine.records import Command, Commit
from noetl_core.engine.state import State
from noetl_core.runtime.local_runner import LocalRunner
from noetl_core.testing.clock import VirtualClock

COMMANDS: Final = 1_000
"""Commands that may sleep at the same time."""
EARLY: Final = 0.2
"""The probability that something from outside comes at a turn, if it may."""
MAX_IDLE: Final = 1_000
"""Turns in a row in which neither time passes nor anything happens, after which the run cannot go on."""


class Outside(Protocol):
    """The world outside of the executions: signals, answers and operators."""

    def act(self, *, early: bool = False) -> bool:
        """Do the next thing whose moment has come; with `early` only one that a task waits for, such as a signal. Return False if
        there is none."""
        ...

    def is_over(self) -> bool:
        """Return whether nothing more will happen."""
        ...

    def next_at(self) -> int | None:
        """Return the instant at which the next thing happens (microseconds); None if it depends on the executions."""
        ...


class NothingLeft(Exception):
    """Nothing can happen any more, or nothing that the test waits for."""


class WorkerDied(BaseException):
    """A worker is killed: its uncommitted work is lost. No error handler catches it."""


class Arrivals:
    """The order in which deliveries of one instant arrive: by `seed` if there is one, otherwise as they were sent. With `twice`
    each arrives a second time."""

    def __init__(self, seed: int | None, *, twice: bool) -> None:
        self.twice = twice
        self._random = None if seed is None else random.Random(seed)
        self._number = 0

    def places(self) -> Iterator[int]:
        """Yield places in a queue, each once."""
        while True:
            self._number += 1
            yield self._number if self._random is None else (self._random.getrandbits(32) << 32) + self._number

    def split(self, wakes: Sequence[Commit]) -> tuple[list[Commit], list[Commit]]:
        """Return the wakes that arrive now, and those that arrive later."""
        if self._random is None:
            return list(wakes), []
        shuffled = self._random.sample(wakes, len(wakes))
        now = self._random.randint(0, len(wakes))
        return shuffled[:now], shuffled[now:]

    def early(self) -> bool:
        """Return whether something from outside comes before other things are done."""
        return self._random is not None and self._random.random() < EARLY


class VirtualQueue(LocalQueue):
    """A `LocalQueue` that delivers in the order of `arrivals`."""

    _twice = False

    def arrange(self, arrivals: Arrivals) -> None:
        """Deliver as `arrivals` says from now on."""
        self._order, self._twice = arrivals.places(), arrivals.twice

    def send(self, commands: Sequence[Command], delay_s: int = 0) -> Sequence[Command]:
        for _ in range(2 if self._twice else 1):
            super().send(commands, delay_s)
        return []

    def wake(self, *executions: str, delay_s: int = 0) -> None:
        for _ in range(2 if self._twice else 1):
            super().wake(*executions, delay_s=delay_s)

    def deliver_again(self, delivery: Delivery) -> None:
        """Put a message back into its place."""
        with self.changed:
            self._push(0, delivery)


class VirtualRunner(LocalRunner):
    """A `LocalRunner` whose waits cost no time. `outside` acts when nothing else can go on; `rests` may end the run then."""

    def __init__(self, *wired: Any) -> None:
        super().__init__(*wired)
        assert isinstance(self._clock, VirtualClock)
        self._time: VirtualClock = self._clock
        self._time.changed = self._queue.changed
        self._arrivals: Arrivals | None = None
        self._pool = ThreadPoolExecutor(COMMANDS, thread_name_prefix="test")
        self.turns = 0
        self.limit: float = inf
        """The most turns that it may take."""
        self.outside: Outside | None = None
        self._idled = (0, 0)
        """The instant of the last idle turn, and the number of idle turns at it."""
        self.rests: Callable[[], bool] = lambda: False
        """Returns whether the test ends here, while an execution still waits."""

    @property
    def executions(self) -> list[str]:
        """The executions so far, with their children."""
        return sorted(self._mine)

    def arrange(self, arrivals: Arrivals) -> None:
        """Let everything arrive as `arrivals` says from now on."""
        assert isinstance(self._queue, VirtualQueue)
        self._arrivals, self.own = arrivals, replace(self.own, accepts=lambda step: False)
        self._queue.arrange(arrivals)
        self._time.order = arrivals.places()

    def now(self) -> int:
        """Return the virtual time (microseconds)."""
        return self._time.now()

    def state(self, execution_id: str) -> State:
        """Return the state of an execution."""
        return self._control.load(execution_id)

    def close(self) -> None:
        self._time.close()
        super().close()
        if self._pool is not None:
            self._pool.shutdown(wait=True)

    def _finished(self, execution_id: str) -> bool:
        if self.outside is not None and not self.outside.is_over():
            return self._state(execution_id).finished  # an operator may continue a paused execution
        return super()._finished(execution_id)

    def _act(self) -> bool:
        self.turns += 1
        if self.turns > self.limit:
            raise NothingLeft
        arrivals = self._arrivals
        if arrivals is None:
            return super()._act()
        if arrivals.early() and self.outside is not None and self.outside.act(early=True):
            self._refresh()
            return True
        now, later = arrivals.split(self._wakes)
        self._wakes = deque(now)
        acted = super()._act()
        self._wakes.extend(later)
        return acted or bool(later)

    def _woken(self, commit: Commit) -> None:
        for _ in range(2 if self._arrivals is not None and self._arrivals.twice else 1):
            super()._woken(commit)

    def _handle_here(self, delivery: Delivery) -> None:
        if self._arrivals is None:
            super()._handle_here(delivery)
        else:
            self._handle(delivery)  # an end is routed when it arrives

    def _submit(self, delivery: Delivery) -> None:
        super()._submit(delivery)
        self._time.settle(lambda: self._running)

    def _handle(self, delivery: Delivery) -> None:
        try:
            super()._handle(delivery)
        except WorkerDied:
            assert isinstance(self._queue, VirtualQueue)
            self._queue.deliver_again(delivery)

    def _idle(self, until: int | None) -> None:
        self._store.sync()
        if self.outside is not None and self.outside.act():
            self._refresh()
            return
        if self.rests():
            raise NothingLeft
        deadlines = [at for state in map(self.state, self._mine) if (at := self._next_instant(state)) is not None]
        queued, woken = self._queue.next_at(), self._time.next_waking()
        outside = None if self.outside is None else self.outside.next_at()
        times = [at for at in (queued, woken, outside, *deadlines) if at is not None]
        if not times:
            raise NothingLeft
        now = max(min(times), self.now())
        self._idled = (now, self._idled[1] + 1 if self._idled[0] == now else 0)
        if self._idled[1] > MAX_IDLE:
            raise NothingLeft
        self._time.advance(now)
        self._time.settle(lambda: self._running)
        if deadlines and min(deadlines) <= now:
            sweep(self._control, mine=self._is_mine)
            self._refresh()

    def _next_instant(self, state: State) -> int | None:
        at = next_instant(self._control.playbook(state.digest), state)
        if at is not None:
            self._control.index.set_due(state.execution_id, at)
        return at

    def _refresh(self) -> None:
        """Forget the cached states: something other than a commit of this runner may have changed them."""
        self._states.clear()
        self._news |= self._mine
