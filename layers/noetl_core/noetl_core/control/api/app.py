"""The API behind API Gateway: a proxy event in, a proxy response out."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from functools import cache, cached_property
from types import ModuleType
from typing import Any

from aws_lambda_powertools.event_handler import Response, content_types

from noetl_core.control.api import (
    callbacks,
    catalog,
    context,
    credentials,
    executions,
    following,
    operating,
    service_routes,
    steps,
    triggers,
    views,
)
from noetl_core.control.api.callers import Rights, author_of
from noetl_core.control.api.document import document_of
from noetl_core.control.api.resolver import Resolver
from noetl_core.control.api.service import Service, nothing_here
from noetl_core.control.core import Control
from noetl_core.control.operations import cursor_key
from noetl_core.control.refusals import NoRoute, refusal
from noetl_core.ports import TooLarge

ROUTES: tuple[ModuleType, ...] = (
    service_routes,
    executions,
    following,
    operating,
    views,
    steps,
    context,
    callbacks,
    catalog,
    triggers,
    credentials,
)
"""Each adds its routes to a resolver."""
CSP = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'"
"""Answers are data: what a browser makes of them runs nothing."""
PLAIN = {"X-Content-Type-Options": ["nosniff"], "Content-Security-Policy": [CSP], "Cache-Control": ["no-store"]}
MAX_ANSWER = 6 * 1024 * 1024 - 64 * 1024
"""What a function may answer API Gateway with, less its headers."""


def resolver(service: Service, *, documented: bool = False) -> Resolver:
    """All routes; `documented` with the models of their answers."""
    app = Resolver(service, document, documented=documented)
    for module in ROUTES:
        module.add(app)
    return app


@cache
def document() -> dict[str, Any]:
    """The OpenAPI 3.1 document, made once per process."""
    return document_of(resolver(Service(nothing_here, nothing_here), documented=True))


class Api:
    """The routes behind API Gateway (REST). One request at a time, as a function has them; who
    has several at once makes one for each."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self._app = resolver(service)
        self._app.exception_handler(Exception)(self._refused)
        self._app.not_found(self._no_route)

    def route(self, event: Mapping[str, Any]) -> str:
        """The pattern of the route that answers a proxy event, to be logged."""
        return self._app.pattern(event["httpMethod"], event["path"])

    def access(self, event: Mapping[str, Any]) -> dict[str, str]:
        """Return what is logged of a proxy event: the pattern of its route, and who sent it."""
        by = author_of(event)
        return {"route": self.route(event), "principal": by["principal"], "source": by["source"]}

    def resolve(self, event: Mapping[str, Any], context: Any) -> dict[str, Any]:
        """Answer one proxy event; never raises."""
        self._request_id = getattr(context, "aws_request_id", "")
        answer = self._app.resolve(_plain(event), context)
        if len(answer["body"].encode("utf-8", "replace")) > MAX_ANSWER:
            large = TooLarge(f"the answer exceeds {MAX_ANSWER} bytes; ask for a part of it (limit, name, step)")
            refused = self._refused(large)
            answer = {**answer, "statusCode": refused.status_code, "body": refused.body}
            answer["multiValueHeaders"] = {"Content-Type": [content_types.APPLICATION_JSON]}
        answer["multiValueHeaders"] |= PLAIN
        answer["statusCode"] = int(answer["statusCode"])
        return answer

    @cached_property
    def operations(self) -> list[Any]:
        """The routes: methods, patterns, rights."""
        return list(self._app.operations.values())

    def _refused(self, error: Exception) -> Response[str]:
        """The outermost place: what no row of the table of refusals names is a bug, and logged as one."""
        refused = refusal(error, self._request_id)
        return Response(int(refused.status), content_types.APPLICATION_JSON, json.dumps(refused.body, separators=(",", ":")))

    def _no_route(self, _: Exception) -> Response[str]:
        return self._refused(NoRoute(f"no such resource: {self._app.current_event.path}"))


def _plain(event: Mapping[str, Any]) -> dict[str, Any]:
    """A proxy event as the routes read it: of parameters and headers given several times the last counts; an empty parameter
    counts as absent."""
    query = event.get("queryStringParameters") or {}
    return {
        "httpMethod": event["httpMethod"],
        "path": event["path"],
        "headers": event.get("headers") or {},
        "queryStringParameters": {name: value for name, value in query.items() if value},
        "requestContext": event.get("requestContext") or {},
        "body": event.get("body"),
        "isBase64Encoded": bool(event.get("isBase64Encoded")),
    }


def build_resolver(control: Callable[[], Control]) -> Api:
    """The API over a control plane, without credentials: those are another function's."""
    facts = json.loads(os.environ.get("RUNTIME_FACTS", "{}"))
    return Api(Service(control, cursor_key(control), facts, rights=Rights.from_environment()))
