"""Carry out every case, or those that are named: `python -m tests.sim.pairs [CASE ...] [--seed SEED] [--count N]`."""

from __future__ import annotations

import argparse
import logging
import random
import sys
import time

from tests.sim.pairs.cases import Case, Failed, carry_out, cases


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.sim.pairs", description=__doc__)
    parser.add_argument(
        "cases", nargs="*", type=Case.parse, metavar="CASE", help="such as live/pause/resume/13; all cases if none"
    )
    parser.add_argument("--seed", type=int, help="of the order of deliveries; random if it is left out")
    parser.add_argument("--count", type=int, help="carry out so many, drawn by the seed; all if it is left out")
    asked = parser.parse_args()
    logging.disable(logging.CRITICAL)
    seed = random.randrange(2**32) if asked.seed is None else asked.seed
    wanted = asked.cases or list(cases())
    if asked.count is not None:
        wanted = random.Random(seed).sample(wanted, min(asked.count, len(wanted)))
    began, failed = time.monotonic(), 0
    for case in wanted:
        try:
            carry_out(case, seed)
        except Failed as error:
            failed += 1
            sys.stdout.write(f"FAILED {error}\n")
            sys.stdout.flush()
    took = time.monotonic() - began
    sys.stdout.write(f"{len(wanted)} pairs of operation and moment, {failed} failed, {took:.0f} s, seed {seed}\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
