"""Inputs of tools whose parts are known: `sources` and `attach` of `duckdb`, `copy` of `postgres`, `files` of `http`, `until` of
`wait`, `schema` of `callback` and `llm`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from noetl_core.dsl.fields.kind import words
from noetl_core.dsl.fields.kinds.data import COPY
from noetl_core.dsl.reading.diagnostics import close
from noetl_core.dsl.reading.load import Node
from noetl_core.dsl.reading.reader import Reader
from noetl_core.expr import is_template
from noetl_core.values.instants import from_text
from noetl_core.values.json_schema import BadSchema, check_schema

ATTACHED: Final = words("auth database tables queries")
"""The keys of an entry of `attach`."""
FILE: Final = words("content base64 json filename content_type")
"""The keys of a file in a form, unless it is a reference."""
AUTH_TYPES: Final = words("basic bearer header query oauth2 aws")
"""The types of credentials of `http`."""
_CONTENT: Final = words("content base64 json")


def check_nested(r: Reader, kind: str, entries: Mapping[str, Node], what: str) -> None:
    """Report unknown keys in these mappings, a source that is one row where a file is meant, a copy into no table, an
    instant that is none, and a schema outside the subset."""
    if kind == "duckdb":
        for name, entry in _below(entries.get("attach")):
            if isinstance(entry.value, dict):
                r.keys(entry, ATTACHED, f"attach.{name} of {what}")
                if not {"tables", "queries"} & entry.value.keys() and entry.value.keys() <= ATTACHED:
                    r.missing(entry, "tables", f"attach.{name} of {what} has no tables or queries", "tables: the tables to read")
        for name, entry in _below(entries.get("sources")):
            _source(r, name, entry, what)
    elif kind in ("callback", "llm"):
        _schema(r, entries.get("schema"), what)
    elif kind == "wait":
        _instant(r, entries.get("until"), what)
    elif kind == "postgres" and (copy := entries.get("copy")) is not None and isinstance(copy.value, dict):
        keys = copy.value.keys()
        if "from" in keys and "into" not in keys and keys <= COPY.keys:
            r.missing(copy, "into", f"copy of {what} has `from` without `into`", "into: the table to fill")
    elif kind == "http":
        _auth(r, entries.get("auth"), what)
        for name, entry in _below(entries.get("files")):
            if isinstance(entry.value, dict) and _CONTENT & entry.value.keys():
                r.keys(entry, FILE, f"files.{name} of {what}")


def _instant(r: Reader, node: Node | None, what: str) -> None:
    if node is not None and isinstance(node.value, str) and not is_template(node.value):
        try:
            from_text(node.value)
        except ValueError:
            r.report("E112", node, f"until of {what} is not an instant", "write 2026-12-24T18:00:00Z")


def _auth(r: Reader, node: Node | None, what: str) -> None:
    """Report a misspelt type of a credential; other types may be those of stored credentials."""
    kind = node.get("type") if node is not None else None
    if kind is None or not isinstance(kind.value, str) or is_template(kind.value) or kind.value.lower() in AUTH_TYPES:
        return
    if near := close(kind.value, AUTH_TYPES):
        r.report("E113", kind, f'type in auth of {what} cannot be "{kind.value}"', f'did you mean "{near}"?')


def _schema(r: Reader, node: Node | None, what: str) -> None:
    if node is not None and isinstance(node.value, dict) and not any(is_template(each.value) for each in node.scalars()):
        try:
            check_schema(node.plain(), f"schema of {what}")
        except BadSchema as wrong:
            r.report("E128", node.at(wrong.path), str(wrong))


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
            hint = f"write the address of a file in S3 as text: {name}: {child.value[:80]}"
            r.report("E114", (entry, key), message, hint)
            return
