"""Starts playbooks for deliveries from outside: events, messages, webhooks, uploads.

Every delivery has an id that stays the same when it is repeated: each matching trigger starts one execution. A trigger that
cannot be started does not affect others.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, Final

from noetl_core.aws.event_patterns import matches
from noetl_core.control.core import Control
from noetl_core.control.triggers.notifications import EventDelivery, QueueDelivery
from noetl_core.control.triggers.start import log_refusal, refuse, start_triggered
from noetl_core.control.triggers.uploads import MAX_UPLOAD, copied, put_by
from noetl_core.control.triggers.webhooks import short_id
from noetl_core.engine import ids
from noetl_core.ports import Firing, Forbidden, Inbox, NotFound, TooLarge, TriggerRecord, Upload, WebhookDelivery
from noetl_core.values.frozen import frozen

log = logging.getLogger(__name__)

INLINE: Final = 8 * 1024
"""Maximum size in bytes of an event that is kept in the log and in every command. A larger one is stored beside the log."""


@frozen
class UploadDelivery:
    """An object that was put into a bucket. `inbox` reads it."""

    kind: ClassVar[str] = "upload"
    upload: Upload
    inbox: Inbox


Delivery = EventDelivery | QueueDelivery | WebhookDelivery | UploadDelivery


class NobodyTakes(Exception):
    """No enabled trigger reads the queue, so the message stays there. Who acts: the operator who disabled the trigger."""


@frozen
class Deliveries:
    """Takes deliveries. `bucket` is the name of the inbox bucket, the default of triggers for uploads."""

    control: Control
    bucket: str = ""

    @staticmethod
    def needs_all(delivery: Delivery) -> bool:
        """Return whether any trigger may take it; a webhook's delivery names its trigger."""
        return not isinstance(delivery, WebhookDelivery)

    def take(self, delivery: Delivery, records: Sequence[TriggerRecord] | None = None) -> list[Firing]:
        """Start an execution for each trigger that takes `delivery`, and return the results.

        `records` are the triggers, if they have just been read. Repeating it is safe. Raises `NobodyTakes` for a message that no
        trigger takes. Raises the error of a trigger after all triggers were tried: then the delivery must be repeated.
        """
        taking = [record for record in self._records(delivery, records) if self._takes(record, delivery)]
        done: list[Firing] = []
        failed: list[Exception] = []
        for record in taking:
            try:
                done += self._start(record, delivery)
            except Exception as error:  # a failure of one trigger must not affect the others
                log.error("trigger %s of %s: a delivery must be repeated: %s", record.name, record.path, error)
                failed.append(error)
        for firing in done:
            log_refusal(firing)
        if failed:
            raise failed[0]
        return done

    def _records(self, delivery: Delivery, records: Sequence[TriggerRecord] | None) -> Sequence[TriggerRecord]:
        """Return the enabled triggers of the delivery's kind."""
        kind = delivery.kind
        if isinstance(delivery, WebhookDelivery):
            found = self.control.triggers.trigger(delivery.path, delivery.name)
            records = [found] if found is not None else []
        elif records is None:
            records = self.control.triggers.delivery_triggers()
        on = [record for record in records if record.kind == kind and record.enabled]
        if isinstance(delivery, QueueDelivery) and not any(record.source["queue"] == delivery.queue for record in on):
            raise NobodyTakes(f"no enabled trigger reads the queue {delivery.queue}: message {delivery.id} stays in it")
        return on

    def _takes(self, record: TriggerRecord, delivery: Delivery) -> bool:
        source = record.source
        match delivery:
            case EventDelivery():
                return matches(source["pattern"], delivery.event)
            case QueueDelivery():
                return source["queue"] == delivery.queue and matches(source["match"] or {}, delivery.event)
            case WebhookDelivery():
                return True  # its signature was that of this trigger, and it was matched then
            case UploadDelivery():
                put = delivery.upload
                bucket = source["bucket"] or self.bucket
                return put.bucket == bucket and put.key.startswith(source["prefix"]) and put.key.endswith(source["suffix"])

    def _start(self, record: TriggerRecord, delivery: Delivery) -> Iterable[Firing]:
        occurrence, at = _identity(delivery)
        execution_id = ids.execution_id_from_key(ids.occurrence_key(record.path, record.name, occurrence))
        if isinstance(delivery, UploadDelivery | WebhookDelivery) and self.control.load(execution_id).seq >= 0:
            return []  # before the object is copied again; started before: recorded already
        if isinstance(delivery, UploadDelivery):
            try:
                event: Mapping[str, Any] = _uploaded(delivery, execution_id)
            except NotFound as gone:
                log.warning("upload %s starts nothing: %s", delivery.upload.key, gone)
                return []
            except (Forbidden, TooLarge) as error:
                facts = {"kind": record.kind, "name": record.name, "id": occurrence, "event": _upload_event(delivery.upload)}
                code = "forbidden" if isinstance(error, Forbidden) else "too_large"
                return [refuse(self.control, record, occurrence, at, facts, code, str(error))]
        else:
            event = delivery.event
        control = self.control
        if isinstance(delivery, UploadDelivery) and delivery.upload.by:
            control = control.on_behalf_of(put_by(delivery.upload))
        return [start_triggered(control, record, occurrence, at, {"event": small(control, event, execution_id)})]


def small(control: Control, event: Mapping[str, Any], execution_id: str) -> Mapping[str, Any]:
    """Return an event in the form of the log: itself, or a reference to it among the objects of its execution."""
    body = json.dumps(event, separators=(",", ":"), ensure_ascii=False).encode()
    return event if len(body) <= INLINE else control.results.put(f"{execution_id}/trigger/event.json", body)


def _identity(delivery: Delivery) -> tuple[str, int]:
    """Return the id of a delivery, and its time (microseconds)."""
    match delivery:
        case EventDelivery() | QueueDelivery() | WebhookDelivery():
            return short_id(delivery.id), delivery.at
        case UploadDelivery():
            return short_id(delivery.upload.identity), delivery.upload.at


def _uploaded(delivery: UploadDelivery, execution_id: str) -> Mapping[str, Any]:
    upload = delivery.upload
    if upload.size > MAX_UPLOAD:
        raise TooLarge(f"an upload may have at most {MAX_UPLOAD // 1024**3} GB; this object has {upload.size} bytes")
    return {**_upload_event(upload), "object": copied(delivery.inbox, upload, execution_id)}


def _upload_event(upload: Upload) -> dict[str, Any]:
    return {"bucket": upload.bucket, "key": upload.key, "size": upload.size, "etag": upload.etag, "version_id": upload.version_id}
