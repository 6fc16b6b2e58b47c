"""Starts the playbook of a trigger, once for each occurrence or delivery."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from hashlib import blake2b
from typing import Any, Final, cast

from noetl_core.control.admit import KeyReused, StartRequest, UnknownPool, admit, loading, strict_by_default
from noetl_core.control.catalog.versions import Deleted, Playbooks
from noetl_core.control.core import Control
from noetl_core.control.refusals import code_of
from noetl_core.dsl.model import Schedule
from noetl_core.dsl.reading.diagnostics import InvalidPlaybook
from noetl_core.dsl.versions import Version
from noetl_core.engine import ids
from noetl_core.engine.schedules.occurrences import name_of
from noetl_core.engine.state import trigger_seen
from noetl_core.engine.workload import BadWorkload
from noetl_core.events.shapes import MAX_PRINCIPAL, By, Triggered
from noetl_core.expr import Scope, TemplateError, render
from noetl_core.expr.scope import Resolve
from noetl_core.log.stored_values import Values
from noetl_core.ports import CorruptLog, Firing, NotFound, RefusedDelivery, TooLarge, TriggerRecord
from noetl_core.ports.triggers import REFUSED_KEPT_S
from noetl_core.values.instants import DAY_S, SECOND

log = logging.getLogger(__name__)

FIRINGS_KEPT_S: Final = 7 * DAY_S
"""Retention of the result of an occurrence."""
SOURCES: Final = {"webhook": "hook", "upload": "s3"}
"""Sources in `by` that differ from the kind of the trigger."""
NEVER = (BadWorkload, InvalidPlaybook, UnknownPool, NotFound, TemplateError, TooLarge)
"""Errors that a retry does not remedy: someone must act first."""


def start_triggered(control: Control, record: TriggerRecord, occurrence: str, at: int, facts: Mapping[str, Any]) -> Firing:
    """Start the playbook of a trigger for one occurrence or delivery, and record the result.

    `at` is its due time (microseconds). `facts` has the fields of `trigger` that templates read besides its kind, name and id,
    with large
    values as references to objects of the execution. Both are the same for each repetition of the occurrence. It starts one
    execution, even if another version is registered in the meantime. A delivery that can never start is kept on the list of
    refused deliveries. Raises `Unavailable`: try again.
    """
    trigger = cast("Triggered", {"kind": record.kind, "name": record.name, "id": occurrence, **facts})
    key = ids.occurrence_key(record.path, record.name, occurrence)
    try:
        read = loading(Values(control.store, control.results, ids.execution_id_from_key(key)))
        request = StartRequest(
            path=record.path,
            version=started_version(record),
            payload=payload_of(control, record, trigger, read),
            idempotency_key=key,
            derived_key=True,
            trigger=trigger,
            by=control.by or by_trigger(record),
        )
        execution_id = admit(control, request).execution_id
    except KeyReused:  # by an earlier version of the trigger
        execution_id = ids.execution_id_from_key(key)
    except Deleted as gone:  # the playbook may be restored; later occurrences then start
        if record.kind != Schedule.kind:  # deliveries do not recur; schedules do
            return refuse(control, record, occurrence, at, trigger, code_of(gone), str(gone))
        return record_firing(control, record, occurrence, at, "skipped", reason=str(gone))
    except NEVER as error:
        return refuse(control, record, occurrence, at, trigger, code_of(error), str(error))
    return record_firing(control, record, occurrence, at, "started", execution_id=execution_id)


def payload_of(playbooks: Playbooks, record: TriggerRecord, trigger: Triggered, resolve: Resolve) -> dict[str, Any]:
    """Return the payload for the playbook of a trigger. Raises `TemplateError`, `NotFound`, `InvalidPlaybook`."""
    strict = strict_by_default(playbooks, playbooks.playbook(record.digest))
    payload: dict[str, Any] = render(record.payload, Scope({"trigger": trigger_seen(trigger)}, resolve=resolve, strict=strict))
    return payload


def started_version(record: TriggerRecord) -> Version:
    """Return the version that a trigger starts."""
    return record.version if record.starts is None else record.starts


def by_trigger(record: TriggerRecord) -> By:
    """Return the trigger as starter of executions that are not fired manually."""
    return {"principal": f"{record.path}/{record.name}"[:MAX_PRINCIPAL], "source": SOURCES.get(record.kind, record.kind)}


def refuse(
    control: Control, record: TriggerRecord, occurrence: str, at: int, trigger: Mapping[str, Any], code: str, reason: str
) -> Firing:
    """Keep a start that can never succeed, for people to inspect and to fire again."""
    expires_at = control.clock.now() // SECOND + REFUSED_KEPT_S
    refused = RefusedDelivery(
        refused_id(record.path, record.name, occurrence, at),
        record.path,
        record.name,
        record.kind,
        occurrence,
        at,
        code,
        reason,
        trigger,
        expires_at,
    )
    control.triggers.refuse(refused)
    return record_firing(control, record, occurrence, at, "refused", reason=reason)


def log_refusal(firing: Firing) -> None:
    """Log a refused start for which no caller waits."""
    if firing.result == "refused":
        log.error("trigger %s of %s: %s cannot start: %s", firing.name, firing.path, firing.occurrence, firing.reason)


def record_firing(
    control: Control,
    record: TriggerRecord,
    occurrence: str,
    at: int,
    result: Any,
    *,
    execution_id: str | None = None,
    reason: str = "",
) -> Firing:
    """Record the result of an occurrence."""
    expires_at = control.clock.now() // SECOND + FIRINGS_KEPT_S
    firing = Firing(record.path, record.name, occurrence, at, result, execution_id, reason, expires_at)
    control.triggers.put_firing(firing)
    return firing


def record_skipped(control: Control, record: TriggerRecord, at: int, result: Any, reason: str) -> None:
    """Record that an occurrence of a schedule is skipped, unless someone has started it manually."""
    occurrence = name_of(at)
    execution_id = ids.execution_id_from_key(ids.occurrence_key(record.path, record.name, occurrence))
    try:
        started = control.load(execution_id).seq >= 0
    except CorruptLog:
        started = True
    if started:
        record_firing(control, record, occurrence, at, "started", execution_id=execution_id)
    else:
        record_firing(control, record, occurrence, at, result, reason=reason)


def refused_id(path: str, name: str, occurrence: str, at: int) -> str:
    """Return the id of a refused delivery. It begins with its instant, for the order, and contains its occurrence."""
    mark = blake2b(ids.occurrence_key(path, name, occurrence).encode(), digest_size=6).hexdigest()
    return f"{at // SECOND:010d}-{mark}"
