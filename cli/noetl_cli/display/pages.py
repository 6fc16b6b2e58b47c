"""Finds the pages of the language reference on this machine, in the repository or in the wheel."""

from __future__ import annotations

from pathlib import Path
from typing import Final

NAMED: Final = "docs/language/"
"""The prefix of pages in diagnostics."""


def folder() -> Path:
    """Return the folder of the pages."""
    package = Path(__file__).resolve().parents[1]
    docs = package / "docs" if (package / "docs").is_dir() else package.parents[1] / "docs"
    return docs / "language"


def shown(page: str) -> str:
    """Return the path on this machine of a page that a diagnostic names."""
    file, now = folder() / page.removeprefix(NAMED), Path.cwd()
    return str(file.relative_to(now) if file.is_relative_to(now) else file)
