"""The benchmark, one command: `make bench`, or `python bench/run.py [--only local|stack] [--times 5] [--json FILE]`.

Prints every figure beside its budget as the median of N, and writes the same as JSON. The exit code is 0 whether or not budgets
are kept: a figure is for reading; tests are for gating. `--profile` adds where the local runner's time goes.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from figures import Figure, print_table, write_json

DEFAULT_JSON = Path(__file__).parents[1] / "build" / "bench.json"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=["local", "stack"])
    parser.add_argument("--times", type=int, default=5, help="repetitions of each timed figure")
    parser.add_argument("--json", type=Path, default=DEFAULT_JSON, help="where the figures are written")
    parser.add_argument("--profile", action="store_true", help="print what the local runner spends its time on")
    options = parser.parse_args()
    load, cpus = os.getloadavg()[0], os.cpu_count() or 1
    if load > cpus / 2:
        print(f"the machine is busy (load {load:.1f} on {cpus} processors): read the times as upper bounds")
    measured: list[Figure] = []
    if options.only != "stack":
        import local

        measured += (part := local.figures(options.times))
        print_table("Local runner (durable SQLite file)", part)
        if options.profile:
            local.print_profile()
    if options.only != "local":
        import stack

        measured += (part := stack.figures(options.times))
        print_table("Embedded stack (MiniStack)", part)
    options.json.parent.mkdir(parents=True, exist_ok=True)
    write_json(measured, options.json)
    print(f"written to {options.json}")


if __name__ == "__main__":
    main()
