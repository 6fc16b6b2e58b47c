"""Suppressed checks and broad exception handlers have a reason on the same line."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = ("layers", "cli", "console", "infra", "functions", "plugins", "bench")
IGNORED = re.compile(r"# type: ignore(?:\[[\w, -]+\])?(.*)")
UNCHECKED = re.compile(r"# noqa(?:: [\w, ]*\w)?(.*)")
BROAD = re.compile(r"except\s*(?::|.*\b(?:Base)?Exception\b)")
REASON = re.compile(r"\s+(?:#|-)\s+\w")


def without_reason(text: str) -> list[int]:
    """The lines that turn a check of types or of style off, or catch every exception and do not raise it again, and say no more."""
    lines = text.splitlines()
    found = [
        number
        for number, line in enumerate(lines, 1)
        for turned_off in (IGNORED.search(line), UNCHECKED.search(line))
        if turned_off is not None and not REASON.match(turned_off[1])
    ]
    if BROAD.search(text) is None:
        return found
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ExceptHandler) and (
            node.type is None or ast.unparse(node.type) in ("Exception", "BaseException")
        ):
            again = any(isinstance(inner, ast.Raise) and inner.exc is None for inner in ast.walk(node))
            if not again and "#" not in lines[node.lineno - 1]:
                found.append(node.lineno)
    return sorted(found)


@pytest.mark.parametrize("folder", FOLDERS)
def test_every_suppression_has_its_reason(folder: str) -> None:
    files = sorted((ROOT / folder).rglob("*.py"))
    assert files
    assert {str(file): lines for file in files if (lines := without_reason(file.read_text()))} == {}


def test_a_suppression_without_a_reason_is_found() -> None:
    bare = (
        "import a  # noqa: F401\n"
        "import b  # noqa: F401 - it registers itself\n"
        "c = d()  # type: ignore[misc]\n"
        "c = d()  # type: ignore[misc]  # the stubs lack it\n"
        "try: ...\n"
        "except Exception: ...\n"
        "try: ...\n"
        "except Exception: ...  # whatever it is\n"
        "try: ...\n"
        "except BaseException:\n"
        "    raise\n"
    )
    assert without_reason(bare) == [1, 3, 6]
