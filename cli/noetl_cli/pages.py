"""The pages of the language reference on this machine: those of the repository, or those that the wheel brings."""

from __future__ import annotations

from pathlib import Path
from typing import Final

NAMED: Final = "docs/language/"
"""How diagnostics name them."""


def folder() -> Path:
    """Return where they are."""
    here = Path(__file__).resolve().parent
    docs = here / "docs" if (here / "docs").is_dir() else here.parents[1] / "docs"
    return docs / "language"


def shown(page: str) -> str:
    """Return the path of a page that a diagnostic names, as a person here can open it."""
    file, now = folder() / page.removeprefix(NAMED), Path.cwd()
    return str(file.relative_to(now) if file.is_relative_to(now) else file)
