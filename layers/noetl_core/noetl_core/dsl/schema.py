"""JSON Schema (2020-12) of a playbook, generated from the tables of fields that validation reads too, so that the two cannot
differ.

Editors complete, check and explain with it: each property has a description that ends with a link to the language reference,
and says what holds when it is left out. What a schema cannot express (names that must exist, templates, tool kinds installed
beside the engine) is left to `noetl validate`. `render` returns the content of `docs/playbook.schema.json`.
"""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Iterable
from typing import Any, Final

from noetl_core.dsl import requirements
from noetl_core.dsl.dialect.tasks import OPTION_SPELLINGS
from noetl_core.dsl.fields import cursor, flow, keychain, playbook, policies, sources, tools, triggers, value_schema
from noetl_core.dsl.fields.kind import KindSpec
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
    another,
)
from noetl_core.dsl.kinds import ALL_OPTIONS, COMMON_SPEC, KINDS
from noetl_core.dsl.model import UNSET
from noetl_core.dsl.numbers import DURATION, QUOTED, SCHEDULE_RATE, TIMEOUT, Range
from noetl_core.dsl.reader import NAME
from noetl_core.dsl.secret_results import FIELD_PATH
from noetl_core.dsl.tasks import RESERVED, TASK_FIELDS
from noetl_core.dsl.ways_in import MOST_HEADERS
from noetl_core.expr.compiled import PATTERN as TEMPLATE
from noetl_core.json_schema import TYPES

Schema = dict[str, Any]

ID: Final = "https://noetl.io/schema/playbook-v10.json"
REFERENCE: Final = "language/"
"""Where the pages of the language reference are, as seen from docs/playbook.schema.json: the tables link from there."""

_TEMPLATE: Final[Schema] = {"type": "string", "pattern": TEMPLATE}
_TEXT: Final[Schema] = {"type": "string", "minLength": 1}
_MAP: Final[Schema] = {"type": "object"}
_BOOL: Final[Schema] = {"type": "boolean"}
_COUNT: Final[Schema] = {"type": "integer", "minimum": 0}
_FREE: Final[Schema] = {"^x-": True}
_LABEL: Final[Schema] = {"type": "object", "patternProperties": _FREE}


def playbook_schema(docs: str = "") -> Schema:
    """Return the schema of a whole playbook, with links to pages of the documentation at `docs` (such as `https://host/docs/`)."""
    root = _block(playbook.ROOT)
    root.pop("description")
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": ID,
        "title": "NoETL playbook (DSL v10)",
        "description": f"A whole playbook.\n{_page('README.md')}",
        **root,
        "$defs": {**_values(), **_parts(), **_rules(), **_tasks()},
    }
    return _linked(schema, docs) if docs else schema


def _page(link: str) -> str:
    """Return a link of the tables as seen from docs/playbook.schema.json."""
    return posixpath.normpath(REFERENCE + link)


def _linked(part: Any, docs: str) -> Any:
    """Return a part of the schema whose links, the last lines of descriptions, begin with `docs`."""
    if isinstance(part, list):
        return [_linked(item, docs) for item in part]
    if not isinstance(part, dict):
        return part
    return {
        key: value.replace("\n", f"\n{docs}") if key == "description" and isinstance(value, str) else _linked(value, docs)
        for key, value in part.items()
    }


def render() -> str:
    """Return the schema as the text of the published file."""
    return json.dumps(playbook_schema(), indent=1, sort_keys=True) + "\n"


# --- fields -------------------------------------------------------------------------------------------------------------


def _property(field: Field, page: str, doc: str = "", type_: Schema | None = None, *, wanted: bool = False) -> Schema:
    """Return the schema of a field with its description, its link and its default. `page`: where its block is explained.
    `wanted`: it is required, alone or as one of several."""
    words = doc or field.doc
    if field.otherwise:
        words += f" Default: {field.otherwise}."
    elif field.default is UNSET and field.effect and not (wanted or field.required or field.same_as):
        words += " Default: none."
    out: Schema = {"description": f"{words}\n{_page(field.link or page)}"}
    if field.default is not UNSET:
        whole = isinstance(field.default, float) and field.default.is_integer()
        out["default"] = int(field.default) if whole else field.default
    return out | (_type(field.type) if type_ is None else type_)


