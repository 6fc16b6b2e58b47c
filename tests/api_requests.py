"""Requests to the API in this process, as API Gateway sends them; every answer is held against the OpenAPI document."""

from __future__ import annotations

import copy
import json
import re
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from jsonschema_rs import Draft202012Validator

from noetl_core.api.app import Api
from noetl_core.api.document import document
from noetl_core.api.request import Http
from noetl_core.api.requests import REQUESTS
from noetl_core.service.api_service import Service


class Context:
    """The part of Lambda's context object that the functions read."""

    aws_request_id = "req-1"
    function_name = "admit"
    memory_limit_in_mb = 128
    invoked_function_arn = "arn:aws:lambda:us-east-1:0:function:admit"


@dataclass(frozen=True)
class Answer:
    """The answer to a request."""

    status: int
    headers: Mapping[str, list[str]]
    sent: str

    @property
    def content_type(self) -> str:
        (found,) = self.headers["Content-Type"]
        return found

    @property
    def body(self) -> Any:
        return json.loads(self.sent)

    def text(self) -> str:
        return self.sent


@cache
def routes() -> tuple[Http, ...]:
    """All routes: methods, patterns, rights."""
    return tuple(request.http for request in REQUESTS)


_apis: dict[int, tuple[Service, Api]] = {}
alone = threading.Lock()
"""An `Api` answers one request at a time."""


def api_of(service: Service) -> Api:
    """The API over a service, made once: a function has one, too."""
    if id(service) not in _apis:
        _apis[id(service)] = service, Api(service)
    return _apis[id(service)][1]


def ask(
    service: Service | Api,
    method: str,
    path: str,
    query: Mapping[str, str] | None = None,
    *,
    body: str | None = None,
    base64: bool = False,
    headers: Mapping[str, str] | None = None,
    caller: Mapping[str, Any] | None = None,
    checked: bool = True,
) -> Answer:
    """Return the answer to a request. `checked` False: skip the comparison with the document, for tests with many requests."""
    api = service if isinstance(service, Api) else api_of(service)
    event = {
        "httpMethod": method,
        "path": path,
        "headers": dict(headers or {}),
        "queryStringParameters": dict(query) if query else None,
        "multiValueQueryStringParameters": {k: [v] for k, v in query.items()} if query else None,
        "requestContext": dict(caller or {}),
        "body": body,
        "isBase64Encoded": base64,
    }
    with alone:
        response = api.resolve(event, Context())
    answer = Answer(response["statusCode"], response["multiValueHeaders"], response["body"])
    if checked:
        check(api.route(event), answer)
    return answer


def check(pattern: str, answer: Answer) -> None:
    """Raises `AssertionError` where the answer of a route is not what the document says."""
    if pattern == "none":
        assert answer.status == 404
        return
    method, _, path = pattern.partition(" ")
    responses = document()["paths"][path.replace("+}", "}")][method.lower()]["responses"]
    if answer.status == 500:  # an internal error; tests that expect it say so
        return
    assert str(answer.status) in responses, f"{pattern} answers {answer.status}, of which the document says nothing"
    content = responses[str(answer.status)]["content"]
    if answer.status == 304:
        assert not content and not answer.sent and answer.headers["ETag"]
        return
    assert answer.content_type in content, f"{pattern} answers {answer.content_type}"
    if answer.content_type == "application/json":
        for wrong in validator_of(json.dumps(content[answer.content_type]["schema"])).iter_errors(answer.body):
            at = "/".join(map(str, wrong.instance_path))
            raise AssertionError(f"{pattern} {answer.status}: {at}: {wrong.message[:500]}")


@cache
def validator_of(schema: str) -> Draft202012Validator:
    """Return a validator for a schema of the document, closed: an answer must have no undocumented key."""
    schemas = copy.deepcopy(document()["components"]["schemas"])
    for each in schemas.values():
        if each.get("properties"):
            each.setdefault("additionalProperties", False)
    text = json.dumps({"$defs": schemas, **json.loads(schema)})
    return Draft202012Validator(json.loads(re.sub("#/components/schemas/", "#/$defs/", text)))
