"""`frozen` and `mutable`: the decorators of classes that are their fields.

`frozen` is like `dataclass(frozen=True, slots=True)` and `mutable` like `dataclass(slots=True)`, with two measurable differences.
Only the type checker refuses changes of frozen values, because refusing them at run time takes a call for each field, and a step
creates some forty values. And no methods are generated when a class is defined: `__init__` is with its first object, the others
are shared. A process defines 180 such classes at its start and uses a part of them, and generating their methods took a quarter
of that time. Use `dataclasses.replace` for a changed value.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, dataclass, field, fields
from operator import attrgetter
from typing import Any, TypeVar, cast, dataclass_transform

Value = TypeVar("Value")


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def frozen(cls: type[Value]) -> type[Value]:
    """Make a class a dataclass with slots that is compared and hashed by its fields, and immutable for type-checked code."""
    made, compared = _made(cls)

    def __hash__(self: Any) -> int:
        return hash(compared(self))

    if "__hash__" not in cls.__dict__:
        made.__hash__ = __hash__
    return cast("type[Value]", made)


@dataclass_transform(field_specifiers=(field,))
def mutable(cls: type[Value]) -> type[Value]:
    """Make a class a dataclass with slots that is compared by its fields, and has no hash."""
    made, _ = _made(cls)
    made.__hash__ = None
    return cast("type[Value]", made)


def _made(cls: type[Value]) -> tuple[Any, Callable[[Any], Any]]:
    """Return the class with slots and methods, and a function that returns the compared values of an object."""
    made: Any = dataclass(slots=True, init=False, repr=False, eq=False)(cls)
    compared = _getter([f.name for f in fields(made) if f.compare])
    names = [f.name for f in fields(made) if f.repr]

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        made.__init__ = _init_of(made)  # the class calls it directly from now on
        made.__init__(self, *args, **kwargs)

    def __eq__(self: Any, other: object) -> Any:
        return compared(self) == compared(other) if type(other) is type(self) else NotImplemented

    def __repr__(self: Any) -> str:
        return f"{made.__qualname__}({', '.join(f'{name}={getattr(self, name)!r}' for name in names)})"

    for method in (__init__, __eq__, __repr__):
        if method.__name__ not in cls.__dict__:
            setattr(made, method.__name__, method)
    return made, compared


def _init_of(made: Any) -> Callable[..., None]:
    """Return the `__init__` that `dataclass` would generate."""
    known: dict[str, Any] = {"_MISSING": MISSING}
    parameters, named_only, body = ["self"], list[str](), list[str]()
    for each in fields(made):
        name, value, default = each.name, each.name, ""
        if each.default is not MISSING:
            default = f"_default_{name}"
            known[default] = each.default
        elif each.default_factory is not MISSING:
            default = "_MISSING"
            known[f"_factory_{name}"] = each.default_factory
            value = f"_factory_{name}() if {name} is _MISSING else {name}"
        if each.init:
            (named_only if each.kw_only else parameters).append(f"{name}={default}" if default else name)
            body.append(f" self.{name}={value}")
        elif default:
            body.append(f" self.{name}={default if default != '_MISSING' else f'_factory_{name}()'}")
    if hasattr(made, "__post_init__"):
        body.append(" self.__post_init__()")
    parameters += ["*", *named_only] if named_only else []
    exec(f"def __init__({', '.join(parameters)}):\n" + "\n".join(body or [" pass"]), known)
    init: Callable[..., None] = known["__init__"]
    init.__qualname__ = f"{made.__qualname__}.__init__"
    return init


def _getter(names: list[str]) -> Callable[[Any], Any]:
    """Return a function that returns the values of these attributes in one call."""
    return attrgetter(*names) if names else lambda _: ()
