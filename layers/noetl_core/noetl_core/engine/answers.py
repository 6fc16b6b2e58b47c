"""What a `kind: callback` may be answered with: its `schema`, a plain subset of JSON Schema.

The subset is what forms and approvals need; a keyword that is not in it is refused, never ignored.
`pattern` is left out on purpose: what strangers send must not meet a regular expression that may take for ever.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

_WORDS: Final = (
    "type enum const required properties additionalProperties items minItems maxItems minLength maxLength minimum maximum"
)
KEYWORDS: Final = frozenset([*_WORDS.split(), "title", "description", "default", "examples"])
_TYPES: Final[dict[str, type | tuple[type, ...]]] = {
    "object": Mapping,
    "array": list,
    "string": str,
    "number": (int, float),
    "integer": int,
    "boolean": bool,
    "null": type(None),
}
MAX_DEPTH: Final = 16


class BadSchema(ValueError):
    """The schema is not of the subset. Who acts: the author."""


def check_schema(schema: Any, where: str = "schema", depth: int = 0) -> None:
    """Raises `BadSchema` for what `problems` would not understand."""
    if not isinstance(schema, Mapping) or depth > MAX_DEPTH:
        raise BadSchema(f"{where} must be a mapping, nested {MAX_DEPTH} deep at most")
    unknown = sorted(set(schema) - KEYWORDS)
    if unknown:
        raise BadSchema(f"{where}: keyword {unknown[0]!r} is not supported; there are {', '.join(sorted(KEYWORDS))}")
    names = _names(schema.get("type", []))
    if not set(names) <= set(_TYPES):
        raise BadSchema(f"{where}: type {schema['type']!r} is unknown")
    for name, part in (schema.get("properties") or {}).items():
        check_schema(part, f"{where}.{name}", depth + 1)
    if "items" in schema:
        check_schema(schema["items"], f"{where}[]", depth + 1)


def problems(value: Any, schema: Mapping[str, Any], where: str = "the answer") -> list[str]:
    """What is wrong with `value`, in words; nothing when it conforms. `schema` has passed `check_schema`."""
    names = _names(schema.get("type", []))
    if names and not any(_is(value, name) for name in names):
        return [f"{where} is {_name_of(value)}, not {' or '.join(names)}"]
    found = []
    if "enum" in schema and value not in schema["enum"]:
        found.append(f"{where} is none of {list(schema['enum'])!r}")
    if "const" in schema and value != schema["const"]:
        found.append(f"{where} is not {schema['const']!r}")
    if isinstance(value, Mapping):
        found += _object(value, schema, where)
    elif isinstance(value, list):
        found += _bounds(len(value), schema.get("minItems"), schema.get("maxItems"), f"the length of {where}")
        if "items" in schema:
            found += [p for n, item in enumerate(value) for p in problems(item, schema["items"], f"{where}[{n}]")]
    elif isinstance(value, str):
        found += _bounds(len(value), schema.get("minLength"), schema.get("maxLength"), f"the length of {where}")
    elif isinstance(value, int | float) and not isinstance(value, bool):
        found += _bounds(value, schema.get("minimum"), schema.get("maximum"), where)
    return found


def _object(value: Mapping[str, Any], schema: Mapping[str, Any], where: str) -> list[str]:
    parts = schema.get("properties") or {}
    found = [f"{where} has no {name!r}" for name in schema.get("required") or () if name not in value]
    if schema.get("additionalProperties") is False:
        found += [f"{where} has {name!r}, which is not asked for" for name in value if name not in parts]
    for name, part in parts.items():
        if name in value:
            found += problems(value[name], part, f"{where}.{name}")
    return found


def _bounds(value: float, low: float | None, high: float | None, where: str) -> list[str]:
    if low is not None and value < low:
        return [f"{where} is below {low}"]
    return [f"{where} is above {high}"] if high is not None and value > high else []


def _names(kind: Any) -> Sequence[str]:
    return [kind] if isinstance(kind, str) else list(kind)


def _is(value: Any, name: str) -> bool:
    if isinstance(value, bool):
        return name == "boolean"
    if name == "integer" and isinstance(value, float):
        return value.is_integer()
    return isinstance(value, _TYPES[name])


def _name_of(value: Any) -> str:
    return next(
        (name for name in ("null", "boolean", "integer", "number", "string", "array", "object") if _is(value, name)), "unknown"
    )
