"""Calls of the tool `python` as fixtures, for the modules that test it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from noetl_core.engine.outcome import Outcome
from noetl_core.tools.base import ToolCall
from noetl_core.tools.invoke import invoke
from noetl_core.tools.python.tool import PythonTool

Python = Callable[..., Outcome]

linux = pytest.mark.skipif(sys.platform != "linux", reason="confined by Linux facilities")


@pytest.fixture(scope="module")
def tool() -> Iterator[PythonTool]:
    tool = PythonTool()
    yield tool
    tool.close()


@pytest.fixture
def lines() -> list[str]:
    return []


@pytest.fixture
def python(tool: PythonTool, lines: list[str]) -> Python:
    def call(
        code: str,
        timeout_s: float = 10.0,
        execution: str = "1",
        spec: dict[str, Any] | None = None,
        inputs: dict[str, Any] | None = None,
        **args: object,
    ) -> Outcome:
        all_inputs = {"code": code, "args": args, **(inputs or {})}
        return invoke(
            tool,
            ToolCall(
                "python",
                all_inputs,
                spec or {},
                execution,
                "s",
                "t",
                "run-1",
                timeout_s=timeout_s,
                log=lambda line, stream="stdout": lines.append(line if stream == "stdout" else f"{stream}: {line}"),
            ),
        )

    return call


def failure(outcome: Outcome) -> str:
    assert outcome.error is not None, outcome.result
    return outcome.error.kind


def processes() -> set[int]:
    """The processes of this machine."""
    return {int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdecimal()}


def descendants(pid: int) -> set[int]:
    """The children of a process, theirs, and so on."""
    parents = {}
    for process in processes():
        try:
            parents[process] = int(Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[1])
        except OSError:
            continue
    found = {pid}
    while more := {child for child, parent in parents.items() if parent in found} - found:
        found |= more
    return found - {pid}
