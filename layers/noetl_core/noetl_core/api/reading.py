"""Parses requests from proxy events: known names only, strict JSON. Errors carry a location and a hint."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, get_args, get_origin
from urllib.parse import parse_qsl

from noetl_core.api.fields import Spec, specs
from noetl_core.api.refused import BadRequest, nearest, within
from noetl_core.api.request import Request
from noetl_core.ports import TooLarge
from noetl_core.values import strict_json

if TYPE_CHECKING:
    from pydantic import ValidationError

MAX_BODY = 6 * 1024 * 1024
"""Lambda's synchronous payload limit."""
MAX_TEXT = 1024
"""Maximum size in bytes of a part of a path or of a query parameter: DynamoDB rejects longer sort keys."""
MAX_FIELDS = 500
"""Maximum number of fields of a form."""
SIGNED = ("after", "cursor")
"""Query parameters that may be longer: cursors."""
EXPECTED = {"string": "str", "int": "int", "bool": "bool", "dict": "dict", "list": "list", "model": "dict"}
"""Types that pydantic's `..._type` errors expect, in the words of messages."""


def read(kind: type[Request[Any]], event: Mapping[str, Any], path: Mapping[str, str]) -> Request[Any]:
    """Return the request of an operation in a proxy event; `path` are the parts of its path. Raises `BadRequest`, `NoRoute`,
    `TooLarge`."""
    query = {name: value for name, value in (event.get("queryStringParameters") or {}).items() if value}
    headers = {name.lower(): value for name, value in (event.get("headers") or {}).items()}
    fields = specs(kind)
    known = [spec.name for spec in fields if spec.place == "query"]
    for name in query:
        if name not in known:
            raise BadRequest(f"unknown parameter {name!r}", f"query.{name}", nearest(name, known))
    _check_texts("path", path)
    _check_texts("query", query)
    texts: dict[str, Mapping[str, str]] = {"path": path, "query": query}
    values: dict[str, Any] = {}
    wrong: list[BadRequest] = []
    for spec in fields:
        try:
            if spec.place == "header":
                values[spec.attribute] = _header(spec, headers)
            elif spec.place == "text":
                values[spec.attribute] = playbook_of(body_text(event))
            elif spec.place == "form":
                values[spec.attribute] = form_of(body_text(event))
            elif spec.place in texts and spec.name in texts[spec.place]:
                values[spec.attribute] = _text(spec, texts[spec.place][spec.name])
            elif spec.place == "query" and spec.required:
                raise BadRequest(f"{spec.name} is missing", f"query.{spec.name}")
        except BadRequest as error:
            wrong.append(error)
    if kind.http.body:
        body, unknown = _body(kind, body_object(event))
        values |= body
        wrong = [*(e for e in unknown if _is_unknown(e)), *wrong, *(e for e in unknown if not _is_unknown(e))]
        for spec in fields:
            if spec.field.header and not values.get(spec.attribute):
                values[spec.attribute] = headers.get(spec.field.header.lower()) or None
    if wrong:
        wrong[0].details += [detail for error in wrong[1:] for detail in error.details]
        raise wrong[0]
    return kind(**values)


def body_text(event: Mapping[str, Any]) -> str:
    """Return the body of a proxy event. Raises `BadRequest`, `TooLarge`."""
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
    """Return the JSON object of the body, `{}` for an empty one, whatever its Content-Type (`curl -d` sends that of a form).

    Numbers must be finite, texts valid Unicode and keys unique. Raises `BadRequest`, `TooLarge`.
    """
    text = body_text(event)
    try:
        value = strict_json.loads(text or "{}")
    except ValueError as error:
        raise BadRequest(f"the body is not JSON: {error}") from None
    if not isinstance(value, dict):
        raise BadRequest(f"the body is a JSON {type(value).__name__}; an object is expected")
    return value


def form_of(text: str) -> dict[str, str]:
    """Return the fields of a form. Raises `BadRequest`."""
    try:
        return dict(parse_qsl(text, keep_blank_values=True, max_num_fields=MAX_FIELDS, errors="strict"))
    except ValueError as error:
        raise BadRequest(f"the body is not a form: {error}") from None


def playbook_of(text: str) -> str:
    """Return the text of a playbook: the body itself (YAML or JSON), or that in `{"playbook": "..."}`."""
    try:
        value = strict_json.loads(text)
    except ValueError:  # the reader of playbooks reports the errors in it
        return text
    wrapped = isinstance(value, dict) and isinstance(value.get("playbook"), str) and len(value) == 1
    return value["playbook"] if wrapped else text


