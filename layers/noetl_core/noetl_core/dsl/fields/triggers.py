"""`executor.spec.triggers`: what starts a playbook by itself."""

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
    "A schedule that counts time instead of naming times of day.",
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
    "What starts the playbook by itself: one source, and what the executions that it starts are given.",
    "../triggers.md",
    Field(
        "schedule",
        Shape("schedule", "a cron expression, or a rate"),
        "Starts the playbook at times: a cron expression of five fields, or `{rate: 5m}`.",
        link="../triggers.md#schedules",
    ),
    Field(
        "event", Values(), "Starts the playbook on events of EventBridge that match this pattern.", link="../triggers.md#events"
    ),
    Field(
        "queue",
        Shape("queue", "a name of a queue, or a mapping"),
        "Starts the playbook on messages of an SQS queue: its name, or a mapping with `name` and `match`.",
        link="../triggers.md#messages",
    ),
    Field("webhook", Part(WEBHOOK), "Starts the playbook on signed requests.", link="../triggers.md#webhooks"),
    Field("upload", Part(UPLOAD), "Starts the playbook on objects that are put into a bucket.", link="../triggers.md#uploads"),
    Field(
        "name",
        Name("a trigger"),
        "What it is called; no other trigger of the playbook has the same name.",
        otherwise="the word of its source, with -2, -3 ... where that is taken",
    ),
    Field(
        "payload",
        Values(),
        "What is merged over the workload, as templates over `trigger`.",
        link="../triggers.md#what-an-execution-is-given",
    ),
    Field(
        "enabled",
        Flag(),
        "Whether it is on when it is registered for the first time. Afterwards `noetl triggers enable` and `disable` decide.",
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
        "Of a `schedule`: the time zone of its times, such as `Europe/Berlin`.",
        default=_SCHEDULE.timezone,
        link="../triggers.md#time-zones-and-clocks-that-change",
    ),
    Field(
        "overlap",
        Choice(OVERLAP),
        "Of a `schedule`: what happens while the execution of an earlier occurrence still runs. The occurrence is skipped, waits,"
        " starts beside it, or the earlier execution is cancelled first.",
        default=_SCHEDULE.overlap,
        link="../triggers.md#overlap",
    ),
    Field(
        "catch_up",
        Choice(CATCH_UP),
        "Of a `schedule`: which of the occurrences that nothing could start in time are started afterwards.",
        default=_SCHEDULE.catch_up,
        link="../triggers.md#what-was-missed",
    ),
    Field(
        "jitter",
        Duration(SCHEDULE_JITTER),
        "Of a `schedule`: seconds over which starts are spread, so that not all begin at the same second.",
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
