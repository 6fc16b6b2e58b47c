"""Runs all tests: `python -m tests [CHECK ...]`. A check is a target of the Makefile that runs beside them.

Each group is a pytest process, five processes at a time. With pytest-xdist every process would collect all tests and report each of
them to another process, which took a fifth of the suite's processor time.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass

from tests.groups import GROUPS, arguments

AT_ONCE = 5
"""Three processes more than cores: the first groups wait half of the time."""
PASSED = re.compile(r"\b\d+ passed\b")
"""The line in which pytest counts; libraries may say more when the process ends."""
Command = Sequence[str]


@dataclass(frozen=True)
class Ended:
    name: str
    code: int
    output: str
    seconds: float
    processor_s: float
    """Processor time of the process, and of those that it started and waited for."""

    def report(self) -> str:
        times = f"{self.seconds:.0f} s, {self.processor_s:.0f} s of processor"
        if self.code:
            return f"{self.output}\n{self.name}: failed with code {self.code} ({times})"
        counts = [line for line in self.output.splitlines() if PASSED.search(line)]
        return f"{self.name}: {counts[-1] if counts else 'ok'} ({times})"


def run(name: str, command: Command) -> Ended:
    """Run a command to its end."""
    began = time.monotonic()
    with tempfile.TemporaryFile("w+", errors="replace") as output:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        output.seek(0)
        said = output.read()
    return Ended(name, process.returncode, said, time.monotonic() - began, usage.ru_utime + usage.ru_stime)


def run_all(commands: Mapping[str, Command]) -> int:
    """Run commands, `AT_ONCE` at a time, and print how each ended; return 1 if one failed."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        running = [pool.submit(run, name, command) for name, command in commands.items()]
        failed = []
        try:
            for done in as_completed(running):
                ended = done.result()
                print(ended.report(), flush=True)
                failed += [ended.name] if ended.code else []
        except KeyboardInterrupt:  # the processes get the signal, too
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    print(f"failed: {', '.join(sorted(failed))}" if failed else "all passed", flush=True)
    return 1 if failed else 0


def commands(checks: Sequence[str]) -> dict[str, Command]:
    """Return the commands by name: the two groups with the longest tests, the checks, all other groups."""
    of_groups = {name: [sys.executable, "-m", "pytest", "-p", "tests.quick_end", *arguments(name)] for name in GROUPS}
    of_checks = {name: ["make", "--no-print-directory", name] for name in checks}
    first = dict(list(of_groups.items())[:2])
    return {**first, **of_checks, **of_groups}


if __name__ == "__main__":
    sys.exit(run_all(commands(sys.argv[1:])))
