"""Numbers and times as authors write them: quoted, or with a unit."""

from __future__ import annotations

import re
from typing import Any, Final

from noetl_core.dsl.numbers import DELAY, DURATION, BadNumber, duration

_NUMBER: Final = re.compile(r"\s*[0-9]+(\.[0-9]+)?\s*\Z")


def number(value: Any) -> int | float | None:
    """Return a number, which may be quoted; None for anything else."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return value
    if isinstance(value, str) and _NUMBER.match(value):
        return float(value) if "." in value else int(value)
    return None


def seconds(value: Any) -> Any:
    """Return a time in seconds, which may be text such as `30s` or `5m`; anything else as it is."""
    amount = number(value)
    if amount is not None:
        return amount
    if isinstance(value, str) and DURATION.match(value):
        try:
            found = duration(value, DELAY, "")
        except BadNumber:
            return value
        return int(found) if found.is_integer() else found
    return value