def _type(of: Type) -> Schema:
    """Return the schema of a type."""
    match of:
        case Text(pattern):
            return _TEXT if pattern is None else {"type": "string", "pattern": _pattern(pattern)}
        case Prose():
            return {"type": ["string", "null"]}
        case Name():
            return _ref("name")
        case Choice(words, template):
            return {"anyOf": [{"enum": sorted(words)}, _TEMPLATE]} if template else {"enum": list(words)}
        case Flag(template):
            return {"anyOf": [_BOOL, _TEMPLATE]} if template else _BOOL
        case Duration(allowed):
            text = {"type": "string", "pattern": _pattern(DURATION)}
            return {"anyOf": [allowed.schema(), text, *([_TEMPLATE] if allowed.template else [])]}
        case Condition():
            return {"anyOf": [_TEMPLATE, _BOOL, {"enum": ["true", "false"]}]}
        case Values(whole):
            return {"anyOf": [{"type": ["object", "null"]}, _TEMPLATE]} if whole else _MAP
        case Code():
            return _TEXT
        case Anything():
            return {}
        case Shape(name):
            return _SHAPES.get(name) or _ref(name)
        case ListOf(item, least):
            items = _ref(item.name)
            return {"type": "array", "minItems": least, "items": items} if least else {"type": "array", "items": items}
        case Part(block):
            return _ref(block.name)
        case Block():
            out = _block(of)
            out.pop("description")
            return out
        case Range():
            return _ref("seconds") if of is TIMEOUT else _number(of)


def _number(allowed: Range) -> Schema:
    others = [
        *([_TEMPLATE] if allowed.template else []),
        *([{"type": "string", "pattern": _pattern(DURATION) if allowed.time else f"^{QUOTED}$"}] if allowed.quoted else []),
        *([{"type": "null"}] if allowed.null else []),
        *([_BOOL] if allowed.switch else []),
    ]
    return {"anyOf": [allowed.schema(), *others]} if others else allowed.schema()


def _block(block: Block, *names: str, required: Iterable[str] | None = None, **types: Schema) -> Schema:
    """Return the schema of a mapping with the fields of a block, or some of them, and free `x-` keys. `types` replace those
    of the table."""
    must = frozenset(required or ())
    properties = {
        name: _property(block[name], block.link, type_=types.get(name), wanted=name in must) for name in names or block.by_name
    }
    if block.layered:
        below = "{} Holds for all tasks below that do not say it themselves."
        options = {name: _property(o, block.link, below.format(o.doc)) for name, o in ALL_OPTIONS.items()}
        properties = {**options, **properties}
    out: Schema = {"type": "object", "description": f"{block.doc}\n{_page(block.link)}", "properties": properties}
    if not block.open:
        out |= {"patternProperties": _FREE, "additionalProperties": False}
    wanted = [f.name for f in block if f.required and f.name in properties] if required is None else list(required)
    return out | ({"required": sorted(wanted)} if wanted else {})


def _ref(name: str) -> Schema:
    return {"$ref": f"#/$defs/{name}"}


def _pattern(regex: re.Pattern[str]) -> str:
    return "^" + regex.pattern.removesuffix(r"\Z") + "$"


# --- definitions --------------------------------------------------------------------------------------------------------

_SHAPES: Final[dict[str, Schema]] = {
    "api_version": {"enum": list(playbook.API_VERSIONS)},
    "playbook_kind": {"const": "Playbook"},
    "workload": {"type": "object", "properties": {value_schema.X_SCHEMA.name: _property(value_schema.X_SCHEMA, "")}},
    "collection": {"anyOf": [{"type": ["array", "object"]}, _TEMPLATE]},
    "settled": {"anyOf": [_MAP, _TEXT]},
    "reducers": {"type": "object", "additionalProperties": {"enum": list(flow.REDUCERS)}},
    "dedupe": {"anyOf": [_BOOL, _TEMPLATE, {"type": "null"}]},
    "libraries": {
        "anyOf": [
            {
                "type": ["object", "null"],
                "propertyNames": {"pattern": r"^[^\W\d]\w*$"},
                "additionalProperties": {"anyOf": [_TEXT, _block(tools.LIBRARY)]},
            },
            {"type": "array"},
            _TEMPLATE,
        ]
    },
    "rate": {"anyOf": [SCHEDULE_RATE.schema(), {"type": "string", "pattern": _pattern(triggers.RATE_TEXT)}]},
    "requirements": {"type": "array", "maxItems": requirements.MOST, "items": _TEXT},
    "tools": {"type": "object", "additionalProperties": {"anyOf": [_ref("tool"), _block(playbook.SHARED_TASK)]}},
    "texts": {"type": "array", "items": {"type": "string"}},
    "secret_fields": {
        "anyOf": [_BOOL, {"type": "array", "minItems": 1, "items": {"type": "string", "pattern": FIELD_PATH.pattern}}]
    },
    "some_values": {"type": "array", "minItems": 1},
    "value_schemas": {"type": "object", "additionalProperties": _ref("value_schema")},
    "count": _COUNT,
    "number": {"type": "number"},
}
"""Forms that are written out where they stand; the others are definitions."""


