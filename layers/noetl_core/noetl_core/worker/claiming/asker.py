"""Asks the control plane to route the boundaries of this worker, and for the runs that follow (docs/decisions.md, "Eager
dispatch").

A breaker remembers for a while that asking does not help: meanwhile boundaries go the way of the stream alone.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from threading import Lock
from typing import Final

from noetl_core.engine.records import Ask, Command
from noetl_core.ports import AskFailed, Asks, Clock
from noetl_core.values.instants import SECOND

log = logging.getLogger(__name__)

CLAIM_WITHIN_S: Final = 1
"""Seconds after the ask within which a run may be claimed for it. Later, the worker does not wait for it any more."""
SLOW_S: Final = 0.2
"""Waiting longer for the answer would cost the worker more time than the way through the stream."""
SLOW_IN_A_ROW: Final = 3
"""Number of slow answers in a row that opens the breaker. A cold start is one."""
FIRST_PAUSE_S: Final = 5
LONGEST_PAUSE_S: Final = 300
"""Seconds without asks after a failure, at first and at most. Each failure in a row doubles them."""


class Asker:
    """Asks through `asks`, unless that has failed lately. Thread-safe. `observe` receives counts by their metric's name."""

    def __init__(self, asks: Asks, clock: Clock, observe: Callable[[str, float], None] = lambda _name, _value: None) -> None:
        self._asks, self._clock = asks, clock
        self.observe = observe
        self._lock = Lock()
        self._pause_s = 0
        self._paused_until = 0
        self._slow = 0

    @property
    def is_paused(self) -> bool:
        """Return whether asks are suspended."""
        return self._clock.now() < self._paused_until

    def ask(self, ask: Ask) -> Command | None:
        """Return the command of a run that is claimed for this worker; None if there is none, or asks are suspended."""
        if self.is_paused:
            self.observe("AsksRefused", 1)
            return None
        began = self._clock.now()
        try:
            command = self._answer(ask)
        except AskFailed as failed:
            log.warning("an ask failed; the control plane reads the boundary from the stream: %s", failed)
            self.observe("AsksRefused", 1)
            self.observe(f"AsksRefused{failed.reason.title()}", 1)
            self._pause()
            return None
        took_s = (self._clock.now() - began) / SECOND
        self.observe("Asks", 1)
        self.observe("AskMs", took_s * 1000)
        self.observe("RunsTaken", command is not None)
        self._answered(took_s)
        return command

    def _answer(self, ask: Ask) -> Command | None:
        """Ask, and once more with the same id if the answer may have been lost: it is the same."""
        try:
            return self._asks.ask(ask)
        except AskFailed as failed:
            if not failed.may_be_done:
                raise
            return self._asks.ask(ask)

    def _answered(self, took_s: float) -> None:
        with self._lock:
            self._slow = self._slow + 1 if took_s > SLOW_S else 0
            if self._slow < SLOW_IN_A_ROW:
                self._pause_s = 0 if not self._slow else self._pause_s
                return
            self._slow = 0
        self.observe("AsksRefusedSlow", 1)
        self._pause()

    def _pause(self) -> None:
        with self._lock:
            self._pause_s = min(LONGEST_PAUSE_S, max(FIRST_PAUSE_S, 2 * self._pause_s))
            self._paused_until = self._clock.now() + self._pause_s * SECOND
