"""A clock that tests move."""

from __future__ import annotations

import itertools

SECOND = 1_000_000
START = 1_800_000_000 * SECOND


class FakeClock:
    """`Clock` that stands still until it is told to sleep."""

    def __init__(self, now: int = START) -> None:
        self.time = now
        self._nonces = itertools.count(1)

    def now(self) -> int:
        return self.time

    def sleep(self, seconds: float) -> None:
        self.time += int(seconds * SECOND)

    def nonce(self) -> str:
        return f"nonce-{next(self._nonces)}"
