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
TriggerName = Annotated[str, Field("name of the trigger", "trigger")]
RefusedId = Annotated[str, Field("id of the refused start", "refused")]


class ListTriggers(Request["triggers_shapes.Triggers"]):
    """Triggers of playbooks."""

    http = Http("GET", "/api/triggers", right=SEES)
    path: Annotated[str | None, "only triggers of this playbook"] = None
    kind: Annotated[str | None, "only triggers with this source"] = None


class GetTrigger(Request["triggers_shapes.TriggerDetails"]):
    """A trigger with its past and next firings."""

    http = Http("GET", TRIGGER, right=SEES)
    path: PlaybookPath
    name: TriggerName


class EnableTrigger(Request["triggers_shapes.Trigger"]):
    """Enable a trigger."""

    http = Http("POST", f"{TRIGGER}/enable", right=WRITES, body="Nothing", optional=True)
    path: PlaybookPath
    name: TriggerName


class DisableTrigger(Request["triggers_shapes.Trigger"]):
    """Disable a trigger."""

    http = Http("POST", f"{TRIGGER}/disable", right=WRITES, body="Nothing", optional=True)
    path: PlaybookPath
    name: TriggerName


class FireTrigger(Request["triggers_shapes.Firing"]):
    """Fire a trigger."""

    http = Http("POST", f"{TRIGGER}/fire", right=STARTS, status=HTTPStatus.ACCEPTED, body="Fire", optional=True)
    path: PlaybookPath
    name: TriggerName
    _: KW_ONLY
    at: Annotated[str | None, "one of its occurrences (ISO 8601), by default now"] = None
    event: Annotated[
        Mapping[str, Any] | None, "the `trigger.event` of an event, queue or webhook trigger, in place of a delivery"
    ] = None
    idempotency_key: Annotated[
        str | None,
        Field(
            "the same key fires it once; the Idempotency-Key header is equivalent",
            header="Idempotency-Key",
            header_about="as `idempotency_key` in the body",
        ),
    ] = None


class ListRefused(Request["triggers_shapes.RefusedDeliveries"]):
    """Refused starts of triggers, newest first."""

    http = Http("GET", "/api/refused", right=READS)
    path: Annotated[str | None, "only refused starts of this playbook"] = None
    limit: Limit = None


class FireRefused(Request["triggers_shapes.Firing"]):
    """Retry a refused start."""

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
    """Delete a refused start."""

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
