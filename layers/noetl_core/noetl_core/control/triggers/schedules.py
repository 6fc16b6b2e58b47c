"""Fires schedules: the shell around `engine.schedules.schedules`.

A decision is recorded in the trigger before it is carried out, and carrying it out is safe to repeat. After a crash, the next
process starts the decided executions, none of them twice. If two processes decide at the same time, one of them finds that the
trigger
has changed, and decides again.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Any

from noetl_core.control.catalog.registration import set_due
from noetl_core.control.core import MAX_QUEUE_DELAY_S, Control
from noetl_core.control.lifecycle.operate import NotNow, cancel
from noetl_core.control.triggers.start import log_refusal, record_skipped, refuse, start_triggered
from noetl_core.dsl.model import Schedule
from noetl_core.engine.ids import trigger_id
from noetl_core.engine.schedules.occurrences import name_of, previous_occurrence
from noetl_core.engine.schedules.schedules import Decided, ScheduleState, decide, due_at, has_started, schedule_of
from noetl_core.engine.statuses import TERMINAL
from noetl_core.ports import CorruptLog, NotFound, OtherRevision, TriggerRecord, retry_conflicts
from noetl_core.values.instants import SECOND

log = logging.getLogger(__name__)

MOST_ROUNDS = 20
"""Maximum number of decisions of one visit; the rest follows at once in another visit."""


def fire_due(control: Control, path: str, name: str) -> None:
    """Fire the due occurrences of a trigger, and record its next due time.

    Repeating it is safe, also in several processes at the same time. Raises `Unavailable`: try again.
    """
    key = trigger_id(path, name)
    moved = False
    for _ in range(MOST_ROUNDS):
        record = control.triggers.trigger(path, name)
        if record is None or not record.enabled or record.kind != Schedule.kind:
            control.index.clear_due(key)
            return
        schedule, state = schedule_of(record.source), ScheduleState.read(record.state)
        for occurrence in state.starting:
            state = _start(control, record, schedule, state, occurrence)
        decided = _decide(control, key, schedule, state)
        if decided.state.plain() == record.state and not decided.skipped:
            break
        for skipped in decided.skipped:  # before they are forgotten; a repeated decision is recorded again
            result: Any = "missed" if skipped.missed else "skipped"
            record_skipped(control, record, skipped.occurrence, result, skipped.reason)
        try:
            control.triggers.put_trigger(
                replace(record, state=decided.state.plain(), revision=control.clock.nonce()), record.revision
            )
        except OtherRevision:
            continue
        moved = True
        if decided.cancel is not None:
            _cancel(control, decided.cancel, f"trigger {name}: a later occurrence takes its place")
    _set_next_visit(control, path, name, moved=moved)


def _decide(control: Control, key: str, schedule: Schedule, state: ScheduleState) -> Decided:
    now = control.clock.now()
    due = due_at(schedule, key, state, now)
    if not state.waiting and (due is None or due > now):
        return Decided(state)
    alive = schedule.overlap != "allow" and state.execution_id is not None and _is_alive(control, state.execution_id)
    return decide(schedule, key, state, now, alive=alive)


def _start(control: Control, record: TriggerRecord, schedule: Schedule, state: ScheduleState, occurrence: int) -> ScheduleState:
    firing = start_triggered(control, record, name_of(occurrence), occurrence, facts_of(schedule, occurrence))
    log_refusal(firing)
    return has_started(state, occurrence, firing.execution_id)


def facts_of(schedule: Schedule, occurrence: int) -> dict[str, Any]:
    """Return the `trigger` that templates of one occurrence read."""
    before = previous_occurrence(schedule, occurrence)
    facts = {"scheduled_at": name_of(occurrence)}
    return facts if before is None else {**facts, "previous_at": name_of(before)}


def _is_alive(control: Control, execution_id: str) -> bool:
    """Return whether an execution is in progress; False if its log has expired or is unreadable."""
    head = control.index.head(execution_id)
    if head is not None and head.status in TERMINAL:
        return False
    try:
        state = control.load(execution_id)
    except CorruptLog:
        return False
    return state.seq >= 0 and not state.finished


def _cancel(control: Control, execution_id: str, reason: str) -> None:
    try:
        cancel(control, execution_id, reason)
    except (NotFound, NotNow):
        log.info("execution %s has ended in the meantime", execution_id)


def _set_next_visit(control: Control, path: str, name: str, *, moved: bool) -> None:
    """Record when to visit the trigger next.

    The process that changed the trigger also sends a wake, if queues allow so long a delay: with it an occurrence starts at its
    second, without it at the next sweep. No other process sends one, so that wakes do not multiply.
    """
    record = control.triggers.trigger(path, name)
    if record is None:
        control.index.clear_due(trigger_id(path, name))
        return
    set_due(control, record)
    if not moved or not record.enabled or record.kind != Schedule.kind:
        return
    key, now = trigger_id(path, name), control.clock.now()
    at = due_at(schedule_of(record.source), key, ScheduleState.read(record.state), now)
    if at is not None and at - now <= MAX_QUEUE_DELAY_S * SECOND:
        control.queue.wake(key, delay_s=max(0, -(-(at - now) // SECOND)))


def give_up(control: Control, path: str, name: str, reason: str) -> None:
    """Disable a trigger whose visits never finish, so that it does not delay others.

    A start in progress is kept as a refused delivery.
    """

    def attempt() -> bool:
        record = control.triggers.trigger(path, name)
        if record is None or not record.enabled:
            return True
        state = ScheduleState.read(record.state)
        schedule = schedule_of(record.source)
        for occurrence in state.starting:
            facts = {"kind": record.kind, "name": name, "id": name_of(occurrence), **facts_of(schedule, occurrence)}
            log_refusal(refuse(control, record, name_of(occurrence), occurrence, facts, "stuck", reason))
        stopped = replace(state, starting=(), stopped=reason)
        off = replace(record, enabled=False, state=stopped.plain(), revision=control.clock.nonce())
        control.triggers.put_trigger(off, record.revision)
        return True

    retry_conflicts(attempt, f"trigger {name} of {path}")
    control.index.clear_due(trigger_id(path, name))
