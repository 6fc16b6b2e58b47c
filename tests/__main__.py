"""Runs all tests, or those of some groups: `python -m tests [GROUP ...]`.

Each group is a process of pytest, five at a time, forked from this one, which has imported what most groups need: that took a tenth
of the suite's processor time, and more where nothing is compiled yet. With pytest-xdist every process would collect all tests and
report each of them to another process, which took a fifth.
"""

from __future__ import annotations

import gc
import os
import re
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from typing import IO

import pytest

from tests import commands
from tests.groups import GROUPS, arguments

AT_ONCE = 5
"""Three processes more than cores: the first groups wait half of the time."""
LOOK_S = 0.05
"""Seconds between looks at the processes."""
PASSED = re.compile(r"\b\d+ passed\b")
"""The line in which pytest counts; libraries may say more when the process ends."""
COMMON = (
    "httpx",
    "hypothesis",
    "jsonschema",
    "noetl_core.adapters.aws.events",
    "noetl_core.adapters.aws.results",
    "noetl_core.runtime.local",
    "noetl_core.service.api_service",
    "noetl_core.testing",
    "noetl_infra.stack",
    "psycopg",
    "pydantic",
    "tests.fast_moto",
)
"""Modules that most groups import, with what they import in turn."""
OPTIONS = (
    "-p",
    "tests.quick_exit",
    "-W",
    "ignore:Module already imported so cannot be rewritten:pytest.PytestAssertRewriteWarning",
)
Work = Callable[[], int]


@dataclass
class Process:
    """A forked process that does `work`, and what it prints."""

    name: str
    work: Work
    began: float = field(default_factory=time.monotonic)

    def __post_init__(self) -> None:
        self.output: IO[str] = tempfile.TemporaryFile("w+", errors="replace")  # noqa: SIM115 - closed with the report
        sys.stdout.flush()
        self.pid = os.fork()
        if self.pid == 0:
            with open(os.devnull) as nothing:
                for number, file in enumerate((nothing, self.output, self.output)):
                    os.dup2(file.fileno(), number)
            sys.exit(self.work())

    def ended(self) -> tuple[int, str] | None:
        """Return its exit code and a report, or None while it runs."""
        pid, status, usage = os.wait4(self.pid, os.WNOHANG)
        if pid == 0:
            return None
        code = os.waitstatus_to_exitcode(status)
        with self.output:
            self.output.seek(0)
            output = self.output.read()
        times = f"{time.monotonic() - self.began:.0f} s, {usage.ru_utime + usage.ru_stime:.0f} s of processor"
        if code:
            return code, f"{output}\n{self.name}: failed with code {code} ({times})"
        counts = [line for line in output.splitlines() if PASSED.search(line)]
        return code, f"{self.name}: {counts[-1] if counts else 'ok'} ({times})"


def run_all(works: Mapping[str, Work]) -> int:
    """Do each work in a process of its own, `AT_ONCE` at a time, and print how each ended; return 1 if one failed. A processor time
    is that of the process, and of those that it started and waited for."""
    left, running, failed = list(works.items()), list[Process](), list[str]()
    while left or running:
        while left and len(running) < AT_ONCE:
            running.append(Process(*left.pop(0)))
        time.sleep(LOOK_S)
        for process in list(running):
            if end := process.ended():
                running.remove(process)
                print(end[1], flush=True)
                failed += [process.name] if end[0] else []
    print(f"failed: {', '.join(sorted(failed))}" if failed else "all passed", flush=True)
    return 1 if failed else 0


def options(name: str) -> list[str]:
    """Return pytest's arguments for the process of a group."""
    return [*OPTIONS, *arguments(name)]


if __name__ == "__main__":
    for module in COMMON:
        import_module(module)
    commands.start_server()
    gc.collect()
    gc.freeze()  # no process looks at these objects again, and so copies their pages
    code = run_all({name: partial(pytest.main, options(name)) for name in sys.argv[1:] or GROUPS})
    commands.end_server()
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(f"{used.ru_utime + used.ru_stime:.0f} s of processor in all, less those of stacks and browsers")
    sys.exit(code)
