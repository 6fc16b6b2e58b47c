"""Routes of triggers."""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated, Any

from aws_lambda_powertools.event_handler.openapi.params import Body, Header, Path
from pydantic import Field

from noetl_core.client import trigger_shapes as shapes
from noetl_core.control.api.callers import OPERATES, READS, SEES, STARTS, WRITES
from noetl_core.control.api.operating import NOTHING, Nothing
from noetl_core.control.api.parameters import JsonBody, Limit, PlaybookPath, Text, asked
from noetl_core.control.api.resolver import Resolver

TriggerName = Annotated[str, Path(description="of the trigger")]
RefusedId = Annotated[str, Path(description="of what was refused")]


class Fire(JsonBody):
    """What to fire."""

    at: Text | None = Field(default=None, description="one of its occurrences (ISO 8601), by default now")
    event: dict[str, Any] | None = Field(
        default=None, description="what an event, queue or webhook trigger reads as `trigger.event`, in place of a delivery"
    )
    idempotency_key: Text | None = Field(
        default=None, description="the same key fires it once; the Idempotency-Key header says the same"
    )


FIRE = Fire()
Key = Annotated[str | None, Header(alias="Idempotency-Key", description="as `idempotency_key` in the body")]


def add(app: Resolver) -> None:
    """Add them."""
    operations = app.service.operations
    at = "/api/triggers/{path+}/{trigger}"

    @app.operation("GET", "/api/triggers", "What starts playbooks by itself", shapes.Triggers, right=SEES)
    def list_triggers(
        path: Annotated[str | None, asked("of this playbook")] = None,
        kind: Annotated[str | None, asked("of this source")] = None,
    ) -> Any:
        return operations.triggers(path, kind)

    @app.operation("GET", at, "One trigger, what it did, and when it does next", shapes.TriggerDetails, right=SEES)
    def get_trigger(path: PlaybookPath, trigger: TriggerName) -> Any:
        return operations.trigger(path, trigger)

    @app.operation("POST", f"{at}/enable", "Switch a trigger on", shapes.Trigger, right=WRITES)
    def enable_trigger(path: PlaybookPath, trigger: TriggerName, body: Annotated[Nothing, Body()] = NOTHING) -> Any:
        return operations.switch_trigger(path, trigger, on=True)

    @app.operation("POST", f"{at}/disable", "Switch a trigger off", shapes.Trigger, right=WRITES)
    def disable_trigger(path: PlaybookPath, trigger: TriggerName, body: Annotated[Nothing, Body()] = NOTHING) -> Any:
        return operations.switch_trigger(path, trigger, on=False)

    @app.operation("POST", f"{at}/fire", "Start what a trigger starts", shapes.Firing, right=STARTS, status=HTTPStatus.ACCEPTED)
    def fire_trigger(path: PlaybookPath, trigger: TriggerName, body: Annotated[Fire, Body()] = FIRE, key: Key = None) -> Any:
        return operations.fire_trigger(path, trigger, at=body.at, event=body.event, idempotency_key=body.idempotency_key or key)

    @app.operation("GET", "/api/refused", "What triggers could not start, newest first", shapes.RefusedDeliveries, right=READS)
    def list_refused(
        path: Annotated[str | None, asked("of this playbook")] = None,
        limit: Annotated[Limit | None, asked("at most so many")] = None,
    ) -> Any:
        return operations.refused(path, limit)

    @app.operation(
        "POST",
        "/api/refused/{refused}/fire",
        "Try again to start it",
        shapes.Firing,
        right=STARTS,
        status=HTTPStatus.ACCEPTED,
        refuses=(409,),
    )
    def fire_refused(refused: RefusedId, body: Annotated[Nothing, Body()] = NOTHING) -> Any:
        return operations.fire_refused(refused)

    @app.operation("DELETE", "/api/refused/{refused}", "Forget it", shapes.Forgotten, right=OPERATES)
    def forget_refused(refused: RefusedId) -> Any:
        return operations.forget_refused(refused)