def _values() -> dict[str, Schema]:
    """Return the definitions of single values, and of values with more than one form."""
    types: Schema = {"enum": sorted(TYPES)}
    return {
        "name": {"type": "string", "pattern": _pattern(NAME)},
        "seconds": _number(TIMEOUT),
        "timeout": {"anyOf": [_ref("seconds"), _block(tools.TIMEOUT_PARTS)]},
        "set": {"type": "object", "propertyNames": {"pattern": r"^((ctx|iter)\..|[^.]+$)"}},
        "type_names": {"anyOf": [types, {"type": "array", "minItems": 1, "items": types}]},
        "schedule": {"anyOf": [_TEXT, _block(triggers.RATE)]},
        "queue": {"anyOf": [_TEXT, _block(sources.QUEUE)]},
        "header_names": {"type": "array", "maxItems": MOST_HEADERS, "items": _TEXT},
        "join": {"anyOf": [{"enum": ["all", "any"]}, _block(flow.JOIN)]},
        "script": {"anyOf": [_TEXT, _block(tools.SCRIPT, required=[])]},
        "error": {"anyOf": [_block(policies.ERROR), {"not": _MAP}]},
        "compensation": {"anyOf": [_ref("pipeline"), _block(flow.COMPENSATION)]},
        "workbook": {
            "anyOf": [
                {"type": "null"},
                _block(playbook.WORKBOOK),
                {**_LABEL, "additionalProperties": {"anyOf": [_ref("tool"), _block(playbook.SHARED_TASK)]}},
                {"type": "array", "items": {"type": "object", "required": ["name"]}},
            ]
        },
    }


def _parts() -> dict[str, Schema]:
    """Return the definitions of mappings that occur in more than one place, or are read by themselves."""
    either = [{"required": ["tool"]}, {"required": ["next"]}, {"properties": {"step": {"const": "end"}}}]
    closed = {key: part for key, part in _block(value_schema.VALUE_SCHEMA).items() if key != "patternProperties"}
    return {
        "metadata": _block(playbook.METADATA),
        "credential": {
            "type": "object",
            "required": ["kind", "name"],
            "properties": {"kind": _property(keychain.KIND, keychain.PAGE)},
            "allOf": [
                *(
                    {"if": {"properties": {"kind": {"const": kind}}, "required": ["kind"]}, "then": _ref(block.name)}
                    for kind, block in keychain.KEYCHAIN.items()
                ),
                {
                    "if": {"properties": {"kind": {"enum": sorted(keychain.KEYCHAIN)}}, "required": ["kind"]},
                    "else": _block(keychain.CREDENTIAL),
                },
            ],
        },
        **{block.name: _block(block, kind={"const": kind}) for kind, block in keychain.KEYCHAIN.items()},
        "executor": _block(playbook.EXECUTOR),
        "step": _block(flow.STEP) | {"anyOf": either},
        "loop": _block(flow.LOOP) | {"anyOf": [{"required": ["in"]}, {"required": ["cursor"]}]},
        "cursor": _block(cursor.CURSOR),
        "trigger": _block(triggers.TRIGGER) | {"oneOf": [{"required": [source]} for source in triggers.SOURCES]},
        "webhook": _block(sources.WEBHOOK),
        "upload": _block(sources.UPLOAD),
        "router": _block(flow.ROUTER),
        "arc": _block(flow.ARC),
        "task_policy": _block(policies.TASK_POLICY) | {"anyOf": [{"required": ["rules"]}, {"required": ["rate"]}]},
        "admission": _block(policies.ADMISSION),
        "value_schema": closed,
    }


def _rules() -> dict[str, Schema]:
    """Return the definitions of rules and of their directives."""
    jump = {"if": {"properties": {"do": {"const": "jump"}}, "required": ["do"]}, "then": {"required": ["to"]}}
    return {
        "then": _block(policies.THEN) | jump,
        "rules": _rule_list(_ref("then")),
        "admission_rules": _rule_list(_block(policies.ALLOW)),
    }


