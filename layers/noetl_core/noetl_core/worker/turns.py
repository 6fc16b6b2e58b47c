"""Turns: which commands of one process may run at the same time.

Steps that wait (for HTTP, a database, a timer) run concurrently. Steps that compute take a processor each, so that none misses
the end of the invocation because others share its processor. A takeover runs alone: whatever killed the previous worker (memory,
an interpreter crash) may kill this one too, and must then not affect other runs.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

TURN_S = 2.0
"""Seconds for which a command waits for its turn before it goes to another worker."""
SPREAD_S = 5
MAX_SPREAD_S = 20
"""Handed-over commands become visible again spread over this many seconds, at first and at most. All at once they would meet
again in the next worker."""
ALONE_ATTEMPTS = 5
"""The number of times that a takeover is handed over in the hope of an idle worker. After that it shares one like a step that
computes."""
Share = Literal["waits", "computes", "alone"]
"""The way in which a command shares its process with others, if it does."""


class NoTurn(Exception):
    """Other commands keep the process busy for too long. Nothing has been done; the queue delivers the command to another
    worker."""


def hand_over_s(received: int, chance: float) -> int:
    """Return for how many seconds a command without a turn stays invisible; `chance` is a random number from 0 to 1. The range
    grows with `received`, because a command that was received often shows that all workers are busy."""
    return round(chance * min(MAX_SPREAD_S, SPREAD_S + received))


class Turn:
    """The turn of one command, which the runs that follow from it keep."""

    def __init__(self, turns: Turns, share: Share) -> None:
        self._turns, self.share = turns, share

    def may_compute(self) -> bool:
        """Return whether a run that computes may come next, and keep a processor for it."""
        return self.share != "waits" or self._turns.change(self, "computes")

    def become(self, share: Share) -> None:
        """Make the turn one of `share`, if that needs no more than the turn has."""
        if share == "waits" and self.share == "computes":
            self._turns.change(self, "waits")


class Turns:
    """The turns of one process. Thread-safe."""

    def __init__(self, processors: int) -> None:
        self._processors = processors
        self._running: dict[Share, int] = {"waits": 0, "computes": 0, "alone": 0}
        self._changed = threading.Condition()

    @contextmanager
    def turn(self, share: Share, wait_s: float) -> Iterator[Turn]:
        """Run the block when its turn has come. Raises `NoTurn` when that takes longer than `wait_s`."""
        with self._changed:
            if not self._changed.wait_for(lambda: self._free(share), wait_s):
                raise NoTurn(f"other commands have kept this process busy for longer than {wait_s:g} s")
            self._running[share] += 1
        turn = Turn(self, share)
        try:
            yield turn
        finally:
            with self._changed:
                self._running[turn.share] -= 1
                self._changed.notify_all()

    def change(self, turn: Turn, share: Share) -> bool:
        """Change the share of a turn in progress, if the other one is free at once. Returns whether it is."""
        with self._changed:
            if share == "computes" and self._running["computes"] >= self._processors:
                return False
            self._running[turn.share] -= 1
            self._running[share] += 1
            turn.share = share
            self._changed.notify_all()
            return True

    def _free(self, share: Share) -> bool:
        if self._running["alone"]:
            return False
        if share == "alone":
            return not any(self._running.values())
        return share == "waits" or self._running["computes"] < self._processors
