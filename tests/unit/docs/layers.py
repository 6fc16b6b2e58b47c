"""Generates the table of layers in docs/architecture.md from the import contract and the packages' docstrings.

`python -m tests.unit.docs.layers` writes the table between `<!-- layers -->` and `<!-- end -->`. A test holds both equal.
"""

from __future__ import annotations

import ast
import re
import tomllib
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[3]
PAGE: Final = ROOT / "docs" / "architecture.md"
CORE: Final = ROOT / "layers" / "noetl_core" / "noetl_core"
MARKED: Final = re.compile(r"(<!-- layers -->\n)(.*?)(<!-- end -->)", re.DOTALL)
OUTSIDE: Final = (
    "| `functions`, `noetl_cli`, `noetl_console`, `noetl_infra` | Lambda handlers, the command line, the console, deploying |"
)


def first_sentence(name: str) -> str:
    """Return the first sentence of the docstring of a module or package of `noetl_core`, without its full stop."""
    package = CORE / name / "__init__.py"
    text = (package if package.exists() else CORE / f"{name}.py").read_text(encoding="utf-8")
    docstring = " ".join((ast.get_docstring(ast.parse(text)) or "").split())
    return re.split(r"(?<=[^.])\.(?:\s|$)|:? \* ", docstring, maxsplit=1)[0].rstrip(".:")


def layers() -> list[list[str]]:
    """Return the lines of the layers contract, the outermost first; packages of one line do not import each other."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]["contracts"]
    (lines,) = (c["layers"] for c in contracts if c["type"] == "layers")
    return [[name.strip() for name in line.split("|")] for line in lines]


def table() -> str:
    rows = [
        f"| {', '.join(f'`{name}`' for name in line)} | {'. '.join(first_sentence(name) for name in line)} |" for line in layers()
    ]
    return "\n".join(["| packages | contents |", "| --- | --- |", OUTSIDE, *rows]) + "\n"


def page() -> str:
    """Return docs/architecture.md with the table of today."""
    return MARKED.sub(lambda found: f"{found[1]}{table()}{found[3]}", PAGE.read_text(encoding="utf-8"))


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
