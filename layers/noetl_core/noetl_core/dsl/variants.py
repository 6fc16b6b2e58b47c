"""Accepted spellings of template text -> the canonical one (issue: many existing playbooks are written so)."""

from __future__ import annotations

from noetl_core.dsl.load import Node
from noetl_core.dsl.reader import Reader


def rewrite_variants(r: Reader, root: Node) -> None:
    """Change the text of template scalars in place."""
