"""Routes about the service itself: health, backlog, pools, and the document of the API."""

from __future__ import annotations

import json
from typing import Annotated, Any

from aws_lambda_powertools.event_handler import Response

from noetl_core.client import limit_shapes, service_shapes
from noetl_core.control.api.callers import READS
from noetl_core.control.api.page import page
from noetl_core.control.api.parameters import asked
from noetl_core.control.api.resolver import Resolver

OBJECT = {"application/json": {"schema": {"type": "object"}}}
HTML = "text/html; charset=utf-8"


def add(app: Resolver) -> None:
    """Add them."""
    operations = app.service.operations

    @app.operation("GET", "/api/health", "Liveness, versions, wiring", service_shapes.Health)
    def get_health() -> Any:
        return operations.health()

    @app.operation("GET", "/api/queue", "Backlog, in flight and dead letters of every queue", service_shapes.Backlog, right=READS)
    def get_queue() -> Any:
        return operations.queue()

    @app.operation("GET", "/api/runtime", "Pools, their limits, and the tool kinds", service_shapes.Runtime, right=READS)
    def get_runtime() -> Any:
        return operations.runtime()

    @app.operation("GET", "/api/limits", "Limits that executions share", limit_shapes.Limits, right=READS)
    def get_limits(key: Annotated[str | None, asked("of one limit, with those that hold and await its places")] = None) -> Any:
        return operations.limits(key)

    @app.operation("GET", "/api/openapi.json", "This document", {200: OBJECT})
    def get_document() -> Any:
        return Response(200, "application/json", json.dumps(app.document(), separators=(",", ":")))

    @app.operation("GET", "/api/docs", "This document, to read", {200: {HTML: {"schema": {"type": "string"}}}})
    def get_docs() -> Any:
        return Response(200, HTML, page(app.document()))
