"""The JSON Schema of payloads and of the event envelope, generated from the table and the payload types.

The description of a key is the text below it in the class of its payload or shape. This module is not imported by running
services.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from functools import cache
from inspect import cleandoc, get_annotations, getsource
from types import ModuleType, NoneType, UnionType
from typing import Any, Literal, NotRequired, Union, get_args, get_origin, get_type_hints

from noetl_core.events import aggregates, control, limits, redrives, runs, shapes, waiting
from noetl_core.events.table import EVENTS, EventType
from noetl_core.events.typed import TypedDict

Schema = dict[str, Any]

CONTROL_PAYLOADS = (control, waiting, limits)
RUN_PAYLOADS = (runs,)
SHAPES = (aggregates, shapes, redrives)
"""The modules of payloads, by their stream, and of the parts of payloads."""

# --- payload types ------------------------------------------------------------------------------------------------------


@cache
def _texts() -> Mapping[str, Mapping[str, str]]:
    """Return, for each `module.Class`, the text below each key."""
    found: dict[str, Mapping[str, str]] = {}
    for module in (*SHAPES, *CONTROL_PAYLOADS, *RUN_PAYLOADS):
        for node in ast.parse(getsource(module)).body:
            if isinstance(node, ast.ClassDef):
                found[f"{module.__name__}.{node.name}"] = dict(_texts_of(node))
    return found


def _texts_of(node: ast.ClassDef) -> Iterator[tuple[str, str]]:
    for one, following in zip(node.body, node.body[1:], strict=False):
        if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name) and isinstance(following, ast.Expr):
            yield one.target.id, " ".join(cleandoc(ast.literal_eval(following.value)).split())


def about(what: Any) -> str:
    """Return the docstring of a payload, a shape or a function, on one line."""
    return " ".join(cleandoc(what.__doc__ or "").split())


class Key:
    """One key of a payload or shape: its type without `NotRequired`, whether it is required, its description."""

    def __init__(self, kind: type, name: str, hint: Any) -> None:
        self.name = name
        self.required = get_origin(hint) is not NotRequired
        self.type = hint if self.required else get_args(hint)[0]
        owner = next(c for c in kind.__mro__ if name in get_annotations(c))
        self.required = self.required and getattr(owner, "__total__", True)
        self.text = _texts().get(f"{owner.__module__}.{owner.__name__}", {}).get(name, "")
        if not self.required and kind.__module__ in {module.__name__ for module in CONTROL_PAYLOADS}:
            self.type = _without_none(self.type)  # left out, never null


def keys_of(kind: type) -> list[Key]:
    """Return the keys of a payload or shape, in source order."""
    return [Key(kind, name, hint) for name, hint in get_type_hints(kind, include_extras=True).items() if name != "__total__"]


def _without_none(hint: Any) -> Any:
    if get_origin(hint) not in (UnionType, Union):
        return hint
    parts = [part for part in get_args(hint) if part is not NoneType]
    return parts[0] if len(parts) == 1 else Union[tuple(parts)]  # noqa: UP007 - made of a list


def is_shape(hint: Any) -> bool:
    """Return whether a type is a payload or a shape."""
    base: Any = TypedDict
    return isinstance(hint, type) and issubclass(hint, base)


def declared(module: ModuleType) -> list[type]:
    """Return the payloads or shapes that a module declares, in source order."""
    return [kind for kind in vars(module).values() if is_shape(kind) and kind.__module__ == module.__name__]


# --- JSON Schema --------------------------------------------------------------------------------------------------------

_PLAIN: Mapping[Any, str] = {str: "string", int: "integer", float: "number", bool: "boolean", NoneType: "null"}


class _Schemas:
    """Schemas of types. Shapes are collected in `found` and referred to below `prefix`."""

    def __init__(self, prefix: str, closed: bool) -> None:
        self._prefix, self._closed = prefix, closed
        self.found: dict[str, Schema] = {}

    def of(self, hint: Any) -> Schema:
        if hint is Any:
            return {}
        if hint in _PLAIN:
            return {"type": _PLAIN[hint]}
        if is_shape(hint):
            if hint.__name__ not in self.found:
                self.found[hint.__name__] = {}
                self.found[hint.__name__] = self.keys(hint)
            return {"$ref": self._prefix + hint.__name__}
        origin, args = get_origin(hint), get_args(hint)
        if origin is Literal:
            return {"enum": list(args)}
        if origin in (UnionType, Union):
            return {"anyOf": [self.of(part) for part in args]}
        if origin is list:
            return {"type": "array", "items": self.of(args[0])}
        if origin is tuple:
            return {
                "type": "array",
                "prefixItems": [self.of(part) for part in args],
                "minItems": len(args),
                "maxItems": len(args),
            }
        if origin is dict:
            values = self.of(args[1])
            return {"type": "object", "additionalProperties": values} if values else {"type": "object"}
        raise TypeError(f"{hint} has no JSON Schema")

    def keys(self, kind: type, without: frozenset[str] = frozenset()) -> Schema:
        keys = [key for key in keys_of(kind) if key.name not in without]
        out: Schema = {"type": "object", "description": about(kind)}
        out["properties"] = {k.name: {**self.of(k.type), **({"description": k.text} if k.text else {})} for k in keys}
        if required := [key.name for key in keys if key.required]:
            out["required"] = required
        if kind in shapes.OPEN:
            out["additionalProperties"] = True
        elif self._closed:
            out["additionalProperties"] = False
        return out


_ENVELOPE: Mapping[str, tuple[Schema, str]] = {
    "event_id": ({"type": "string"}, "Execution, stream, position of the commit and place in it; the same at every reading."),
    "execution_id": ({"type": "string"}, "A decimal number as text."),
    "timestamp": ({"type": "string", "format": "date-time"}, "RFC 3339, UTC, microseconds."),
    "source": ({"enum": ["server", "worker"]}, "The writer: the control plane or a worker."),
    "name": ({"type": "string"}, "The event."),
    "event_type": ({"type": "string"}, "The same in the dotted form."),
    "entity": ({"enum": ["playbook", "workflow", "step", "task", "loop", "next"]}, "The kind of entity that the event is about."),
    "entity_id": ({"type": "string"}, "Task run, token, step run or execution."),
    "status": ({"enum": ["in_progress", "success", "error", "paused"]}, "The status of the entity."),
    "step": ({"type": "string"}, ""),
    "step_run_id": ({"type": "string"}, "The step run or chunk."),
    "task": ({"type": "string"}, ""),
    "task_run_id": ({"type": "string"}, "The visit of the task: the idempotency key that tools get."),
    "iteration": ({"type": "array", "items": {"type": "integer"}}, "Indexes from the outermost loop in."),
    "attempt": ({"type": "integer"}, "The attempt of the task, from 1."),
    "parent_id": ({"type": "string"}, "If the run is a chunk: the step run of its loop."),
    "trace_id": ({"type": "string"}, "The trace id of the request, if it gave one."),
    "data": ({"type": "object"}, "The other keys of the event."),
}
_ALWAYS = ("event_id", "execution_id", "timestamp", "source", "name", "event_type", "entity", "entity_id", "status", "data")
_OF_TASKS = frozenset({"step", "path", "task", "run", "attempt", "started"})
_OF_CONTROL = frozenset({"step", "path", "run", "events"})
_OF_RUNS = frozenset({"step", "path", "events", "source"})


def lifted(event: EventType, payload: type) -> frozenset[str]:
    """Return the keys of a payload that are fields of the envelope itself, or are not shown."""
    if event.name == "PlaybookExecutionRequested":
        return frozenset()
    if event.entity == "task":
        return _OF_TASKS
    if payload is event.run:
        return _OF_RUNS
    return _OF_CONTROL | {"parent"} if event.has("parent") else _OF_CONTROL


def event_schema(prefix: str = "#/$defs/", *, closed: bool = False) -> Schema:
    """Return the JSON Schema (2020-12) of an event envelope: one of the events of the table, each with its `data`.

    `prefix` is the path of `$defs` in references; an OpenAPI document moves them below `#/components/schemas/`. `closed` forbids
    unknown keys: this is for tests, not for clients, which must accept additions.
    """
    schemas = _Schemas(prefix, closed)
    common = {name: {**schema, **({"description": text} if text else {})} for name, (schema, text) in _ENVELOPE.items()}
    events = []
    for event in EVENTS.values():
        data = [schemas.keys(p, lifted(event, p)) for p in (event.control, event.run) if p is not None]
        events.append(
            {
                "title": event.name,
                "description": " ".join(part["description"] for part in data),
                "properties": {
                    "name": {"const": event.name},
                    "event_type": {"const": event.event_type},
                    "entity": {"const": event.entity},
                    "data": data[0] if len(data) == 1 else {"anyOf": data},
                },
            }
        )
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Event",
        "description": "One event of an execution's history.",
        "type": "object",
        "properties": common,
        "required": list(_ALWAYS),
        **({"additionalProperties": False} if closed else {}),
        "oneOf": events,
        "$defs": dict(sorted(schemas.found.items())),
    }


def payload_schema(kind: type) -> Schema:
    """Return the JSON Schema of a stored payload, without further keys."""
    schemas = _Schemas("#/$defs/", True)
    return {**schemas.keys(kind), "$defs": schemas.found}
