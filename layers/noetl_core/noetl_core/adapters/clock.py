"""The machine's clock."""

from __future__ import annotations

import secrets
import time


class SystemClock:
    """`Clock` of the machine: UTC microseconds, real sleep, random nonces."""

    def now(self) -> int:
        return time.time_ns() // 1000

    def sleep(self, seconds: float) -> None:
        if seconds > 0:
            time.sleep(seconds)

    def nonce(self) -> str:
        return secrets.token_hex(8)
