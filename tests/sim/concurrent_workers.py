"""Concurrent workers in virtual time: each has a thread, of which only one runs at any moment."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from noetl_core.worker.claiming.lease_heartbeat import Leaseholder
from tests.sim.ports import SECOND, Crash, SimClock

HEARTBEAT_EVERY_S = 20


@dataclass(eq=False)
class _Busy:
    """A busy worker: either it runs and the world waits for it, or it waits until `wake_at`."""

    work: Callable[[], None]
    wake_at: int = 0
    go: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    rest: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    over: bool = False
    killed: bool = False
    wrong: BaseException | None = None


class BusyWorkers:
    """The workers of a world. `holders` are their activations, whose leases a heartbeat thread would renew."""

    def __init__(self, clock: SimClock) -> None:
        self._clock = clock
        self._busy: list[_Busy] = []
        self._here = threading.local()
        self._holders: dict[Leaseholder, int] = {}

    def __len__(self) -> int:
        return len(self._busy)

    def begin(self, work: Callable[[], None]) -> None:
        """Start a worker, and run it until it waits or ends."""
        busy = _Busy(work)
        self._busy.append(busy)
        threading.Thread(target=self._run, args=(busy,), daemon=True).start()
        self._turn(busy)

    def _run(self, busy: _Busy) -> None:
        self._here.busy = busy
        busy.go.acquire()
        try:
            busy.work()
        except BaseException as wrong:  # raised in the driver of the world
            busy.wrong = wrong
        busy.over = True
        busy.rest.release()

    def _turn(self, busy: _Busy) -> None:
        busy.go.release()
        busy.rest.acquire()
        if busy.over:
            self._busy.remove(busy)
            if busy.wrong is not None and not busy.killed:
                raise busy.wrong

    def take(self, seconds: float) -> None:
        """Keep the worker of the calling tool busy for `seconds`."""
        busy: _Busy = self._here.busy
        busy.wake_at = self._clock.time + int(seconds * SECOND)
        busy.rest.release()
        busy.go.acquire()
        if busy.killed:
            raise Crash

    def kill(self, worker: int) -> None:
        """Kill one worker at its current point."""
        busy = self._busy[worker]
        busy.killed = True
        self._turn(busy)

    def kill_all(self) -> None:
        """Kill every worker at its current point."""
        for busy in list(self._busy):
            busy.killed = True
            self._turn(busy)
        self._holders.clear()

    # --- the lease heartbeat -------------------------------------------------------------------------------------------

    def add(self, holder: Leaseholder) -> None:
        self._holders[holder] = self._clock.time + HEARTBEAT_EVERY_S * SECOND

    def remove(self, holder: Leaseholder) -> None:
        self._holders.pop(holder, None)

    def _renew_lease(self, holder: Leaseholder) -> None:
        self._holders[holder] = self._clock.time + HEARTBEAT_EVERY_S * SECOND
        holder.renew_lease()

    # --- for the world's loop -------------------------------------------------------------------------------------------

    def ready(self) -> list[Callable[[], None]]:
        now = self._clock.time
        turns = [partial(self._turn, busy) for busy in self._busy if busy.wake_at <= now]
        return [*turns, *(partial(self._renew_lease, holder) for holder, at in self._holders.items() if at <= now)]

    def times(self) -> list[int]:
        return [b.wake_at for b in self._busy] + list(self._holders.values())
