"""Labels of executions: given at the start, shown in lists, and asked for."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from noetl_core.api.refused import BadRequest

MAX_LABELS: Final = 20
MAX_VALUE: Final = 256
_KEY = re.compile(r"[A-Za-z0-9._/-]{1,64}")

Asked = Mapping[str, str | None]
"""Labels that an execution must have; None: with whatever value."""


def checked(labels: Mapping[str, Any]) -> dict[str, str]:
    """Return labels that an execution may have. Raises `BadRequest`."""
    if len(labels) > MAX_LABELS:
        raise BadRequest(f"an execution has {MAX_LABELS} labels at most, not {len(labels)}", "body.labels")
    for key, value in labels.items():
        loc = f"body.labels.{key[:64]}"
        if _KEY.fullmatch(key) is None:
            raise BadRequest(f"{key[:100]!r} is no key of a label", loc, "1 to 64 of A-Z, a-z, 0-9 and ._/-")
        if not isinstance(value, str) or len(value) > MAX_VALUE or not value.isprintable():
            raise BadRequest(f"the label {key} is no text of at most {MAX_VALUE} characters that print", loc)
    return dict(labels)


def asked(text: str | None, loc: str = "query.label") -> Asked:
    """Return what `key:value,key` asks for. Raises `BadRequest`."""
    found: dict[str, str | None] = {}
    for part in text.split(",") if text else ():
        key, colon, value = part.strip().partition(":")
        if _KEY.fullmatch(key) is None:
            raise BadRequest(f"{part!r} names no label", loc, "key, or key:value; several separated by commas")
        found[key] = value if colon else None
    return found


def has(labels: Mapping[str, str], wanted: Asked) -> bool:
    """Whether an execution with these labels is one of those asked for."""
    return all(key in labels and value in (None, labels[key]) for key, value in wanted.items())
