"""Checks whether a webhook's request can start its playbook, before it is answered (`respond: validated`).

It reads the same records as admission, and writes nothing. Only webhooks with this option load this module: it parses playbooks
and
evaluates templates.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from noetl_core.control.admit import settled_inputs, strict_by_default
from noetl_core.control.catalog.versions import Playbooks, resolve
from noetl_core.control.refusals import refusal
from noetl_core.control.triggers.start import NEVER, payload_of, started_version
from noetl_core.control.triggers.webhooks import short_id
from noetl_core.engine import ids
from noetl_core.events.shapes import Triggered
from noetl_core.playbooks.parsed import PlaybookCache
from noetl_core.ports import PlaybookCatalog, TriggerRecord, WebhookDelivery


@dataclass
class RegisteredPlaybooks:
    """`Playbooks` of a catalog, without a control plane."""

    catalog: PlaybookCatalog
    strict: bool = False
    playbook: PlaybookCache = field(init=False)

    def __post_init__(self) -> None:
        self.playbook = PlaybookCache(self.catalog)


class _StoredElsewhere(Exception):
    """The request contains a reference, which only admission can load."""


def why_it_cannot_start(playbooks: Playbooks, record: TriggerRecord, delivery: WebhookDelivery) -> Mapping[str, Any] | None:
    """Return the error with which a request is rejected; None if its playbook can start. Raises `Unavailable`."""
    trigger = cast(
        "Triggered",
        {"kind": record.kind, "name": record.name, "id": short_id(delivery.id), "event": delivery.event},
    )
    execution_id = ids.execution_id_from_key(ids.occurrence_key(record.path, record.name, trigger["id"]))
    try:
        payload = payload_of(playbooks, record, trigger, _not_here)
        version = resolve(playbooks, record.path, started_version(record), execution_id)
        playbook = playbooks.playbook(version.digest)
        strict = strict_by_default(playbooks, playbook)
        settled_inputs(playbook, payload, execution_id, _not_here, trigger, strict=strict)
    except _StoredElsewhere:
        return None
    except NEVER as error:
        found = refusal(error, "").body["error"]
        return {key: found[key] for key in ("code", "message", "details")}
    return None


def _not_here(reference: Any) -> Any:
    raise _StoredElsewhere(reference)