def _check_texts(where: str, texts: Mapping[str, str]) -> None:
    """Reject texts that no store could keep. Raises `BadRequest`."""
    for name, text in texts.items():
        if len(text.encode("utf-8", "surrogatepass")) > MAX_TEXT and name not in SIGNED:
            raise BadRequest(f"{name} is longer than {MAX_TEXT} bytes", f"{where}.{name}")
        if not text.isprintable():
            raise BadRequest(f"{name} has characters that do not print", f"{where}.{name}")


def _header(spec: Spec, headers: Mapping[str, str]) -> str | None:
    value = headers.get(spec.name.lower())
    return value.removeprefix("W/").strip('"') or None if value and spec.field.quoted else value


def _text(spec: Spec, text: str) -> Any:
    """Return the value of a text in a path or query. Raises `BadRequest`, and the errors of the field's check."""
    field = spec.field
    if field.check is not None:
        return field.check(text)
    if spec.type is int:
        digits = text.isdecimal() and len(text) <= 9
        return within(spec.name, int(text) if digits else -1, int(field.least or 0), int(field.most or 0))
    words = field.words or (get_args(spec.type) if get_origin(spec.type) is Literal else ())
    if words and text not in words:
        raise BadRequest(f"there is no {spec.name} {text!r}", f"{spec.place}.{spec.name}", f"known: {', '.join(words)}")
    return text in ("1", "true") if field.words else text


def _body(kind: type[Request[Any]], value: Mapping[str, Any]) -> tuple[dict[str, Any], list[BadRequest]]:
    """Return the values of a JSON body, and its errors. pydantic checks it."""
    from pydantic import ValidationError  # 80 ms, with the next: only requests with a body need it

    from noetl_core.api.models import model_of

    try:
        model = model_of(kind).model_validate(value)
    except ValidationError as error:
        return {}, _malformed(kind, error)
    nested = {spec.attribute: value.get(spec.name) for spec in specs(kind) if hasattr(spec.type, "__required_keys__")}
    return {**{name: getattr(model, name) for name in model.model_fields_set}, **nested}, []


def _malformed(kind: type, error: ValidationError) -> list[BadRequest]:
    """Return pydantic's errors, in the words of this API."""
    return [_wrong(kind, each) for each in error.errors()]


def _wrong(kind: type, error: Any) -> BadRequest:
    raised = error.get("ctx", {}).get("error")
    if isinstance(raised, BadRequest):
        return raised
    word, value = error["type"], error.get("input")
    path = [str(part) for part in error["loc"]]
    loc, name = ".".join(["body", *path]), ".".join(path) or "the body"
    keys = _keys(kind, path[:-1])
    hint = keys.get(path[-1], "") if path else ""
    if word == "extra_forbidden":
        return _UnknownKey(f"unknown key {path[-1]!r}", loc, nearest(path[-1], keys))
    if word == "missing":
        return BadRequest(f"{name} is missing", loc, hint)
    if word == "string_too_short":
        return BadRequest(f"{name} is empty", loc, hint)
    if word == "literal_error":
        known = error["ctx"]["expected"].replace("'", "").replace(" or ", ", ")
        return BadRequest(f"there is no {name} {value!r}", loc, f"known: {known}")
    if word.endswith("_type") and word.removesuffix("_type") in EXPECTED:
        expected = EXPECTED[word.removesuffix("_type")]
        return BadRequest(f"{name} is a JSON {type(value).__name__}; {expected} is expected", loc, hint)
    return BadRequest(f"{name}: {error['msg']}", loc, hint)


class _UnknownKey(BadRequest):
    """A key that a body does not have. These come first in details."""


def _is_unknown(error: BadRequest) -> bool:
    return isinstance(error, _UnknownKey)


def _keys(kind: type, path: Sequence[str]) -> dict[str, str]:
    """Return the keys that the object at `path` of a body may have, each with its description."""
    inside: type | None = kind
    for part in path:
        found = [] if inside is None else [s.type for s in specs(inside) if s.place == "body" and s.name == part]
        inside = found[0] if found and hasattr(found[0], "__required_keys__") else None
    return {} if inside is None else {s.name: s.field.about for s in specs(inside) if s.place == "body"}
