"""Warns about triggers that can never fire: no stack parameter names their source, or no event can match their pattern."""

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
"""Keys that events have, by their source."""


@frozen
class InboundSources:
    """The queues that are read, the sources of events, and the buckets that announce their objects, beside the inbox bucket."""

    queues: frozenset[str] = frozenset()
    event_bus: str = ""
    event_sources: tuple[str, ...] = ()
    """An empty tuple: all sources on the bus."""
    buckets: frozenset[str] = frozenset()

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> InboundSources:
        """Return the sources that a function's environment variables name."""
        sources, buckets = (_listed(environment.get(name, "")) for name in ("EVENT_SOURCES", "UPLOAD_BUCKETS"))
        inbox = _listed(environment.get("INBOX_BUCKET", ""))
        queues = frozenset(arn.rpartition(":")[2] for arn in _listed(environment.get("TRIGGER_QUEUES", "")))
        return cls(queues, environment.get("EVENT_BUS", ""), sources, frozenset((*buckets, *inbox)))

    def why_unreachable(self, kind: str, source: Mapping[str, Any]) -> str | None:
        """Return why a trigger can never fire: the stack parameter that lacks its source, or why no delivery matches; None if it
        may fire."""
        why = self._outside(kind, source)
        return f"no {COMES[kind]} comes: {why}" if why is not None else _unmatched(kind, source)

    def _outside(self, kind: str, source: Mapping[str, Any]) -> str | None:
        """Return the missing stack parameter."""
        if kind == Messages.kind and source["queue"] not in self.queues:
            near = suggest(source["queue"], self.queues)
            return f"none of the stack's parameters {QUEUES} names queue {source['queue']}" + (f" ({near})" if near else "")
        if kind == Events.kind and not self.event_bus:
            return "the stack's parameter EventBus names no bus"
        if kind == Events.kind and not self._may_match(source["pattern"]):
            sources = ", ".join(self.event_sources)
            return f"the stack's parameter EventSources lets in only {sources}; the pattern matches none of them"
        if kind == Uploads.kind and source.get("bucket") is not None and source["bucket"] not in self.buckets:
            return f"the stack's parameter UploadBuckets does not name bucket {source['bucket']}"
        return None

    def _may_match(self, pattern: Mapping[str, Any]) -> bool:
        if not self.event_sources or "source" not in pattern:
            return True
        return any(matches({"source": pattern["source"]}, {"source": source}) for source in self.event_sources)


class OnThisMachine(InboundSources):
    """The sources of a local store: webhook requests only."""

    __slots__ = ()

    def _outside(self, kind: str, source: Mapping[str, Any]) -> str | None:
        return f"{COMES[kind]}s reach deployed stacks only" if kind in COMES else None


def _unmatched(kind: str, source: Mapping[str, Any]) -> str | None:
    """Return which key of a pattern no event has, so that none matches; None if one may match."""
    pattern = source.get("pattern" if kind == Events.kind else "match")
    if kind not in KEYS or not pattern:
        return None
    if (key := _missing(pattern, KEYS[kind])) is not None:
        near = suggest(key, KEYS[kind]) or f"events have: {', '.join(sorted(KEYS[kind]))}"
        return f"no delivery matches: no event has {key} ({near})"
    headers = pattern.get("headers")
    if kind == Webhook.kind and isinstance(headers, Mapping) and (name := _missing(headers, headers_of(source))) is not None:
        return f"no delivery matches: no event has the header {name} (list it in `headers` of the webhook)"
    return None


def _missing(pattern: Mapping[str, Any], known: Collection[str]) -> str | None:
    """Return the first required key that is not among the known ones."""
    return next((key for key in pattern if key != EITHER and key not in known and not matches({key: pattern[key]}, {})), None)


def warnings(ways: InboundSources | None, playbook: Playbook) -> list[str]:
    """Return warnings about triggers of a playbook that can never fire; none if `ways` are not known."""
    if ways is None:
        return []
    found = ((t.name, ways.why_unreachable(t.kind, asdict(t.source))) for t in playbook.executor.triggers)
    return [f"trigger {name}: {why}" for name, why in found if why is not None]


def _listed(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())
