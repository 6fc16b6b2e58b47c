"""The benchmark, one command: `make bench`, or `python bench/run.py [--only PART] [--times 5] [--json FILE]`.

Prints every figure beside its budget as the median of N, and writes the same as JSON. A figure is for reading: the exit code is 0
whether or not budgets are kept, unless `--check` asks for 1 where one is missed. A part that cannot be measured on this machine
is named at the end with its reason, and the exit code is 1. `--docs` puts the figures that have a budget into the table of
docs/performance.md, if all parts were measured. `--profile` adds where the local runner's time goes.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parent))

from bench.figures import Figure, NotMeasured, print_table, write_docs, write_json

ROOT = Path(__file__).parents[1]
DEFAULT_JSON = ROOT / "build" / "bench.json"
DOCS = ROOT / "docs" / "performance.md"


def _local(times: int) -> list[Figure]:
    import local

    return local.figures(times)


def _http(times: int) -> list[Figure]:
    import http_loops

    return http_loops.figures(times)


def _growth(times: int) -> list[Figure]:
    import growth

    return growth.figures(times)


def _reading(times: int) -> list[Figure]:
    import reading

    return reading.figures(times)


def _chunks(times: int) -> list[Figure]:
    import chunks

    return chunks.figures(times)


def _large(times: int) -> list[Figure]:
    import large_values

    return large_values.figures(min(times, 3))


def _stack(times: int) -> list[Figure]:
    import stack

    return stack.figures(times)


def _cold(times: int) -> list[Figure]:
    from bench.functions import cold

    return cold.figures(times)


PARTS: dict[str, tuple[str, Callable[[int], list[Figure]]]] = {
    "local": ("Local runner (durable SQLite file)", _local),
    "http": ("Loops of HTTP calls (local runner)", _http),
    "growth": ("Growth (local runner; a process a run)", _growth),
    "reading": ("Reading a long history (local store)", _reading),
    "chunks": ("Loops of many chunks (local store; no worker)", _chunks),
    "large": ("Large values (local runner)", _large),
    "stack": ("Embedded stack (MiniStack)", _stack),
    "cold": ("Cold starts of the functions (the layer as it ships; a process a start)", _cold),
}


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=PARTS, action="append", help="this part (may be given again)")
    parser.add_argument("--times", type=int, default=5, help="repetitions of each timed figure")
    parser.add_argument("--json", type=Path, default=DEFAULT_JSON, help="where the figures are written")
    parser.add_argument("--profile", action="store_true", help="print what the local runner spends its time on")
    parser.add_argument("--check", action="store_true", help="exit with 1 when a budget is missed")
    parser.add_argument("--docs", action="store_true", help=f"write the table of {DOCS.relative_to(ROOT)}")
    options = parser.parse_args(arguments)
    load, cpus = os.getloadavg()[0], os.cpu_count() or 1
    if load > cpus / 2:
        print(f"the machine is busy (load {load:.1f} on {cpus} processors): read the times as upper bounds")
    measured: list[Figure] = []
    not_measured: dict[str, str] = {}
    for name in options.only or PARTS:
        title, figures = PARTS[name]
        try:
            part = figures(options.times)
        except NotMeasured as reason:
            not_measured[name] = str(reason)
            continue
        print_table(title, part)
        measured += part
    if options.profile:
        import local

        local.print_profile()
    options.json.parent.mkdir(parents=True, exist_ok=True)
    write_json(measured, not_measured, options.json)
    print(f"written to {options.json}")
    if options.docs and not not_measured:
        write_docs(measured, DOCS)
    missed = [f.name.strip() for f in measured if f.ok is False]
    if missed:
        print("over budget: " + "; ".join(missed))
    for name, reason in not_measured.items():
        print(f"not measured: {PARTS[name][0]}: {reason}")
    if options.docs and not_measured:
        print(f"{DOCS.relative_to(ROOT)} is left as it is, because its table would lack rows")
    return 1 if not_measured or (missed and options.check) else 0


if __name__ == "__main__":
    sys.exit(main())
