"""JSON Schema (2020-12) of a playbook, made from the tables that validation reads, so that the two cannot disagree on keys.

Editors complete and check with it. What a schema cannot say (names that must exist, templates, tool kinds installed beside
the engine) is left to `noetl validate`. `render` is what `docs/playbook.schema.json` holds.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any, Final

from noetl_core.dsl.inputs import SCHEMA_KEY
from noetl_core.dsl.kinds import ALL_SPEC, COMMON_SPEC, KINDS, words
from noetl_core.dsl.loops import FAILURE_MODES, REDUCERS
from noetl_core.dsl.loops import POLICY_KEYS as LOOP_POLICY
from noetl_core.dsl.numbers import (
    ATTEMPTS,
    CHUNK_SIZE,
    DELAY,
    DURATION,
    JITTER,
    JOIN_COUNT,
    LIFETIME,
    LIMITS,
    MULTIPLIER,
    PRIORITY,
    TIMEOUT,
    TOLERATED_COUNT,
    TOLERATED_PERCENT,
    WINDOW,
    Range,
)
from noetl_core.dsl.parse import API_VERSIONS, EXECUTOR_POLICY, PLAYBOOK_PATH, ROOT_KEYS
from noetl_core.dsl.policy import BACKOFFS, DIRECTIVES, ERROR_KEYS, HOOKS, THEN_KEYS
from noetl_core.dsl.reader import NAME
from noetl_core.dsl.specs import EXECUTOR_KEYS, LOOP_KEYS, STEP_KEYS, TIMEOUT_PARTS
from noetl_core.dsl.steps import ARC_KEYS, NEXT_POLICY_KEYS, STEP_FIELDS
from noetl_core.dsl.steps import POLICY_KEYS as STEP_POLICY
from noetl_core.dsl.tasks import LIB_KEYS, RESERVED, TASK_FIELDS
from noetl_core.json_schema import KEYWORDS, TYPES

Schema = dict[str, Any]

ID: Final = "https://noetl.io/schema/playbook-v10.json"

_TEMPLATE: Final[Schema] = {"type": "string", "pattern": r"\{[{%]"}
_TEXT: Final[Schema] = {"type": "string", "minLength": 1}
_MAP: Final[Schema] = {"type": "object"}
_MAP_OR_TEMPLATE: Final[Schema] = {"anyOf": [{"type": ["object", "null"]}, _TEMPLATE]}
_LIB: Final[Schema] = {
    "anyOf": [
        _TEXT,
        {
            "type": "object",
            "properties": dict.fromkeys(LIB_KEYS, _TEXT),
            "patternProperties": {"^x-": True},
            "required": list(LIB_KEYS),
            "additionalProperties": False,
        },
    ]
}
_LIBS: Final[Schema] = {
    "type": ["object", "null"],
    "propertyNames": {"pattern": r"^[^\W\d]\w*$"},
    "additionalProperties": _LIB,
}
_BOOL: Final[Schema] = {"type": "boolean"}
_WHEN: Final[Schema] = {
    "description": "A Jinja2 condition",
    "anyOf": [_TEMPLATE, _BOOL, {"enum": ["true", "false"]}],
}


def _ref(name: str) -> Schema:
    return {"$ref": f"#/$defs/{name}"}


def _pattern(regex: re.Pattern[str]) -> str:
    return "^" + regex.pattern.removesuffix(r"\Z") + "$"


def _number(allowed: Range) -> Schema:
    others = [
        *([_TEMPLATE] if allowed.template else []),
        *([{"type": "null"}] if allowed.null else []),
        *([_BOOL] if allowed.switch else []),
    ]
    return {"anyOf": [allowed.schema(), *others]} if others else allowed.schema()


def _duration(allowed: Range) -> Schema:
    text: Schema = {"type": "string", "pattern": _pattern(DURATION)}
    return {"anyOf": [allowed.schema(), text, _TEMPLATE]}


def _closed(keys: Iterable[str], required: Iterable[str] = (), **known: Schema) -> Schema:
    """A mapping of exactly `keys` and free `x-` keys; `known` describes some of them, by name (a trailing _ is dropped)."""
    described = {k.rstrip("_"): v for k, v in known.items()}
    allowed = set(keys)
    strangers = described.keys() - allowed
    if strangers:
        raise ValueError(f"the schema describes keys that validation refuses: {sorted(strangers)}")
    out: Schema = {
        "type": "object",
        "properties": {k: described.get(k, True) for k in sorted(allowed)},
        "patternProperties": {"^x-": True},
        "additionalProperties": False,
    }
    if required:
        out["required"] = sorted(required)
    return out


def playbook_schema() -> Schema:
    """The schema of a whole playbook."""
    root = _closed(
        ROOT_KEYS,
        ("apiVersion", "kind", "metadata", "workflow"),
        apiVersion={"enum": list(API_VERSIONS)},
        kind={"const": "Playbook"},
        metadata=_ref("metadata"),
        keychain={"type": "array", "items": _ref("credential")},
        executor=_ref("executor"),
        workload={
            "type": "object",
            "description": "Defaults of the immutable inputs",
            "properties": {SCHEMA_KEY: _ref("value_schema")},
        },
        workflow={"type": "array", "minItems": 1, "items": _ref("step")},
        workbook=_ref("workbook"),
    )
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": ID,
        "title": "NoETL playbook (DSL v10)",
        **root,
        "$defs": {**_sections(), **_steps(), **_policies(), **_tasks(), "value_schema": _value_schema()},
    }


def render() -> str:
    """The schema as the published file holds it."""
    return json.dumps(playbook_schema(), indent=1, sort_keys=True) + "\n"


def _value_schema() -> Schema:
    """The plain subset of JSON Schema that `x-schema` is written in."""
    names: Schema = {"enum": sorted(TYPES)}
    count: Schema = {"type": "integer", "minimum": 0}
    described: dict[str, Schema] = {
        "type": {"anyOf": [names, {"type": "array", "minItems": 1, "items": names}]},
        "enum": {"type": "array", "minItems": 1},
        "required": {"type": "array", "items": {"type": "string"}},
        "properties": {"type": "object", "additionalProperties": _ref("value_schema")},
        "additionalProperties": _BOOL,
        "items": _ref("value_schema"),
        **dict.fromkeys(("minItems", "maxItems", "minLength", "maxLength"), count),
        **{key: {"type": "number"} for key in ("minimum", "maximum")},
    }
    return {
        "type": "object",
        "properties": {key: described.get(key, True) for key in sorted(KEYWORDS)},
        "additionalProperties": False,
    }


def _sections() -> dict[str, Schema]:
    limits: Schema = {name: _number(allowed) for name, allowed in LIMITS.items()}
    policy = _closed(
        EXECUTOR_POLICY,
        defaults=_closed(
            ("timeouts", "resources", "on_unmatched"),
            timeouts=_closed(
                ("task_s", "step_s", "execution_s"), task_s=_ref("seconds"), step_s=_ref("seconds"), execution_s=_ref("seconds")
            ),
            resources=_closed(("pool", "memory_mb"), pool=_ref("name")),
            on_unmatched=_ref("on_unmatched"),
        ),
        results=_closed(("reference_first",), reference_first=_BOOL),
        limits=_closed(LIMITS, **limits),
        task=_ref("task_policy"),
        failure=_closed(("mode",), mode={"enum": list(FAILURE_MODES)}),
        lifecycle=_closed(("timeout_s", "lifetime_s"), timeout_s=_ref("seconds"), lifetime_s=_number(LIFETIME)),
        unconditional_on_failure=_BOOL,
    )
    spec = _closed(
        EXECUTOR_KEYS | ALL_SPEC,
        policy=policy,
        entry_step=_ref("name"),
        extensions=_BOOL,
        pool=_ref("name"),
        timeout=_ref("timeout"),
        timeout_s=_ref("seconds"),
        lifetime_s=_number(LIFETIME),
    )
    return {
        "name": {"type": "string", "pattern": _pattern(NAME)},
        "metadata": {
            "type": "object",
            "required": ["name", "path"],
            "properties": {
                "name": _TEXT,
                "path": {"type": "string", "pattern": _pattern(PLAYBOOK_PATH)},
            },
        },
        "credential": {"type": "object", "required": ["name", "kind"], "properties": {"name": _ref("name"), "kind": _TEXT}},
        "executor": _closed(("kind", "spec", "desc"), kind=_TEXT, spec=spec),
        "workbook": {
            "anyOf": [
                {"type": "null"},
                _closed(("tasks",), ("tasks",), tasks={"type": "object", "additionalProperties": _ref("tool")}),
                {"type": "object", "patternProperties": {"^x-": True}, "additionalProperties": _ref("tool")},
                {"type": "array", "items": {"type": "object", "required": ["name"]}},
            ]
        },
        "timeout": {
            "description": "Seconds for the whole task, or by part",
            "anyOf": [_ref("seconds"), _closed(TIMEOUT_PARTS, **{part: _ref("seconds") for part in TIMEOUT_PARTS})],
        },
        "seconds": _number(TIMEOUT),
    }


def _steps() -> dict[str, Schema]:
    failure = {"enum": list(FAILURE_MODES)}
    step_spec = _closed(
        STEP_KEYS | ALL_SPEC,
        join={"anyOf": [{"enum": ["all", "any"]}, _closed(("count",), ("count",), count=_number(JOIN_COUNT))]},
        pool=_ref("name"),
        timeout=_ref("timeout"),
        timeout_s=_ref("seconds"),
        policy=_closed(
            STEP_POLICY,
            admit=_ref("admission"),
            lifecycle=_closed(("timeout_s", "deadline_s"), timeout_s=_ref("seconds"), deadline_s=_ref("seconds")),
            failure=_closed(("mode",), mode=failure),
            task=_ref("task_policy"),
            resources=_closed(("pool", "memory_mb"), pool=_ref("name")),
        ),
    )
    step = _closed(
        STEP_FIELDS,
        ("step",),
        step=_ref("name"),
        desc={"type": ["string", "null"]},
        spec=step_spec,
        loop=_ref("loop"),
        tool=_ref("pipeline"),
        next=_ref("router"),
        args=_MAP,
        input=_MAP,
        set_ctx=_MAP,
        set=_ref("set"),
        compensate={"anyOf": [_ref("pipeline"), _closed(("loop", "tool"), ("tool",), loop=_ref("loop"), tool=_ref("pipeline"))]},
    )
    loop_failure = _closed(
        ("mode", "tolerated_count", "tolerated_percent"),
        mode=failure,
        tolerated_count=_number(TOLERATED_COUNT),
        tolerated_percent=_number(TOLERATED_PERCENT),
    )
    loop_spec = {
        "mode": {"enum": ["sequential", "parallel"]},
        "max_in_flight": _number(WINDOW),
        "chunk_size": _number(CHUNK_SIZE),
    }
    loop_policy = _closed(
        LOOP_POLICY,
        exec={"enum": ["local", "distributed"]},
        reducers={"type": "object", "additionalProperties": {"enum": list(REDUCERS)}},
        failure=loop_failure,
        **loop_spec,
    )
    loop = _closed(
        ("in", "iterator", "spec", "loop"),
        ("in", "iterator"),
        in_={"anyOf": [{"type": ["array", "object"]}, _TEMPLATE]},
        iterator=_ref("name"),
        spec=_closed(LOOP_KEYS | ALL_SPEC, policy=loop_policy, timeout=_ref("timeout"), timeout_s=_ref("seconds"), **loop_spec),
        loop=_ref("loop"),
    )
    values = {"args": _MAP, "input": _MAP, "set_ctx": _MAP, "set": _ref("set")}
    arc = _closed(ARC_KEYS, ("step",), step=_ref("name"), when=_WHEN, desc={"type": ["string", "null"]}, **values)
    hints = _closed(NEXT_POLICY_KEYS, priority=_number(PRIORITY), dedupe={"anyOf": [_BOOL, _TEMPLATE, {"type": "null"}]})
    router_spec = _closed(("mode", "policy"), mode={"enum": ["exclusive", "inclusive"]}, policy=hints)
    return {
        "step": step | {"anyOf": [{"required": ["tool"]}, {"required": ["next"]}, {"properties": {"step": {"const": "end"}}}]},
        "loop": loop,
        "router": _closed(("spec", "arcs"), ("arcs",), spec=router_spec, arcs={"type": "array", "items": _ref("arc")}),
        "arc": arc,
        "set": {"type": "object", "propertyNames": {"pattern": r"^(ctx|iter)\.."}},
    }


def _rules(body: Schema) -> Schema:
    """Rules whose `then` is `body`; `else` in its three shapes."""
    return {
        "type": "array",
        "contains": {"required": ["else"]},
        "minContains": 0,
        "maxContains": 1,
        "items": {
            "anyOf": [
                _closed(("when", "then"), ("when", "then"), when=_WHEN, then=body),
                _closed(("else",), ("else",), else_={"anyOf": [_closed(("then",), ("then",), then=body), body]}),
                _closed(("else", "then"), ("else", "then"), else_={"type": "null"}, then=body),
            ]
        },
    }


def _policies() -> dict[str, Schema]:
    then = _closed(
        THEN_KEYS,
        do={"enum": list(DIRECTIVES)},
        attempts=_number(ATTEMPTS),
        backoff={"enum": list(BACKOFFS)},
        delay=_number(DELAY),
        max_delay=_number(DELAY),
        jitter=_number(JITTER),
        backoff_multiplier=_number(MULTIPLIER),
        to=_ref("name"),
        scope={"enum": ["iteration", "loop"]},
        set_iter=_MAP,
        set_ctx=_MAP,
        set=_ref("set"),
        error={"anyOf": [_closed(ERROR_KEYS), {"not": {"type": "object"}}]},
    )
    jump = {"if": {"properties": {"do": {"const": "jump"}}, "required": ["do"]}, "then": {"required": ["to"]}}
    allow = _closed(("allow",), ("allow",), allow={"anyOf": [_BOOL, _TEMPLATE]})
    return {
        "then": then | jump,
        "on_unmatched": {"enum": ["continue", "fail"]},
        "task_policy": _closed(
            ("rules", "mode", "on_unmatched", *HOOKS),
            ("rules",),
            rules=_rules(_ref("then")),
            mode={"const": "exclusive"},
            on_unmatched=_ref("on_unmatched"),
        ),
        "admission": _closed(
            ("mode", "rules", "on_deny"),
            ("rules",),
            mode={"enum": ["exclusive", "inclusive"]},
            rules=_rules(allow),
            on_deny={"enum": ["park", "skip", "fail"]},
        ),
    }


def _tasks() -> dict[str, Schema]:
    choice = [
        _closed(("when", "then"), ("when", "then"), when=_WHEN, then=_ref("pipeline")),
        _closed(("else",), ("else",), else_=_ref("pipeline")),
    ]
    ladder = {"type": "array", "minItems": 1, "items": {"anyOf": choice}}
    sugar = {
        "choose": _closed(words("choose name desc"), ("choose",), choose=ladder, name=_ref("name")),
        "while": _closed(words("while do name desc"), ("while", "do"), while_=_WHEN, do=_ref("pipeline"), name=_ref("name")),
        "until": _closed(words("until do name desc"), ("until", "do"), until=_WHEN, do=_ref("pipeline"), name=_ref("name")),
    }
    labelled = {
        "type": "object",
        "minProperties": 1,
        "not": {"anyOf": [{"required": [k]} for k in ("kind", "name", "choose", "while", "until")]},
        "patternProperties": {"^x-": True},
        "additionalProperties": _ref("tool"),
    }
    named = [_ref(f"{kind}_task") for kind in sorted(KINDS)]
    return {
        "pipeline": {"anyOf": [_ref("tool"), {"type": "array", "minItems": 1, "items": _ref("task")}]},
        "task": {
            "if": {"required": ["kind"]},
            "then": _ref("tool"),
            "else": {"anyOf": [labelled, *(_ref(name) for name in sugar)]},
        },
        "tool": {
            "type": "object",
            "required": ["kind"],
            "properties": {"kind": {"enum": sorted(KINDS)}},
            "allOf": [
                {"if": {"properties": {"kind": {"const": kind}}, "required": ["kind"]}, "then": ref}
                for kind, ref in zip(sorted(KINDS), named, strict=True)
            ],
        },
        **sugar,
        **{f"{kind}_task": _kind(kind) for kind in sorted(KINDS)},
    }


def _kind(kind: str) -> Schema:
    spec = KINDS[kind]
    fields = TASK_FIELDS[kind]
    known: dict[str, Schema] = dict.fromkeys(spec.maps, _MAP_OR_TEMPLATE)
    known |= {k: {"type": "string", "minLength": 1} for k in spec.raw}
    known |= {k: _duration(allowed) for k, allowed in spec.durations.items()}
    if "libs" in spec.maps:
        known["libs"] = {"anyOf": [_LIBS, _TEMPLATE]}
    known |= {k: {"anyOf": [{"enum": sorted(v)}, _TEMPLATE]} for k, v in spec.choices.items()}
    known |= {
        "kind": {"const": kind},
        "name": {"allOf": [_ref("name"), {"not": {"enum": sorted(RESERVED)}}]},
        "spec": _closed(
            COMMON_SPEC | spec.spec | {"policy"}, policy=_ref("task_policy"), timeout=_ref("timeout"), timeout_s=_ref("seconds")
        ),
        "set_iter": _MAP,
        "set_ctx": _MAP,
        "set": _ref("set"),
    }
    out = _closed(fields, ("kind",), **known)
    demands = [{"anyOf": [{"required": [k]} for k in sorted(group)]} for group in spec.required]
    return out | ({"allOf": demands} if demands else {})
