"""Routes that show what an execution's values are: ctx, and what a template would give."""

from __future__ import annotations

from typing import Annotated, Any

from aws_lambda_powertools.event_handler.openapi.params import Body
from pydantic import Field

from noetl_core.client import shapes
from noetl_core.control.api.callers import READS
from noetl_core.control.api.parameters import ExecutionId, JsonBody, Text
from noetl_core.control.api.resolver import Resolver
from noetl_core.control.operations import execution_id as checked_id
from noetl_core.control.refusals import BadRequest


class Render(JsonBody):
    """A template, and where it is read."""

    execution_id: Text = Field(description="whose workload, ctx and steps it reads", min_length=1)
    template: Any = Field(description="text with templates, or data that holds such")
    step: Text | None = Field(default=None, description="whose args and event it reads too")
    task: Text | None = Field(default=None, description="a task of the step: the names that its templates saw")
    iteration: Text | None = Field(default=None, description="in which iteration: its index, `617`; in nested loops all, `3.5`")
    at: Text | None = Field(default=None, description="the id of an event: as everything was just after it")


def add(app: Resolver) -> None:
    """Add them."""
    operations = app.service.operations

    @app.operation("GET", "/api/vars/{execution_id}", "ctx of an execution", shapes.Ctx, right=READS)
    def get_ctx(execution_id: ExecutionId) -> Any:
        return operations.ctx(execution_id)

    @app.operation(
        "POST",
        "/api/context/render",
        "What a template would give, without secrets",
        shapes.Rendered,
        right=READS,
        refuses=(404, 409, 422),
    )
    def render_template(body: Annotated[Render, Body()]) -> Any:
        if body.template is None:
            raise BadRequest("template is missing", "body.template", "text with templates, or data that holds such")
        where = {"task": body.task, "iteration": body.iteration}
        return operations.render(checked_id(body.execution_id), body.template, body.step, body.at, **where)
