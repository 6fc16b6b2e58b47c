"""The functions' handlers, and what they import."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[3]

HANDLERS = sorted(ROOT.glob("functions/*/app.py"))


def nodes(tree: ast.AST) -> Iterator[ast.AST]:
    """All of them but those that only type checkers look at."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            continue
        yield node
        yield from nodes(node)
