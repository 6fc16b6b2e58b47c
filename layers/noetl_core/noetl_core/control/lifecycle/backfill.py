"""Backfill: a playbook run for each occurrence of one of its schedules in the past (docs/backfill.md).

It is an execution of its own, of a playbook whose loop calls the other one for each occurrence: so it is seen, resumed and
cancelled as any other, and each occurrence is a child that starts once. The same backfill asked for again is that execution.
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

MOST: Final = 10_000
"""Occurrences of one backfill."""
MOST_AT_ONCE: Final = 100
LAST: Final = datetime(9000, 1, 1, tzinfo=UTC)
"""Before it instants are: no calendar ends between an occurrence and the next."""
FOR: Final = "noetl/backfill"


class BadBackfill(ValueError):
    """There is nothing to run like that (HTTP 422). Who acts: the caller."""


@frozen
class Backfill:
    """What is asked for: the occurrences of a schedule from `begin` to before `end`, `parallel` at a time. `again` tells a
    repetition that is meant from one that is not."""

    path: str
    begin: str
    end: str
    version: Version = None
    trigger: str | None = None
    parallel: int = 1
    again: str = ""


@frozen
class Planned:
    """The occurrences that a backfill runs, in order, with what each is given."""

    version: int
    trigger: str
    occurrences: Sequence[Mapping[str, Any]]
    period: tuple[str, str]
    """From when on, and before when, as instants in UTC."""


def plan(control: Control, asked: Backfill) -> Planned:
    """Return what a backfill runs. Raises `NotFound`, `BadBackfill`."""
    version = resolve(control, asked.path, asked.version)
    check_not_deleted(control, asked.path)
    playbook = control.playbook(version.digest)
    check_pools(control, playbook)
    trigger = _scheduled(playbook, asked.trigger)
    schedule = trigger.source
    assert isinstance(schedule, Schedule)
    if not 1 <= asked.parallel <= MOST_AT_ONCE:
        raise BadBackfill(f"parallel is a number from 1 to {MOST_AT_ONCE}, not {asked.parallel}")
    begin, end = (_instant(word, text, schedule) for word, text in (("from", asked.begin), ("to", asked.end)))
    for word, at in (("from", begin), ("to", end)):
        if not 0 <= at < in_microseconds(LAST):
            raise BadBackfill(f"{word} is between 1970 and 9000")
    if begin >= end:
        raise BadBackfill(f"from ({asked.begin}) is not before to ({asked.end})")
    found = list(islice(takewhile(lambda at: at < end, occurrences(schedule, begin - 1)), MOST + 1))
    if not found:
        raise BadBackfill(
            f"trigger {trigger.name} of {asked.path} has no occurrence from {name_of(begin)} to before {name_of(end)}"
        )
    if len(found) > MOST:
        raise BadBackfill(f"these are more than {MOST:,} occurrences: ask for a part of the time")
    listed = [_occurrence(trigger, schedule, at) for at in found]
    return Planned(version.version, trigger.name, listed, (to_rfc3339(begin), to_rfc3339(end)))


def start_backfill(control: Control, asked: Backfill, planned: Planned) -> Started:
    """Start what was planned, or return the backfill that was asked for before, in whatever words. Raises as `admit`."""
    payload = {
        "path": asked.path,
        "version": planned.version,
        "trigger": planned.trigger,
        "parallel": asked.parallel,
        "occurrences": planned.occurrences,
    }
    keys = [_key(asked, planned, period) for period in (planned.period, (asked.begin, asked.end))]  # once its words were compared
    for key in keys:
        known = control.load(ids.execution_id_from_key(key))
        if known.seq >= 0:  # how many run at a time makes no other backfill of it
            payload["parallel"] = known.payload.get("parallel")
            break
    else:
        key = keys[0]
    text = json.dumps(PLAYBOOK, indent=1)
    return admit(control, StartRequest(playbook=text, payload=payload, idempotency_key=key, derived_key=True, registers=False))


def _key(asked: Backfill, planned: Planned, period: tuple[str, str]) -> str:
    return f"{ids.BACKFILL}{json.dumps((asked.path, planned.version, planned.trigger, *period, asked.again))}"


def _scheduled(playbook: Playbook, name: str | None) -> Trigger:
    """Return the schedule that is meant: the one of that name, or the only one."""
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
    """Return an instant; a text without a zone is of the zone of the schedule."""
    try:
        found = datetime.fromisoformat(text)
        zone = UTC if schedule.timezone == "UTC" else ZoneInfo(schedule.timezone)
        found = found if found.tzinfo is not None else found.replace(tzinfo=zone)
        return int(found.timestamp() * SECOND)
    except (ValueError, OverflowError) as error:
        raise BadBackfill(f"{word} is not an instant: {error}; write 2026-01-31 or 2026-01-31T06:00:00Z") from None


def _occurrence(trigger: Trigger, schedule: Schedule, at: int) -> dict[str, Any]:
    """Return one occurrence: what its execution sees as `trigger`, and its payload."""
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
    "metadata": {"name": "backfill", "path": FOR},
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
"""Of this playbook a backfill is an execution."""
