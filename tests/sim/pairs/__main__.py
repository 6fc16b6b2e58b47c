"""Carry out every case, or those that are named: `python -m tests.sim.pairs [CASE ...] [--seed N]`."""

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
    asked = parser.parse_args()
    logging.disable(logging.CRITICAL)
    seed = random.randrange(2**32) if asked.seed is None else asked.seed
    wanted = asked.cases or list(cases())
    began, failed = time.monotonic(), 0
    for case in wanted:
        try:
            carry_out(case, seed)
        except Failed as error:
            failed += 1
            print(f"FAILED {error}", flush=True)
    print(f"{len(wanted)} pairs of operation and moment, {failed} failed, {time.monotonic() - began:.0f} s, seed {seed}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
