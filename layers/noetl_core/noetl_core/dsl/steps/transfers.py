"""The inputs of `kind: transfer` that belong together: the inputs of a source and a target of each kind, and `mode` with
`keys`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from noetl_core.dsl.fields.kind import words
from noetl_core.dsl.fields.kinds.data import SOURCE, SOURCES, TARGET, TARGETS
from noetl_core.dsl.fields.types import Block
from noetl_core.dsl.reading.diagnostics import suggest_word
from noetl_core.dsl.reading.load import Node
from noetl_core.dsl.reading.reader import Reader
from noetl_core.expr import is_template

_NEEDED: Final[Mapping[str, frozenset[str]]] = {
    "rows": words("rows"),
    "postgres": words("query table"),
    "duckdb": words("command table"),
    "http": words("url"),
    "s3": words("uri"),
    "snowflake": words("query table"),
}
"""The inputs of a source or a target, of which it needs at least one."""


def check_transfer(r: Reader, node: Node, entries: Mapping[str, Node], what: str, *, extensions: bool) -> None:
    """Report an invalid source or target. With `extensions` a source may be of a kind that is installed beside the
    engine."""
    if r.programs:  # playbooks registered before these checks existed run as they did
        _check_side(r, entries.get("source"), SOURCE, what, SOURCES, free=extensions)
        _check_side(r, entries.get("target"), TARGET, what, TARGETS)
    check_mode(r, node, entries.get("target"), what)


def is_foreign(source: Node) -> bool:
    """Return whether a source is of a kind that the language does not know: its inputs are unknown, too."""
    kind = source.get("kind")
    return kind is not None and isinstance(kind.value, str) and kind.value not in SOURCES


def _check_side(
    r: Reader, node: Node | None, side: Block, what: str, kinds: Mapping[str, frozenset[str]], *, free: bool = False
) -> None:
    name = side.name
    if node is None or not isinstance(node.value, dict):
        return
    kind = node.get("kind")
    if kind is not None and is_template(kind.value):
        return
    if kind is None and not ("rows" in node.value and "rows" in kinds):
        r.missing(node, "kind", f"{name} of {what} has no kind", f"one of {', '.join(kinds)}")
        return
    word = "rows" if kind is None else kind.value
    if not isinstance(word, str) or word not in kinds:
        if not free:
            hint = (suggest_word(word, kinds) if isinstance(word, str) else "") or f"one of {', '.join(kinds)}"
            r.report("E118", kind or node, f"{word!r:.60} is not a kind of {name} ({what})", hint)
        return
    takes = kinds[word] | {"kind"}
    needed = _NEEDED[word] & kinds[word]
    if not needed & node.value.keys() and node.value.keys() <= takes:
        names = sorted(needed)
        r.missing(node, names[0], f"{name} of {what} has no {' or '.join(names)}", f"add {names[0]}")
    for key in node.value:
        if key in side.keys - takes:
            message = f"{name} of {what} has {key}, which kind {word} does not take"
            r.report("E114", (node, key), message, suggest_word(key, takes) or f"it takes {', '.join(sorted(kinds[word]))}")


def check_mode(r: Reader, node: Node, target: Node | None, what: str) -> None:
    """Check that `mode: upsert` and `keys` are given together, where both are literal, and that `target` has keys."""
    mode, keys = node.get("mode"), node.get("keys")
    word = "append" if mode is None else mode.value
    if not isinstance(word, str) or is_template(word):
        return
    kind = target.get("kind") if target is not None else None
    if word == "upsert" and kind is not None and kind.value == "s3":
        r.report(
            "E114", (node, "mode"), f"{what} has mode: upsert, which is for tables", "objects have no keys: append, or replace"
        )
    elif word == "upsert" and (keys is None or keys.value in (None, [])):
        r.missing(node, "keys", f"{what} has mode: upsert without keys", "keys: the columns that identify a row")
    elif word != "upsert" and keys is not None and keys.value not in (None, []):
        r.report("E114", (node, "keys"), f"{what} has keys, which belong to mode: upsert", "add mode: upsert, or leave keys out")
