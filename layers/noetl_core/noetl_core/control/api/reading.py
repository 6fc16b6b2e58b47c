"""Reading a request: who may ask, strict JSON, no name that nobody knows; what is wrong is said with its place and a hint."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, get_args

from aws_lambda_powertools.event_handler.middlewares.openapi_validation import OpenAPIRequestValidationMiddleware
from aws_lambda_powertools.event_handler.openapi.exceptions import RequestValidationError
from pydantic import BaseModel

from noetl_core import strict_json
from noetl_core.control.refusals import BadRequest, nearest
from noetl_core.ports import TooLarge

MAX_BODY = 6 * 1024 * 1024
"""Lambda's synchronous payload limit."""
MAX_TEXT = 1024
"""Bytes of a part of a path or of a query parameter: DynamoDB refuses sort keys over that."""
SIGNED = ("after", "cursor")
"""Query parameters that are longer: cursors."""
EXPECTED = {
    "string": "str",
    "int": "int",
    "bool": "bool",
    "dict": "dict",
    "list": "list",
    "model": "dict",
    "model_attributes": "dict",
}
"""What pydantic's `..._type` errors expect, as messages say it."""


class RequestReading(OpenAPIRequestValidationMiddleware):
    """The library's validation of a request, stricter: a caller's right comes first, a name that the route does not know is an
    error, and a body is a JSON object whatever its Content-Type says (`curl -d` says it is a form)."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # the library's has no annotations

    def handler(self, app: Any, next_middleware: Any) -> Any:
        route = app.context["_route"]
        operation = app.operations.get(route.operation_id)
        if operation is None:  # no route fits
            return next_middleware(app)
        if operation.right:
            app.demand(operation.right)
        known = [param.alias for param in route.dependant.query_params]
        query = app.current_event.query_string_parameters
        for name in query:
            if name not in known:
                raise BadRequest(f"unknown parameter {name!r}", f"query.{name}", nearest(name, known))
        _check_texts("path", app.context["_route_args"])
        _check_texts("query", query)
        try:
            return super().handler(app, next_middleware)
        except RequestValidationError as error:
            taken = [param.field_info.annotation for param in route.dependant.body_params]
            raise malformed(error.errors(), taken[0] if taken else None) from None

    def _get_body(self, app: Any) -> dict[str, Any]:
        return body_object(app.current_event)


def body_text(event: Mapping[str, Any]) -> str:
    """The body of a proxy event. Raises `BadRequest`, `TooLarge`."""
    body = event.get("body") or ""
    try:
        text: str = b64decode(body).decode() if event.get("isBase64Encoded") else body
        size = len(text.encode())
    except ValueError as error:  # not base64, or not UTF-8
        raise BadRequest(f"the body is not text: {error}") from None
    if size > MAX_BODY:
        raise TooLarge(f"the body exceeds {MAX_BODY} bytes")
    return text


def body_object(event: Mapping[str, Any]) -> dict[str, Any]:
    """The JSON object of the body, `{}` for an empty one: finite numbers and whole characters only, each key once. Raises
    `BadRequest`, `TooLarge`."""
    text = body_text(event)
    try:
        value = strict_json.loads(text or "{}")
    except ValueError as error:
        raise BadRequest(f"the body is not JSON: {error}") from None
    if not isinstance(value, dict):
        raise BadRequest(f"the body is a JSON {type(value).__name__}; an object is expected")
    return value


def malformed(errors: Iterable[Mapping[str, Any]], body: type[BaseModel] | None) -> BadRequest:
    """What pydantic found, in the words of this API: names that nobody knows first. `body` is the model of the body."""
    ordered = sorted(errors, key=lambda e: e["type"] != "extra_forbidden")
    found = [_said(error, body) for error in ordered]
    for other in found[1:]:
        found[0].details += other.details
    return found[0]


def _said(error: Mapping[str, Any], body: type[BaseModel] | None) -> BadRequest:
    raised = error.get("ctx", {}).get("error")
    if isinstance(raised, BadRequest):
        return raised
    kind, value = error["type"], error.get("input")
    path = [str(part) for part in error["loc"]]
    loc, name = ".".join(path), ".".join(path[1:]) or "the body"
    hint = _keys(body, path[1:-1]).get(path[-1], "")
    if kind == "extra_forbidden":
        return BadRequest(f"unknown key {path[-1]!r}", loc, nearest(path[-1], _keys(body, path[1:-1])))
    if kind == "missing":
        return BadRequest(f"{name} is missing", loc, hint)
    if kind == "string_too_short":
        return BadRequest(f"{name} is empty", loc, hint)
    if kind == "literal_error":
        known = error["ctx"]["expected"].replace("'", "").replace(" or ", ", ")
        return BadRequest(f"there is no {name} {value!r}", loc, f"known: {known}")
    if kind.endswith("_type") and kind.removesuffix("_type") in EXPECTED:
        expected = EXPECTED[kind.removesuffix("_type")]
        return BadRequest(f"{name} is a JSON {type(value).__name__}; {expected} is expected", loc, hint)
    return BadRequest(f"{name}: {error['msg']}", loc, hint)


def _keys(body: type[BaseModel] | None, path: Sequence[str]) -> dict[str, str]:
    """The keys that the object at `path` of a body may have, with what they mean."""
    model = body
    for part in path:
        fields = {} if model is None else {field.alias or name: field for name, field in model.model_fields.items()}
        inside = (fields[part].annotation, *get_args(fields[part].annotation)) if part in fields else ()
        model = next((t for t in inside if isinstance(t, type) and issubclass(t, BaseModel)), None)
    return {} if model is None else {f.alias or name: f.description or "" for name, f in model.model_fields.items()}


def _check_texts(where: str, texts: Mapping[str, str]) -> None:
    """Texts no store could hold are errors."""
    for name, text in texts.items():
        if len(text.encode("utf-8", "surrogatepass")) > MAX_TEXT and name not in SIGNED:
            raise BadRequest(f"{name} is longer than {MAX_TEXT} bytes", f"{where}.{name}")
        if not text.isprintable():
            raise BadRequest(f"{name} has characters that do not print", f"{where}.{name}")
