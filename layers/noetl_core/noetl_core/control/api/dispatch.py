"""The table of routes, and the way of a request through it."""

from __future__ import annotations

import re
from functools import lru_cache
from urllib.parse import unquote

from noetl_core.control.api import callbacks, context, credentials, docs, executions, operating, playbooks, service, views
from noetl_core.control.api.call import Answer, Call, NoRoute, Route
from noetl_core.control.api.errors import refusal
from noetl_core.control.api.openapi import document

ROUTES: tuple[Route, ...] = (
    *service.ROUTES,
    *playbooks.ROUTES,
    *executions.ROUTES,
    *views.ROUTES,
    *operating.ROUTES,
    *callbacks.ROUTES,
    *context.ROUTES,
    *credentials.ROUTES,
    Route("GET", "/api/openapi.json", "This document", lambda _: document(ROUTES)),
    Route("GET", "/api/docs", "This document, to read", lambda _: docs.page(document(ROUTES))),
)
"""Of two routes that fit a path the one with more fixed text answers."""


def dispatch(call: Call) -> Answer:
    """Answer a request; never raises."""
    try:
        route, call.params = _find(call.method, call.path)
        call.check(route)
        found = route.answer(call)
        return found if isinstance(found, Answer) else Answer(route.status, found)
    except Exception as error:  # the outermost place: what no row of the table of errors names is a bug, and logged as one
        return refusal(error, call.request_id)


def _find(method: str, path: str) -> tuple[Route, dict[str, str]]:
    for pattern, route in _patterns():
        found = pattern.fullmatch(path) if route.method == method else None
        if found is not None:
            return route, {name: unquote(value).strip("/") for name, value in found.groupdict().items()}
    raise NoRoute(f"no such resource: {path}")


@lru_cache(maxsize=1)
def _patterns() -> list[tuple[re.Pattern[str], Route]]:
    ordered = sorted(ROUTES, key=lambda r: -len(re.sub(r"\{\w+\+?\}", "", r.path)))
    return [(re.compile(_regex(r.path)), r) for r in ordered]


def _regex(path: str) -> str:
    return re.sub(r"\{(\w+)(\+?)\}", lambda m: f"(?P<{m[1]}>{'.+' if m[2] else '[^/]+'})", path.replace(".", r"\."))
