"""`python -m tests.matrix`: every case on both wirings; writes docs/tools/matrix.md. Exit code 1 when one does not hold.

`--page` writes the page as if all held, for those who have just run the tests.
"""

from __future__ import annotations

import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.conformance.wirings import on_stack
from tests.matrix import table
from tests.matrix.cases import modules
from tests.matrix.run import prepared, wrong, wrong_here
from tests.matrix.service import service
from tests.stacks import brought_up

AT_ONCE = 3


def main() -> int:
    """Run, print, write."""
    if "--page" in sys.argv:
        table.PAGE.write_text(table.page())
        return 0
    failed: set[tuple[str, str]] = set()
    with tempfile.TemporaryDirectory() as folder, brought_up(Path(folder)) as stack, on_stack(stack) as there, service() as http:
        worlds = {kind: prepared(kind, http) for kind in modules()}
        with ThreadPoolExecutor(AT_ONCE) as pool:
            on_it = {kind: pool.submit(wrong, kind, there, worlds[kind]) for kind in worlds}
            found = [("stack", kind, each.result()) for kind, each in on_it.items()]
    with service() as http:
        found += [("local", kind, wrong_here(kind, http)) for kind in modules()]
    for where, kind, cases in found:
        for name, told in cases.items():
            failed |= {(kind, name)} if told else set()
            for one in told:
                sys.stdout.write(f"{kind} {name} on {where}: {one}\n")
    table.PAGE.write_text(table.page(failed))
    sys.stdout.write(f"{sum(len(cases) for _, _, cases in found)} cases, {len(failed)} do not hold; written: {table.PAGE.name}\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
