"""Measures the cost of a step on the embedded stack when many executions run at once, and the limit: requests by operation,
processor time by process.

    python bench/floor.py --executions 100 --steps 5

The emulator serves every request and every poll in one thread, so its processor time of a step is the least time that a step can
take, however many processors there are: `at most` is that, as steps a second. Functions run beside it, in processes of their own.
The second crowd is measured, because the first one starts the functions. Requests pass through the counting proxy, which takes
time of its own: how long the crowd took is no figure of this file (`crowd.py` has it).
"""

from __future__ import annotations

import argparse
import os
import re
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

from crowd import Crowds
from figures import Figure, print_table
from processes import processes
from stack import running_stack

from noetl_infra.stack import Stack

EMULATOR = "emulator"
FUNCTION = re.compile(rb"AWS_LAMBDA_FUNCTION_NAME=(?:\w+-)?([A-Za-z]+)Function")
"""The variable in a function process's environment with its name in the template."""
_TICKS = os.sysconf("SC_CLK_TCK")


def spent(stack: Stack) -> Mapping[str, float]:
    """Seconds of processor time of the stack's processes so far: of the emulator, and of each function."""
    found: defaultdict[str, float] = defaultdict(float)
    for process in processes(stack):
        folder = Path(f"/proc/{process}")
        try:
            fields = (folder / "stat").read_text().rsplit(")", 1)[1].split()
            function = FUNCTION.search((folder / "environ").read_bytes())
        except OSError:
            continue  # it has ended
        found[EMULATOR if function is None else function[1].decode().lower()] += (int(fields[11]) + int(fields[12])) / _TICKS
    return found


def figures(executions: int, steps: int) -> list[Figure]:
    """Return the figures of one step of a crowd on a new stack."""
    with running_stack(counted=True) as (stack, proxy):
        assert proxy is not None
        crowds = Crowds(stack)
        crowds.run(executions, steps)
        proxy.counts.take()
        before = spent(stack)
        crowds.run(executions, steps)
        after, counts = spent(stack), proxy.counts.take()
    work = executions * steps
    took = {name: (seconds - before.get(name, 0)) / work * 1e3 for name, seconds in after.items()}
    emulator = took.pop(EMULATOR)
    asked = {name: count / work for name, count in counts.items() if "." in name}
    return [
        Figure("requests of the functions", "requests", (sum(asked.values()),)),
        *(Figure(f"  {name}", "requests", (n,)) for name, n in sorted(asked.items(), key=lambda each: -each[1]) if n >= 0.01),
        Figure("processor time of the emulator", "ms", (emulator,)),
        Figure("  at most", "steps/s", (1e3 / emulator,), note="one thread, whatever else the machine has"),
        *(Figure(f"processor time of {name}", "ms", (ms,)) for name, ms in sorted(took.items(), key=lambda each: -each[1])),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--executions", type=int, default=100)
    parser.add_argument("--steps", type=int, default=5)
    options = parser.parse_args()
    title = f"A step of {options.executions} executions x {options.steps} steps"
    print_table(title, figures(options.executions, options.steps))


if __name__ == "__main__":
    main()
