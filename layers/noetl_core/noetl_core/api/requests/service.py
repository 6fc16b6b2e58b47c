"""Operations about the service itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from noetl_core.api.request import Caller, Http, Operation, Request
from noetl_core.api.rights import READS

if TYPE_CHECKING:
    from noetl_core.api.shapes import limits as limits_shapes
    from noetl_core.api.shapes import service as service_shapes


class GetHealth(Request["service_shapes.Health"]):
    """Liveness, versions, wiring."""

    http = Http("GET", "/api/health")


class GetQueue(Request["service_shapes.Backlog"]):
    """Waiting, running and dead messages of every queue."""

    http = Http("GET", "/api/queue", right=READS)


class GetRuntime(Request["service_shapes.Runtime"]):
    """Pools, their limits, and the tool kinds."""

    http = Http("GET", "/api/runtime", right=READS)


class GetLimits(Request["limits_shapes.Limits"]):
    """Limits that executions share."""

    http = Http("GET", "/api/limits", right=READS)
    key: Annotated[str | None, "key of one limit, to include its holders and waiters"] = None


class ServiceApi(Caller):
    """Methods about the service."""

    health = Operation(GetHealth)
    queue = Operation(GetQueue)
    runtime = Operation(GetRuntime)
    limits = Operation(GetLimits)
