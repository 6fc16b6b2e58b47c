"""Routes about the iterations of a step."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from aws_lambda_powertools.event_handler.openapi.params import Path
from pydantic import AfterValidator, WithJsonSchema

from noetl_core.client import step_shapes
from noetl_core.control.api.callers import READS
from noetl_core.control.api.parameters import ExecutionId, Limit, StepName, asked, asked_as, written
from noetl_core.control.api.resolver import Resolver
from noetl_core.control.looking import iteration_path

STEP = "/api/executions/{execution_id}/steps/{step}/"
Index = Annotated[int, written("from", 0, 999_999_999)]
Place = Annotated[
    str,
    Path(description="its index; in nested loops all of them, `3.5`"),
    AfterValidator(lambda text: ".".join(map(str, iteration_path(text)))),
    WithJsonSchema({"type": "string", "pattern": r"^[0-9]{1,9}(\.[0-9]{1,9}){0,9}$"}),
]


def add(app: Resolver) -> None:
    """Add them."""
    operations = app.service.operations

    @app.operation(
        "GET", STEP + "iterations", "Iterations of the newest run of a step, as they ended", step_shapes.Iterations, right=READS
    )
    def list_iterations(
        execution_id: ExecutionId,
        step: StepName,
        status: Annotated[Literal["ok", "error", "running"] | None, asked("of this status")] = None,
        q: Annotated[str | None, asked("with this text in kind, code or message of the error; a number: of this index")] = None,
        begin: Annotated[Index | None, asked_as("from", "begin about with this index")] = None,
        after: Annotated[str | None, asked("the cursor of the answer before")] = None,
        limit: Annotated[Limit | None, asked("at most so many")] = None,
    ) -> Any:
        return operations.iterations(execution_id, step, status=status, q=q, begin=begin, after=after, limit=limit)

    @app.operation(
        "GET",
        STEP + "iterations/{iteration}",
        "One iteration with its item and the attempts of its tasks",
        step_shapes.IterationDetail,
        right=READS,
    )
    def get_iteration(execution_id: ExecutionId, step: StepName, iteration: Place) -> Any:
        return operations.iteration(execution_id, step, iteration)
