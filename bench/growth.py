"""Measures the growth of costs: steps from 10 to 10,000 and iterations from 100 to 100,000, each run in a process of its own.

`python bench/growth.py FILE` is that process: it runs one playbook once and prints its seconds, its processor seconds and its
peak memory as JSON.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from figures import Figure
from playbooks import chain, cycle, map_over

STEPS = (10, 100, 1_000, 10_000)
ITERATIONS = (100, 1_000, 10_000, 100_000)
FLAT = 1.5
"""A step or iteration of the largest run over one of the second smallest, in processor time: what counts as flat. The smallest
runs carry the start of an execution."""
FLAT_MB = 24
"""Peak memory of the largest run over that of the smallest: the collection itself, and its results."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One run: seconds, processor seconds (without start-up), and the largest resident size of its process."""

    seconds: float
    cpu: float
    peak_mb: float


def measured(source: str) -> Sample:
    """Run `source` once on a durable store, in a fresh process."""
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
        file.write(source)
        file.flush()
        done = subprocess.run([sys.executable, __file__, file.name], check=True, capture_output=True, text=True)
    return Sample(**json.loads(done.stdout))


SERIES: Mapping[str, tuple[Callable[[int], str], Sequence[int]]] = {
    "step of a chain": (chain, STEPS),
    "step of a cycle of two": (cycle, STEPS),
    "iteration of a map": (lambda n: map_over(n, "noop"), ITERATIONS),
}


def figures(times: int) -> list[Figure]:
    """The growth table: per series and size the cost of one more and the peak memory; then how flat the series is."""
    out: list[Figure] = []
    for name, (make, sizes) in SERIES.items():
        samples = {n: [measured(make(n)) for _ in range(times)] for n in sizes}
        unit, scale = ("ms", 1e3) if sizes is STEPS else ("us", 1e6)
        for n, runs in samples.items():
            processor = median(r.cpu for r in runs) / n * scale
            note = f"peak {median(r.peak_mb for r in runs):.0f} MB, {processor:.3g} {unit} of processor"
            out.append(Figure(f"{name}, {n:,}", unit, tuple(r.seconds / n * scale for r in runs), note=note))
        small, large = samples[sizes[1]], samples[sizes[-1]]
        grown = median(r.cpu for r in large) / sizes[-1] / (median(r.cpu for r in small) / sizes[1])
        ratio = f"  {name}: its cost in a run of {sizes[-1]:,}, divided by that in a run of {sizes[1]:,}"
        out.append(Figure(ratio, "x", (grown,), FLAT, note="processor time"))
        more = median(r.peak_mb for r in large) - median(r.peak_mb for r in samples[sizes[0]])
        bound = None if make is chain else FLAT_MB  # the document itself grows with the chain
        difference = f"  {name}: peak memory of a run of {sizes[-1]:,}, minus that of a run of {sizes[0]:,}"
        out.append(Figure(difference, "MB", (more,), bound))
    return out


def main() -> None:
    from local import peak_kb, timed_run

    source = Path(sys.argv[1]).read_text()
    timed_run(chain(5))  # imports and compiles
    began = time.process_time()
    seconds = timed_run(source)
    json.dump({"seconds": seconds, "cpu": time.process_time() - began, "peak_mb": peak_kb() / 1024}, sys.stdout)


if __name__ == "__main__":
    main()
