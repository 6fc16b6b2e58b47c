"""Snowflake as a source of `transfer`: the query of its rows, and the types of their columns."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from noetl_core.tools.base import BadInput

TAKES: Final = frozenset({"auth", "connection", "query", "table", "columns", "params", "database", "schema", "warehouse", "role"})
_NAME: Final = re.compile(r'[A-Za-z_][A-Za-z0-9_$]*|"(?:[^"]|"")+"')
_TABLE: Final = re.compile(rf"(?:{_NAME.pattern})(?:\.(?:{_NAME.pattern})){{0,2}}")
MOST_DIGITS: Final = 38
_WHOLE_DIGITS: Final = 18
"""Digits that a 64-bit number holds whatever they are."""
_TYPES: Final[Mapping[int, str]] = {
    1: "DOUBLE", 3: "DATE", 4: "TIMESTAMP", 5: "JSON", 6: "TIMESTAMPTZ", 7: "TIMESTAMPTZ", 8: "TIMESTAMP", 9: "JSON",
    10: "JSON", 11: "BLOB", 12: "TIME", 13: "BOOLEAN",
}  # fmt: skip
"""Snowflake's type by its number -> DuckDB's; others are text."""
_FIXED: Final = 0


def as_inputs(source: Mapping[str, Any]) -> dict[str, Any]:
    """Return a source as the inputs of a task that writes its rows to a file. Raises `BadInput`."""
    inputs = {key: value for key, value in source.items() if key not in ("query", "table", "columns", "connection")}
    if "connection" in source:
        if "auth" in source:
            raise BadInput("`source` has auth and connection: keep one")
        inputs["auth"] = source["connection"]
    return {**inputs, "command": _query(source), "to": "jsonl"}


def _query(source: Mapping[str, Any]) -> str:
    query, table, columns = (source.get(name) for name in ("query", "table", "columns"))
    if (query is None) == (table is None):
        raise BadInput("`source` of kind snowflake needs `query` or `table`")
    if query is not None:
        if columns is not None:
            raise BadInput("`source.columns` belongs to `table`: a query names its columns itself")
        if not isinstance(query, str) or not query.strip():
            raise BadInput("`source.query` must be SQL text")
        return query
    if not isinstance(table, str) or not _TABLE.fullmatch(table):
        raise BadInput(f'`source.table` {str(table)[:60]!r} must be like orders, schema.orders or "Orders"')
    named = isinstance(columns, list) and columns and all(isinstance(one, str) and _NAME.fullmatch(one) for one in columns)
    if columns is not None and not named:
        raise BadInput("`source.columns` must be a list of columns")
    return f"SELECT {', '.join(columns) if columns else '*'} FROM {table}"


def types_of(names: Sequence[str], description: Sequence[Sequence[Any]]) -> dict[str, str]:
    """Return the types of the columns of a query, as DuckDB calls them. `names`: what the rows call them."""
    return {name: _type(column) for name, column in zip(names, description, strict=True)}


def _type(column: Sequence[Any]) -> str:
    number, digits, scale = column[1], column[4], column[5]
    if number != _FIXED:
        return _TYPES.get(number, "VARCHAR")
    digits, scale = digits or MOST_DIGITS, scale or 0
    return "BIGINT" if scale == 0 and digits <= _WHOLE_DIGITS else f"DECIMAL({digits}, {scale})"
