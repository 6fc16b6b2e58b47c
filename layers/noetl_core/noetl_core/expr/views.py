"""Views: other names under which templates read what tasks of some kinds give (docs/language/views.md).

A view is found when a template reads it, by the shape of the value; nothing is stored for it. A result keeps its shape wherever
it goes - along arcs, in `ctx`, to another playbook, behind a reference - and so it keeps its views. What the data has itself goes
before a view, and what is handed on as a whole is the data.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from noetl_core.expr.secret import Secret
from noetl_core.outlines import Part
from noetl_core.result_refs import is_reference

NO_VIEW: Final = object()
"""`view` returns this where a value has no view of a name."""

Fields = Mapping[Any, Any] | Part
"""What has fields: a mapping, or a large one, of which what is asked for is loaded."""

RESPONSE: Final = frozenset({"status", "headers", "data", "url", "elapsed_ms"})
"""The fields of what `http` gives."""
OF_RESPONSE: Final[Mapping[str, str]] = {"status_code": "status", "body": "data"}
"""View -> field."""

TABLE: Final = frozenset({"rows", "columns", "row_count"})
"""The fields of what SQL gives."""
COMMANDS: Final = "commands"
"""The field that has what each of several statements gave, where the task keeps that."""
COMMAND: Final = re.compile(r"command_(0|[1-9][0-9]{0,3})")


def view(value: Fields, name: str) -> Any:
    """Return what `value.name` means where the mapping has no field of that name, or `NO_VIEW`."""
    field = OF_RESPONSE.get(name)
    if field is not None:
        return value[field] if _is_response(value) else NO_VIEW
    found = COMMAND.fullmatch(name) if name.startswith("command_") else None
    return _command(value, int(found[1])) if found is not None and _is_table(value) else NO_VIEW


def rows(value: Fields) -> Any:
    """Return the list that a mapping stands for where a list is wanted: the rows of what SQL gives, or a reference to them. None
    for any other mapping."""
    if not 3 <= len(value) <= 4 or not _is_table(value):
        return None
    return value["rows"] if len(value) == len(TABLE) or COMMANDS in value else None


def has(fields: frozenset[str], name: str) -> bool:
    """Return whether a result with these fields has a field or a view of that name."""
    if name in fields:
        return True
    return (fields >= TABLE and COMMAND.fullmatch(name) is not None) or (fields >= RESPONSE and name in OF_RESPONSE)


def names(fields: frozenset[str]) -> frozenset[str]:
    """Return the fields and views of a result, to suggest one."""
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
    """Return what the statement of that number gave. A single statement is number 0, and gave the result itself."""
    each: Any = value.get(COMMANDS)
    if not _is_list(each):
        return value if number == 0 else NO_VIEW
    if number >= len(each):
        return NO_VIEW
    return {name: value[name] for name in sorted(TABLE)} if each[number] is None else each[number]
