"""Routes about the service itself."""

from __future__ import annotations

from typing import Any

from noetl_core import __version__
from noetl_core.control.api.call import Call, Route


def health(_: Call) -> dict[str, Any]:
    return {"status": "ok", "version": __version__, "api_version": "noetl.io/v2"}


def queue(call: Call) -> dict[str, Any]:
    return {"pools": {"default": {"waiting": call.control.queue.depth("default")}}}


ROUTES = (
    Route("GET", "/api/health", "Liveness and versions", health),
    Route("GET", "/api/queue", "Commands waiting", queue),
)
