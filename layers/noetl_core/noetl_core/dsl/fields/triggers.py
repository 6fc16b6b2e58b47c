"""`executor.spec.triggers`: the sources that start a playbook automatically."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from noetl_core.dsl.fields.sources import UPLOAD, WEBHOOK
from noetl_core.dsl.fields.types import Anything, Block, Choice, Duration, Field, Flag, Name, Part, Shape, Text, Values
from noetl_core.dsl.model import CATCH_UP, OVERLAP, Schedule, Trigger
from noetl_core.dsl.numbers import SCHEDULE_JITTER

_SCHEDULE: Final = Schedule()
_TRIGGER: Final = Trigger("", _SCHEDULE)

RATE: Final = Block(
    "schedule_rate",
    "A schedule by interval instead of by time of day.",
    "../triggers.md#rates",
    Field(
        "rate",
        Shape("rate", "seconds, at least 60, or text such as `5m`, `12h`, `1d`"),
        "The time between two occurrences.",
        required=True,
    ),
    prefix="schedule of ",
)

TRIGGER: Final = Block(
    "trigger",
    "Starts the playbook automatically. A trigger has one source, and may have a payload for the executions that it starts.",
    "../triggers.md",
    Field(
        "schedule",
        Shape("schedule", "a cron expression, or a rate"),
        "Starts the playbook at certain times, by a cron expression of five fields, or at intervals, such as `{rate: 5m}`.",
        link="../triggers.md#schedules",
    ),
    Field(
        "event", Values(), "Starts the playbook on events of EventBridge that match this pattern.", link="../triggers.md#events"
    ),
    Field(
        "queue",
        Shape("queue", "a name of a queue, or a mapping"),
        "Starts the playbook on messages of this SQS queue. Write its name, or a mapping with `name` and `match`.",
        link="../triggers.md#messages",
    ),
    Field("webhook", Part(WEBHOOK), "Starts the playbook on signed requests.", link="../triggers.md#webhooks"),
    Field("upload", Part(UPLOAD), "Starts the playbook on objects that are put into a bucket.", link="../triggers.md#uploads"),
    Field(
        "name",
        Name("a trigger"),
        "Its name, unique in the playbook.",
        otherwise="the key of its source, such as `schedule`; if that is taken, with a number: `schedule-2`",
    ),
    Field(
        "payload",
        Values(),
        "Values that are merged over the workload. They may be templates over `trigger`.",
        link="../triggers.md#inputs-of-an-execution",
    ),
    Field(
        "enabled",
        Flag(),
        "Whether the trigger is on when it is first registered. Afterwards `noetl triggers enable` and `disable` decide.",
        default=_TRIGGER.enabled,
    ),
    Field(
        "version",
        Anything("a whole number, or an alias"),
        "Which version of the playbook starts: an alias of the catalog, or a number.",
        otherwise="the one that has the trigger",
        link="../triggers.md#which-version-starts",
    ),
    Field(
        "timezone",
        Text(),
        "For a `schedule`: its time zone, such as `Europe/Berlin`.",
        default=_SCHEDULE.timezone,
        link="../triggers.md#time-zones-and-clocks-that-change",
    ),
    Field(
        "overlap",
        Choice(OVERLAP),
        "For a `schedule`: what happens while the execution of an earlier occurrence runs. The new occurrence is skipped,"
        " waits, or starts alongside that execution; or that execution is cancelled first.",
        default=_SCHEDULE.overlap,
        link="../triggers.md#overlap",
    ),
    Field(
        "catch_up",
        Choice(CATCH_UP),
        "For a `schedule`: which missed occurrences are started afterwards.",
        default=_SCHEDULE.catch_up,
        link="../triggers.md#missed-occurrences",
    ),
    Field(
        "jitter",
        Duration(SCHEDULE_JITTER),
        "For a `schedule`: seconds over which starts are spread, so that not all begin in the same second.",
        default=_SCHEDULE.jitter_s,
        link="../triggers.md#jitter",
    ),
)

RATE_TEXT: Final = re.compile(r"[1-9][0-9]{0,6}[mhd]\Z")
"""A rate as text: whole minutes, hours or days."""

SOURCES: Final[Mapping[str, frozenset[str]]] = {
    "schedule": frozenset({"timezone", "overlap", "catch_up", "jitter"}),
    "event": frozenset(),
    "queue": frozenset(),
    "webhook": frozenset(),
    "upload": frozenset(),
}
"""The sources, and the fields that belong to each."""
OF_ALL: Final = frozenset({"name", "payload", "enabled", "version"})
