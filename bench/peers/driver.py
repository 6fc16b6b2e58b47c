"""Runs a driver's process: it takes cases, answers with seconds, and is never waited for without limit."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

START_S = 90
END_S = 15


class Failed(Exception):
    """The driver failed; the message says why."""


class TooLong(Failed):
    """The driver did not answer in time, and can no longer be used."""


def environment(more: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a session's processes. Compiled modules are kept, as wherever Python is installed as usual."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"} | dict(more)


class Driver:
    """Close it when done: its process, and every process that it started, have then ended."""

    def __init__(
        self, command: Sequence[str], env: Mapping[str, str], log: Path, start_s: float = START_S, end_s: float = END_S
    ) -> None:
        self._log, self._end_s = log, end_s
        with log.open("a") as errors:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                env=environment(env),
                start_new_session=True,  # so that its children can be ended with it
            )
        self._unread = b""
        try:
            self.about: dict[str, str] = self._answer(start_s)["ready"]
        except BaseException:
            self.close()
            raise

    @property
    def pid(self) -> int:
        return self._process.pid

    def seconds(self, ask: Mapping[str, Any], limit_s: float) -> float:
        """Have a case done. Raises `Failed`, and `TooLong` after `limit_s`."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(dict(ask)).encode() + b"\n")
            self._process.stdin.flush()
        except OSError as error:
            raise TooLong(self._last_words()) from error
        answer = self._answer(limit_s)
        if "error" in answer:
            raise Failed(str(answer["error"]))
        return float(answer["seconds"])

    def close(self) -> None:
        assert self._process.stdin is not None and self._process.stdout is not None
        with suppress(OSError):  # it may have ended already
            self._process.stdin.close()
        self._process.stdout.close()
        try:
            self._process.wait(self._end_s)
        except subprocess.TimeoutExpired:
            self._signal(signal.SIGTERM)
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(self._end_s)
        self._signal(signal.SIGKILL)
        self._process.wait()

    def _signal(self, number: signal.Signals) -> None:
        """To the session that it leads: itself, and what it started and did not end."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, number)

    def _answer(self, limit_s: float) -> dict[str, Any]:
        assert self._process.stdout is not None
        end = time.monotonic() + limit_s
        while b"\n" not in self._unread:
            left = end - time.monotonic()
            if left <= 0 or not select.select([self._process.stdout], [], [], left)[0]:
                raise TooLong(f"not within {limit_s:.0f} s")
            read = os.read(self._process.stdout.fileno(), 65536)
            if not read:
                raise TooLong(self._last_words())
            self._unread += read
        line, _, self._unread = self._unread.partition(b"\n")
        return dict(json.loads(line))

    def _last_words(self) -> str:
        lines = [line.strip() for line in self._log.read_text(errors="replace").splitlines() if line.strip()]
        return f"its process ended: {lines[-1][:200] if lines else 'without a word'}"
