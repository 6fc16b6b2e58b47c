"""The form of a stored credential: one JSON object."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from noetl_core import strict_json
from noetl_core.ports import NotFound


def fields_of(name: str, text: str) -> Mapping[str, Any]:
    """Return the fields of a credential's text. Raises `NotFound` for anything but a JSON object, without showing it."""
    try:
        fields = strict_json.loads(text)
    except ValueError:
        fields = None
    if not isinstance(fields, dict):
        raise NotFound(f"credential {name!r} is not a JSON object; write it anew")
    return fields
