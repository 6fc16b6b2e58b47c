"""Taint of secrets: a secret, and everything computed from it, stays wrapped until the tool is called (docs/access.md).

The rule is simple and sound: the result of an evaluation that read a secret, for any purpose, is a `Secret`. No filter, format or
join can leak a secret, because none of them takes part in the decision. The results of conditions (`when`) are plain booleans.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, NoReturn

MASK: Final = "***"
LOST: Final = "\0lost"
"""The value of a secret that was masked in the log and is no longer in any worker's memory. Reading it is an error."""


class Secret:
    """An opaque holder of a secret value. Its text is always the mask; only `reveal` opens it.

    `read` are the secrets from which the value was computed: it may contain them in places that are not searched, such as a
    public field or a key.
    """

    __slots__ = ("_value", "made_of")

    def __init__(self, value: Any, read: Iterable[Secret] = ()) -> None:
        self._value: Any = value._value if isinstance(value, Secret) else value
        self.made_of: tuple[Any, ...] = tuple(v for secret in read for v in (secret.made_of or (secret._value,)))

    def __repr__(self) -> str:
        return MASK

    __str__ = __repr__

    def __format__(self, spec: str) -> str:
        return MASK

    def __bool__(self) -> bool:
        return bool(self._value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and bool(self._value == other._value)

    __hash__ = None  # type: ignore[assignment]  # Python's default for a class that defines only `__eq__`

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        raise TypeError("a secret is never serialised")


def reveal(value: Any) -> Any:
    """Return `value` with every secret in it opened; only for a tool, when it is called."""
    if isinstance(value, Secret):
        return reveal(value._value)
    if isinstance(value, dict):
        return {k: reveal(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [reveal(v) for v in value]
    return value


def mask(value: Any) -> Any:
    """Return `value` with every secret in it replaced by `***`; for events, logs and answers."""
    if isinstance(value, Secret):
        return MASK
    if isinstance(value, dict):
        return {k: mask(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [mask(v) for v in value]
    return value


def contains_lost(value: Any) -> bool:
    """Return whether `value` is or contains a secret that is lost."""
    if isinstance(value, Secret):
        return bool(value._value == LOST) or contains_lost(value._value)
    if isinstance(value, dict):
        return any(contains_lost(v) for v in value.values())
    return any(contains_lost(v) for v in value) if isinstance(value, list | tuple) else False


def contains_secret(value: Any) -> bool:
    """Return whether `value` is or contains a secret."""
    if isinstance(value, Secret):
        return True
    if isinstance(value, dict):
        return any(contains_secret(v) for v in value.values())
    if isinstance(value, list | tuple):
        return any(contains_secret(v) for v in value)
    return False
