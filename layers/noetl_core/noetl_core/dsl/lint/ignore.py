"""`# noetl: ignore W501, W515` at the end of a line silences findings of lint on that line.

Only warnings and notes can be silenced, only by their codes, and only on their line. A comment that silences nothing is
itself a finding, so that no comment outlives its reason.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence
from typing import Any, Final

import yaml

from noetl_core.dsl.reading.diagnostics import CODES, Diagnostic, suggest

_COMMENT: Final = re.compile(r"(?:^|(?<=\s))#\s*noetl:\s*ignore\b[:\s]*([^#\n]*)")
_END: Final = (1 << 60, 0)
_SCANNER: Final[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def without_ignored(found: Sequence[Diagnostic], text: str, source: str) -> list[Diagnostic]:
    """Return the remaining findings, and W518 for comments that silence nothing."""
    if "noetl:" not in text:
        return list(found)
    comments = _comments(text)
    silenced = {(line, code) for line, (_, codes) in comments.items() for code in codes if code[0] == "W"}
    kept = [d for d in found if (d.line, d.code) not in silenced]
    used = {(d.line, d.code) for d in found}
    for line, (col, codes) in comments.items():
        useless = [code for code in codes or [""] if (line, code) not in used or code[0] != "W"]
        kept += [Diagnostic("W518", "warning", *_useless(code), source, line, col) for code in useless]
    return kept


def _useless(code: str) -> tuple[str, str]:
    if not code:
        return "this comment names no code", "# noetl: ignore W501"
    if code not in CODES:
        return f'"{code[:20]}" is not a code', suggest(code, CODES) or "codes look like W501"
    if code[0] == "E":
        return f"{code} is an error: it cannot be ignored", "correct it"
    return f"no finding on this line has the code {code}", "remove the comment"


def _comments(text: str) -> dict[int, tuple[int, list[str]]]:
    """Return line -> column and codes of the comment there. Text inside scalars does not count."""
    out = {}
    inside = None
    for number, row in enumerate(text.splitlines(), 1):
        for match in _COMMENT.finditer(row):
            inside = _scalars(text) if inside is None else inside
            before = bisect_right(inside, ((number, match.start()), _END)) - 1
            if before < 0 or (number, match.start()) >= inside[before][1]:
                out[number] = (match.start() + 1, re.findall(r"[\w-]+", match[1]))
    return out


def _scalars(text: str) -> list[tuple[tuple[int, int], tuple[int, int]]]:
    """Return the range of every scalar, in order, as (line, column - 1)."""
    return [
        ((t.start_mark.line + 1, t.start_mark.column), (t.end_mark.line + 1, t.end_mark.column))
        for t in yaml.scan(text, Loader=_SCANNER)
        if isinstance(t, yaml.ScalarToken)
    ]
