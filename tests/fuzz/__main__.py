"""`python -m tests.fuzz [EACH] [SEED]`: EACH calls of each subject (0: all of them), and the figures."""

from __future__ import annotations

import sys
import time
from concurrent.futures import ProcessPoolExecutor

from noetl_core.expr.evaluation_limits import Limits
from tests.fuzz.cases import Case, sample, subjects
from tests.fuzz.process import Measured, call

MEGABYTES = 100
LATE = 1.2
"""The factor by which a call may exceed its time limit, because the clock is not read at every operation."""
SHOWN = 15


def _one(case: Case) -> tuple[Case, Measured]:
    return case, call(case.template)


def main() -> int:
    numbers = [int(word) for word in sys.argv[1:3]]
    each, seed = [*numbers, *(40, 21)[len(numbers) :]]
    started = time.monotonic()
    cases = sample(each, seed)
    with ProcessPoolExecutor(2) as pool:
        found = list(pool.map(_one, cases, chunksize=8))
    deaths = [(case, took) for case, took in found if took.died]
    most = sorted(found, key=lambda one: -one[1].megabytes)
    longest = sorted(found, key=lambda one: -one[1].seconds)
    for title, ones in (("deaths", deaths), ("most memory", most), ("longest time", longest)):
        print(title)
        for case, took in ones[:SHOWN]:
            print(f"  {took.megabytes:7.1f} MB {took.seconds:6.2f} s  {took.ended:9.60} {case.template[:110]}")
    limit = Limits().seconds
    heavy = [one for one in found if one[1].megabytes > MEGABYTES]
    slow = [one for one in found if one[1].seconds > limit * LATE]
    print(
        f"{len(subjects())} filters, tests, functions, methods and operators, {len(cases)} calls (seed {seed}): {len(deaths)} deaths,"
        f" most memory {most[0][1].megabytes:.0f} MB ({len(heavy)} above {MEGABYTES}), longest {longest[0][1].seconds:.2f} s"
        f" ({len(slow)} above {limit * LATE:.1f} s); {time.monotonic() - started:.0f} s"
    )
    return bool(deaths or heavy or slow)


if __name__ == "__main__":
    raise SystemExit(main())
