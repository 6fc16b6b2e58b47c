"""MiniStack's processes of functions, in a test's own process."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from subprocess import Popen
from typing import Any

import pytest


@contextmanager
def lambda_runtime(monkeypatch: pytest.MonkeyPatch, *patched: str) -> Iterator[Any]:
    """MiniStack's pool of processes. Afterwards these attributes of its workers are as before, its processes have ended, and
    their pipes are closed, which MiniStack leaves to the garbage collector and thereby to some other test."""
    found: Any = import_module("ministack.core.lambda_runtime")
    started: list[Popen[str]] = []
    spawn = found.Worker._spawn

    def noted(worker: Any) -> None:
        try:
            spawn(worker)
        finally:
            if worker._proc is not None:
                started.append(worker._proc)

    monkeypatch.setattr(found.Worker, "_spawn", noted)
    for name in patched:
        monkeypatch.setattr(found.Worker, name, getattr(found.Worker, name))
    yield found
    found.reset()
    for process in started:
        process.wait()
        for pipe in (process.stdin, process.stdout, process.stderr):
            if pipe is not None:
                with suppress(BrokenPipeError):  # a killed process has not read its input
                    pipe.close()
