"""The triggers of registered playbooks, the outcomes of their occurrences, and refused deliveries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any, Final, Literal, Protocol

from noetl_core.dsl.versions import Version
from noetl_core.values.frozen import frozen
from noetl_core.values.instants import DAY_S


@frozen
class TriggerRecord:
    """A trigger of `version`, the latest version of the playbook that declares it; it starts `starts`.

    `source` and `payload` are those of the playbook, as plain data. `state` is the progress of the trigger; its keys depend on
    the kind. `revision` changes with every write and is chosen by the writer.
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
    """A number or an alias; None: the version that declares the trigger."""


Result = Literal["started", "skipped", "missed", "refused"]


@frozen
class Firing:
    """The outcome of one occurrence or delivery of a trigger. `at` is its nominal time (microseconds), the same for every
    redelivery."""

    path: str
    name: str
    occurrence: str
    at: int
    result: Result
    execution_id: str | None = None
    reason: str = ""
    expires_at: int = 0
    """Seconds."""


REFUSED_KEPT_S: Final = 14 * DAY_S
"""Seconds for which a refused delivery can be fired again."""


@frozen
class RefusedDelivery:
    """An occurrence or delivery that could not start its playbook, and that no retry would start. `facts` is its content, which
    templates read in `trigger`."""

    id: str
    """Derived from the trigger and the occurrence. Ids grow with time."""
    path: str
    name: str
    kind: str
    occurrence: str
    at: int
    code: str
    """The kind of the refusal, as in answers of the API."""
    reason: str
    facts: Mapping[str, Any] = field(default_factory=dict)
    expires_at: int = 0
    """Seconds."""


class Triggers(Protocol):
    """The triggers, by path and name. Reads are strongly consistent."""

    def trigger(self, path: str, name: str) -> TriggerRecord | None: ...

    def put_trigger(self, record: TriggerRecord, expected: str) -> None:
        """Write a trigger if its stored revision is `expected` (empty: if there is none). Writing again with the stored revision
        changes nothing, so that a write whose answer was lost can be repeated. Raises `OtherRevision`."""
        ...

    def delete_trigger(self, path: str, name: str, expected: str) -> None:
        """Delete a trigger if its revision is `expected`, or if it is already missing. Raises `OtherRevision`."""
        ...

    def triggers(self, path: str | None = None, kind: str | None = None) -> Sequence[TriggerRecord]:
        """Return triggers, of one playbook or of all, by path and name."""
        ...

    def delivery_triggers(self) -> Sequence[TriggerRecord]:
        """Return the triggers that take deliveries, which are all except schedules, by path and name. Called for each batch of
        deliveries, it costs one read while no trigger changes."""
        ...


class Firings(Protocol):
    """Outcomes of occurrences, kept for a while."""

    def put_firing(self, firing: Firing) -> None:
        """Record an outcome, replacing an earlier record of the same occurrence."""
        ...

    def firings(self, path: str, name: str, now: int, limit: int) -> Sequence[Firing]:
        """Return at most `limit` outcomes of a trigger that have not expired at `now` (seconds), newest first."""
        ...


class RefusedDeliveries(Protocol):
    """Refused deliveries, kept for a while, until somebody fires them again or deletes them."""

    def refuse(self, refused: RefusedDelivery) -> None:
        """Store a refused delivery, replacing an earlier one with the same id."""
        ...

    def refused(self, id: str, now: int) -> RefusedDelivery | None: ...

    def list_refused(self, now: int, limit: int, path: str | None = None) -> Sequence[RefusedDelivery]:
        """Return at most `limit` that have not expired at `now` (seconds), newest first."""
        ...

    def forget_refused(self, id: str) -> None: ...


class TriggerStore(Triggers, Firings, RefusedDeliveries, Protocol):
    """Triggers, the outcomes of their occurrences, and refused deliveries."""
