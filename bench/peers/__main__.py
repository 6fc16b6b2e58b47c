"""Compares with other engines: `make peers`, or `python -m bench.peers [--times 5] [--only SIDE] [--docs]`.

Installs the other engines into build/peers, starts each once, runs the cases in turn, and prints the tables. `--docs` puts them
into docs/performance.md too. An engine that cannot be run is listed with the reason.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path

from bench.figures import write_between
from bench.peers import session, table
from bench.peers.cases import CASES, HELLO
from bench.peers.place import Place, serve_http
from bench.peers.sides import ROOT, SIDES, Side

DOCS = ROOT / "docs" / "performance.md"
JSON = ROOT / "build" / "peers.json"
IN_ONE_PROCESS = 0.6
"""The part of the session's time for engines without the emulated AWS, so that the others get the rest."""


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def main(arguments: list[str] | None = None, known: Sequence[Side] = SIDES) -> int:
    parser = argparse.ArgumentParser(
        prog="bench.peers", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--times", type=int, default=5, help="rounds that count")
    parser.add_argument("--minutes", type=float, default=25, help="after them nothing more is asked")
    parser.add_argument("--only", action="append", default=[], help="sides whose name has this in it (may be given again)")
    parser.add_argument("--case", action="append", choices=[case.name for case in CASES], help="this case (may be given again)")
    parser.add_argument("--docs", action="store_true", help=f"write the tables of {DOCS.relative_to(ROOT)}")
    parser.add_argument("--json", type=Path, default=JSON, help="where the rounds are written")
    options = parser.parse_args(arguments)

    def named(name: str, parts: list[str]) -> bool:
        return any(part.lower() in name.lower() for part in parts)

    began, load, first = datetime.now(UTC), os.getloadavg()[0], time.monotonic()
    sides = [side for side in known if not options.only or named(side.name, options.only)]
    cases = [case for case in CASES if not options.case or case.name in options.case]
    outcome = session.Outcome()
    with Place() as place, ExitStack() as exits:
        url = serve_http(exits)
        for on_stack in (False, True):
            group = [side for side in sides if side.on_stack == on_stack and side.name not in outcome.not_run]
            these = [case for case in cases if (case.name != HELLO if on_stack else not case.stack_only)]
            if not group:
                continue
            end = first + 60 * options.minutes * (1 if on_stack else IN_ONE_PROCESS)
            part = session.hold(group, these, options.times, end, place, url, say)
            outcome.measured += part.measured
            outcome.about |= part.about
            outcome.not_run |= part.not_run
    text = table.page(outcome, sides, cases, options.times, began, load)
    print(text)
    options.json.parent.mkdir(parents=True, exist_ok=True)
    options.json.write_text(json.dumps(table.as_json(outcome, began, load), indent=2) + "\n")
    if options.docs:
        write_between(table.MARKS, text, DOCS)
    return 0


if __name__ == "__main__":
    sys.exit(main())
