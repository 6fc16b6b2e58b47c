"""`executor.spec.triggers`: what starts a playbook automatically. Each entry has one source, checked here as far as the text
allows."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Final

from noetl_core.dsl.fields.triggers import OF_ALL, RATE, RATE_TEXT, SOURCES, TRIGGER
from noetl_core.dsl.model import Schedule, Source, Trigger
from noetl_core.dsl.numbers import SCHEDULE_JITTER, SCHEDULE_RATE, BadNumber, Range, duration
from noetl_core.dsl.reading.diagnostics import suggest
from noetl_core.dsl.reading.load import Node
from noetl_core.dsl.reading.reader import Content, Reader
from noetl_core.dsl.sections.inbound_triggers import read_events, read_messages, read_uploads, read_webhook
from noetl_core.dsl.versions import BadVersion, Version, version_of
from noetl_core.expr import FUNCTIONS, is_template

MOST: Final = 50
"""Triggers of one playbook."""
LONGEST: Final = 200
"""Characters of a cron expression."""
ROOT: Final = "trigger"
"""The root of the names that templates of a payload read."""
FIELDS: Final = "five fields: minute, hour, day of month, month, day of week"

_EVENT_BRIDGE: Final = re.compile(r"\s*(rate|cron)\((.*)\)\s*\Z")
_EVENT_BRIDGE_RATE: Final = re.compile(r"\s*([0-9]{1,9})\s+(minute|hour|day)s?\s*\Z")
_UNITS: Final = {"minute": 60, "hour": 3600, "day": 86_400}
_WORDS: Final = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}


def read_triggers(r: Reader, node: Node | None) -> tuple[Trigger, ...]:
    """Return the triggers in order, each with its name; errors are reported."""
    items = r.sequence(node, "triggers of executor")
    if len(items) > MOST and node is not None:
        r.report("E124", node, f"triggers of executor has {len(items)} entries", f"at most {MOST}")
        return ()
    read = [(item, _trigger(r, item, i)) for i, item in enumerate(items)]
    by_name: dict[str, Node] = {}
    for item, found in read:
        if found is None or not found.name:
            continue
        if found.name in by_name:
            message = f'triggers of executor has two named "{found.name}" (first at line {by_name[found.name].line})'
            r.report("E115", (item, "name"), message, "rename one")
        by_name[found.name] = item
    taken = set(by_name)
    out = []
    for _, found in read:
        if found is None:
            continue
        name = found.name or _free_name(found.kind, taken)
        taken.add(name)
        out.append(Trigger(name, found.source, found.payload, found.enabled, found.version, found.path, found.line))
    return tuple(out)


def _free_name(kind: str, taken: set[str]) -> str:
    name, number = kind, 1
    while name in taken:
        number += 1
        name = f"{kind}-{number}"
    return name


def _trigger(r: Reader, item: Node, place: int) -> Trigger | None:
    """Return one entry, with an empty name if it has none; None if it has no usable source."""
    name_node = item.get("name")
    what = f'trigger "{name_node.value}"' if name_node is not None and isinstance(name_node.value, str) else f"trigger {place}"
    content = r.read(item, TRIGGER, what)
    sources = [key for key in SOURCES if key in content]
    if len(sources) != 1:
        if not sources and isinstance(item.value, dict):
            r.missing(item, next(iter(SOURCES)), f"{what} has no source", f"give it one of: {', '.join(SOURCES)}")
        elif sources:
            r.report("E114", (item, sources[1]), f"{what} has {' and '.join(sources)}", "write a trigger for each")
        return None
    kind = sources[0]
    for key in content.nodes:
        if key != kind and key not in SOURCES[kind] | OF_ALL:
            owner = next(source for source, fields in SOURCES.items() if key in fields)
            r.report(
                "E114",
                (item, key),
                f"{key} in {what} belongs to the source {owner}, and this trigger has the source {kind}",
                "remove it",
            )
    payload = content.node("payload")
    _check_payload(r, payload, what)
    source = _SOURCES[kind](r, content, what)
    if source is None:
        return None
    enabled, version = content.filled("enabled"), _version(r, content.node("version"), what)
    return Trigger(
        content.get("name") or "", source, r.values(payload, f"payload of {what}"), enabled, version, item.path, item.line
    )


def _version(r: Reader, node: Node | None, what: str) -> Version:
    """Return which version starts; None where none is named, or it is reported."""
    if node is None:
        return None
    try:
        return version_of(node.plain())
    except BadVersion as error:
        r.report("E131", node, f"version of {what}: {error}")
        return None


def _check_payload(r: Reader, payload: Node | None, what: str) -> None:
    """Report names other than `trigger` in the templates of a payload: nothing else exists when they are rendered."""
    if payload is None:
        return
    for node in payload.scalars():
        if not is_template(node.value):
            continue
        for read in r.reads.get(node.value, ()):
            root = read.path[0]
            if root == "keychain":
                message = f"{'.'.join(read.path)} in payload of {what}: the control plane holds no secrets"
                r.report("E205", node, message, "read the credential in a task")
            elif root != ROOT and root not in FUNCTIONS:
                message = f"{root} in payload of {what}: the payload is rendered before there is an execution"
                r.report("E208", node, message, "a payload reads only trigger")


# --- schedules ----------------------------------------------------------------------------------------------------------


def _schedule(r: Reader, content: Content, what: str) -> Schedule | None:
    node = content.nodes["schedule"]
    zone = _zone(r, content.nodes.get("timezone"), content.filled("timezone"), what)
    if isinstance(node.value, dict):
        cron, every = None, _counted(r, r.read(node, RATE, what).node("rate"), f"rate of {what}")
        if "rate" not in node.value:
            r.missing(node, "rate", f"schedule of {what} has no rate", "schedule: {rate: 5m}")
    else:
        cron, every = _times(r, node, what)
    if cron is None and every is None:
        return None
    if every is not None and "timezone" in content:
        r.report(
            "E114", content.nodes["timezone"], f"timezone of {what}: a rate counts elapsed time and has no time zone", "remove it"
        )
    overlap = content.filled("overlap")
    if content.filled("catch_up") == "all" and overlap in ("skip", "cancel"):
        message = f"catch_up of {what}: overlap {overlap} would skip or cancel all missed occurrences but one"
        r.report("E114", content.nodes["catch_up"], message, "overlap: queue, or allow")
    jitter = _seconds(r, content.node("jitter"), SCHEDULE_JITTER, f"jitter of {what}")
    return Schedule(
        cron, None if every is None else int(every), zone, content.filled("overlap"), content.filled("catch_up"), jitter or 0
    )


def _seconds(r: Reader, node: Node | None, allowed: Range, what: str) -> float | None:
    """Return the seconds in a text with a unit, or in a number; None if it is missing or reported."""
    if node is None:
        return None
    try:
        seconds = duration(node.value, allowed, what)
    except BadNumber as error:
        r.report("E124", node, str(error))
        return None
    return seconds


def _counted(r: Reader, node: Node | None, what: str) -> float | None:
    """Return the whole seconds of a rate."""
    if node is not None and isinstance(node.value, str) and not RATE_TEXT.match(node.value):
        r.report("E124", node, f"{what} must be {SCHEDULE_RATE.words}, or text such as 5m, 12h, 1d; not {node.value[:60]!r}")
        return None
    seconds = _seconds(r, node, SCHEDULE_RATE, what)
    if node is not None and seconds is not None and not float(seconds).is_integer():
        r.report("E124", node, f"{what} must be {SCHEDULE_RATE.words}")
        return None
    return seconds


def _zone(r: Reader, node: Node | None, name: str, what: str) -> str:
    if node is None or name == Schedule().timezone:
        return name
    from zoneinfo import ZoneInfo, available_timezones  # 5 ms: few playbooks have triggers

    try:
        ZoneInfo(name)
    except (LookupError, ValueError, OSError):
        zones = {zone.lower(): zone for zone in available_timezones()}  # some machines find a zone in any case
        near = f'did you mean "{zones[name.lower()]}"?' if name.lower() in zones else suggest(name, zones.values())
        hint = near or "a name of the time zone database, such as Europe/Berlin"
        r.report("E131", node, f'timezone of {what}: there is no zone "{name[:60]}"', hint)
    return name


def _times(r: Reader, node: Node, what: str) -> tuple[str | None, int | None]:
    """Return the cron expression that text is, or the rate in seconds; nothing when it is reported."""
    text = r.text(node, f"schedule of {what}")
    if text is None:
        return None, None
    match = _EVENT_BRIDGE.match(text)
    if match is not None and match[1] == "rate":
        return None, _rate(r, node, match[2], what)
    if match is not None:
        r.report(
            "E131", node, f'schedule of {what}: "{text[:60]}" is of another dialect', f"write it without cron( ), as {FIELDS}"
        )
        return None, None
    cron = _WORDS.get(text.strip().lower(), " ".join(text.split()))
    wrong = _wrong(cron)
    if wrong:
        r.report("E131", node, f'schedule of {what}: "{text[:60]}" {wrong}', FIELDS)
        return None, None
    return cron, None


def _rate(r: Reader, node: Node, text: str, what: str) -> int | None:
    """Return the seconds of `rate(5 minutes)`."""
    match = _EVENT_BRIDGE_RATE.match(text)
    seconds = int(match[1]) * _UNITS[match[2]] if match is not None else 0
    if not SCHEDULE_RATE.holds(seconds):
        r.report("E131", node, f'schedule of {what}: "rate({text[:60]})" is not a rate', "rate(5 minutes), or {rate: 5m}")
        return None
    return seconds


def _wrong(cron: str) -> str:
    """Return the error in a cron expression; None if it is valid."""
    from cronsim import CronSim, CronSimError  # 5 ms: few playbooks have triggers

    if len(cron) > LONGEST:
        return f"is longer than {LONGEST} characters"
    if len(cron.split()) != 5:
        return "is not a cron expression"
    try:
        next(CronSim(cron, datetime(2024, 1, 1, tzinfo=UTC)))
    except CronSimError as error:
        reason = str(error)
        return f"is not a cron expression: {reason[:1].lower()}{reason[1:]}"
    except StopIteration:
        return "never occurs: no year has such a day"
    return ""


_SOURCES: Final[Mapping[str, Callable[[Reader, Content, str], Source | None]]] = {
    "schedule": _schedule,
    "event": read_events,
    "queue": read_messages,
    "webhook": read_webhook,
    "upload": read_uploads,
}
"""The readers of sources, by kind: `(reader, the mapping, its name in messages) -> Source`. They return None if they have
reported an error."""

__all__ = ["Source", "read_triggers"]
