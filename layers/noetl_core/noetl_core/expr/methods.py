"""The methods of strings, lists and mappings that templates may call: those that only read.

All sizes are counted before the result is built.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from jinja2.runtime import LoopContext

from noetl_core.expr.budget import width
from noetl_core.expr.errors import LimitExceeded, TemplateError
from noetl_core.expr.evaluation_limits import FIELD_WIDTH
from noetl_core.expr.formatting import str_format
from noetl_core.expr.operators import compare
from noetl_core.expr.reading import Reading
from noetl_core.expr.values import SCALARS, Group
from noetl_core.expr.views import NO_VIEW, view
from noetl_core.values.outlines import Part

Run = Callable[..., Any]

WHITESPACE: Final = " \t\n\r\v\f"
LINE_ENDS: Final = "\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029"


def find(value: Any, name: str) -> Run | None:
    """Return the method `name` of `value`; it is called with the evaluation and the value first. None if there is none."""
    kind = type(value)
    if kind is str:
        return STR.get(name)
    if kind is dict:
        return DICT.get(name)
    if kind is list or kind is tuple or kind is Group:
        return LIST.get(name)
    if isinstance(value, Mapping):
        return DICT.get(name)
    if isinstance(value, Part):
        return PART.get(name) if value.kind is dict else _of_whole(LIST.get(name))
    return None


def _of_whole(method: Run | None) -> Run | None:
    """Return a method that loads the whole value of a part first."""
    return method and (lambda ev, value, *args: method(ev, ev.read(value), *args))


def _native(name: str) -> Run:
    """Return a string method whose result is about as long as the string."""
    method = getattr(str, name)

    def run(ev: Reading, value: str, *args: Any, **kwargs: Any) -> Any:
        args = _arguments(ev, args)
        ev.charge_text(value, 3 if name in ("upper", "casefold", "title", "capitalize", "swapcase", "lower") else 1)
        return method(value, *args, **kwargs)

    return run


def _query(name: str) -> Run:
    """Return a string method that returns a boolean or a number."""
    method = getattr(str, name)

    def run(ev: Reading, value: str, *args: Any) -> Any:
        ev.tick(len(value) >> 8)
        return method(value, *_arguments(ev, args))

    return run


def _arguments(ev: Reading, args: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(tuple(a) if type(a) is list else a for a in map(ev.read, args))


def _padded(name: str) -> Run:
    method = getattr(str, name)

    def run(ev: Reading, value: str, columns: Any, *fill: Any) -> Any:
        filling = _arguments(ev, fill)
        ev.charge_joined(max(len(value), bounded(columns)), value, *(one for one in filling if type(one) is str))
        return method(value, int(columns), *filling)

    return run


def bounded(columns: Any) -> int:
    """Return a checked width."""
    if type(columns) not in (int, bool):
        raise TemplateError("a width must be a whole number")
    if columns > FIELD_WIDTH:
        raise LimitExceeded(f"a width of more than {FIELD_WIDTH} characters")
    return int(columns)


def _replace(ev: Reading, value: str, old: Any, new: Any, count: Any = -1) -> str:
    old, new, count = ev.read(old), ev.read(new), ev.read(count)
    if type(old) is not str or type(new) is not str or type(count) is not int:
        raise TemplateError("replace takes two texts and an optional count")
    return replace(ev, value, old, new, count)


def replace(ev: Reading, value: str, old: str, new: str, count: int = -1) -> str:
    """Return `value` with `old` replaced by `new`, at most `count` times (-1: always)."""
    ev.tick(len(value) >> 8)
    found = value.count(old) if count < 0 else min(value.count(old), count)
    ev.charge_joined(len(value) + found * max(len(new) - len(old), 0), value, new)
    return value.replace(old, new, count)


def _split(name: str) -> Run:
    method = getattr(str, name)

    def run(ev: Reading, value: str, sep: Any = None, maxsplit: Any = -1) -> Any:
        sep, maxsplit = ev.read(sep), ev.read(maxsplit)
        ev.tick(len(value) >> 8)
        pieces = sum(value.count(c) for c in WHITESPACE) if sep is None else value.count(sep)
        ev.charge_text(value)
        ev.charge_pieces((pieces if maxsplit < 0 else min(pieces, maxsplit)) + 1)
        return method(value, sep, maxsplit)

    return run


def _splitlines(ev: Reading, value: str, keepends: Any = False) -> Any:
    ev.charge_text(value)
    ev.charge_pieces(sum(value.count(c) for c in LINE_ENDS) + 1)
    return value.splitlines(bool(keepends))


def _partition(name: str) -> Run:
    method = getattr(str, name)

    def run(ev: Reading, value: str, sep: Any) -> Any:
        ev.charge_text(value)
        return list(method(value, ev.read(sep)))

    return run


def _expandtabs(ev: Reading, value: str, tabsize: Any = 8) -> str:
    ev.charge(len(value) + value.count("\t") * max(bounded(tabsize), 0))
    return value.expandtabs(int(tabsize))


def _join(ev: Reading, value: str, items: Any) -> str:
    return join(ev, ev.each(items), value)


def join(ev: Reading, items: Any, separator: str = "") -> str:
    """Return the texts of `items` with `separator` between them."""
    pieces = []
    total, widest = 0, width(separator)
    for item in items:
        piece = ev.text(item)
        ev.charge(len(piece) + len(separator))
        total += len(piece) + len(separator)
        widest = max(widest, width(piece))
        pieces.append(piece)
    ev.charge(total * (widest - 1))
    return separator.join(pieces)


def _zfill(ev: Reading, value: str, columns: Any) -> str:
    ev.charge_joined(max(len(value), bounded(columns)), value)
    return value.zfill(int(columns))


STR: Final[Mapping[str, Run]] = {
    **{
        n: _native(n)
        for n in (
            "capitalize", "casefold", "lower", "upper", "title", "swapcase", "strip", "lstrip", "rstrip", "removeprefix",
            "removesuffix",
        )
    },
    **{
        n: _query(n)
        for n in (
            "count", "endswith", "find", "index", "isalnum", "isalpha", "isascii", "isdecimal", "isdigit", "isidentifier",
            "islower", "isnumeric", "isspace", "istitle", "isupper", "rfind", "rindex", "startswith",
        )
    },
    **{n: _padded(n) for n in ("center", "ljust", "rjust")},
    "zfill": _zfill,
    "replace": _replace,
    "split": _split("split"),
    "rsplit": _split("rsplit"),
    "splitlines": _splitlines,
    "partition": _partition("partition"),
    "rpartition": _partition("rpartition"),
    "expandtabs": _expandtabs,
    "join": _join,
    "format": str_format,
}  # fmt: skip


def _items(ev: Reading, value: Mapping[Any, Any]) -> list[list[Any]]:
    ev.charge_items(len(value) * 4)
    return [[k, ev.enter(v)] for k, v in value.items()]


def _keys(ev: Reading, value: Mapping[Any, Any]) -> list[Any]:
    ev.charge_items(len(value))
    return list(value)


def _values(ev: Reading, value: Mapping[Any, Any]) -> list[Any]:
    ev.charge_items(len(value))
    return [ev.enter(v) for v in value.values()]


def _get(ev: Reading, value: Mapping[Any, Any], key: Any, default: Any = None) -> Any:
    key = ev.read(key)
    if type(key) in SCALARS and key in value:
        return ev.enter(value[key])
    found = view(value, key) if type(key) is str else NO_VIEW
    return default if found is NO_VIEW else ev.enter(found)


DICT: Final[Mapping[str, Run]] = {"items": _items, "keys": _keys, "values": _values, "get": _get}
METHODS: Final = frozenset(DICT)
"""Methods of mappings: `steps.items()` reads every step, unless a step has that name."""


def _part_keys(ev: Reading, value: Part) -> list[Any]:
    ev.charge_items(len(value))
    return list(value.keys())


def _part_get(ev: Reading, value: Part, key: Any, default: Any = None) -> Any:
    key = ev.read(key)
    if type(key) is not str:
        return default
    if key in value:
        return ev.getitem(value, key)
    found = ev.of_part(lambda: view(value, key))
    return default if found is NO_VIEW else ev.enter(found)


PART: Final[Mapping[str, Run | None]] = {
    "items": _of_whole(_items), "values": _of_whole(_values), "keys": _part_keys, "get": _part_get,
}  # fmt: skip


def _index(ev: Reading, value: Any, item: Any) -> int:
    for position, other in enumerate(ev.each(value)):
        if compare(ev, "eq", item, other):
            return position
    raise TemplateError("index: the item is not in the list")


def _count(ev: Reading, value: Any, item: Any) -> int:
    return sum(compare(ev, "eq", item, other) for other in ev.each(value))


LIST: Final[Mapping[str, Run]] = {"index": _index, "count": _count}


def loop_cycle(ev: Reading, loop: LoopContext, *values: Any) -> Any:
    """`loop.cycle(a, b)`."""
    return loop.cycle(*values)


def loop_changed(ev: Reading, loop: LoopContext, *values: Any) -> bool:
    """`loop.changed(value)`."""
    return loop.changed(*(ev.plain(v) for v in values))
