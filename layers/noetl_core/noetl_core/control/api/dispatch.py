"""The way of a request through the table of routes, of which it loads what it needs: a short command line run asks for one."""

from __future__ import annotations

import re
from functools import cache
from importlib import import_module
from urllib.parse import unquote

from noetl_core.control.api.call import Answer, Call, NoRoute, Route

MODULES = ("executions", "operating", "views", "context", "callbacks", "playbooks", "credentials", "service")
"""Each has its `ROUTES`. No path fits routes of two modules; of two routes of one, that with more fixed text answers."""


def dispatch(call: Call) -> Answer:
    """Answer a request; never raises."""
    try:
        route, call.params = _find(call.method, call.path)
        call.check(route)
        found = route.answer(call)
        return found if isinstance(found, Answer) else Answer(route.status, found)
    except Exception as error:  # the outermost place: what no row of the table of errors names is a bug, and logged as one
        from noetl_core.control.api.errors import refusal

        return refusal(error, call.request_id)


@cache
def routes() -> tuple[Route, ...]:
    """The whole table."""
    return tuple(route for module in MODULES for route in _routes(module))


def pattern(method: str, path: str) -> str:
    """Which route it is, in words that may be logged: a path itself may hold a callback's token."""
    try:
        route, _ = _find(method, path)
    except NoRoute:
        return "none"
    return f"{route.method} {route.path}"


def _routes(module: str) -> tuple[Route, ...]:
    found: tuple[Route, ...] = import_module(f"noetl_core.control.api.{module}").ROUTES
    return found


def _find(method: str, path: str) -> tuple[Route, dict[str, str]]:
    for module in MODULES:
        for pattern, route in _patterns(module):
            found = pattern.fullmatch(path) if route.method == method else None
            if found is not None:
                return route, {name: unquote(value).strip("/") for name, value in found.groupdict().items()}
    raise NoRoute(f"no such resource: {path}")


@cache
def _patterns(module: str) -> list[tuple[re.Pattern[str], Route]]:
    ordered = sorted(_routes(module), key=lambda r: -len(re.sub(r"\{\w+\+?\}", "", r.path)))
    return [(re.compile(_regex(r.path)), r) for r in ordered]


def _regex(path: str) -> str:
    return re.sub(r"\{(\w+)(\+?)\}", lambda m: f"(?P<{m[1]}>{'.+' if m[2] else '[^/]+'})", path.replace(".", r"\."))
