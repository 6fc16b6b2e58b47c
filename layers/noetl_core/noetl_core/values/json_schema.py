"""A subset of JSON Schema: for answers to `kind: callback` (docs/callbacks.md), and for workloads (`x-schema`).

The subset suffices for forms and approvals. A keyword outside of it is refused, not ignored. `pattern` is left out on purpose:
answers are untrusted, and a regular expression may run forever on such text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import date, datetime, time
from itertools import islice
from typing import Any, Final

_WORDS: Final = (
    "type enum const required properties additionalProperties items minItems maxItems minLength maxLength minimum maximum format"
)
KEYWORDS: Final = frozenset([*_WORDS.split(), "title", "description", "default", "examples"])
TYPES: Final[dict[str, type | tuple[type, ...]]] = {
    "object": Mapping,
    "array": list,
    "string": str,
    "number": (int, float),
    "integer": int,
    "boolean": bool,
    "null": type(None),
}
FORMATS: Final[Mapping[str, Callable[[str], object]]] = {
    "date": lambda text: len(text) == 10 and date.fromisoformat(text),
    "date-time": lambda text: len(text) > 10 and datetime.fromisoformat(text),
    "time": time.fromisoformat,
    "email": lambda text: text.count("@") == 1 and text.isprintable() and " " not in text and all(text.split("@")),
    "multiline": lambda text: True,
    "credential": lambda text: bool(text) and text.isprintable() and " " not in text,
}
"""Tests of formats of texts: a text without the format gives False, or `ValueError`."""
MAX_DEPTH: Final = 16
TOLD: Final = 20
"""The most findings about one value, because untrusted values may have millions."""
SHOWN: Final = 200
"""The most characters of a name or a value in a finding."""


_TYPE_NAMES: Final = ", ".join(TYPES)
_COUNT: Final = ("a whole number of at least 0", lambda v: (type(v) is int or (type(v) is float and v.is_integer())) and v >= 0)
_NUMBER: Final = ("a number", lambda v: type(v) in (int, float))
_SHAPES: Final[Mapping[str, tuple[str, Callable[[Any], bool]]]] = {
    "type": (
        f"one of {_TYPE_NAMES}, or a list of them",
        lambda v: bool(v) and all(isinstance(n, str) and n in TYPES for n in _names(v)),
    ),
    "enum": ("a list of values", lambda v: isinstance(v, list) and bool(v)),
    "required": ("a list of names", lambda v: isinstance(v, list) and all(isinstance(n, str) for n in v)),
    "properties": ("a mapping of names to schemas", lambda v: isinstance(v, Mapping)),
    "additionalProperties": ("true or false", lambda v: isinstance(v, bool)),
    "format": (f"one of {', '.join(FORMATS)}", lambda v: isinstance(v, str) and v in FORMATS),
    **dict.fromkeys(("minItems", "maxItems", "minLength", "maxLength"), _COUNT),
    **dict.fromkeys(("minimum", "maximum"), _NUMBER),
}
"""The requirement for the value of a keyword, in words and as a test."""


class BadSchema(ValueError):
    """The schema uses something outside the subset. `path` leads to it in the schema. Who acts: the author."""

    def __init__(self, message: str, path: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.path = path


def check_schema(schema: Any, where: str = "schema", path: tuple[str, ...] = ()) -> None:
    """Raise `BadSchema` for a schema that `problems` cannot apply. `path` leads to it in a schema around it."""
    if not isinstance(schema, Mapping) or len(path) > 2 * MAX_DEPTH:
        raise BadSchema(f"{where} must be a mapping, nested {MAX_DEPTH} deep at most", path)
    unknown = sorted(set(schema) - KEYWORDS)
    if unknown:
        supported = ", ".join(sorted(KEYWORDS))
        raise BadSchema(
            f"{where}: keyword {unknown[0]!r} is not supported; the supported ones are {supported}", (*path, str(unknown[0]))
        )
    for keyword, value in schema.items():
        shape = _SHAPES.get(keyword)
        if shape is not None and not shape[1](value):
            raise BadSchema(f"{where}: {keyword} is {shape[0]}, not {value!r:.80}", (*path, keyword))
    for name, part in schema.get("properties", {}).items():
        check_schema(part, f"{where}.{name}", (*path, "properties", name))
    if "items" in schema:
        check_schema(schema["items"], f"{where}[]", (*path, "items"))


def problems(value: Any, schema: Mapping[str, Any], where: str = "the answer") -> list[str]:
    """Return the errors in `value`, in words: at most `TOLD` of them, none if it conforms. `schema` has passed
    `check_schema`."""
    return list(islice(_problems(value, schema, where), TOLD))


def _problems(value: Any, schema: Mapping[str, Any], where: str) -> Iterator[str]:
    names = _names(schema.get("type", []))
    if names and not any(_is(value, name) for name in names):
        yield f"{where} is {_name_of(value)}, not {' or '.join(names)}"
        return
    if "enum" in schema and not any(_equal(value, known) for known in schema["enum"]):
        yield f"{where} is none of {_excerpt(list(schema['enum']))}"
    if "const" in schema and not _equal(value, schema["const"]):
        yield f"{where} is not {_excerpt(schema['const'])}"
    if isinstance(value, Mapping):
        yield from _object(value, schema, where)
    elif isinstance(value, list):
        yield from _bounds(len(value), schema.get("minItems"), schema.get("maxItems"), f"the length of {where}")
        if "items" in schema:
            for n, item in enumerate(value):
                yield from _problems(item, schema["items"], f"{where}[{n}]")
    elif isinstance(value, str):
        yield from _bounds(len(value), schema.get("minLength"), schema.get("maxLength"), f"the length of {where}")
        if (name := schema.get("format")) is not None and not _has_format(value, name):
            yield f"{where} is not a {name}"
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield from _bounds(value, schema.get("minimum"), schema.get("maximum"), where)


def _object(value: Mapping[str, Any], schema: Mapping[str, Any], where: str) -> Iterator[str]:
    parts = schema.get("properties") or {}
    yield from (f"{where} has no {_excerpt(name)}" for name in schema.get("required") or () if name not in value)
    if schema.get("additionalProperties") is False:
        yield from (f"{where} has {_excerpt(name)}, which the schema does not allow" for name in value if name not in parts)
    for name, part in parts.items():
        if name in value:
            yield from _problems(value[name], part, f"{where}.{name}")


def _has_format(text: str, name: str) -> bool:
    try:
        return FORMATS[name](text) is not False
    except ValueError:
        return False


def _excerpt(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}..."


def _equal(value: Any, known: Any) -> bool:
    """Compare as JSON Schema does: 1 and 1.0 are the same number, and neither equals true."""
    if isinstance(value, bool) or isinstance(known, bool):
        return value is known
    if isinstance(value, list) and isinstance(known, list):
        return len(value) == len(known) and all(map(_equal, value, known))
    if isinstance(value, Mapping) and isinstance(known, Mapping):
        return value.keys() == known.keys() and all(_equal(value[k], known[k]) for k in known)
    return bool(value == known)


def _bounds(value: float, low: float | None, high: float | None, where: str) -> Iterator[str]:
    if low is not None and value < low:
        yield f"{where} is below {low}"
    elif high is not None and value > high:
        yield f"{where} is above {high}"


def _names(kind: Any) -> Sequence[Any]:
    return kind if isinstance(kind, list) else [kind]


def _is(value: Any, name: str) -> bool:
    if isinstance(value, bool):
        return name == "boolean"
    if name == "integer" and isinstance(value, float):
        return value.is_integer()
    return isinstance(value, TYPES[name])


def _name_of(value: Any) -> str:
    return next(
        (name for name in ("null", "boolean", "integer", "number", "string", "array", "object") if _is(value, name)), "unknown"
    )
