"""Filters for dates and times of explicit values (there is no `now`: an evaluation is a pure function of its scope).

A point in time is text, ISO 8601 in UTC as `2026-11-21T08:30:00+00:00`; such texts compare and sort in the order of time. Every
filter takes such a text (a date alone, a `Z` and other offsets too; without an offset UTC is meant) or a number of seconds since
1970.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from noetl_core.expr.errors import TemplateError
from noetl_core.expr.evaluation import Evaluation
from noetl_core.expr.filters.registry import filter_, is_undefined
from noetl_core.values.instants import from_text

FORMAT_CHARS: Final = 200
_DIRECTIVE: Final = re.compile(r"%(.?)", re.DOTALL)
_DIRECTIVES: Final = frozenset("aAbBcdHIjmMpSUwWxXyYzZfGuVeDFTR%")


def instant(value: Any) -> datetime:
    """Return the point in time of `value`, in UTC. Raises `TemplateError`."""
    if is_undefined(value):
        raise TemplateError(f"a time is needed, but {value._undefined_message}")
    try:
        if type(value) in (int, float):
            return datetime.fromtimestamp(value, UTC)
        if type(value) is str and len(value) <= 64:
            return from_text(value.strip()).astimezone(UTC)
    except (ValueError, OverflowError, OSError):
        pass
    raise TemplateError("a time must be ISO 8601 text or a number of seconds since 1970")


def _format(pattern: Any) -> str:
    if type(pattern) is not str or len(pattern) > FORMAT_CHARS:
        raise TemplateError(f"a time format must be text of at most {FORMAT_CHARS} characters")
    for directive in _DIRECTIVE.findall(pattern):
        if directive not in _DIRECTIVES or not directive:
            raise TemplateError(f"unknown time format directive '%{directive}'")
    return pattern


@filter_("parse_datetime")
def parse_datetime(ev: Evaluation, value: Any, format: str | None = None) -> str:
    """Return `value` as a point in time; text in another notation needs its `format` (as in strptime)."""
    if format is None:
        return instant(value).isoformat()
    text = ev.text(value)
    if len(text) > FORMAT_CHARS:
        raise TemplateError(f"a time must be text of at most {FORMAT_CHARS} characters")
    try:
        found = datetime.strptime(text, _format(format))  # noqa: DTZ007 - a zone is given below, where the text has none
        return instant(found.isoformat()).isoformat()
    except ValueError as error:
        raise TemplateError(f"parse_datetime: {error}") from None


@filter_("format_datetime")
def format_datetime(ev: Evaluation, value: Any, format: str = "%Y-%m-%d %H:%M:%S") -> str:
    """Return the point in time as text in `format` (as in strftime), in UTC."""
    return instant(value).strftime(_format(format))


@filter_("to_epoch")
def to_epoch(ev: Evaluation, value: Any) -> int | float:
    """Return seconds since 1970; a whole number if there is no fraction."""
    seconds = instant(value).timestamp()
    return int(seconds) if seconds == int(seconds) else seconds


@filter_("from_epoch")
def from_epoch(ev: Evaluation, value: Any, unit: str = "s") -> str:
    """Return the point in time of a count since 1970; `unit` is s, ms or us."""
    if unit not in ("s", "ms", "us"):
        raise TemplateError("from_epoch: the unit must be 's', 'ms' or 'us'")
    if type(value) is str:
        try:
            value = float(value)
        except ValueError:
            raise TemplateError("from_epoch needs a number") from None
    if type(value) not in (int, float):
        raise TemplateError("from_epoch needs a number")
    return instant(value / {"s": 1, "ms": 1000, "us": 1_000_000}[unit]).isoformat()


@filter_("add_seconds")
def add_seconds(ev: Evaluation, value: Any, seconds: Any) -> str:
    """Return the point in time `seconds` later."""
    return date_add(ev, value, seconds=seconds)


@filter_("date_add")
def date_add(
    ev: Evaluation, value: Any, days: Any = 0, hours: Any = 0, minutes: Any = 0, seconds: Any = 0, weeks: Any = 0
) -> str:
    """Return the point in time that much later (earlier with negative numbers)."""
    amounts = {"days": days, "hours": hours, "minutes": minutes, "seconds": seconds, "weeks": weeks}
    for name, amount in amounts.items():
        if type(amount) not in (int, float):
            raise TemplateError(f"date_add: {name} must be a number")
    try:
        return (instant(value) + timedelta(**amounts)).isoformat()
    except (OverflowError, ValueError):
        raise TemplateError("the time is out of range (year 1 to 9999)") from None
