"""Routes for those who follow executions: what has changed in one, and how many there are."""

from __future__ import annotations

import json
from http import HTTPStatus
from typing import Annotated, Any

from aws_lambda_powertools.event_handler import Response
from aws_lambda_powertools.event_handler.openapi.params import Header

from noetl_core.client import following_shapes
from noetl_core.control.api.callers import READS
from noetl_core.control.api.parameters import ExecutionId, asked, written
from noetl_core.control.api.resolver import Resolver
from noetl_core.control.pages import MAX_PAGE

Count = Annotated[int, written("limit", 0, MAX_PAGE)]
FIELDS = "keys of events to show, separated by commas"
Known = Annotated[
    str | None, Header(alias="If-None-Match", description="the ETag of the answer whose cursor is given: is it still so?")
]


def add(app: Resolver) -> None:
    """Add them."""
    operations = app.service.operations

    @app.operation("GET", "/api/executions/stats", "Executions by status and by playbook", following_shapes.Stats, right=READS)
    def get_stats(
        path: Annotated[str | None, asked("of this playbook")] = None,
        since: Annotated[
            str | None,
            asked("started at this instant (ISO 8601) or later; by default any, and of those that have ended the last 24 hours"),
        ] = None,
        label: Annotated[str | None, asked("with this label, key:value or key; several separated by commas")] = None,
    ) -> Any:
        return operations.stats(path=path, since=since, label=label)

    @app.operation(
        "GET",
        "/api/executions/{execution_id}/changes",
        "State, and what has happened since a cursor",
        {HTTPStatus.OK: following_shapes.Changes, HTTPStatus.NOT_MODIFIED: {}},
        right=READS,
    )
    def get_changes(
        execution_id: ExecutionId,
        after: Annotated[str | None, asked("the cursor of the answer before; without it all steps and the last events")] = None,
        limit: Annotated[Count | None, asked("events at most; 0: state alone")] = None,
        fields: Annotated[str | None, asked(FIELDS)] = None,
        known: Known = None,
    ) -> Any:
        tag = (known or "").removeprefix("W/").strip('"')
        found = operations.changes(execution_id, after=after, limit=limit, fields=fields, known=tag or None)
        if found is None:
            return Response(HTTPStatus.NOT_MODIFIED, "application/json", "", headers={"ETag": f'"{tag}"'})
        text = json.dumps(found, separators=(",", ":"), default=str)
        return Response(HTTPStatus.OK, "application/json", text, headers={"ETag": f'"{found["etag"]}"'})
