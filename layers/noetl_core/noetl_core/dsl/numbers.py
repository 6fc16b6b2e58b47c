"""The table of all numbers that a playbook may set, with their ranges. Validation, the JSON Schema and the engine read it.

A setting that is a template is checked when it is rendered (`value_of`). If it renders to nothing, or to no number of the
range, that is an error that names it; it never means "no limit".
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from noetl_core.dsl.model import Limits
from noetl_core.expr import Scope, TemplateError, render
from noetl_core.values.frozen import frozen
from noetl_core.values.instants import DAY_S
from noetl_core.values.request_bounds import MAX_PRIORITY

YEAR_S: Final = 366 * DAY_S
ANY: Final = 1e12
"""The highest value where no sensible bound exists: it only has to be finite."""


class BadNumber(TemplateError):
    """A value is not a number, or out of its range. Who acts: the author."""

    kind = "schema"


@frozen
class Range:
    """The numbers from `low` (or, with `above`, above it) to `high`.

    `template`: an expression may be given instead; `null`: null leaves it out; `switch`: true and false are allowed too; `time`:
    it is seconds, which text may give with a unit.
    """

    low: float
    high: float
    whole: bool = False
    above: bool = False
    template: bool = True
    null: bool = True
    switch: bool = False
    time: bool = False

    @property
    def quoted(self) -> bool:
        """Return whether text that is a number counts as one, because the result of an expression may be text. If 1 is out of
        range it does not: a schema cannot express bounds on numbers in text."""
        return self.template and not self.switch and self.low <= 1

    def holds(self, value: float) -> bool:
        return self.low <= value <= self.high and not (self.above and value == self.low)

    @property
    def words(self) -> str:
        """Return the range in the words of error messages."""
        kind = "a whole number" if self.whole else "a number"
        if not self.above and self.high < ANY:
            return f"{kind} between {_plain(self.low)} and {_plain(self.high)}"
        least = f"above {_plain(self.low)}" if self.above else f"of at least {_plain(self.low)}"
        return f"{kind} {least}" + ("" if self.high >= ANY else f" and at most {_plain(self.high)}")

    def schema(self) -> dict[str, Any]:
        """Return the JSON Schema of the number itself."""
        least = "exclusiveMinimum" if self.above else "minimum"
        return {"type": "integer" if self.whole else "number", least: _short(self.low), "maximum": _short(self.high)}


TIMEOUT: Final = Range(0, ANY, above=True, time=True)
DELAY: Final = Range(0, YEAR_S, time=True)
LIFETIME: Final = Range(1, YEAR_S, template=False)
ATTEMPTS: Final = Range(1, 1_000_000, whole=True)
JITTER: Final = Range(0, 1, switch=True)
MULTIPLIER: Final = Range(1, 100, template=False)
WINDOW: Final = Range(1, 10_000, whole=True)
CHUNK_SIZE: Final = Range(1, 100_000, whole=True)
COMMIT_EVERY: Final = Range(1, 100_000, whole=True)
FRAME: Final = Range(1, 1_000, whole=True)
"""A frame is held in memory, and its rows are the ones that a crash leaves claimed."""
QUEUE_WAIT: Final = Range(0, 20, whole=True)
"""SQS waits for messages no longer than this."""
LEASE: Final = Range(5, 12 * 3600)
"""SQS hides a message for twelve hours at most."""
TOLERATED_COUNT: Final = Range(0, ANY, whole=True)
TOLERATED_PERCENT: Final = Range(0, 100)
JOIN_COUNT: Final = Range(1, 10_000, whole=True, template=False, null=False)
PRIORITY: Final = Range(-MAX_PRIORITY, MAX_PRIORITY)
PER_SECOND: Final = Range(1e-5, 100_000, null=False)
"""The minimum is about one a day, so that no task waits longer for a permit."""
BURST: Final = Range(1, 10_000, whole=True)
CONCURRENT: Final = Range(1, 1_000, whole=True, null=False)
"""All holders are in one item."""
WAIT: Final = Range(0, YEAR_S)
"""The seconds that a task waits. Text may give them with a unit (`15m`)."""
ANSWER: Final = Range(0, YEAR_S, above=True)
HEARTBEAT: Final = Range(1, YEAR_S)
LOOK: Final = Range(1, 3600)
"""Each ping is an event."""
PRESIGNED: Final = Range(1, 7 * DAY_S)
"""The seconds for which a URL signed by S3 is valid."""
QUEUE_DELAY: Final = Range(0, 900)
"""The seconds for which a message may be hidden; SQS allows no more."""
KEPT: Final = Range(1, 10 * YEAR_S)
"""The seconds for which a value of `kind: kv` is kept."""
SCHEDULE_RATE: Final = Range(60, YEAR_S, whole=True, template=False, null=False, time=True)
"""A stack checks for due items once a minute."""
SCHEDULE_JITTER: Final = Range(0, DAY_S, template=False, null=False, time=True)
WEBHOOK_TOLERANCE: Final = Range(1, DAY_S, template=False, null=False, time=True)
"""The age of a signature."""
WEBHOOK_RATE: Final = Range(0.01, 10_000, template=False, null=False)
LOOP_ITEMS: Final = 1_000_000
"""The longest collection of one loop: its worker holds the collection, and a takeover reads the finished part."""
_HIGHEST: Final = {"max_payload_bytes": 200 * 1024, "max_input_bytes": 1024 * 1024 * 1024}
"""A result beyond 200 KB would not fit a commit beside its events."""
LIMITS: Final[Mapping[str, Range]] = {
    name: Range(1, _HIGHEST.get(name, 10_000_000), whole=True, template=False) for name in Limits.__dataclass_fields__
}
"""`executor.spec.policy.limits`."""

QUOTED: Final = r"[0-9]{1,9}(\.[0-9]{1,9})?"
"""A number in quotes."""
DURATION: Final = re.compile(
    r"\s*((?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?)\s*([mM][sS]|[sSmMhHdD])?\s*\Z",
)
_UNITS: Final = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": DAY_S}


def in_range(value: Any, allowed: Range, what: str) -> float:
    """Return a value as a number of the range; text that contains one counts. Raises `BadNumber`, which names `what`."""
    if allowed.switch and isinstance(value, bool):
        return float(value)
    if allowed.time and isinstance(value, str) and (match := DURATION.match(value)) is not None:
        value = float(match[1]) * _UNITS[(match[2] or "s").lower()]
    try:
        number = None if isinstance(value, bool) or not isinstance(value, int | float | str) else float(value)
    except (ValueError, OverflowError):
        number = None
    if number is None or not allowed.holds(number) or (allowed.whole and not number.is_integer()):
        hint = "; leave it out where there is none, or give it a default(...)" if value is None else ""
        raise BadNumber(f"{what} must be {allowed.words}, not {_excerpt(value)}{hint}")
    return number


def value_of(value: Any, allowed: Range, what: str, scope: Scope) -> float | None:
    """Return a setting as its author wrote it - a number, an expression for one, or None - as a number of its range.

    Raises `BadNumber`, or `TemplateError` when the expression is undefined or fails; both name `what`.
    """
    if value is None:
        return None
    if isinstance(value, str):
        try:
            value = render(value, scope, whole=True)
        except TemplateError as error:
            named = TemplateError(f"{what}: {error}") if error.kind != "limit" else error
            raise named from None
    return in_range(value, allowed, what)


def duration(value: Any, allowed: Range, what: str) -> float:
    """Return seconds from a number, or from text such as `90`, `15m`, `2h`. Raises `BadNumber`."""
    match = DURATION.match(value) if isinstance(value, str) else None
    if match is not None:
        seconds = float(match[1]) * _UNITS[(match[2] or "s").lower()]
        if allowed.holds(seconds):
            return seconds
    elif not isinstance(value, str):
        return in_range(value, allowed, what)
    raise BadNumber(f"{what} must be {allowed.words} (seconds, or text such as 15m, 2h, 1d), not {_excerpt(value)}")


def _short(number: float) -> float:
    return int(number) if number == int(number) else number


def _plain(number: float) -> str:
    return f"{_short(number):,}"


def _excerpt(value: Any) -> str:
    return "null" if value is None else repr(value)[:60]
