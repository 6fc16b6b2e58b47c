"""Views of results for programs: `r["command_0"]`, `r.get("status_code")` (docs/language/views.md).

The same views as in templates, by the same shapes. A program that names none of them gets plain dictionaries. Standard library
only, because it runs in the sandbox.
"""

from __future__ import annotations

import re
from typing import Any, Final

_VIEW_NAME: Final = re.compile(r"""(['"])(?:command_\d+|status_code|body|data)\1""")
_RESPONSE: Final = frozenset({"status", "headers", "data", "url", "elapsed_ms"})
_OF_RESPONSE: Final = {"status_code": "status", "body": "data"}
_TABLE: Final = frozenset({"rows", "columns", "row_count"})
_MISSING: Final = object()


def reads_views(code: str) -> bool:
    """Return whether a program may read a view."""
    return _VIEW_NAME.search(code) is not None


def viewed(value: dict[str, Any]) -> dict[str, Any]:
    """Return a dictionary with the views of its shape. It is the object hook of the decoder."""
    if "row_count" in value and value.keys() >= _TABLE and isinstance(value["rows"], list):
        return _Table(value)
    if "elapsed_ms" in value and value.keys() >= _RESPONSE and isinstance(value["status"], int):
        return _Response(value)
    return value


class _Viewed(dict[str, Any]):
    """A result with views. Its keys, its length and its text are those of the data."""

    def _view(self, _name: Any) -> Any:
        return _MISSING

    def __missing__(self, name: Any) -> Any:
        found = self._view(name)
        if found is _MISSING:
            raise KeyError(name)
        return found

    def get(self, name: Any, default: Any = None) -> Any:
        """Return a field, or else a view."""
        if dict.__contains__(self, name):
            return self[name]
        found = self._view(name)
        return default if found is _MISSING else found

    def __contains__(self, name: object) -> bool:
        return dict.__contains__(self, name) or self._view(name) is not _MISSING


class _Response(_Viewed):
    def _view(self, name: Any) -> Any:
        field = _OF_RESPONSE.get(name) if isinstance(name, str) else None
        return _MISSING if field is None else self[field]


class _Table(_Viewed):
    def _view(self, name: Any) -> Any:
        if not isinstance(name, str):
            return _MISSING
        if name == "data":
            return self
        number = name.removeprefix("command_")
        if number == name or not number.isdecimal():
            return _MISSING
        each = dict.get(self, "commands")
        if not isinstance(each, list):
            return self if number == "0" else _MISSING
        at = int(number)
        return _MISSING if at >= len(each) else self if each[at] is None else each[at]
