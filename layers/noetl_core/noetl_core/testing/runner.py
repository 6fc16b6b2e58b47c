"""Runs executions in virtual time: one command runs at a time, and when none can continue, time jumps to the next event."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from math import inf
from typing import Any, Final, Protocol

from noetl_core.adapters.local.queue import Delivery
from noetl_core.control.sweeping.sweep import sweep
from noetl_core.engine.dispatch.effects import next_instant
from noetl_core.engine.state import State
from noetl_core.runtime.local_runner import LocalRunner
from noetl_core.testing.clock import VirtualClock

COMMANDS: Final = 1_000
"""Commands that may sleep at the same time."""
MAX_IDLE: Final = 1_000
"""Turns in a row in which neither time passes nor anything happens, after which the run cannot go on."""


class Outside(Protocol):
    """The world outside of the executions: signals, answers and operators."""

    def act(self) -> bool:
        """Do the next thing whose moment has come. Return False if there is none."""
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


class VirtualRunner(LocalRunner):
    """A `LocalRunner` whose waits cost no time. `outside` acts when nothing else can go on; `rests` may end the run then."""

    def __init__(self, *wired: Any) -> None:
        super().__init__(*wired)
        assert isinstance(self._clock, VirtualClock)
        self._time: VirtualClock = self._clock
        self._time.changed = self._queue.changed
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
        return super()._act()

    def _submit(self, delivery: Delivery) -> None:
        super()._submit(delivery)
        self._time.settle(lambda: self._running)

    def _handle(self, delivery: Delivery) -> None:
        try:
            super()._handle(delivery)
        except WorkerDied:
            self._queue.put_back(delivery, 0)

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
