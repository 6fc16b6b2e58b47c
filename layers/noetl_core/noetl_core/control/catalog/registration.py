"""Registers playbooks: stores versions in the catalog, and installs the triggers of the latest version of each path."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from noetl_core.control.catalog.versions import check_not_deleted, record_change
from noetl_core.control.core import Control
from noetl_core.dsl.model import Playbook, Schedule, Trigger
from noetl_core.engine.ids import trigger_id
from noetl_core.engine.schedules.schedules import ScheduleState, due_at, installed, schedule_of
from noetl_core.ports import NotFound, PlaybookVersion, TriggerRecord, retry_conflicts


def register(control: Control, source: str, name: str = "<playbook>") -> tuple[Playbook, PlaybookVersion]:
    """Validate a playbook and register it under its `metadata.path`, with the versions of the playbooks it uses pinned.

    Its triggers fire from now on. Raises `InvalidPlaybook`, `Deleted`.
    """
    source, playbook = validated(control, source, name)
    return playbook, _registered(control, source, playbook, control.clock.now())


def register_to_start(control: Control, source: str, playbook: Playbook) -> PlaybookVersion:
    """Register the playbook of a start by its text, as `validated` returns it. If this process has just registered the same text
    as the latest version of its path, nothing is read (`RecentRegistrations`). Raises `Deleted`."""
    now = control.clock.now()
    known = control.registrations.latest(playbook.path, playbook.digest, now)
    if known is None:
        return _registered(control, source, playbook, now)
    check_not_deleted(control, playbook.path)
    return known


def validated(control: Control, source: str, name: str = "<playbook>") -> tuple[str, Playbook]:
    """Return the text of a playbook with the versions of the playbooks it uses pinned, and its model. Raises
    `InvalidPlaybook`."""
    source = control.playbook.pinned(source)
    return source, control.playbook.parse_pinned(source, name)


def _registered(control: Control, source: str, playbook: Playbook, now: int) -> PlaybookVersion:
    check_not_deleted(control, playbook.path)
    version = control.catalog.register(playbook.path, playbook.digest, source, now)
    install(control, playbook, version)
    control.registrations.registered(version, now)
    if control.by is not None and version.registered_at == now:
        record_change(control, playbook.path, f"registered version {version.version}")
    return version


def pin(control: Control, source: str, playbook: Playbook) -> PlaybookVersion:
    """Store a playbook, as `validated` returns it, under its digest only, without a path. Nothing is read or written if this
    process has just done so (`RecentRegistrations`)."""
    now = control.clock.now()
    known = control.registrations.pinned(playbook.digest, now)
    if known is None:
        known = control.catalog.pin(playbook.path, playbook.digest, source, now)
        control.registrations.stored(known, now)
    return known


def install(control: Control, playbook: Playbook, version: PlaybookVersion) -> None:
    """Replace the triggers of earlier versions of the path, by name.

    Triggers that an operator enabled or disabled stay so, and triggers keep their progress. Repeating it is safe. It does nothing
    if a later version is installed.
    """
    stored = {record.name: record for record in control.triggers.triggers(version.path)}
    for trigger in playbook.executor.triggers:
        _install(control, trigger, version)
    names = {trigger.name for trigger in playbook.executor.triggers}
    for record in stored.values():
        if record.name not in names and record.version < version.version:
            _remove(control, record, version)
    if stored or names:
        _follow(control, version)


def _follow(control: Control, version: PlaybookVersion) -> None:
    """Install versions that were registered in the meantime: their own installation may have run before this one."""
    try:
        latest = control.catalog.get(version.path)
    except NotFound:
        return
    if latest.version > version.version:
        install(control, control.playbook(latest.digest), latest)


def _install(control: Control, trigger: Trigger, version: PlaybookVersion) -> None:
    key = trigger_id(version.path, trigger.name)

    def attempt() -> bool:
        stored = control.triggers.trigger(version.path, trigger.name)
        if stored is not None and stored.version > version.version:
            return True
        if stored is not None and (stored.version, stored.digest) == (version.version, version.digest):
            set_due(control, stored)  # same text again: the first writer may have died before this
            return True
        now = control.clock.now()
        control.due_soon(key, now)  # if this process dies after the write, the sweeper finds the trigger
        record = TriggerRecord(
            version.path,
            trigger.name,
            trigger.kind,
            version.version,
            version.digest,
            trigger.enabled if stored is None else stored.enabled,
            source_of(trigger),
            dict(trigger.payload),
            _state(trigger, stored, now),
            control.clock.nonce(),
            trigger.version,
        )
        control.triggers.put_trigger(record, "" if stored is None else stored.revision)
        set_due(control, record)
        return True

    retry_conflicts(attempt, f"trigger {trigger.name} of {version.path}")


def _remove(control: Control, record: TriggerRecord, version: PlaybookVersion) -> None:
    def attempt() -> bool:
        stored = control.triggers.trigger(record.path, record.name)
        if stored is not None and stored.version < version.version:
            control.triggers.delete_trigger(record.path, record.name, stored.revision)
            control.index.clear_due(trigger_id(record.path, record.name))
        return True

    retry_conflicts(attempt, f"trigger {record.name} of {record.path}")


def source_of(trigger: Trigger) -> Mapping[str, Any]:
    """Return the stored form of a trigger's source."""
    return asdict(trigger.source)


def _state(trigger: Trigger, stored: TriggerRecord | None, now: int) -> Mapping[str, Any]:
    """Return the progress of the trigger under its new version."""
    same = stored if stored is not None and stored.kind == trigger.kind else None
    if not isinstance(trigger.source, Schedule):
        return {} if same is None else same.state
    former = None if same is None else schedule_of(same.source)
    state = ScheduleState() if same is None else ScheduleState.read(same.state)
    return installed(trigger.source, former, state, now).plain()


def set_due(control: Control, record: TriggerRecord) -> None:
    """Schedule the trigger's next visit by the sweeper; never if it is disabled or fires on deliveries."""
    key = trigger_id(record.path, record.name)
    at = None
    if record.enabled and record.kind == Schedule.kind:
        state = ScheduleState.read(record.state)
        at = due_at(schedule_of(record.source), key, state, control.clock.now())
    if at is None:
        control.index.clear_due(key)
    else:
        control.index.set_due(key, at)
