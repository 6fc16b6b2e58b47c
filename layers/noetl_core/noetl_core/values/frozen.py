"""`frozen`: the decorator of values.

It is like `dataclass(frozen=True, slots=True)` with two measurable differences. Only the type checker refuses changes, because
refusing them at run time takes a call for each field, and a step creates some forty values. And only `__init__` is generated, the
other methods are shared: a process defines 130 such classes at its start, and generating all methods took a quarter of that
time. Use `dataclasses.replace` for a changed value.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields
from operator import attrgetter
from typing import Any, TypeVar, cast, dataclass_transform

Value = TypeVar("Value")


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def frozen(cls: type[Value]) -> type[Value]:
    """Make a class a dataclass with slots that is compared and hashed by its fields, and immutable for type-checked code."""
    made: Any = dataclass(slots=True, repr=False, eq=False)(cls)
    compared = _getter([f.name for f in fields(made) if f.compare])
    shown = [f.name for f in fields(made) if f.repr]

    def __eq__(self: Any, other: object) -> Any:
        return compared(self) == compared(other) if type(other) is type(self) else NotImplemented

    def __hash__(self: Any) -> int:
        return hash(compared(self))

    def __repr__(self: Any) -> str:
        return f"{made.__qualname__}({', '.join(f'{name}={getattr(self, name)!r}' for name in shown)})"

    for method in (__eq__, __hash__, __repr__):
        if method.__name__ not in cls.__dict__:
            setattr(made, method.__name__, method)
    return cast("type[Value]", made)


def _getter(names: list[str]) -> Callable[[Any], Any]:
    """Return a function that returns the values of these attributes in one call."""
    return attrgetter(*names) if names else lambda _: ()
