"""The place of the cursor: the key, value, expression or program text around it, also while its line is half typed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from noetl_core.dsl.kinds import KINDS
from noetl_core.values.frozen import frozen
from noetl_lsp.expressions import Cursor, expression_at
from noetl_lsp.outline import LONGEST_CHUNK, MARK, Chunk, Spot, Tree, chunk_at, read_once, read_repaired

_BARE: Final = re.compile(r"[\s-]*[\w.-]*")
_UNQUOTED: Final = re.compile(r"((?:\s*- +)*\s*(?:[\w.-]+:\s+)?)([^'\"#{}]*\{[{%].*)", re.DOTALL)
_CLOSERS: Final = ("", '"', "'")


@frozen
class At:
    """The place of the cursor in the tree of a chunk: a key or value, and the expression in it."""

    chunk: Chunk
    tree: Tree
    spot: Spot
    offset: int
    """Offset of the cursor in the chunk."""
    expression: Cursor | None = None

    @property
    def in_code(self) -> str:
        """Return the kind of the task whose program text this is; empty if it is none."""
        if self.spot.role != "value" or not isinstance(self.spot.path[-1], str):
            return ""
        kind = self.tree.at((*self.spot.path[:-1], "kind"))
        known = KINDS.get(kind.value) if kind is not None and isinstance(kind.value, str) else None
        return str(kind.value) if kind is not None and known is not None and self.spot.path[-1] in known.raw else ""

    @property
    def in_flow(self) -> bool:
        """Return whether the mapping around a key is written in braces."""
        return self.spot.role == "key" and self.chunk.text[self.spot.node.start : self.spot.node.start + 1] == "{"


def place(text: str, offset: int) -> At | None:
    """Return the key or value at an offset of a text; None where there is neither."""
    chunk = chunk_at(text, offset)
    spot = chunk.tree.spot(offset - chunk.start) if chunk is not None else None
    return None if chunk is None or spot is None else _with_expression(chunk, chunk.tree, spot, offset - chunk.start)


def typing(text: str, offset: int) -> At | None:
    """Return the place at which something is typed: the key or value that the cursor is in, or begins."""
    chunk = chunk_at(text, offset)
    if chunk is None or len(chunk.text) > LONGEST_CHUNK:
        return None
    local = offset - chunk.start
    for before, after in _readings(chunk.text, local):
        found = _marked(before, after, chunk.index is not None)
        if found is not None:
            return _with_expression(chunk, *found, local)
    return None


def _with_expression(chunk: Chunk, tree: Tree, spot: Spot, local: int) -> At:
    at = At(chunk, tree, spot, local)
    if spot.role != "value" or at.in_code:
        return at
    return At(chunk, tree, spot, local, expression_at(chunk.text, spot.start, local))


def _readings(text: str, local: int) -> Iterator[tuple[str, str]]:
    """Yield what may be read in place of the text: the part up to the mark, and the one after it."""
    before, after = text[:local], text[local:]
    head, tail = before[before.rfind("\n") + 1 :], after.partition("\n")[0]
    if _BARE.fullmatch(head) and not tail.strip():
        yield f"{before}{MARK}:", after
    unquoted = _UNQUOTED.fullmatch(head)
    if unquoted is not None:
        yield f"{before[: len(before) - len(unquoted[2])]}{MARK}", after[len(tail) :]
    yield f"{before}{MARK}", after
    yield from ((f"{before}{MARK}{closer}", "") for closer in _CLOSERS)


def _marked(before: str, after: str, is_step: bool) -> tuple[Tree, Spot] | None:
    for reader in (read_once, read_repaired):
        tree = reader(before + after, is_step)
        found = next((spot for spot in tree.spots if MARK in _text(spot)), None)
        if found is not None:
            return tree, found
    return None


def _text(spot: Spot) -> Any:
    return str(spot.path[-1]) if spot.role == "key" else spot.node.value if isinstance(spot.node.value, str) else ""
