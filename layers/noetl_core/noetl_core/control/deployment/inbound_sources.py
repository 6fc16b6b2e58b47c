"""What comes in from outside, as the stack's parameters name it. A trigger on anything else, or on what no event has, would wait
for ever, and says so."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import asdict
from typing import Any, Final

from noetl_core.aws.event_patterns import EITHER, matches
from noetl_core.dsl.model import Playbook
from noetl_core.dsl.reading.diagnostics import suggest
from noetl_core.dsl.sources import Events, Messages, Uploads, Webhook, headers_of
from noetl_core.values.frozen import frozen

QUEUES: Final = "TriggerQueue, TriggerQueue2, TriggerQueue3 and TriggerQueue4"
COMES: Final = {Messages.kind: "message", Events.kind: "event", Uploads.kind: "upload"}
KEYS: Final[Mapping[str, frozenset[str]]] = {
    Webhook.kind: frozenset({"headers", "body", "encoding"}),
    Messages.kind: frozenset({"body", "attributes", "message_id", "sent_at", "queue", "group", "deduplication_id"}),
    Events.kind: frozenset(
        {"version", "id", "detail-type", "source", "account", "time", "region", "resources", "detail", "replay-name"}
    ),
}
"""What events have, by their source."""


@frozen
class WaysIn:
    """The queues that are read, whose events come, and the buckets that tell of their objects, beside the inbox bucket."""

    queues: frozenset[str] = frozenset()
    event_bus: str = ""
    event_sources: tuple[str, ...] = ()
    """None of them: all that the bus has."""
    buckets: frozenset[str] = frozenset()

    @classmethod
    def named(cls, environment: Mapping[str, str]) -> WaysIn:
        """Return what the variables of a function name."""
        sources, buckets = (_listed(environment.get(name, "")) for name in ("EVENT_SOURCES", "UPLOAD_BUCKETS"))
        inbox = _listed(environment.get("INBOX_BUCKET", ""))
        queues = frozenset(arn.rpartition(":")[2] for arn in _listed(environment.get("TRIGGER_QUEUES", "")))
        return cls(queues, environment.get("EVENT_BUS", ""), sources, frozenset((*buckets, *inbox)))

    def unreached(self, kind: str, source: Mapping[str, Any]) -> str | None:
        """Return why nothing comes to a trigger, and which parameter would change that, or why nothing that comes matches; None
        where something may."""
        why = self._outside(kind, source)
        return f"no {COMES[kind]} comes: {why}" if why is not None else _unmatched(kind, source)

    def _outside(self, kind: str, source: Mapping[str, Any]) -> str | None:
        """Return what is not named."""
        if kind == Messages.kind and source["queue"] not in self.queues:
            near = suggest(source["queue"], self.queues)
            return f"none of the stack's parameters {QUEUES} names queue {source['queue']}" + (f" ({near})" if near else "")
        if kind == Events.kind and not self.event_bus:
            return "the stack's parameter EventBus names no bus"
        if kind == Events.kind and not self._may_match(source["pattern"]):
            sources = ", ".join(self.event_sources)
            return f"the stack's parameter EventSources lets in {sources} alone, which the pattern does not match"
        if kind == Uploads.kind and source.get("bucket") is not None and source["bucket"] not in self.buckets:
            return f"the stack's parameter UploadBuckets does not name bucket {source['bucket']}"
        return None

    def _may_match(self, pattern: Mapping[str, Any]) -> bool:
        if not self.event_sources or "source" not in pattern:
            return True
        return any(matches({"source": pattern["source"]}, {"source": source}) for source in self.event_sources)


class OnThisMachine(WaysIn):
    """Of a local store: nothing comes but requests to webhooks."""

    __slots__ = ()

    def _outside(self, kind: str, source: Mapping[str, Any]) -> str | None:
        return f"{COMES[kind]}s come to a stack alone" if kind in COMES else None


def _unmatched(kind: str, source: Mapping[str, Any]) -> str | None:
    """Return which key of a pattern no event has, so that none matches; None where one may."""
    wanted = source.get("pattern" if kind == Events.kind else "match")
    if kind not in KEYS or not wanted:
        return None
    if (key := _missing(wanted, KEYS[kind])) is not None:
        near = suggest(key, KEYS[kind]) or f"it has: {', '.join(sorted(KEYS[kind]))}"
        return f"nothing that comes matches: no event has {key} ({near})"
    headers = wanted.get("headers")
    if kind == Webhook.kind and isinstance(headers, Mapping) and (name := _missing(headers, headers_of(source))) is not None:
        return f"nothing that comes matches: no event has the header {name} (list it in `headers` of the webhook)"
    return None


def _missing(wanted: Mapping[str, Any], known: Collection[str]) -> str | None:
    """Return the first key that must be there, and is not among those that are known."""
    return next((key for key in wanted if key != EITHER and key not in known and not matches({key: wanted[key]}, {})), None)


def warnings(ways: WaysIn | None, playbook: Playbook) -> list[str]:
    """Return what is to be said of the triggers of a playbook to which nothing comes; nothing where `ways` are not known."""
    if ways is None:
        return []
    found = ((t.name, ways.unreached(t.kind, asdict(t.source))) for t in playbook.executor.triggers)
    return [f"trigger {name}: {why}" for name, why in found if why is not None]


def _listed(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())
