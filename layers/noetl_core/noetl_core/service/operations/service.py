"""Answers requests about the service itself."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, cast

from noetl_core import __version__
from noetl_core.api.requests.service import GetHealth, GetLimits, GetQueue, GetRuntime
from noetl_core.dsl.kinds import KINDS
from noetl_core.service.operations.base import Operations
from noetl_core.views.executions.shared_limits import limits

if TYPE_CHECKING:
    from noetl_core.api.shapes.limits import Limits
    from noetl_core.api.shapes.service import Backlog, Health, Runtime, Wiring


@GetHealth.answered
def get_health(on: Operations, _: GetHealth) -> Health:
    return {"status": "ok", "version": __version__, "api_version": "noetl.io/v2", "wiring": _wiring(on)}


@GetQueue.answered
def get_queue(on: Operations, _: GetQueue) -> Backlog:
    """Return the backlog. On a stack, numbers are SQS's approximations; on a local store, they are this process's own."""
    return cast("Backlog", asdict(on.control().queue.backlog()))


@GetLimits.answered
def get_limits(on: Operations, request: GetLimits) -> Limits:
    return limits(on.control(), request.key)


@GetRuntime.answered
def get_runtime(on: Operations, _: GetRuntime) -> Runtime:
    """Return the pools. There are no standing workers: a pool is its queue, and the number of its commands that may run
    concurrently."""
    return {**_wiring(on), "version": __version__, "kinds": sorted(KINDS), "pools": dict(on.facts.get("pools", {}))}


def _wiring(on: Operations) -> Wiring:
    return cast("Wiring", {k: v for k, v in on.facts.items() if k in ("name", "stack", "region")})
