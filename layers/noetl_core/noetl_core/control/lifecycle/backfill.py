"""Runs backfills: a playbook for each past occurrence of one of its schedules (docs/backfill.md).

A backfill is an execution of its own, of a playbook whose loop calls the other one for each occurrence. So it is observed,
resumed and cancelled like any other, and each occurrence is a child that starts once. A repeated request for the same backfill
returns that execution.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from itertools import islice, takewhile
from typing import Any, Final
from zoneinfo import ZoneInfo

from noetl_core.control.admit import Started, StartRequest, admit, check_pools
from noetl_core.control.catalog.versions import check_not_deleted, resolve
from noetl_core.control.core import Control
from noetl_core.dsl.model import Playbook, Schedule, Trigger
from noetl_core.dsl.reading.diagnostics import suggest
from noetl_core.dsl.versions import Version
from noetl_core.engine import ids
from noetl_core.engine.schedules.occurrences import name_of, occurrences, previous_occurrence
from noetl_core.engine.state import trigger_seen
from noetl_core.events.shapes import Triggered
from noetl_core.expr import Scope, TemplateError, render
from noetl_core.values.frozen import frozen
from noetl_core.values.instants import SECOND, in_microseconds, to_rfc3339

MAX_OCCURRENCES: Final = 10_000
"""Maximum number of occurrences of one backfill."""
MAX_PARALLEL: Final = 100
LAST_INSTANT: Final = datetime(9000, 1, 1, tzinfo=UTC)
"""The latest instant: no calendar ends between an occurrence and the next."""
BACKFILL_PATH: Final = "noetl/backfill"


class BadBackfill(ValueError):
    """The backfill would run nothing, or is invalid (HTTP 422). Who acts: the caller."""


@frozen
class Backfill:
    """A requested backfill: the occurrences of a schedule from `begin` to before `end`, `parallel` at a time.

    `again` distinguishes an intended repetition.
    """

    path: str
    begin: str
    end: str
    version: Version = None
    trigger: str | None = None
    parallel: int = 1
    again: str = ""


@frozen
class Planned:
    """The occurrences that a backfill runs, in order, each with its input."""

    version: int
    trigger: str
    occurrences: Sequence[Mapping[str, Any]]
    period: tuple[str, str]
    """The begin (inclusive) and the end (exclusive), as instants in UTC."""


def plan(control: Control, backfill: Backfill) -> Planned:
    """Return the occurrences that a backfill runs. Raises `NotFound`, `BadBackfill`."""
    version = resolve(control, backfill.path, backfill.version)
    check_not_deleted(control, backfill.path)
    playbook = control.playbook(version.digest)
    check_pools(control, playbook)
    trigger = _scheduled(playbook, backfill.trigger)
    schedule = trigger.source
    assert isinstance(schedule, Schedule)
    if not 1 <= backfill.parallel <= MAX_PARALLEL:
        raise BadBackfill(f"parallel must be a number from 1 to {MAX_PARALLEL}, not {backfill.parallel}")
    begin, end = (_instant(word, text, schedule) for word, text in (("from", backfill.begin), ("to", backfill.end)))
    for word, at in (("from", begin), ("to", end)):
        if not 0 <= at < in_microseconds(LAST_INSTANT):
            raise BadBackfill(f"{word} must be between 1970 and 9000")
    if begin >= end:
        raise BadBackfill(f"from ({backfill.begin}) is not before to ({backfill.end})")
    found = list(islice(takewhile(lambda at: at < end, occurrences(schedule, begin - 1)), MAX_OCCURRENCES + 1))
    if not found:
        raise BadBackfill(
            f"trigger {trigger.name} of {backfill.path} has no occurrence from {name_of(begin)} to before {name_of(end)}"
        )
    if len(found) > MAX_OCCURRENCES:
        raise BadBackfill(f"these are more than {MAX_OCCURRENCES:,} occurrences: choose a shorter period")
    listed = [_occurrence(trigger, schedule, at) for at in found]
    return Planned(version.version, trigger.name, listed, (to_rfc3339(begin), to_rfc3339(end)))


def start_backfill(control: Control, backfill: Backfill, planned: Planned) -> Started:
    """Start the planned backfill, or return an equal one that was started before. Raises the errors of `admit`."""
    payload = {
        "path": backfill.path,
        "version": planned.version,
        "trigger": planned.trigger,
        "parallel": backfill.parallel,
        "occurrences": planned.occurrences,
    }
    keys = [
        _key(backfill, planned, period) for period in (planned.period, (backfill.begin, backfill.end))
    ]  # older keys contain the period as text
    for key in keys:
        known = control.load(ids.execution_id_from_key(key))
        if known.seq >= 0:  # the degree of parallelism does not distinguish backfills
            payload["parallel"] = known.payload.get("parallel")
            break
    else:
        key = keys[0]
    text = json.dumps(PLAYBOOK, indent=1)
    return admit(control, StartRequest(playbook=text, payload=payload, idempotency_key=key, derived_key=True, registers=False))


def _key(backfill: Backfill, planned: Planned, period: tuple[str, str]) -> str:
    return f"{ids.BACKFILL}{json.dumps((backfill.path, planned.version, planned.trigger, *period, backfill.again))}"


def _scheduled(playbook: Playbook, name: str | None) -> Trigger:
    """Return the schedule of that name, or the only one."""
    schedules = {trigger.name: trigger for trigger in playbook.executor.triggers if isinstance(trigger.source, Schedule)}
    if not schedules:
        raise BadBackfill(f"playbook {playbook.path} has no schedule among executor.spec.triggers")
    if name is None and len(schedules) > 1:
        raise BadBackfill(f"playbook {playbook.path} has several schedules ({', '.join(schedules)}): name one of them (trigger)")
    if name is not None and name not in schedules:
        hint = suggest(name, schedules) or f"it has: {', '.join(schedules)}"
        raise BadBackfill(f"playbook {playbook.path} has no schedule {name!r} ({hint})")
    return schedules[name] if name is not None else next(iter(schedules.values()))


def _instant(word: str, text: str, schedule: Schedule) -> int:
    """Return an instant. Text without a time zone is in the zone of the schedule."""
    try:
        found = datetime.fromisoformat(text)
        zone = UTC if schedule.timezone == "UTC" else ZoneInfo(schedule.timezone)
        found = found if found.tzinfo is not None else found.replace(tzinfo=zone)
        return int(found.timestamp() * SECOND)
    except (ValueError, OverflowError) as error:
        raise BadBackfill(f"{word} is not an instant: {error}; write 2026-01-31 or 2026-01-31T06:00:00Z") from None


def _occurrence(trigger: Trigger, schedule: Schedule, at: int) -> dict[str, Any]:
    """Return one occurrence: its `trigger` and its payload."""
    seen: Triggered = {"kind": "backfill", "name": trigger.name, "id": name_of(at), "scheduled_at": name_of(at)}
    before = previous_occurrence(schedule, at)
    if before is not None:
        seen["previous_at"] = name_of(before)
    try:
        payload = render(dict(trigger.payload), Scope({"trigger": trigger_seen(seen)}))
    except TemplateError as error:
        raise BadBackfill(f"the payload of trigger {trigger.name} at {name_of(at)}: {error}") from None
    return {"backfill": {k: v for k, v in seen.items() if k in ("name", "scheduled_at", "previous_at")}, "payload": payload}


PLAYBOOK: Final[Mapping[str, Any]] = {
    "apiVersion": "noetl.io/v2",
    "kind": "Playbook",
    "metadata": {"name": "backfill", "path": BACKFILL_PATH},
    "executor": {
        "spec": {
            "search": {"path": "{{ workload.path }}", "trigger": "{{ workload.trigger }}"},
            "result": {"occurrences": "{{ ctx.total }}", "failed": "{{ ctx.failed }}"},
        }
    },
    "workload": {"path": None, "version": None, "trigger": None, "parallel": 1, "occurrences": []},
    "workflow": [
        {
            "step": "backfill",
            "spec": {"policy": {"failure": {"mode": "best_effort"}}},
            "loop": {
                "in": "{{ workload.occurrences }}",
                "iterator": "occurrence",
                "spec": {"mode": "parallel", "max_in_flight": "{{ workload.parallel }}"},
            },
            "tool": {
                "name": "run",
                "kind": "playbook",
                "path": "{{ workload.path }}",
                "version": "{{ workload.version }}",
                "payload": "{{ iter.occurrence.payload }}",
                "backfill": "{{ iter.occurrence.backfill }}",
            },
            "next": {
                "arcs": [
                    {
                        "step": "over",
                        "when": "{{ true }}",
                        "set_ctx": {"total": "{{ event.loop.total }}", "failed": "{{ event.loop.failed }}"},
                    }
                ]
            },
        },
        {
            "step": "over",
            "tool": {
                "name": "count",
                "kind": "noop",
                "spec": {
                    "policy": {
                        "rules": [
                            {
                                "when": "{{ ctx.failed > 0 }}",
                                "then": {"do": "fail", "error": "{{ ctx.failed }} of {{ ctx.total }} occurrences failed"},
                            },
                            {"else": {"then": {"do": "continue"}}},
                        ]
                    }
                },
            },
        },
    ],
}
"""The playbook that a backfill executes."""
