"""Carries out one call in a process of its own, and measures it."""

from __future__ import annotations

import json
import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from noetl_core.expr import Scope, TemplateError, render
from noetl_core.expr.patterns import compiled
from tests.fuzz.cases import VALUES

SECONDS = 30
"""After these the process is killed, which counts as its death."""


@dataclass(frozen=True)
class Measured:
    """The cost of a call: the memory above that of the process before it, processor time, and its end."""

    ended: str
    megabytes: float
    seconds: float

    @property
    def died(self) -> bool:
        return self.ended.startswith("signal") or self.ended.startswith("exit")


def _memory(name: str) -> int:
    """Return `VmRSS` or `VmHWM` of this process, in KiB."""
    text = Path("/proc/self/status").read_text()
    return int(text.split(f"{name}:")[1].split()[0])


def _measure(template: str) -> dict[str, Any]:
    Path("/proc/self/clear_refs").write_text("5")  # resets VmHWM
    before, started = _memory("VmRSS"), time.thread_time()
    try:
        render(template, Scope(VALUES))
        ended = "value"
    except TemplateError as error:
        ended = error.kind
    except Exception as error:  # a bug: not an error of a template
        ended = f"exit by {type(error).__name__}: {error}"[:200]
    return {"ended": ended, "seconds": time.thread_time() - started, "megabytes": (_memory("VmHWM") - before) / 1024}


def call(template: str) -> Measured:
    """Return what the evaluation of `template` in a forked process took."""
    compiled("a").search("a")  # the engine is part of the baseline
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        signal.alarm(SECONDS)
        os.close(reading)
        os.write(writing, json.dumps(_measure(template)).encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as told:
        found = told.read()
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        return Measured(f"signal {os.WTERMSIG(status)}", 0, SECONDS)
    return Measured(**json.loads(found)) if found else Measured(f"exit {os.WEXITSTATUS(status)}", 0, 0)
