"""`python -m tests.conformance`: every case on both wirings; prints the table, writes docs/conformance.md. Exit code 1 when one fails."""

from __future__ import annotations

import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.conformance import table
from tests.conformance.cases import all_cases
from tests.conformance.statements import catalogue
from tests.conformance.wirings import AT_ONCE, on_both, on_stack
from tests.stacks import brought_up


def main() -> int:
    """Run, print, write."""
    began = time.monotonic()
    cases = all_cases()
    with (
        tempfile.TemporaryDirectory() as folder,
        brought_up(Path(folder)) as stack,
        on_stack(stack) as wiring,
        ThreadPoolExecutor(AT_ONCE) as pool,
    ):
        ended = list(zip(cases, pool.map(lambda case: on_both(case, wiring), cases), strict=True))
    outcome = {case.id: (not local, not remote) for case, (local, remote) in ended}
    out = sys.stdout.write
    for line in table.lines(catalogue(), cases, outcome):
        out(line + "\n")
    for case, (local, remote) in ended:
        for where, wrong in (("local", local), ("stack", remote)):
            if wrong:
                out(f"\n{case.id} ({case.file}) on {where}:\n" + "\n".join(wrong) + "\n")
    table.PAGE.write_text(table.page(catalogue(), cases, outcome))
    failed = [case_id for case_id, held in outcome.items() if not all(held)]
    out(
        f"\n{len(cases) - len(failed)} passed, {len(failed)} failed\n{time.monotonic() - began:.0f} s; written: {table.PAGE.name}\n"
    )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
