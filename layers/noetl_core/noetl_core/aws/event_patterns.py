"""Matches and checks event patterns of Amazon EventBridge (docs/triggers.md, "Events").

A pattern has the shape of the events that it matches. Its mappings name keys, all of which must match (`$or`: a list of mappings,
one of which must); its lists have the allowed values: strings, numbers, booleans, null, and filters, which are mappings of one
key. A list in an event matches if one of its items does. In a list of mappings, a single item must match the whole sub-pattern.
Filters are applied to strings, numbers, booleans and nulls, never to mappings. Two things differ from the service: numbers are
compared by value (300 is 300.0), and a pattern may be larger than 4,096 characters.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from ipaddress import ip_address, ip_network
from typing import Any, Final, NamedTuple

EITHER: Final = "$or"
Leaf = str | int | float | bool | None

COMPARISONS: Final[Mapping[str, Callable[[float, float], bool]]] = {
    "=": lambda value, bound: value == bound,
    "<": lambda value, bound: value < bound,
    "<=": lambda value, bound: value <= bound,
    ">": lambda value, bound: value > bound,
    ">=": lambda value, bound: value >= bound,
}


class Flaw(NamedTuple):
    """An error in a pattern, and its path of keys and indexes."""

    at: tuple[str | int, ...]
    message: str
    known: tuple[str, ...] = ()
    """The valid words, if the flaw is a wrong word."""


def matches(pattern: Mapping[str, Any], event: Any) -> bool:
    """Return whether `event`, as JSON data, matches `pattern`, which has no flaws."""
    if isinstance(event, list):  # one item must match everything; an empty list has no keys
        return any(matches(pattern, item) for item in event) if event else matches(pattern, {})
    have = event if isinstance(event, Mapping) else {}
    for key, condition in pattern.items():
        if key == EITHER and isinstance(condition, list) and all(isinstance(one, Mapping) for one in condition):
            if not any(matches(one, have) for one in condition):
                return False
        elif isinstance(condition, Mapping):
            if not matches(condition, have.get(key)):
                return False
        elif not _one_of(condition, list(_leaves(have[key])) if key in have else []):
            return False
    return True


def flaws(pattern: Any, at: tuple[str | int, ...] = ()) -> Iterator[Flaw]:
    """Yield the errors in a pattern."""
    if not isinstance(pattern, Mapping):
        yield Flaw(at, "an event pattern must be a mapping")
    elif not pattern:
        yield Flaw(at, "an event pattern must have at least one key")
    else:
        for key, condition in pattern.items():
            if not isinstance(key, str):
                yield Flaw((*at, str(key)), "keys must be texts")
            elif key == EITHER:
                yield from _either_flaws(condition, (*at, key))
            elif isinstance(condition, Mapping):
                yield from flaws(condition, (*at, key))
            elif not isinstance(condition, list) or not condition:
                yield Flaw(
                    (*at, key), "allowed values must be a list of at least one value or filter, for example [a, {prefix: b}]"
                )
            else:
                for index, one in enumerate(condition):
                    yield from _value_flaws(one, (*at, key, index))


def _leaves(value: Any) -> Iterator[Leaf]:
    if isinstance(value, list):
        for item in value:
            yield from _leaves(item)
    elif not isinstance(value, Mapping):
        yield value


def _one_of(conditions: list[Any], values: list[Leaf]) -> bool:
    for one in conditions:
        if isinstance(one, Mapping):
            ((word, operand),) = one.items()
            if word == "exists":
                if bool(values) is operand:
                    return True
            elif any(FILTERS[word].accepts(operand, value) for value in values):
                return True
        elif any(_same(one, value) for value in values):
            return True
    return False


def _same(wanted: Leaf, value: Leaf) -> bool:
    """Return whether values are equal and of the same type: true is not 1."""
    return _kind(wanted) == _kind(value) and wanted == value


def _kind(value: Any) -> str:
    if isinstance(value, bool):
        return "boolean"
    return "number" if isinstance(value, int | float) else "text" if isinstance(value, str) else "null"


# --- filters ------------------------------------------------------------------------------------------------------------


class _Filter(NamedTuple):
    accepts: Callable[[Any, Leaf], bool]
    """Returns whether a value passes: (operand, value)."""
    flaw: Callable[[Any], str | None]
    """Returns the error in an operand, or None: (operand)."""


def _folded(operand: Any, value: Leaf, test: Callable[[str, str], bool]) -> bool:
    """Test a text against an operand that is a text, or `{equals-ignore-case: text}`."""
    if not isinstance(value, str):
        return False
    if isinstance(operand, Mapping):
        return test(value.casefold(), operand["equals-ignore-case"].casefold())
    return test(value, operand)


def _numeric(operand: list[Any], value: Leaf) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return all(COMPARISONS[word](value, bound) for word, bound in zip(operand[::2], operand[1::2], strict=True))


def _in_network(operand: str, value: Leaf) -> bool:
    try:
        return isinstance(value, str) and ip_address(value) in ip_network(operand, strict=False)
    except ValueError:
        return False


def _wildcard(operand: str, value: Leaf) -> bool:
    """Match each piece between stars at its first position, which takes linear time."""
    if not isinstance(value, str):
        return False
    first, *rest = _pieces(operand)
    if not rest:
        return value == first
    *middle, last = rest
    if not value.startswith(first) or not value.endswith(last) or len(first) + len(last) > len(value):
        return False
    at, end = len(first), len(value) - len(last)
    for piece in middle:
        found = value.find(piece, at, end)
        if found < 0:
            return False
        at = found + len(piece)
    return True


def _pieces(pattern: str) -> list[str]:
    """Return the literal texts between the stars; a backslash escapes a star or a backslash."""
    pieces, escaped = [""], False
    for char in pattern:
        if escaped or char not in "*\\":
            pieces[-1] += char
            escaped = False
        elif char == "*":
            pieces.append("")
        else:
            escaped = True
    return pieces


def _anything_but(operand: Any, value: Leaf) -> bool:
    if isinstance(operand, Mapping):
        ((word, inner),) = operand.items()
        return not any(FILTERS[word].accepts(one, value) for one in (inner if isinstance(inner, list) else [inner]))
    return not any(_same(one, value) for one in (operand if isinstance(operand, list) else [operand]))


# --- flaws of operands --------------------------------------------------------------------------------------------------


def _text_flaw(operand: Any) -> str | None:
    return None if isinstance(operand, str) else "it takes a text"


def _affix_flaw(operand: Any) -> str | None:
    if isinstance(operand, Mapping):
        right = list(operand) == ["equals-ignore-case"] and isinstance(operand["equals-ignore-case"], str)
        return None if right else "it takes a text, or {equals-ignore-case: text}"
    return _text_flaw(operand)


def _numeric_flaw(operand: Any) -> str | None:
    if not isinstance(operand, list) or len(operand) not in (2, 4):
        return 'it takes a list of comparisons and numbers, for example [">", 0] or [">", 0, "<=", 5]'
    for word, bound in zip(operand[::2], operand[1::2], strict=True):
        if word not in COMPARISONS:
            return f"{word!r} is not one of {', '.join(COMPARISONS)}"
        if _kind(bound) != "number" or not math.isfinite(bound):
            return f"after {word!r} a number must follow"
    return None


def _network_flaw(operand: Any) -> str | None:
    try:
        ip_network(operand if isinstance(operand, str) else "", strict=False)
    except ValueError:
        return "it takes a network, for example 10.0.0.0/24 or 2001:db8::/32"
    return None


def _wildcard_flaw(operand: Any) -> str | None:
    if not isinstance(operand, str):
        return "it takes a text"
    stripped = operand.replace("\\\\", "").replace("\\*", "")
    if "\\" in stripped:
        return "a backslash must precede a star or a backslash, which is then literal"
    return "write one star instead of two stars in a row" if "**" in stripped else None


def _exists_flaw(operand: Any) -> str | None:
    return None if isinstance(operand, bool) else "it takes true or false"


def _anything_but_flaw(operand: Any) -> str | None:
    if isinstance(operand, Mapping):
        if len(operand) != 1 or next(iter(operand)) not in NEGATED:
            return f"the filter in it must be one of {', '.join(NEGATED)}"
        ((word, inner),) = operand.items()
        found = (NEGATED[word](one) for one in (inner if isinstance(inner, list) and inner else [inner]))
        return next((flaw for flaw in found if flaw), None)
    listed = operand if isinstance(operand, list) else [operand]
    kinds = {_kind(one) if not isinstance(one, list | Mapping) else "list" for one in listed}
    return (
        None
        if len(kinds) == 1 and kinds <= {"text", "number"}
        else "it takes a text, a number, or a list of only texts or only numbers"
    )


FILTERS: Final[Mapping[str, _Filter]] = {
    "prefix": _Filter(lambda operand, value: _folded(operand, value, str.startswith), _affix_flaw),
    "suffix": _Filter(lambda operand, value: _folded(operand, value, str.endswith), _affix_flaw),
    "equals-ignore-case": _Filter(
        lambda operand, value: isinstance(value, str) and value.casefold() == operand.casefold(), _text_flaw
    ),
    "wildcard": _Filter(_wildcard, _wildcard_flaw),
    "anything-but": _Filter(_anything_but, _anything_but_flaw),
    "numeric": _Filter(_numeric, _numeric_flaw),
    "cidr": _Filter(_in_network, _network_flaw),
    "exists": _Filter(lambda operand, value: operand is True, _exists_flaw),
}
NEGATED: Final[Mapping[str, Callable[[Any], str | None]]] = {
    "prefix": _text_flaw,
    "suffix": _text_flaw,
    "equals-ignore-case": _text_flaw,
    "wildcard": _wildcard_flaw,
}
"""The filters allowed within `anything-but`: one text each, or a list of which none may match."""


def _either_flaws(wanted: Any, at: tuple[str | int, ...]) -> Iterator[Flaw]:
    if not isinstance(wanted, list) or len(wanted) < 2:
        yield Flaw(at, "$or must be a list of two mappings or more: a match of one is enough")
        return
    for index, one in enumerate(wanted):
        yield from flaws(one, (*at, index))


def _value_flaws(one: Any, at: tuple[str | int, ...]) -> Iterator[Flaw]:
    if isinstance(one, Mapping):
        if len(one) != 1:
            yield Flaw(at, "a filter must be a mapping of one key", tuple(FILTERS))
            return
        ((word, operand),) = one.items()
        if word not in FILTERS:
            yield Flaw((*at, str(word)), f"there is no filter {str(word)!r}", tuple(FILTERS))
            return
        flaw = FILTERS[word].flaw(operand)
        if flaw:
            yield Flaw((*at, word), f"{word}: {flaw}")
    elif isinstance(one, list):
        yield Flaw(at, "a value cannot be a list: write its items beside the others")
    elif isinstance(one, float) and not math.isfinite(one):
        yield Flaw(at, "a number must be finite")
    elif not isinstance(one, str | int | float | None):
        yield Flaw(at, f"a value must be a text, a number, true, false or null, not {type(one).__name__} (quote it)")
