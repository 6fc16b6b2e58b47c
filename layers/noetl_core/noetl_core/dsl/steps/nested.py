"""Mappings inside inputs of tools whose keys are known: `sources` and `attach` of `duckdb`, `files` of `http`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from noetl_core.dsl.fields.kind import words
from noetl_core.dsl.reading.load import Node
from noetl_core.dsl.reading.reader import Reader

ATTACHED: Final = words("auth database tables queries")
"""The keys of an entry of `attach`."""
FILE: Final = words("content base64 json filename content_type")
"""The keys of a file in a form, unless it is a reference."""
_CONTENT: Final = words("content base64 json")


def check_nested(r: Reader, kind: str, entries: Mapping[str, Node], what: str) -> None:
    """Report unknown keys in these mappings, and a source of one row that was meant as a file."""
    if kind == "duckdb":
        for name, entry in _below(entries.get("attach")):
            if isinstance(entry.value, dict):
                r.keys(entry, ATTACHED, f"attach.{name} of {what}")
        for name, entry in _below(entries.get("sources")):
            _source(r, name, entry, what)
    elif kind == "http":
        for name, entry in _below(entries.get("files")):
            if isinstance(entry.value, dict) and _CONTENT & entry.value.keys():
                r.keys(entry, FILE, f"files.{name} of {what}")


def _below(node: Node | None) -> list[tuple[str, Node]]:
    return [] if node is None or not isinstance(node.value, dict) else list(node.value.items())


def _source(r: Reader, name: str, entry: Node, what: str) -> None:
    """Report a mapping with the address of a file: it would be a table with that one row."""
    if not isinstance(entry.value, dict):
        return
    for key in ("uri", "url", "path", "s3", "file"):
        child = entry.get(key)
        if child is not None and isinstance(child.value, str) and child.value.startswith("s3://"):
            message = f'source "{name}" of {what} is a mapping, which is one row'
            hint = f"files in S3 are text: {name}: {child.value[:80]}"
            r.report("E114", (entry, key), message, hint)
            return
