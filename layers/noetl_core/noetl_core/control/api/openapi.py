"""The OpenAPI document of a table of routes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from noetl_core import __version__
from noetl_core.control.api.call import Route


def document(routes: Sequence[Route]) -> dict[str, Any]:
    """The OpenAPI 3.1 document of `routes`."""
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        names = re.findall(r"\{(\w+)\+?\}", route.path)
        parameters = [{"name": n, "in": "path", "required": True, "schema": {"type": "string"}} for n in names]
        entry: dict[str, Any] = {
            "summary": route.summary,
            "responses": {str(route.status): {"description": "ok"}, "default": {"description": "error"}},
        }
        if parameters:
            entry["parameters"] = parameters
        if route.method == "POST":
            entry["requestBody"] = {"content": {"application/json": {"schema": {"type": "object"}}}}
        paths.setdefault(route.path.replace("+}", "}"), {})[route.method.lower()] = entry
    return {"openapi": "3.1.0", "info": {"title": "NoETL", "version": __version__}, "paths": paths}
