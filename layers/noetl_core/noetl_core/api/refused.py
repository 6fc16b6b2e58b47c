"""Errors of requests that the API rejects before an operation sees them, and the checks that raise them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from noetl_core.api.shapes.service import Detail


class BadRequest(ValueError):
    """The request is malformed (HTTP 400). Who acts: the caller."""

    def __init__(self, message: str, loc: str = "body", hint: str = "") -> None:
        super().__init__(message)
        self.details: list[Detail] = [{"loc": loc, "message": message, "hint": hint}]


class BadCursor(ValueError):
    """The cursor was not issued here, or was changed. Who acts: the caller."""


class NoRoute(LookupError):
    """No route has this method and path (HTTP 404). Who acts: the caller."""


class NotAllowed(Exception):
    """The caller may not do that (HTTP 403). Who acts: the operator, who grants rights."""


def nearest(name: str, known: Iterable[str]) -> str:
    """Return a hint for a name that is not `known`: the probable one, or all that exist."""
    import difflib  # 4 ms: only wrong requests need it

    names = list(known)
    near = difflib.get_close_matches(name, names, 1)
    if near:
        return f"did you mean {near[0]!r}?"
    return f"known: {', '.join(names)}" if names else "none is known here"


def within(name: str, value: int, least: int, most: int) -> int:
    """Return `value`, if it is within the bounds of the parameter `name`. Raises `BadRequest`."""
    if not least <= value <= most:
        raise BadRequest(f"{name} must be a number from {least} to {most}", f"query.{name}")
    return value


def execution_id(text: str) -> str:
    """Return `text`, if it can be an execution's id: a decimal number below 2^63. Raises `NoRoute`."""
    if not (text.isascii() and text.isdecimal() and len(text) <= 19):
        raise NoRoute(f"there is no execution {text}")
    return text


def iteration_path(text: str, loc: str = "path.iteration") -> tuple[int, ...]:
    """Return the indexes of an iteration written as `617` or `3.5`. Raises `BadRequest`."""
    parts = text.split(".")
    if len(parts) > 10 or not all(part.isascii() and part.isdecimal() and len(part) <= 9 for part in parts):
        raise BadRequest(
            f"{text[:100]!r} is not an iteration", loc, "write its index, `617`; in nested loops the index in each loop, `3.5`"
        )
    return tuple(int(part) for part in parts)
