"""Translates the legacy names for a tool's answer."""

from __future__ import annotations

import re
from typing import Final

from noetl_core.expr import Read
from noetl_migrate.texts import defined_test

SQL: Final = ("postgres", "duckdb")
_PART_OF_ROWS: Final = re.compile(r"\s*\.\s*(?:rows|columns|row_count)\b")
_ATTRIBUTE: Final = re.compile(r"\s*\.\s*\w")


def result_of(
    read: Read, text: str, names: tuple[str, ...], base: str, kind: str | None, defined: str | None = None
) -> tuple[str, str] | None:
    """Return the v10 name of a read of `response` or `result`.

    `base` is the result of the tool. The legacy names mean the body of an http answer and the rows of a query. `defined` replaces
    `... is defined`, unless it can stay.
    """
    name = read.path[0]
    if name not in names:
        return None
    test = defined_test(text)
    if test is not None and defined is not None:
        return test[0], defined if test[1] else f"(not {defined})"
    rest = text[len(name) :]
    if kind == "http":
        return name, f"{base}.data"
    if kind in SQL and not _PART_OF_ROWS.match(rest) and not _ATTRIBUTE.match(rest):
        return name, f"{base}.rows"
    return name, base


def step_result(read: Read, text: str, base: str, kind: str | None, looped: bool) -> tuple[str, str] | None:
    """Return the meaning of a read of `result` after the step: `base` is its result, for a loop the list of its iterations'
    results."""
    if read.path[0] not in ("result", "response"):
        return None
    if looped and kind == "http":
        return read.path[0], f"({base} | map(attribute='data') | list)"
    return result_of(read, text, ("result", "response"), base, None if looped else kind)
