"""Powertools' resolver of a REST API, with what this API has beside: rights, paths with slashes, a document of all statuses."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar
from urllib.parse import unquote

from aws_lambda_powertools.event_handler import APIGatewayRestResolver
from aws_lambda_powertools.utilities.data_classes import APIGatewayProxyEvent
from aws_lambda_powertools.utilities.data_classes.common import BaseProxyEvent

from noetl_core.control.api.callers import Caller, author_of
from noetl_core.control.api.reading import RequestReading
from noetl_core.control.api.responses import responses
from noetl_core.control.api.service import Service
from noetl_core.events.shapes import By
from noetl_core.frozen import frozen

SEVERAL = ("path", "name")
"""Parts of a path that have slashes in them: of a playbook, of a credential."""
Handler = TypeVar("Handler", bound=Callable[..., Any])

logging.getLogger("aws_lambda_powertools.event_handler").setLevel(logging.INFO)
"""Its debug lines show the arguments of routes: tokens, payloads, credentials."""


@frozen
class Operation:
    """A route: its method, the pattern of its path, and the right a caller needs (none: anybody who may call the API at all)."""

    method: str
    path: str
    right: str = ""


class Resolver(APIGatewayRestResolver):
    """The routes of the API, each an `operation`. `documented` makes a resolver that the OpenAPI document is made of: the models
    of the answers take their time, and no request needs them."""

    def __init__(self, service: Service, document: Callable[[], dict[str, Any]], *, documented: bool = False) -> None:
        super().__init__(serializer=partial(json.dumps, separators=(",", ":"), default=str))
        self.service = replace(service, by=lambda: self.by)
        self.document = document
        self.operations: dict[str, Operation] = {}
        self._documented = documented
        self.use([RequestReading()])

    def operation(
        self,
        method: str,
        path: str,
        summary: str,
        answers: Any,
        *,
        right: str = "",
        status: int = 200,
        refuses: tuple[int, ...] = (),
        extensions: dict[str, Any] | None = None,
    ) -> Callable[[Handler], Handler]:
        """Register a route. `{name}` in the path is a part of it, `{name+}` one with slashes in it. `answers` is the type of its
        body, or `{status: type}`; `refuses`, which statuses it answers beyond those of every route (`responses.refusals`)."""

        def registered(handler: Handler) -> Handler:
            word = handler.__name__ if handler.__name__ not in self.operations else f"{handler.__name__}_at_path"
            self.operations[word] = Operation(method, path, right)
            self.route(
                re.sub(r"\{(\w+)\+?\}", r"<\1>", path),
                method,
                summary=summary,
                responses=responses(method, path, answers, status, refuses) if self._documented else None,
                operation_id=word,
                status_code=status,
                openapi_extensions=extensions,
            )(handler)
            return handler

        return registered

    @property
    def current_event(self) -> APIGatewayProxyEvent:
        """The request that this resolver answers. The library keeps it for the whole process; several resolvers answer side by
        side where each has its own."""
        return self._event

    @current_event.setter
    def current_event(self, event: BaseProxyEvent) -> None:
        self._event = APIGatewayProxyEvent(event.raw_event)

    def _to_proxy_event(self, event: dict[str, Any]) -> BaseProxyEvent:
        self.current_event = APIGatewayProxyEvent(event)
        return self.current_event

    @property
    def caller(self) -> Caller:
        """Who asks, as API Gateway says."""
        found: Mapping[str, Any] = self.current_event.get("requestContext") or {}
        return found

    @property
    def by(self) -> By:
        """Who asks, and by which way, as events and records show it."""
        return author_of(self.current_event.raw_event, self.service.user)

    def demand(self, right: str) -> None:
        """Raises `NotAllowed` where the caller of this request is known not to have `right`."""
        self.service.demand(self.caller, right)

    def pattern(self, method: str, path: str) -> str:
        """Which route it is, in words that may be logged: a path itself may hold a callback's token."""
        for route in self._static_routes + self._dynamic_routes:
            if route.method == method and route.rule.match(path):
                operation = self.operations[route.operation_id]
                return f"{operation.method} {operation.path}"
        return "none"

    @staticmethod
    def _compile_regex(rule: str, base_regex: str = "") -> re.Pattern[str]:
        """Every part takes what a client may write in it, and a slash at the end is one too many."""
        parts = re.sub(r"<(\w+)>", lambda m: f"(?P<{m[1]}>{'.+' if m[1] in SEVERAL else '[^/]+'})", rule.replace(".", r"\."))
        return re.compile(rf"^{parts}\Z", re.DOTALL)

    def _convert_matches_into_route_keys(self, match: re.Match[str]) -> dict[str, str]:
        return {name: unquote(value).strip("/") for name, value in match.groupdict().items()}
