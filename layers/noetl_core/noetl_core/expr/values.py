"""The types of values that templates see besides JSON data, and the names of all types for messages."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from jinja2.runtime import LoopContext, Macro
from jinja2.utils import Namespace

from noetl_core.values.outlines import Part

SCALARS: Final = frozenset({str, int, float, bool, type(None)})
LOOP_ATTRIBUTES: Final = frozenset(
    {"index", "index0", "revindex", "revindex0", "first", "last", "length", "previtem", "nextitem", "depth", "depth0"}
)
"""The attributes of `loop` in a `for`."""


class Function:
    """A function templates may call: `run(evaluation, *args, **kwargs)`."""

    __slots__ = ("name", "run")

    def __init__(self, name: str, run: Callable[..., Any]) -> None:
        self.name = name
        self.run = run


class Group(tuple[Any, Any]):
    """An item of `groupby`: it unpacks as a pair and has `group.grouper` and `group.list`."""

    __slots__ = ()


class Method:
    """A read-only method of a string, list or mapping, bound to it: `run(evaluation, value, *args, **kwargs)`."""

    __slots__ = ("name", "run", "value")

    def __init__(self, name: str, value: Any, run: Callable[..., Any]) -> None:
        self.name = name
        self.value = value
        self.run = run


_WORDS: Final[Mapping[type, str]] = {
    dict: "mapping", list: "list", tuple: "list", range: "list", Group: "list",
    str: "text", int: "number", float: "number", bool: "boolean",
    type(None): "null", Function: "function", Method: "method", Macro: "macro", LoopContext: "loop", Namespace: "namespace",
}  # fmt: skip


def describe(value: Any) -> str:
    """Return the type of `value` in words for authors."""
    return _WORDS.get(value.kind if isinstance(value, Part) else type(value), "value that is not plain data")


def json_key(key: Any) -> str:
    """Return a mapping's key as JSON writes it."""
    if type(key) is str:
        return key
    if key is None:
        return "null"
    if type(key) is bool:
        return "true" if key else "false"
    return str(key)
