"""Generates the OpenAPI document: every operation with its request and, for each status, its answer."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from functools import cache
from http import HTTPStatus
from typing import Any, Final, ForwardRef, Literal, get_args, get_origin

from pydantic import TypeAdapter

from noetl_core import __version__
from noetl_core.api.fields import Spec, specs
from noetl_core.api.models import model_of
from noetl_core.api.request import JSON, Request
from noetl_core.api.requests import REQUESTS, GetDocument
from noetl_core.api.shapes.service import ErrorBody
from noetl_core.api.webhook_document import PATH, hooks_route
from noetl_core.events.schema import event_schema

SCHEMAS: Final = "#/components/schemas/"
EVENT_PARTS: Final = f"{SCHEMAS}Event."
"""Prefix of the parts of an event's schema: each event, its payload's shapes."""
GATEWAY: Final = (401, 403, 429)
"""Statuses with which API Gateway answers before the service is called."""
ABOUT: Final = (
    "Errors contain a message, a location and a hint. Unknown parameters and keys are rejected. "
    "Cursors and ids are opaque texts: pass them back unchanged."
)
FORM: Final = "application/x-www-form-urlencoded"
TEXT: Final = {"schema": {"type": "string"}}
Kind = type[Request[Any]]


@cache
def document() -> dict[str, Any]:
    """Return the OpenAPI 3.1 document, generated once per process."""
    answers = {kind: _answer_type(kind) for kind in REQUESTS}
    made, definitions = TypeAdapter.json_schemas(
        [
            *((kind, "validation", TypeAdapter(model_of(kind))) for kind in REQUESTS if kind.http.body),
            *((kind, "serialization", TypeAdapter(answer)) for kind, answer in answers.items() if answer is not None),
            (ErrorBody, "serialization", TypeAdapter(ErrorBody)),
        ],
        ref_template=f"{SCHEMAS}{{model}}",
    )
    event = event_schema(EVENT_PARTS)
    schemas = definitions["$defs"] | {f"Event.{name}": part for name, part in event.pop("$defs").items()}
    schemas["Event"] = {key: value for key, value in event.items() if key != "$schema"}
    for schema in [*_titled(schemas)]:
        del schema["title"]  # repeats the name
        for field in schema.get("properties", {}).values():
            if field.get("default", ...) is None:
                del field["default"]  # null counts as absent
    paths: dict[str, dict[str, Any]] = {}
    for kind in REQUESTS:
        operation = _operation(kind, {mode: made[kind, mode] for mode in ("validation", "serialization") if (kind, mode) in made})
        paths.setdefault(kind.http.path.replace("+}", "}"), {})[kind.http.method.lower()] = operation
    paths[PATH] = hooks_route()
    info = {"title": "NoETL", "version": __version__, "description": ABOUT}
    return {"openapi": "3.1.0", "info": info, "paths": paths, "components": {"schemas": dict(sorted(schemas.items()))}}


def refusals(kind: Kind) -> list[int]:
    """Return every status but success that an operation may answer with."""
    http = kind.http
    found = {400, 503, *http.refuses, *GATEWAY}
    if "{" in http.path:
        found.add(404)
    if "{execution_id}" in http.path:
        found |= {409, 422}  # its log is unreadable; this release refuses its playbook
    if http.method in ("GET", "POST"):
        found.add(413)  # the request, or the answer
    return sorted(found)


def _answer_type(kind: Kind) -> Any:
    """Return the type of an operation's JSON answers; None if it has none, or one with arbitrary keys."""
    if kind is GetDocument or JSON not in kind.http.media:
        return None
    (base,) = kind.__orig_bases__  # type: ignore[attr-defined]  # only generic classes have it
    (found,) = get_args(base)
    text = kind.http.answers or found.__forward_arg__ if isinstance(found, ForwardRef) else str(found)
    module, _, name = text.partition(" | ")[0].partition(".")
    return getattr(importlib.import_module(f"noetl_core.api.shapes.{module.removesuffix('_shapes')}"), name)


def _operation(kind: Kind, schemas: dict[str, Any]) -> dict[str, Any]:
    http = kind.http
    summary = " ".join((kind.__doc__ or "").partition("\n\n")[0].split()).removesuffix(".")
    made: dict[str, Any] = {"summary": summary, "operationId": kind.operation_id()}
    fields = specs(kind)
    parameters = [_parameter(s) for place in ("path", "query", "header") for s in fields if s.place == place]
    parameters += [
        {"name": s.field.header.lower(), "in": "header", "required": False, "description": s.field.header_about, **TEXT}
        for s in fields
        if s.field.header
    ]
    if parameters:
        made["parameters"] = parameters
    if http.body:
        schema = dict(schemas["validation"])
        if http.optional:
            schema["default"] = {s.name: s.default for s in fields if s.place == "body"}
        made["requestBody"] = {"content": {JSON: {"schema": schema}}} | ({} if http.optional else {"required": True})
    for s in fields:
        if s.place == "form":
            schema = {"type": "object", "additionalProperties": {"type": "string"}}
            made["requestBody"] = {"required": True, "description": s.field.about, "content": {FORM: {"schema": schema}}}
        if s.place == "text":
            content = {"application/yaml": TEXT, JSON: {"schema": {"type": "object"}}}
            made["requestBody"] = {"required": True, "description": s.field.about, "content": content}
    answer = schemas.get("serialization", {"type": "object"})
    content = {media: {"schema": answer} if media == JSON else TEXT for media in http.media}
    answers = {status: {JSON: {"schema": {"$ref": f"{SCHEMAS}ErrorBody"}}} for status in refusals(kind)}
    answers |= {status: {} if status == HTTPStatus.NOT_MODIFIED else content for status in (http.status, *http.also)}
    made["responses"] = {
        str(int(status)): {"description": HTTPStatus(status).phrase, "content": answers[status]} for status in sorted(answers)
    }
    return made


def _parameter(spec: Spec) -> dict[str, Any]:
    name = spec.name.lower() if spec.place == "header" else spec.name
    required = spec.required
    return {
        "name": name,
        "in": spec.place,
        "required": required,
        "description": spec.field.about,
        "schema": _text_schema(spec),
    }


def _text_schema(spec: Spec) -> dict[str, Any]:
    """Return the schema of a value that is text in a request."""
    field = spec.field
    if isinstance(field.schema, dict):
        return field.schema
    if field.words:
        return {"type": "string", "enum": list(field.words), "default": field.words[0]}
    if spec.type is int:
        return {"type": "integer", "minimum": field.least, "maximum": field.most}
    words = list(get_args(spec.type)) if get_origin(spec.type) is Literal else []
    known = {"const": words[0]} if len(words) == 1 else {"enum": words} if words else {}
    return {"type": "string", **known} | ({} if spec.default is None else {"default": spec.default})


def _titled(value: Any) -> Iterator[dict[str, Any]]:
    """Yield the schemas in `value` that have a title."""
    if isinstance(value, list):
        for part in value:
            yield from _titled(part)
    elif isinstance(value, dict):
        if isinstance(value.get("title"), str):
            yield value
        for part in value.values():
            yield from _titled(part)
