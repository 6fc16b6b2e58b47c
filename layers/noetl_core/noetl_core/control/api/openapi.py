"""The OpenAPI document of a table of routes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from http import HTTPStatus
from typing import Any

from noetl_core import __version__
from noetl_core.control.api.call import Route

TYPES = {str: "string", int: "integer", dict: "object", list: "array", bool: "boolean"}
GATEWAY = (401, 403, 429)
"""What API Gateway answers before the service is asked."""
ERROR = {
    "type": "object",
    "required": ["error"],
    "properties": {
        "error": {
            "type": "object",
            "required": ["code", "message", "details", "request_id"],
            "properties": {
                "code": {"type": "string"},
                "message": {"type": "string"},
                "details": {"type": "array", "items": {"type": "object", "required": ["loc", "message", "hint"]}},
                "request_id": {"type": "string"},
            },
        }
    },
}


def document(routes: Sequence[Route]) -> dict[str, Any]:
    """The OpenAPI 3.1 document of `routes`."""
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        paths.setdefault(route.path.replace("+}", "}"), {})[route.method.lower()] = _operation(route)
    return {
        "openapi": "3.1.0",
        "info": {"title": "NoETL", "version": __version__},
        "paths": paths,
        "components": {"schemas": {"Error": ERROR}},
    }


def refusals(route: Route) -> list[int]:
    """Every status but success that `route` may answer with."""
    found = {400, 503, *route.refuses, *GATEWAY}
    if "{" in route.path:
        found.add(404)
    if "{execution_id}" in route.path:
        found.add(409)  # its log does not read
    if route.method in ("GET", "POST"):
        found.add(413)  # the request, or the answer
    return sorted(found)


def _operation(route: Route) -> dict[str, Any]:
    names = re.findall(r"\{(\w+)\+?\}", route.path)
    parameters = [{"name": n, "in": "path", "required": True, "schema": {"type": "string"}} for n in names]
    parameters += [
        {"name": n, "in": "query", "required": False, "description": text, "schema": {"type": "string"}}
        for n, text in route.query.items()
    ]
    responses: dict[str, Any] = {str(int(route.status)): {"description": "done"}}
    for status in refusals(route):
        content = {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}}
        responses[str(status)] = {"description": HTTPStatus(status).phrase, "content": content}
    out: dict[str, Any] = {"summary": route.summary, "parameters": parameters, "responses": responses}
    if route.method == "POST":
        out["requestBody"] = {"content": {"application/json": {"schema": _body(route)}}}
    return out


def _body(route: Route) -> dict[str, Any]:
    if route.body is None:
        return {"type": "object"}
    properties = {
        name: ({"type": TYPES[f.kind]} if f.kind is not object else {}) | ({"description": f.text} if f.text else {})
        for name, f in route.body.items()
    }
    required = [name for name, f in route.body.items() if f.required]
    return {"type": "object", "additionalProperties": False, "properties": properties, "required": required}
