"""Views: alternative names under which templates read the results of some kinds (docs/language/views.md).

A view is derived from the shape of the value when a template reads it; nothing is stored for it. A result keeps its shape, and so
its views, wherever it is passed: along arcs, in `ctx`, to another playbook, as a reference. Data has precedence over views, and a
result that is passed on as a whole is the data without views.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from noetl_core.expr.secret import Secret
from noetl_core.values.outlines import Part
from noetl_core.values.result_refs import is_reference

NO_VIEW: Final = object()
"""`view` returns this if a value has no view of a name."""

Fields = Mapping[Any, Any] | Part
"""A mapping, or a large one of which only parts are loaded."""

RESPONSE: Final = frozenset({"status", "headers", "data", "url", "elapsed_ms"})
"""The fields of a result of `http`."""
OF_RESPONSE: Final[Mapping[str, str]] = {"status_code": "status", "body": "data"}
"""View -> field."""

TABLE: Final = frozenset({"rows", "columns", "row_count"})
"""The fields of an SQL result."""
COMMANDS: Final = "commands"
"""The field with the results of several statements (`spec.each_statement`)."""
ALL: Final = "data"
"""The view of an SQL result that is the result itself."""
COMMAND: Final = re.compile(r"command_(0|[1-9][0-9]{0,3})")


def view(value: Fields, name: str) -> Any:
    """Return the view `value.name`, if the mapping has no field of that name, or `NO_VIEW`."""
    field = OF_RESPONSE.get(name)
    if field is not None:
        return value[field] if _is_response(value) else NO_VIEW
    if name == ALL:
        return value if _is_table(value) else NO_VIEW
    found = COMMAND.fullmatch(name) if name.startswith("command_") else None
    return _command(value, int(found[1])) if found is not None and _is_table(value) else NO_VIEW


def rows(value: Fields) -> Any:
    """Return the list that a mapping is equivalent to: the rows of an SQL result, or a reference to them; None for any other
    mapping."""
    if not 3 <= len(value) <= 4 or not _is_table(value):
        return None
    return value["rows"] if len(value) == len(TABLE) or COMMANDS in value else None


def has(fields: frozenset[str], name: str) -> bool:
    """Return whether a result with these fields has a field or a view of that name."""
    if name in fields:
        return True
    return (fields >= TABLE and (name == ALL or COMMAND.fullmatch(name) is not None)) or (
        fields >= RESPONSE and name in OF_RESPONSE
    )


def names(fields: frozenset[str]) -> frozenset[str]:
    """Return the fields and views of a result, for suggestions."""
    return fields | (OF_RESPONSE.keys() if fields >= RESPONSE else {"command_0"} if fields >= TABLE else frozenset())


def _is_response(value: Fields) -> bool:
    return value.keys() >= RESPONSE and type(value["status"]) is int and _is_mapping(value["headers"])


def _is_table(value: Fields) -> bool:
    return (
        value.keys() >= TABLE
        and type(value["row_count"]) is int
        and _is_list(value["columns"])
        and (_is_list(value["rows"]) or type(value["rows"]) is Secret or is_reference(value["rows"]))
    )


def _is_mapping(value: Any) -> bool:
    return type(value) in (dict, Secret) or (isinstance(value, Part) and value.kind is dict)


def _is_list(value: Any) -> bool:
    return type(value) is list or (isinstance(value, Part) and value.kind is list)


def _command(value: Fields, number: int) -> Any:
    """Return the result of the statement with that number. A single statement has number 0, and its result is `value` itself."""
    each: Any = value.get(COMMANDS)
    if not _is_list(each):
        return value if number == 0 else NO_VIEW
    if number >= len(each):
        return NO_VIEW
    return {name: value[name] for name in sorted(TABLE)} if each[number] is None else each[number]
