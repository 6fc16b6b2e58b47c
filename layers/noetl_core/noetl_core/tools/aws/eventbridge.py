"""`kind: eventbridge`: puts events on buses (docs/tools/eventbridge.md)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from noetl_core.engine.outcome import ErrorKind, Outcome
from noetl_core.tools.actions import action_of, optional_text, text
from noetl_core.tools.aws import messages, rights
from noetl_core.tools.aws.clients import client
from noetl_core.tools.aws.errors import errors_of
from noetl_core.tools.aws.rights import EVENT_BUSES
from noetl_core.tools.base import BadInput, ToolCall
from noetl_core.tools.stopping import stopper

MAX_BYTES: Final = 1024 * 1024
"""The most bytes of an event, and of all events of one request."""
DEFAULT: Final = "default"
FAILURES: Final[Mapping[str, ErrorKind]] = {
    "ThrottlingException": "rate_limit",
    "InternalFailure": "server_error",
    "InternalException": "server_error",
    "AccessDeniedException": "auth",
    "NotAuthorizedForSourceException": "auth",
    "NotAuthorizedForDetailTypeException": "auth",
    "ResourceNotFoundException": "not_found",
}
"""The meaning of the code of one refused event; every other is the author's error."""


class EventBridgeTool:
    """Inputs `bus`, `source`, `detail_type`, `detail` or `details`, and `resources`."""

    kind = "eventbridge"
    inline = False

    def run(self, call: ToolCall) -> Outcome:
        action_of(call)
        bus = optional_text(call, "bus") or DEFAULT
        name = bus_name(bus)
        rights.check(EVENT_BUSES, name)
        entries = [_entry(call, bus, detail) for detail in messages.values(call, "detail", "details")]
        batches = messages.batches(call.kind, entries, _size, MAX_BYTES)
        sent: list[str] = []
        stop = stopper(call)
        region = optional_text(call, "region") or (bus.split(":")[3] if bus.startswith("arn:") else None)
        with errors_of(call.kind, EVENT_BUSES, name):
            for batch in batches:
                stop()
                answer = client("events", region).put_events(Entries=batch)
                sent += _put(call.kind, answer["Entries"], len(sent), len(entries))
        return Outcome.ok({"bus": name, "sent": len(sent), "event_ids": sent})


def bus_name(bus: str) -> str:
    """Return the name of a bus that is given as a name or an ARN. Raises `BadInput`."""
    head, found, name = bus.partition(":event-bus/")
    is_arn = bool(found) and head.startswith("arn:") and head.count(":") == 4
    if is_arn and name:
        return name
    if ":" in bus:
        raise BadInput(f"`bus` must be a name or an ARN, not {bus[:80]!r}")
    return bus


def _entry(call: ToolCall, bus: str, detail: Any) -> messages.Entry:
    """Return one event in EventBridge's form."""
    if not isinstance(detail, Mapping):
        raise BadInput(f"the detail of an event is a mapping, not {detail!r:.60}")
    resources = call.inputs.get("resources") or []
    if not isinstance(resources, list) or not all(isinstance(arn, str) for arn in resources):
        raise BadInput("`resources` must be a list of ARNs")
    return {
        "EventBusName": bus,
        "Source": text(call, "source"),
        "DetailType": text(call, "detail_type"),
        "Detail": json.dumps(detail, ensure_ascii=False, allow_nan=False),
        "Resources": resources,
    }


def _size(entry: messages.Entry) -> int:
    return sum(len(t.encode()) for t in (entry["Source"], entry["DetailType"], entry["Detail"], *entry["Resources"]))


def _put(kind: str, answers: Sequence[Mapping[str, Any]], before: int, of: int) -> list[str]:
    """Return the ids of the events of a request, if all were put; `before` of `of` were put by earlier requests."""
    sent = [one["EventId"] for one in answers if "ErrorCode" not in one]
    for number, one in enumerate(answers, before):
        if "ErrorCode" in one:
            code = str(one["ErrorCode"])
            message = f"event {number} was not put: {one.get('ErrorMessage') or code}"
            raise messages.refused(kind, message, code, FAILURES.get(code, "client_error"), before + len(sent), of)
    return sent
