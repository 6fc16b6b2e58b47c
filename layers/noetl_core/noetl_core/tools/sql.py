"""Shared by the SQL kinds: statements with bound parameters as input, rows as plain data as output.

The result of every SQL kind is `{"rows": [{column: value}], "columns": [name], "row_count": n}` of the last statement that
returns rows; without one, `row_count` is the number of rows that the last statement changed. With `spec.each_statement`,
`commands` also has the result of each of several statements, null for the one that is the result itself.
Dates and times are ISO 8601 text, decimals are numbers (text where a float would lose digits), bytes `{base64: ...}`, NaN null.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from noetl_core.tools.base import BadInput, ToolCall
from noetl_core.tools.sandbox.plain import to_plain
from noetl_core.values.frozen import frozen

Params = Mapping[str, Any] | Sequence[Any] | None

DEFAULT_MAX_ROWS: Final = 100_000
"""The most rows of a result; `spec.max_rows` changes it. More rows are an error, never cut silently."""


class TooManyRows(Exception):
    """The result has more rows than the task may return."""


@frozen
class Statement:
    """SQL text with its bound parameters."""

    text: str
    params: Params


def statements(call: ToolCall) -> list[Statement]:
    """Return the statements of `command` (text or list) or `commands` (list); an entry is text or `{command, params}`. Raises
    `BadInput`."""
    commands = call.inputs.get("commands", call.inputs.get("command"))
    params = _params(call.inputs.get("params"))
    entries = commands if isinstance(commands, list) else [commands]
    found = []
    for entry in entries:
        if isinstance(entry, Mapping):
            text, own = entry.get("command"), _params(entry.get("params", params))
        else:
            text, own = entry, params
        if not isinstance(text, str) or not text.strip():
            raise BadInput("`command` must be SQL text, or a list of texts or of {command, params}")
        found.append(Statement(text, own))
    if len(found) > 1 and isinstance(params, Sequence):
        raise BadInput("a list of `params` belongs to one statement: use a mapping, or {command, params} for each")
    return found


def _params(value: Any) -> Params:
    if value is None or isinstance(value, Mapping):
        return value
    if isinstance(value, list | tuple):
        return list(value)
    raise BadInput(f"`params` must be a list or a mapping, not {type(value).__name__}")


def max_rows(call: ToolCall) -> int:
    """Return `spec.max_rows`, checked."""
    value = call.spec.get("max_rows", DEFAULT_MAX_ROWS)
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise BadInput("`spec.max_rows` must be a whole number of at least 1")
    return value


def table(names: Sequence[str], rows: Iterable[Sequence[Any]], limit: int) -> dict[str, Any]:
    """Return the result of a query. Raises `TooManyRows`."""
    columns = unique(names)
    out: list[dict[str, Any]] = []
    for row in rows:
        if len(out) == limit:
            raise TooManyRows(f"the result has more than {limit} rows: aggregate, add LIMIT, or raise spec.max_rows")
        out.append({name: _cell(value, name) for name, value in zip(columns, row, strict=True)})
    return {"rows": out, "columns": columns, "row_count": len(out)}


def changed(count: int) -> dict[str, Any]:
    """Return the result of statements that give no rows."""
    return {"rows": [], "columns": [], "row_count": max(count, 0)}


class Answers:
    """Collects the results of a task's statements."""

    def __init__(self, call: ToolCall) -> None:
        each = call.spec.get("each_statement", False)
        if not isinstance(each, bool):
            raise BadInput("`spec.each_statement` must be true or false")
        self._each = each
        self._results: list[dict[str, Any] | None] = []
        self._last: tuple[int, dict[str, Any]] | None = None
        self._count = 0

    def rows(self, answer: dict[str, Any]) -> None:
        """Add a statement that returned rows."""
        if self._last is not None and self._each:
            self._results[self._last[0]] = self._last[1]
        self._last = len(self._results), answer
        self._results.append(None)

    def changed(self, count: int) -> None:
        """Add a statement that returned no rows and changed `count`."""
        self._count = count
        self._results.append(changed(count) if self._each else None)

    def nothing(self) -> None:
        """Add a statement that neither returned nor changed rows."""
        self._results.append(changed(0))

    def result(self) -> dict[str, Any]:
        """Return the result of the task."""
        result = self._last[1] if self._last is not None else changed(self._count)
        if not self._each or len(self._results) < 2:
            return result
        if self._last is None:
            self._results[-1] = None
        return {**result, "commands": self._results}


def unique(names: Sequence[str]) -> list[str]:
    """Return the column names with repeated ones numbered: `id, id` becomes `id, id_2`."""
    out: list[str] = []
    for name in names:
        candidate, n = name, 2
        while candidate in out:
            candidate, n = f"{name}_{n}", n + 1
        out.append(candidate)
    return out


def _cell(value: Any, where: str) -> Any:
    kind = type(value)
    if kind is str or kind is int or kind is bool or value is None:
        return value
    if kind is float:
        return value if math.isfinite(value) else None
    if isinstance(value, bytes | bytearray | memoryview):
        return {"base64": base64.b64encode(bytes(value)).decode()}
    if isinstance(value, dict):
        return {str(k): _cell(v, where) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_cell(v, where) for v in value]
    return to_plain(value, where)


def bound(params: Any, value: Callable[[Any], Any]) -> Any:
    """Return the parameters of a statement, a list or a mapping, with `value` applied to each. Raises `BadInput`."""
    if params is None:
        return None
    if isinstance(params, Mapping):
        return {str(name): value(one) for name, one in params.items()}
    if isinstance(params, list | tuple):
        return [value(one) for one in params]
    raise BadInput(f"parameters must be a list or a mapping, not {type(params).__name__}")
