"""Operations on triggers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY
from http import HTTPStatus
from typing import TYPE_CHECKING, Annotated, Any

from noetl_core.api.fields import Field, PlaybookPath
from noetl_core.api.request import Caller, Http, Operation, Request
from noetl_core.api.requests.executions import Limit
from noetl_core.api.rights import OPERATES, READS, SEES, STARTS, WRITES

if TYPE_CHECKING:
    from noetl_core.api.shapes import triggers as triggers_shapes

TRIGGER = "/api/triggers/{path+}/{trigger}"
TriggerName = Annotated[str, Field("of the trigger", "trigger")]
RefusedId = Annotated[str, Field("of what was refused", "refused")]


class ListTriggers(Request["triggers_shapes.Triggers"]):
    """What starts playbooks by itself."""

    http = Http("GET", "/api/triggers", right=SEES)
    path: Annotated[str | None, "of this playbook"] = None
    kind: Annotated[str | None, "of this source"] = None


class GetTrigger(Request["triggers_shapes.TriggerDetails"]):
    """One trigger, what it did, and when it does next."""

    http = Http("GET", TRIGGER, right=SEES)
    path: PlaybookPath
    name: TriggerName


class EnableTrigger(Request["triggers_shapes.Trigger"]):
    """Switch a trigger on."""

    http = Http("POST", f"{TRIGGER}/enable", right=WRITES, body="Nothing", optional=True)
    path: PlaybookPath
    name: TriggerName


class DisableTrigger(Request["triggers_shapes.Trigger"]):
    """Switch a trigger off."""

    http = Http("POST", f"{TRIGGER}/disable", right=WRITES, body="Nothing", optional=True)
    path: PlaybookPath
    name: TriggerName


class FireTrigger(Request["triggers_shapes.Firing"]):
    """Start what a trigger starts."""

    http = Http("POST", f"{TRIGGER}/fire", right=STARTS, status=HTTPStatus.ACCEPTED, body="Fire", optional=True)
    path: PlaybookPath
    name: TriggerName
    _: KW_ONLY
    at: Annotated[str | None, "one of its occurrences (ISO 8601), by default now"] = None
    event: Annotated[
        Mapping[str, Any] | None, "what an event, queue or webhook trigger reads as `trigger.event`, in place of a delivery"
    ] = None
    idempotency_key: Annotated[
        str | None,
        Field(
            "the same key fires it once; the Idempotency-Key header says the same",
            header="Idempotency-Key",
            header_about="as `idempotency_key` in the body",
        ),
    ] = None


class ListRefused(Request["triggers_shapes.RefusedDeliveries"]):
    """What triggers could not start, newest first."""

    http = Http("GET", "/api/refused", right=READS)
    path: Annotated[str | None, "of this playbook"] = None
    limit: Limit = None


class FireRefused(Request["triggers_shapes.Firing"]):
    """Try again to start it."""

    http = Http(
        "POST",
        "/api/refused/{refused}/fire",
        right=STARTS,
        status=HTTPStatus.ACCEPTED,
        refuses=(409,),
        body="Nothing",
        optional=True,
    )
    id: RefusedId


class ForgetRefused(Request["triggers_shapes.Forgotten"]):
    """Forget it."""

    http = Http("DELETE", "/api/refused/{refused}", right=OPERATES)
    id: RefusedId


class TriggersApi(Caller):
    """Methods on triggers."""

    triggers = Operation(ListTriggers)
    trigger = Operation(GetTrigger)
    fire_trigger = Operation(FireTrigger)
    refused = Operation(ListRefused)
    fire_refused = Operation(FireRefused)
    forget_refused = Operation(ForgetRefused)

    def switch_trigger(self, path: str, name: str, *, on: bool) -> triggers_shapes.Trigger:
        """Enable or disable a trigger."""
        return self.call(EnableTrigger(path, name) if on else DisableTrigger(path, name))
