"""Routes about the service itself."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from noetl_core import __version__
from noetl_core.control.api.call import Answer, Call, Route
from noetl_core.control.api.dispatch import routes
from noetl_core.control.api.docs import page
from noetl_core.control.api.openapi import document
from noetl_core.dsl.kinds import KINDS


def health(call: Call) -> dict[str, Any]:
    return {"status": "ok", "version": __version__, "api_version": "noetl.io/v2", "wiring": _wiring(call)}


def queue(call: Call) -> dict[str, Any]:
    """Numbers are SQS's approximations on a stack; of a local store they are this process's own."""
    return asdict(call.control.queue.backlog())


def runtime(call: Call) -> dict[str, Any]:
    """Where work is carried out: there are no standing workers, so a pool is its queue and what may run from it at once."""
    return {**_wiring(call), "version": __version__, "kinds": sorted(KINDS), "pools": call.service.facts.get("pools", {})}


def _wiring(call: Call) -> dict[str, Any]:
    return {k: v for k, v in call.service.facts.items() if k in ("name", "stack", "region")}


def openapi(_: Call) -> dict[str, Any]:
    return document(routes())


def read(_: Call) -> Answer:
    return page(document(routes()))


ROUTES = (
    Route("GET", "/api/health", "Liveness, versions, wiring", health),
    Route("GET", "/api/queue", "Backlog, in flight and dead letters of every queue", queue, right="executions:read"),
    Route("GET", "/api/runtime", "Pools, their limits, and the tool kinds", runtime, right="executions:read"),
    Route("GET", "/api/openapi.json", "This document", openapi),
    Route("GET", "/api/docs", "This document, to read", read),
)
