"""JSON Schema (2020-12) of a playbook, generated from the tables of fields that validation reads too, so that the two cannot
differ.

Editors complete, check and explain with it: each property has a description that ends with a link to the language reference,
and states its default. What a schema cannot express (names that must exist, templates, tool kinds installed
beside the engine) is left to `noetl validate`. `render` returns the content of `docs/playbook.schema.json`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, Final

from noetl_core.dsl.dialect.tasks import OPTION_SPELLINGS
from noetl_core.dsl.fields import cursor, failures, flow, keychain, playbook, policies, sources, tools, triggers, value_schema
from noetl_core.dsl.fields.kind import KindSpec
from noetl_core.dsl.fields.types import Block, Field, another
from noetl_core.dsl.kinds import COMMON_SPEC, KINDS
from noetl_core.dsl.numbers import TIMEOUT
from noetl_core.dsl.reading.reader import NAME
from noetl_core.dsl.schema_types import (
    FREE_KEYS,
    MAPPING,
    TEXT,
    Schema,
    block_schema,
    number_schema,
    page_link,
    pattern_of,
    property_schema,
    reference,
    type_schema,
)
from noetl_core.dsl.sections.inbound_triggers import MOST_HEADERS
from noetl_core.dsl.steps.tasks import RESERVED, TASK_FIELDS
from noetl_core.values.json_schema import FORMATS, TYPES

ID: Final = "https://noetl.io/schema/playbook-v10.json"

_LABEL: Final[Schema] = {"type": "object", "patternProperties": FREE_KEYS}


def playbook_schema(docs: str = "") -> Schema:
    """Return the schema of a whole playbook, with links to pages of the documentation at `docs` (such as `https://host/docs/`)."""
    root = block_schema(playbook.ROOT)
    root.pop("description")
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": ID,
        "title": "NoETL playbook (DSL v10)",
        "description": f"A whole playbook.\n{page_link('README.md')}",
        **root,
        "$defs": {**_values(), **_parts(), **_rules(), **_tasks()},
    }
    return _linked(schema, docs) if docs else schema


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


def _values() -> dict[str, Schema]:
    """Return the definitions of single values, and of values with more than one form."""
    types: Schema = {"enum": sorted(TYPES)}
    return {
        "name": {"type": "string", "pattern": pattern_of(NAME)},
        "seconds": number_schema(TIMEOUT),
        "timeout": {"anyOf": [reference("seconds"), block_schema(tools.TIMEOUT_PARTS)]},
        "set": {"type": "object", "propertyNames": {"pattern": r"^((ctx|iter)\..|[^.]+$)"}},
        "format": {"enum": sorted(FORMATS)},
        "type_names": {"anyOf": [types, {"type": "array", "minItems": 1, "items": types}]},
        "schedule": {"anyOf": [TEXT, block_schema(triggers.RATE)]},
        "queue": {"anyOf": [TEXT, block_schema(sources.QUEUE)]},
        "header_names": {"type": "array", "maxItems": MOST_HEADERS, "items": TEXT},
        "join": {"anyOf": [{"enum": ["all", "any"]}, block_schema(flow.JOIN)]},
        "script": {"anyOf": [TEXT, block_schema(tools.SCRIPT, required=[])]},
        "error": {"anyOf": [block_schema(policies.ERROR), {"not": MAPPING}]},
        "compensation": {"anyOf": [reference("pipeline"), block_schema(flow.COMPENSATION)]},
        "workbook": {
            "anyOf": [
                {"type": "null"},
                block_schema(playbook.WORKBOOK),
                {**_LABEL, "additionalProperties": {"anyOf": [reference("tool"), block_schema(playbook.SHARED_TASK)]}},
                {"type": "array", "items": {"type": "object", "required": ["name"]}},
            ]
        },
    }


def _parts() -> dict[str, Schema]:
    """Return the definitions of mappings that occur in more than one place, or are read by themselves."""
    either = [{"required": ["tool"]}, {"required": ["next"]}, {"properties": {"step": {"const": "end"}}}]
    closed = {key: part for key, part in block_schema(value_schema.VALUE_SCHEMA).items() if key != "patternProperties"}
    return {
        "metadata": block_schema(playbook.METADATA),
        "credential": {
            "type": "object",
            "required": ["kind", "name"],
            "properties": {"kind": property_schema(keychain.KIND, keychain.PAGE)},
            "allOf": [
                *(
                    {"if": {"properties": {"kind": {"const": kind}}, "required": ["kind"]}, "then": reference(block.name)}
                    for kind, block in keychain.KEYCHAIN.items()
                ),
                {
                    "if": {"properties": {"kind": {"enum": sorted(keychain.KEYCHAIN)}}, "required": ["kind"]},
                    "else": block_schema(keychain.CREDENTIAL),
                },
            ],
        },
        **{block.name: block_schema(block, kind={"const": kind}) for kind, block in keychain.KEYCHAIN.items()},
        "executor": block_schema(playbook.EXECUTOR),
        "on_failure": block_schema(failures.ON_FAILURE) | {"anyOf": [{"required": [who]} for who in failures.HANDLERS]},
        "step": block_schema(flow.STEP) | {"anyOf": either},
        "loop": block_schema(flow.LOOP) | {"anyOf": [{"required": ["in"]}, {"required": ["cursor"]}]},
        "cursor": block_schema(cursor.CURSOR),
        "trigger": block_schema(triggers.TRIGGER) | {"oneOf": [{"required": [source]} for source in triggers.SOURCES]},
        "webhook": block_schema(sources.WEBHOOK),
        "upload": block_schema(sources.UPLOAD),
        "router": block_schema(flow.ROUTER),
        "arc": block_schema(flow.ARC),
        "task_policy": block_schema(policies.TASK_POLICY) | {"anyOf": [{"required": ["rules"]}, {"required": ["rate"]}]},
        "admission": block_schema(policies.ADMISSION),
        "value_schema": closed,
    }


def _rules() -> dict[str, Schema]:
    """Return the definitions of rules and of their directives."""
    jump = {"if": {"properties": {"do": {"const": "jump"}}, "required": ["do"]}, "then": {"required": ["to"]}}
    return {
        "then": block_schema(policies.THEN) | jump,
        "rules": _rule_list(reference("then")),
        "admission_rules": _rule_list(block_schema(policies.ALLOW)),
    }


def _rule_list(body: Schema) -> Schema:
    """Return the schema of rules whose `then` is `body`; `else` has three forms."""
    rule = policies.RULE
    inner = block_schema(rule, "then", required=["then"], then=body)
    return {
        "type": "array",
        "contains": {"required": ["else"]},
        "minContains": 0,
        "maxContains": 1,
        "items": {
            "anyOf": [
                block_schema(rule, "when", "then", required=["when", "then"], then=body),
                block_schema(rule, "else", required=["else"], **{"else": {"anyOf": [inner, body]}}),
                block_schema(rule, "else", "then", required=["else", "then"], then=body, **{"else": {"type": "null"}}),
            ]
        },
    }


def _tasks() -> dict[str, Schema]:
    """Return the definitions of tasks in all their forms."""
    choice = [
        block_schema(policies.CHOICE, "when", "then", required=["when", "then"]),
        block_schema(policies.CHOICE, "else", required=["else"]),
    ]
    labelled = {
        **_LABEL,
        "minProperties": 1,
        "not": {"anyOf": [{"required": [k]} for k in ("kind", "name", *policies.SUGAR)]},
        "additionalProperties": reference("tool"),
    }
    references = {kind: reference(f"{kind}_task") for kind in sorted(KINDS)}
    return {
        "pipeline": {"anyOf": [reference("tool"), {"type": "array", "minItems": 1, "items": reference("task")}]},
        "task": {
            "if": {"required": ["kind"]},
            "then": reference("tool"),
            "else": {"anyOf": [labelled, *(reference(name) for name in policies.SUGAR)]},
        },
        "tool": {
            "type": "object",
            "required": ["kind"],
            "properties": {"kind": property_schema(tools.TASK["kind"], tools.TASK.link, type_={"enum": sorted(KINDS)})},
            "allOf": [
                {"if": {"properties": {"kind": {"const": kind}}, "required": ["kind"]}, "then": ref}
                for kind, ref in references.items()
            ],
        },
        "choices": {"type": "array", "minItems": 1, "items": {"anyOf": choice}},
        **{name: block_schema(block) for name, block in policies.SUGAR.items()},
        **{f"{kind}_task": _kind(kind, spec) for kind, spec in KINDS.items()},
    }


def _kind(kind: str, spec: KindSpec) -> Schema:
    options = Block("options", "", spec.page, *tools.COMMON_OPTIONS, *spec.options, tools.POLICY_OF_TASK)
    below = type_schema(options)
    below["properties"] = {**_elsewhere(spec.fields, spec, "{} of the task"), **_spellings(spec, ""), **below["properties"]}
    types: dict[str, Schema] = {
        "kind": {"const": kind},
        "name": {"allOf": [reference("name"), {"not": {"enum": sorted(RESERVED)}}]},
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
            properties[name] = property_schema(inputs[name], spec.page, required=name in one_of)
        elif name in common:
            properties[name] = property_schema(common[name], tools.TASK.link, type_=types.get(name))
        else:
            properties[name] = property_schema(tools.OVERRIDE._replace(name=name), spec.page)
    out: Schema = {
        "type": "object",
        "properties": properties,
        "required": ["kind"],
        "patternProperties": FREE_KEYS,
        "additionalProperties": False,
    }
    demands = [_demand(group) for group in spec.required]
    return out | ({"allOf": demands} if demands else {})


def _demand(group: Iterable[str]) -> Schema:
    """Return the schema that demands one of some inputs, beside `spec` or below it."""
    beside = [{"required": [key]} for key in sorted(group)]
    below = {"required": ["spec"], "properties": {"spec": {"anyOf": beside}}}
    return {"if": {"anyOf": [*beside, below]}, "else": False}


def _elsewhere(fields: Iterable[Field], spec: KindSpec, place: str) -> dict[str, Schema]:
    """Return fields where they are taken too: inputs below `spec`, options beside it."""
    text = "The same as `" + place + "`."
    return {f.name: {"description": f"{text.format(f.same_as or f.name)}\n{page_link(f.link or spec.page)}"} for f in fields}


def _spellings(spec: KindSpec, place: str) -> dict[str, Schema]:
    """Return other names of options."""
    spellings = {
        name: own for name, own in (*OPTION_SPELLINGS.items(), ("timeout_seconds", "timeout")) if own in spec.spec | COMMON_SPEC
    }
    return {name: {"description": f"The same as `{place}{own}`.\n{page_link(spec.page)}"} for name, own in spellings.items()}
