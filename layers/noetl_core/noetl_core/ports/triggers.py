"""What starts playbooks by itself: the triggers of registered playbooks, what became of their occurrences, and what could not
start."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from noetl_core.dsl.versions import Version


@dataclass(frozen=True, slots=True)
class TriggerRecord:
    """A trigger of the latest version of a playbook that has it, which is `version`; what it starts is `starts`.

    `source` and `payload` are those of the playbook, as plain data. `state` is what the trigger is at; whoever fires triggers
    of that kind knows its keys. `revision` is another one for every write, and chosen by the writer.
    """

    path: str
    name: str
    kind: str
    version: int
    digest: str
    enabled: bool
    source: Mapping[str, Any]
    payload: Mapping[str, Any] = field(default_factory=dict)
    state: Mapping[str, Any] = field(default_factory=dict)
    revision: str = ""
    starts: Version = None
    """A number or an alias; None: the version that has the trigger."""


Result = Literal["started", "skipped", "missed", "refused"]


@dataclass(frozen=True, slots=True)
class Firing:
    """What became of one occurrence, or delivery, of a trigger. `at` is when it was to happen (microseconds), and the same
    however often it comes."""

    path: str
    name: str
    occurrence: str
    at: int
    result: Result
    execution_id: str | None = None
    reason: str = ""
    expires_at: int = 0
    """Seconds."""


@dataclass(frozen=True, slots=True)
class RefusedDelivery:
    """An occurrence, or a delivery, that could not start its playbook, however often it were tried. `facts` is what came, as
    templates read it in `trigger`."""

    id: str
    """Derived from the trigger and the occurrence; later ones have greater ids."""
    path: str
    name: str
    kind: str
    occurrence: str
    at: int
    code: str
    """What kind of refusal it is, as answers of the API name it."""
    reason: str
    facts: Mapping[str, Any] = field(default_factory=dict)
    expires_at: int = 0
    """Seconds."""


class Triggers(Protocol):
    """The triggers, by path and name. Reads are strongly consistent."""

    def trigger(self, path: str, name: str) -> TriggerRecord | None: ...

    def put_trigger(self, record: TriggerRecord, expected: str) -> None:
        """Write a trigger if its stored revision is `expected` (empty: if there is none). Writing again with the revision that
        is stored already changes nothing, so a write whose answer was lost can be repeated. Raises `OtherRevision`."""
        ...

    def delete_trigger(self, path: str, name: str, expected: str) -> None:
        """Delete a trigger if its revision is `expected`; nothing happens where there is none. Raises `OtherRevision`."""
        ...

    def triggers(self, path: str | None = None, kind: str | None = None) -> Sequence[TriggerRecord]:
        """Return triggers, of one playbook or of all, by path and name."""
        ...

    def takers(self) -> Sequence[TriggerRecord]:
        """Return the triggers that take deliveries, which are all but schedules, by path and name. It is asked for each batch of
        deliveries: as long as nothing is registered, switched or deleted it costs one read."""
        ...


class Firings(Protocol):
    """What became of occurrences, kept for a while."""

    def put_firing(self, firing: Firing) -> None:
        """Record it, in place of an earlier record of the same occurrence."""
        ...

    def firings(self, path: str, name: str, now: int, limit: int) -> Sequence[Firing]:
        """Return the newest of a trigger that have not expired at `now` (seconds), newest first."""
        ...


class RefusedDeliveries(Protocol):
    """What could not start, kept for a while, until somebody fires it again or deletes it."""

    def refuse(self, refused: RefusedDelivery) -> None:
        """Keep it, in place of an earlier one with the same id."""
        ...

    def refused(self, id: str, now: int) -> RefusedDelivery | None: ...

    def list_refused(self, now: int, limit: int, path: str | None = None) -> Sequence[RefusedDelivery]:
        """Return those that have not expired at `now` (seconds), newest first."""
        ...

    def forget_refused(self, id: str) -> None: ...


class TriggerStore(Triggers, Firings, RefusedDeliveries, Protocol):
    """All that is kept of triggers."""
