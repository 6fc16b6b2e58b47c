"""docs/tools/matrix.md: a row for each kind of task."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Final

from tests.matrix.cases import COLUMNS, TOOL_KINDS, Column, cases_of, module_of

PAGE: Final = Path(__file__).parents[2] / "docs/tools/matrix.md"
HEAD: Final = """# Tested cases of each tool

`make matrix` (`tests/matrix`) runs the cases of each kind of task in one process and on the embedded stack, and writes this page. If all cases of a cell hold in both places, the cell
shows their number; otherwise it lists the cases that failed. The column *errors* lists kinds of errors by name. `-` means that the column does not apply to the kind.
An empty cell has no case yet.

"""
Failed = Collection[tuple[str, str]]
"""Cases that did not hold: kind and name."""


def page(failed: Failed = ()) -> str:
    """The page, where all cases hold but these."""
    head = f"| kind | {' | '.join(COLUMNS)} |\n|---|{'---|' * len(COLUMNS)}\n"
    return HEAD + head + "".join(f"| `{kind}` | {' | '.join(_cell(kind, c, failed) for c in COLUMNS)} |\n" for kind in TOOL_KINDS)


def _cell(kind: str, column: Column, failed: Failed) -> str:
    cases = [case for case in cases_of(kind) if case.column == column]
    if not cases:
        return "-" if column in getattr(module_of(kind), "leaves_out", {}) else ""
    wrong = sorted(case.name for case in cases if (kind, case.name) in failed)
    if wrong:
        return f"failed: {', '.join(wrong)}"
    if column == "errors":
        return " ".join(f"`{error}`" for error in sorted({case.fails for case in cases}))
    return str(len(cases))
