"""The format of a stored credential: one JSON object, or text that is its only field."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from noetl_core.ports import NotFound
from noetl_core.values import strict_json

VALUE: Final = "value"
"""The field of a credential that is plain text."""


def fields_of(name: str, text: str) -> Mapping[str, Any]:
    """Return the fields of a credential's text. Text that is not a JSON object becomes the only field, `value`. Raises `NotFound`
    for empty text and for a truncated object, without showing it."""
    if text.strip() and not text.lstrip().startswith("{"):
        return {VALUE: text.strip("\r\n")}
    return json_object(name, text)


def json_object(name: str, text: str) -> dict[str, Any]:
    """Return the JSON object of a text. Raises `NotFound` for anything else, without showing it."""
    try:
        fields = strict_json.loads(text)
    except ValueError:
        fields = None
    if not isinstance(fields, dict):
        raise NotFound(f"credential {name!r} is not a JSON object; store the credential again")
    return fields
