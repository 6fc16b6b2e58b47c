"""JSON Schemas of the types, fields and blocks in the tables of `dsl.fields`.

A block that occurs once is written out where it stands; the others are references to definitions, which `dsl.schema` writes.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable
from typing import Any, Final

from noetl_core.dsl.fields import flow, playbook, tools, triggers, value_schema
from noetl_core.dsl.fields.types import (
    Anything,
    Block,
    Choice,
    Code,
    Condition,
    Duration,
    Field,
    Flag,
    ListOf,
    Name,
    Part,
    Prose,
    Shape,
    Text,
    Type,
    Values,
)
from noetl_core.dsl.kinds import ALL_OPTIONS
from noetl_core.dsl.model import UNSET
from noetl_core.dsl.numbers import DURATION, QUOTED, SCHEDULE_RATE, TIMEOUT, Range
from noetl_core.dsl.sections import requirements
from noetl_core.dsl.steps.secret_results import FIELD_PATH
from noetl_core.expr.compiled import PATTERN as TEMPLATE

Schema = dict[str, Any]

REFERENCE: Final = "language/"
"""The path of the language reference relative to docs/playbook.schema.json. The links of the tables begin with it."""

TEMPLATED: Final[Schema] = {"type": "string", "pattern": TEMPLATE}
TEXT: Final[Schema] = {"type": "string", "minLength": 1}
MAPPING: Final[Schema] = {"type": "object"}
BOOLEAN: Final[Schema] = {"type": "boolean"}
_COUNT: Final[Schema] = {"type": "integer", "minimum": 0}
FREE_KEYS: Final[Schema] = {"^x-": True}


def page_link(link: str) -> str:
    """Return a link of the tables as seen from docs/playbook.schema.json."""
    return posixpath.normpath(REFERENCE + link)


def property_schema(field: Field, page: str, doc: str = "", type_: Schema | None = None, *, required: bool = False) -> Schema:
    """Return the schema of a field with its description, its link and its default. `page`: where its block is explained.
    `required`: the field is, alone or as one of several."""
    words = doc or field.doc
    if field.otherwise:
        words += f" Default: {field.otherwise}."
    elif field.default is UNSET and field.effect and not (required or field.required or field.same_as):
        words += " Default: none."
    out: Schema = {"description": f"{words}\n{page_link(field.link or page)}"}
    if field.default is not UNSET:
        whole = isinstance(field.default, float) and field.default.is_integer()
        out["default"] = int(field.default) if whole else field.default
    return out | (type_schema(field.type) if type_ is None else type_)


def type_schema(of: Type) -> Schema:
    """Return the schema of a type."""
    match of:
        case Text(pattern):
            return TEXT if pattern is None else {"type": "string", "pattern": pattern_of(pattern)}
        case Prose():
            return {"type": ["string", "null"]}
        case Name():
            return reference("name")
        case Choice(words, template):
            return {"anyOf": [{"enum": sorted(words)}, TEMPLATED]} if template else {"enum": list(words)}
        case Flag(template):
            return {"anyOf": [BOOLEAN, TEMPLATED]} if template else BOOLEAN
        case Duration(allowed):
            text = {"type": "string", "pattern": pattern_of(DURATION)}
            return {"anyOf": [allowed.schema(), text, *([TEMPLATED] if allowed.template else [])]}
        case Condition():
            return {"anyOf": [TEMPLATED, BOOLEAN, {"enum": ["true", "false"]}]}
        case Values(whole):
            return {"anyOf": [{"type": ["object", "null"]}, TEMPLATED]} if whole else MAPPING
        case Code():
            return TEXT
        case Anything():
            return {}
        case Shape(name):
            return _SHAPES.get(name) or reference(name)
        case ListOf(item, least):
            items = reference(item.name)
            return {"type": "array", "minItems": least, "items": items} if least else {"type": "array", "items": items}
        case Part(block):
            return reference(block.name)
        case Block():
            out = block_schema(of)
            out.pop("description")
            return out
        case Range():
            return reference("seconds") if of is TIMEOUT else number_schema(of)


def number_schema(allowed: Range) -> Schema:
    """Return the schema of a number, in all forms in which it may be written."""
    others = [
        *([TEMPLATED] if allowed.template else []),
        *([{"type": "string", "pattern": pattern_of(DURATION) if allowed.time else f"^{QUOTED}$"}] if allowed.quoted else []),
        *([{"type": "null"}] if allowed.null else []),
        *([BOOLEAN] if allowed.switch else []),
    ]
    return {"anyOf": [allowed.schema(), *others]} if others else allowed.schema()


def block_schema(block: Block, *names: str, required: Iterable[str] | None = None, **types: Schema) -> Schema:
    """Return the schema of a mapping with the fields of a block, or some of them, and free `x-` keys. `types` replace those
    of the table."""
    must = frozenset(required or ())
    properties = {
        name: property_schema(block[name], block.link, type_=types.get(name), required=name in must)
        for name in names or block.by_name
    }
    if block.layered:
        below = "{} Holds for all tasks below that do not say it themselves."
        options = {name: property_schema(o, block.link, below.format(o.doc)) for name, o in ALL_OPTIONS.items()}
        properties = {**options, **properties}
    out: Schema = {"type": "object", "description": f"{block.doc}\n{page_link(block.link)}", "properties": properties}
    if not block.open:
        out |= {"patternProperties": FREE_KEYS, "additionalProperties": False}
    keys = [f.name for f in block if f.required and f.name in properties] if required is None else list(required)
    return out | ({"required": sorted(keys)} if keys else {})


def reference(name: str) -> Schema:
    """Return a reference to a definition of `dsl.schema`."""
    return {"$ref": f"#/$defs/{name}"}


def pattern_of(regex: re.Pattern[str]) -> str:
    """Return the pattern that a whole text must match, as JSON Schema writes it."""
    return "^" + regex.pattern.removesuffix(r"\Z") + "$"


_SHAPES: Final[dict[str, Schema]] = {
    "api_version": {"enum": list(playbook.API_VERSIONS)},
    "playbook_kind": {"const": "Playbook"},
    "workload": {"type": "object", "properties": {value_schema.X_SCHEMA.name: property_schema(value_schema.X_SCHEMA, "")}},
    "collection": {"anyOf": [{"type": ["array", "object"]}, TEMPLATED]},
    "settled": {"anyOf": [MAPPING, TEXT]},
    "reducers": {"type": "object", "additionalProperties": {"enum": list(flow.REDUCERS)}},
    "dedupe": {"anyOf": [BOOLEAN, TEMPLATED, {"type": "null"}]},
    "libraries": {
        "anyOf": [
            {
                "type": ["object", "null"],
                "propertyNames": {"pattern": r"^[^\W\d]\w*$"},
                "additionalProperties": {"anyOf": [TEXT, block_schema(tools.LIBRARY)]},
            },
            {"type": "array"},
            TEMPLATED,
        ]
    },
    "rate": {"anyOf": [SCHEDULE_RATE.schema(), {"type": "string", "pattern": pattern_of(triggers.RATE_TEXT)}]},
    "requirements": {"type": "array", "maxItems": requirements.MOST, "items": TEXT},
    "tools": {"type": "object", "additionalProperties": {"anyOf": [reference("tool"), block_schema(playbook.SHARED_TASK)]}},
    "texts": {"type": "array", "items": {"type": "string"}},
    "secret_fields": {
        "anyOf": [BOOLEAN, {"type": "array", "minItems": 1, "items": {"type": "string", "pattern": FIELD_PATH.pattern}}]
    },
    "some_values": {"type": "array", "minItems": 1},
    "value_schemas": {"type": "object", "additionalProperties": reference("value_schema")},
    "count": _COUNT,
    "number": {"type": "number"},
}
"""Forms that are written out where they stand; the others are definitions."""