def _rule_list(body: Schema) -> Schema:
    """Return the schema of rules whose `then` is `body`; `else` has three forms."""
    rule = policies.RULE
    inner = _block(rule, "then", required=["then"], then=body)
    return {
        "type": "array",
        "contains": {"required": ["else"]},
        "minContains": 0,
        "maxContains": 1,
        "items": {
            "anyOf": [
                _block(rule, "when", "then", required=["when", "then"], then=body),
                _block(rule, "else", required=["else"], **{"else": {"anyOf": [inner, body]}}),
                _block(rule, "else", "then", required=["else", "then"], then=body, **{"else": {"type": "null"}}),
            ]
        },
    }


def _tasks() -> dict[str, Schema]:
    """Return the definitions of tasks in all their forms."""
    choice = [
        _block(policies.CHOICE, "when", "then", required=["when", "then"]),
        _block(policies.CHOICE, "else", required=["else"]),
    ]
    labelled = {
        **_LABEL,
        "minProperties": 1,
        "not": {"anyOf": [{"required": [k]} for k in ("kind", "name", *policies.SUGAR)]},
        "additionalProperties": _ref("tool"),
    }
    named = {kind: _ref(f"{kind}_task") for kind in sorted(KINDS)}
    return {
        "pipeline": {"anyOf": [_ref("tool"), {"type": "array", "minItems": 1, "items": _ref("task")}]},
        "task": {
            "if": {"required": ["kind"]},
            "then": _ref("tool"),
            "else": {"anyOf": [labelled, *(_ref(name) for name in policies.SUGAR)]},
        },
        "tool": {
            "type": "object",
            "required": ["kind"],
            "properties": {"kind": _property(tools.TASK["kind"], tools.TASK.link, type_={"enum": sorted(KINDS)})},
            "allOf": [
                {"if": {"properties": {"kind": {"const": kind}}, "required": ["kind"]}, "then": ref}
                for kind, ref in named.items()
            ],
        },
        "choices": {"type": "array", "minItems": 1, "items": {"anyOf": choice}},
        **{name: _block(block) for name, block in policies.SUGAR.items()},
        **{f"{kind}_task": _kind(kind, spec) for kind, spec in KINDS.items()},
    }


def _kind(kind: str, spec: KindSpec) -> Schema:
    options = Block("options", "", spec.page, *tools.COMMON_OPTIONS, *spec.options, tools.POLICY_OF_TASK)
    below = _type(options)
    below["properties"] = {**_elsewhere(spec.fields, spec, "{} of the task"), **_spellings(spec, ""), **below["properties"]}
    types: dict[str, Schema] = {
        "kind": {"const": kind},
        "name": {"allOf": [_ref("name"), {"not": {"enum": sorted(RESERVED)}}]},
        "spec": below,
    }
    inputs = {field.name: field for field in spec.fields}
    common = {field.name: field for field in tools.TASK}
    if "args" in inputs:
        common["input"] = another(inputs["args"], "input")
    properties = {**_elsewhere(spec.options, spec, "spec.{}"), **_spellings(spec, "spec.")}
    one_of = frozenset().union(*spec.required)
    for name in sorted(TASK_FIELDS[kind]):
        if name in inputs:
            properties[name] = _property(inputs[name], spec.page, wanted=name in one_of)
        elif name in common:
            properties[name] = _property(common[name], tools.TASK.link, type_=types.get(name))
        else:
            properties[name] = _property(tools.OVERRIDE._replace(name=name), spec.page)
    out: Schema = {
        "type": "object",
        "properties": properties,
        "required": ["kind"],
        "patternProperties": _FREE,
        "additionalProperties": False,
    }
    demands = [_demand(group) for group in spec.required]
    return out | ({"allOf": demands} if demands else {})


def _demand(group: Iterable[str]) -> Schema:
    """Return what demands one of some inputs, beside `spec` or below it."""
    beside = [{"required": [key]} for key in sorted(group)]
    below = {"required": ["spec"], "properties": {"spec": {"anyOf": beside}}}
    return {"if": {"anyOf": [*beside, below]}, "else": False}


def _elsewhere(fields: Iterable[Field], spec: KindSpec, place: str) -> dict[str, Schema]:
    """Return fields where they are taken too: inputs below `spec`, options beside it."""
    said = "The same as `" + place + "`."
    return {f.name: {"description": f"{said.format(f.same_as or f.name)}\n{_page(f.link or spec.page)}"} for f in fields}


def _spellings(spec: KindSpec, place: str) -> dict[str, Schema]:
    """Return other names of options."""
    named = {
        name: own for name, own in (*OPTION_SPELLINGS.items(), ("timeout_seconds", "timeout")) if own in spec.spec | COMMON_SPEC
    }
    return {name: {"description": f"The same as `{place}{own}`.\n{_page(spec.page)}"} for name, own in named.items()}
