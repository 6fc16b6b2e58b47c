"""Serves the API behind API Gateway: a proxy event in, a proxy response out. Lambda Powertools routes."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple, Protocol
from urllib.parse import unquote

from aws_lambda_powertools.event_handler import APIGatewayRestResolver, Response
from aws_lambda_powertools.utilities.data_classes import APIGatewayProxyEvent

from noetl_core.api.callers import Caller, author_of
from noetl_core.api.reading import read
from noetl_core.api.refused import NoRoute
from noetl_core.api.request import JSON, Request
from noetl_core.api.requests import REQUESTS, GetDocs, GetDocument
from noetl_core.ports import TooLarge

CSP: Final = "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
"""Keeps browsers from running anything in answers, which are data."""
PLAIN: Final = {
    "X-Content-Type-Options": ["nosniff"],
    "Content-Security-Policy": [CSP],
    "Cache-Control": ["no-store"],
    "Referrer-Policy": ["no-referrer"],
}
MAX_ANSWER = 6 * 1024 * 1024 - 64 * 1024
"""Maximum size in bytes of a function's answer to API Gateway, without its headers."""
Kind = type[Request[Any]]
Described = GetDocument | GetDocs

logging.getLogger("aws_lambda_powertools.event_handler").setLevel(logging.INFO)
"""Disabled, because Powertools' debug lines contain paths, which may contain tokens."""


class Service(Protocol):
    """Answers requests."""

    def demand(self, caller: Caller, right: str) -> None:
        """Raise an error if the caller is known not to have `right`."""
        ...

    def answer(self, request: Request[Any], event: Mapping[str, Any]) -> Any:
        """Return the answer to a request from a proxy event."""
        ...

    def refusal(self, error: Exception, request_id: str) -> tuple[int, Any]:
        """Return the status and the body for an exception."""
        ...


class Route(NamedTuple):
    """The paths that an operation answers."""

    kind: Kind
    pattern: re.Pattern[str]

    @property
    def rule(self) -> str:
        """Return the pattern in Powertools' form, in which a part with slashes cannot have a name."""
        return re.sub(r"\\\{\w+(\\\+)?\\\}", ".+", re.escape(self.kind.http.path))

    @property
    def name(self) -> str:
        """Return the part of a path that may be logged: the path itself may contain a callback's token."""
        return f"{self.kind.http.method} {self.kind.http.path}"


def routes() -> list[Route]:
    """Return the routes in the order in which they are tried: if two match a path, the more literal one is first."""
    ordered = sorted(REQUESTS, key=lambda kind: ("{" in kind.http.path, -len(re.sub(r"\{.*?\}", "", kind.http.path))))
    return [Route(kind, kind.http.pattern()) for kind in ordered]


class _Resolver(APIGatewayRestResolver):
    """Powertools keeps the current event for the whole process. Each resolver has its own, so that
    several answer concurrently."""

    current_event: APIGatewayProxyEvent

    def resolve(self, event: Mapping[str, Any], context: Any) -> dict[str, Any]:
        self.current_event = APIGatewayProxyEvent(dict(event))
        return super().resolve(event, context)


class Api:
    """The API over a service. Not thread-safe: create one per thread."""

    def __init__(self, service: Service, max_answer: int = MAX_ANSWER) -> None:
        self.service, self._max_answer = service, max_answer
        self._request_id = ""
        self._app = _Resolver(serializer=_json)
        self._app.exception_handler(Exception)(self._refused)
        self._app.not_found(self._not_found)
        self._routes = routes()
        for route in self._routes:
            self._app.route(route.rule, route.kind.http.method)(self._handler(route))

    def route(self, event: Mapping[str, Any]) -> str:
        """Return the method and pattern of the route that answers a proxy event, for the log."""
        fits = (r for r in self._routes if r.kind.http.method == event["httpMethod"] and r.pattern.fullmatch(event["path"]))
        return next((route.name for route in fits), "none")

    def access(self, event: Mapping[str, Any]) -> dict[str, str]:
        """Return the log fields of a proxy event: the pattern of its route, and the sender."""
        by = author_of(event)
        return {"route": self.route(event), "principal": by["principal"], "source": by["source"]}

    def resolve(self, event: Mapping[str, Any], context: Any) -> dict[str, Any]:
        """Answer one proxy event; never raises."""
        self._request_id = getattr(context, "aws_request_id", "")
        answer = self._app.resolve(event, context)
        if len(answer["body"].encode("utf-8", "replace")) > self._max_answer:
            large = TooLarge(f"the answer exceeds {self._max_answer} bytes; request a part of it (parameters limit, name, step)")
            refused = self._refused(large)
            answer = {**answer, "statusCode": refused.status_code, "body": refused.body}
            answer["multiValueHeaders"] = {"Content-Type": [JSON]}
        answer["multiValueHeaders"] |= PLAIN
        return answer

    def _handler(self, route: Route) -> Callable[[], Response[str]]:
        def handler() -> Response[str]:
            return self._answer(route, self._app.current_event.raw_event)

        return handler

    def _answer(self, route: Route, event: Mapping[str, Any]) -> Response[str]:
        kind = route.kind
        found = route.pattern.fullmatch(event["path"])
        if found is None:  # Powertools ignores trailing slashes
            raise NoRoute(f"no such resource: {event['path']}")
        caller: Caller = event.get("requestContext") or {}
        if kind.http.right:
            self.service.demand(caller, kind.http.right)
        request = read(kind, event, {name: unquote(value).strip("/") for name, value in found.groupdict().items()})
        for right in request.also_needs():
            self.service.demand(caller, right)
        answer = self._described(request) if isinstance(request, Described) else self.service.answer(request, event)
        status, media = int(request.success(answer)), request.content_type()
        text = "" if answer is None else _json(answer) if media == JSON else answer
        return Response(status, media, text, headers=dict(request.headers(answer)))

    def _described(self, request: Request[Any]) -> Any:
        from noetl_core.api.document import document  # 300 ms, most of it for creating the document: few requests need it
        from noetl_core.api.page import page

        return document() if isinstance(request, GetDocument) else page(document())

    def _refused(self, error: Exception) -> Response[str]:
        status, body = self.service.refusal(error, self._request_id)
        return Response(int(status), JSON, _json(body))

    def _not_found(self, _: Exception) -> Response[str]:
        return self._refused(NoRoute(f"no such resource: {self._app.current_event.path}"))


def _json(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), default=str)
