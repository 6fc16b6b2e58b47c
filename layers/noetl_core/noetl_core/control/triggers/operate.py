"""Operates on triggers: lists them, enables and disables them, fires them, and repeats refused deliveries."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, cast

from noetl_core.api.refused import BadRequest
from noetl_core.control.catalog.registration import set_due
from noetl_core.control.catalog.versions import record_change
from noetl_core.control.core import Control
from noetl_core.control.failures import KIND, handle_again
from noetl_core.control.lifecycle.operate import NotNow
from noetl_core.control.triggers.deliveries import small
from noetl_core.control.triggers.schedules import facts_of
from noetl_core.control.triggers.start import record_skipped, refused_id, start_triggered
from noetl_core.control.triggers.webhooks import short_id
from noetl_core.dsl.model import Schedule
from noetl_core.dsl.sources import Uploads
from noetl_core.engine import ids
from noetl_core.engine.schedules.occurrences import name_of, next_occurrence, occurrences, previous_occurrence
from noetl_core.engine.schedules.schedules import ScheduleState, schedule_of, switched_on
from noetl_core.log.concurrent_reads import read_concurrently
from noetl_core.ports import Firing, NotFound, RefusedDelivery, TriggerRecord, retry_conflicts
from noetl_core.values.instants import SECOND, from_text, in_microseconds, to_rfc3339

if TYPE_CHECKING:
    from noetl_core.api.shapes import triggers as shapes

SHOWN_FIRINGS: Final = 20
SHOWN_OCCURRENCES: Final = 10
MOST_REFUSED: Final = 100
MAX_FIRINGS_SEARCHED: Final = 1_000
"""Maximum number of firings, from the newest, searched for one with the same key."""


def found(control: Control, path: str, name: str) -> TriggerRecord:
    """Return a trigger. Raises `NotFound`, with the names of the existing ones."""
    record = control.triggers.trigger(path, name)
    if record is None:
        others = ", ".join(r.name for r in control.triggers.triggers(path))
        raise NotFound(f"playbook {path} has no trigger {name!r} ({f'it has: {others}' if others else 'it has none'})")
    return record


# --- reading ----------------------------------------------------------------------------------------------------------------


def listed(control: Control, path: str | None = None, kind: str | None = None) -> list[shapes.Trigger]:
    """Return the triggers of a playbook, or of all playbooks, in the form of lists."""
    records = control.triggers.triggers(path, kind)
    paths = {record.path for record in records}
    if len(paths) == 1:
        abouts = [control.catalog.about(paths.pop())]
    else:
        abouts = [*control.catalog.all_about()] if paths else []
    deleted = {about.path: about.deleted_at for about in abouts}
    return [as_listed(control, record, deleted.get(record.path)) for record in records]


def as_listed(control: Control, record: TriggerRecord, deleted_at: int | None) -> shapes.Trigger:
    """Return a trigger in the form of lists; `deleted_at` is the time since which its playbook starts nothing."""
    view: shapes.Trigger = {
        "path": record.path,
        "name": record.name,
        "kind": record.kind,
        "version": record.version,
        "enabled": record.enabled,
        "source": {key: value for key, value in record.source.items() if value not in (None, "", 0, [], {})},
    }
    if record.starts is not None:
        view["starts"] = record.starts
    if deleted_at is not None:
        view["deleted_at"] = to_rfc3339(deleted_at)
    sources = control.inbound_sources
    if sources is not None and (why := sources.why_unreachable(record.kind, record.source)) is not None:
        view["unreached"] = why
    if record.kind != Schedule.kind:
        return view
    state = ScheduleState.read(record.state)
    view["next_at"] = name_of(state.next_at) if state.next_at is not None and record.enabled and deleted_at is None else None
    if state.last_at is not None and state.execution_id is not None:
        view["last"] = {"scheduled_at": name_of(state.last_at), "execution_id": state.execution_id}
    if state.waiting:
        view["waiting"] = [name_of(at) for at in state.waiting]
    if state.stopped:
        view["stopped"] = state.stopped
    return view


def described(control: Control, path: str, name: str) -> shapes.TriggerDetails:
    """Return a trigger with its next occurrences, and the results of the last ones. Raises `NotFound`."""
    record = found(control, path, name)
    firings = control.triggers.firings(path, name, control.clock.now() // SECOND, SHOWN_FIRINGS)
    deleted_at = control.catalog.about(path).deleted_at
    return {
        **as_listed(control, record, deleted_at),
        "payload": dict(record.payload),
        "upcoming": _upcoming(record) if record.kind == Schedule.kind and record.enabled and deleted_at is None else [],
        "firings": list(read_concurrently(lambda firing: _past_firing(control, firing), firings)),
    }


def _upcoming(record: TriggerRecord) -> list[str]:
    state = ScheduleState.read(record.state)
    if state.next_at is None:
        return []
    return [name_of(at) for at in islice(occurrences(schedule_of(record.source), state.next_at - 1), SHOWN_OCCURRENCES)]


def _past_firing(control: Control, firing: Firing) -> shapes.PastFiring:
    view = cast("shapes.PastFiring", _firing_view(firing))
    head = None if firing.execution_id is None else control.index.head(firing.execution_id)
    if head is not None:
        view["execution"] = {
            "status": head.status,
            "started_at": to_rfc3339(head.started_at),
            "duration_ms": ((head.finished_at or control.clock.now()) - head.started_at) // 1000,
        }
    return view


def _firing_view(firing: Firing, refused: str | None = None) -> shapes.Firing:
    """Return the result of an occurrence in the form of answers; `refused` is the id of the refused delivery, if it is known."""
    view: shapes.Firing = {"id": firing.occurrence, "at": to_rfc3339(firing.at), "result": firing.result}
    if firing.execution_id is not None:
        view["execution_id"] = firing.execution_id
    if firing.reason:
        view["reason"] = firing.reason
    if firing.result == "refused":
        view["refused"] = refused or refused_id(firing.path, firing.name, firing.occurrence, firing.at)
    return view


# --- enabling and disabling -------------------------------------------------------------------------------------------------


def switch(control: Control, path: str, name: str, *, on: bool) -> shapes.Trigger:
    """Enable or disable a trigger.

    Occurrences that were not started when it is disabled never start. Raises `NotFound`, `Unavailable`.
    """

    def attempt() -> shapes.Trigger:
        record = found(control, path, name)
        if record.enabled == on:
            set_due(control, record)
            return as_listed(control, record, control.catalog.about(path).deleted_at)
        state = record.state
        if record.kind == Schedule.kind:
            state = _switched(control, record, on=on).plain()
        control.due_soon(ids.trigger_id(path, name))  # if this process dies after the write
        new = replace(record, enabled=on, state=state, revision=control.clock.nonce())
        control.triggers.put_trigger(new, record.revision)
        set_due(control, new)
        if control.by is not None:
            record_change(control, path, f"trigger {name} {'enabled' if on else 'disabled'}")
        return as_listed(control, new, control.catalog.about(path).deleted_at)

    return retry_conflicts(attempt, f"trigger {name} of {path}")


def _switched(control: Control, record: TriggerRecord, *, on: bool) -> ScheduleState:
    state = ScheduleState.read(record.state)
    for occurrence in (*state.starting, *state.waiting):
        record_skipped(control, record, occurrence, "skipped", "the trigger was disabled")
    state = replace(state, waiting=(), starting=())
    return switched_on(schedule_of(record.source), state, control.clock.now()) if on else state


# --- firing -----------------------------------------------------------------------------------------------------------------


def fire(
    control: Control,
    path: str,
    name: str,
    at: str | None = None,
    key: str | None = None,
    event: Mapping[str, Any] | None = None,
) -> shapes.Firing:
    """Start the playbook of a trigger, even if others run or it is disabled: now, or for one of its occurrences, which starts
    once. A trigger for deliveries fires with an `event` of the caller, whatever its pattern. The same `key` fires it once. Raises
    `NotFound`, `BadRequest`, `Unavailable`."""
    record = found(control, path, name)
    if record.kind != Schedule.kind:
        return _firing_view(_fire_with(control, record, at, key, event))
    if event is not None:
        raise BadRequest(f"trigger {name} is a schedule and takes no event", "body.event", "leave it out")
    schedule = schedule_of(record.source)
    if at is not None:
        instant = _occurrence(schedule, at)
        return _firing_view(start_triggered(control, record, name_of(instant), instant, facts_of(schedule, instant)))
    occurrence = _fired(control, key)
    if (before := _fired_before(control, record, occurrence, key)) is not None:
        return _firing_view(before)
    now = control.clock.now() // SECOND * SECOND
    return _firing_view(start_triggered(control, record, occurrence, now, facts_of(schedule, now)))


def _fired(control: Control, key: str | None) -> str:
    """Return the id of a manual firing: the same for the same key."""
    return short_id(f"fired:{key or control.clock.nonce()}")


def _fired_before(control: Control, record: TriggerRecord, occurrence: str, key: str | None) -> Firing | None:
    """Return the firing of a key. A repeated key belongs to its first firing."""
    if key is None:
        return None
    firings = control.triggers.firings(record.path, record.name, control.clock.now() // SECOND, MAX_FIRINGS_SEARCHED)
    return next((one for one in firings if one.occurrence == occurrence and one.result == "started"), None)


def _fire_with(
    control: Control, record: TriggerRecord, at: str | None, key: str | None, event: Mapping[str, Any] | None
) -> Firing:
    if record.kind == Uploads.kind:
        raise BadRequest(
            f"trigger {record.name} starts only from an uploaded object; it cannot be fired manually",
            "path.trigger",
            "upload an object that the trigger takes",
        )
    if at is not None:
        raise BadRequest(f"trigger {record.name} is not a schedule and has no occurrences", "body.at", "leave it out")
    if event is None:
        raise BadRequest(
            f"trigger {record.name} waits for deliveries; to fire it manually, pass an event",
            "body.event",
            "pass the event that its templates read as trigger.event: `--event @FILE`",
        )
    occurrence = _fired(control, key)
    if (before := _fired_before(control, record, occurrence, key)) is not None:
        return before
    execution_id = ids.execution_id_from_key(ids.occurrence_key(record.path, record.name, occurrence))
    facts = {"event": small(control, event, execution_id)}
    return start_triggered(control, record, occurrence, control.clock.now() // SECOND * SECOND, facts)


def _occurrence(schedule: Schedule, text: str) -> int:
    try:
        at = in_microseconds(from_text(text))
    except (ValueError, OverflowError):
        raise BadRequest(
            f"at must be an instant as ISO 8601 text, not {text[:60]!r}", "body.at", "2026-11-22T02:00:00Z"
        ) from None
    if at < 0 or at >= in_microseconds(datetime(9000, 1, 1, tzinfo=UTC)):
        raise BadRequest("at must be between 1970 and 9000", "body.at")
    if next_occurrence(schedule, at - 1) != at:
        near = (previous_occurrence(schedule, at), next_occurrence(schedule, at))
        hint = " and ".join(name_of(one) for one in near if one is not None)
        raise BadRequest(f"{text} is not an occurrence of the schedule", "body.at", f"nearest: {hint}")
    return at


# --- refused starts ---------------------------------------------------------------------------------------------------------


def list_refused(control: Control, path: str | None = None, limit: int | None = None) -> list[shapes.Refused]:
    """Return refused starts, newest first."""
    return [as_refused(one) for one in control.triggers.list_refused(control.clock.now() // SECOND, limit or MOST_REFUSED, path)]


def as_refused(refused: RefusedDelivery) -> shapes.Refused:
    """Return a refused start in the form of answers."""
    return {
        "id": refused.id,
        "path": refused.path,
        "trigger": refused.name,
        "kind": refused.kind,
        "occurrence": refused.occurrence,
        "at": to_rfc3339(refused.at),
        "code": refused.code,
        "reason": refused.reason,
        "facts": dict(refused.facts),
    }


def fire_refused(control: Control, id: str) -> shapes.Firing:
    """Retry a refused start with the trigger's current definition.

    If it starts, it is no longer listed. Raises `NotFound`, `NotNow`, `Unavailable`.
    """
    refused = control.triggers.refused(id, control.clock.now() // SECOND)
    if refused is None:
        raise NotFound(f"no refused start has the id {id}")
    firing = handle_again(control, refused) if refused.kind == KIND else _fire_again(control, refused)
    if firing.result == "started":
        control.triggers.forget_refused(id)
    return _firing_view(firing, id)


def _fire_again(control: Control, refused: RefusedDelivery) -> Firing:
    record = found(control, refused.path, refused.name)
    if record.kind != refused.kind:
        raise NotNow(f"trigger {refused.name} of {refused.path} is a {record.kind} now, and was a {refused.kind}")
    facts: Mapping[str, Any] = {k: v for k, v in refused.facts.items() if k not in ("kind", "name", "id")}
    if record.kind == Uploads.kind and "object" not in facts["event"]:
        raise NotNow(f"the object {facts['event']['key'][:200]} could not be read when it was reported: upload it again")
    return start_triggered(control, record, refused.occurrence, refused.at, facts)


def forget_refused(control: Control, id: str) -> None:
    """Delete a refused start. Raises `NotFound`."""
    if control.triggers.refused(id, control.clock.now() // SECOND) is None:
        raise NotFound(f"no refused start has the id {id}")
    control.triggers.forget_refused(id)
