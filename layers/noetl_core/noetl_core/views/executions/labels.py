"""Labels of executions: set at the start, shown in lists, usable as filters."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from noetl_core.api.refused import BadRequest

MAX_LABELS: Final = 20
MAX_VALUE: Final = 256
_KEY = re.compile(r"[A-Za-z0-9._/-]{1,64}")

LabelFilter = Mapping[str, str | None]
"""Labels that an execution must have; None means any value."""


def checked(labels: Mapping[str, Any]) -> dict[str, str]:
    """Return valid labels. Raises `BadRequest`."""
    if len(labels) > MAX_LABELS:
        raise BadRequest(f"an execution has {MAX_LABELS} labels at most, not {len(labels)}", "body.labels")
    for key, value in labels.items():
        loc = f"body.labels.{key[:64]}"
        if _KEY.fullmatch(key) is None:
            raise BadRequest(f"{key[:100]!r} is not a label key", loc, "1 to 64 of A-Z, a-z, 0-9 and ._/-")
        if not isinstance(value, str) or len(value) > MAX_VALUE or not value.isprintable():
            raise BadRequest(f"the label {key} must be a text of at most {MAX_VALUE} printable characters", loc)
    return dict(labels)


def parse_label_filter(text: str | None, loc: str = "query.label") -> LabelFilter:
    """Return the labels that `key:value,key` selects. Raises `BadRequest`."""
    found: dict[str, str | None] = {}
    for part in text.split(",") if text else ():
        key, colon, value = part.strip().partition(":")
        if _KEY.fullmatch(key) is None:
            raise BadRequest(f"{part!r} is not a label filter", loc, "key, or key:value; several separated by commas")
        found[key] = value if colon else None
    return found


def has(labels: Mapping[str, str], label_filter: LabelFilter) -> bool:
    """Return whether an execution with these labels has all labels of the filter."""
    return all(key in labels and value in (None, labels[key]) for key, value in label_filter.items())
