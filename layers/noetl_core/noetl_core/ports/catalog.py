"""Registered playbooks, and how executions are found beside the log."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

from noetl_core.engine.heads import Head


@dataclass(frozen=True, slots=True)
class PlaybookVersion:
    """One immutable version of a playbook in the catalog."""

    path: str
    version: int
    digest: str
    source: str
    registered_at: int


class PlaybookCatalog(Protocol):
    """The registered playbooks. Versions are immutable; `latest` moves."""

    def register(self, path: str, digest: str, source: str, now: int) -> PlaybookVersion:
        """Store a new version, or return the existing one when the latest version of `path` has the same digest."""
        ...

    def pin(self, path: str, digest: str, source: str, now: int) -> PlaybookVersion:
        """Store content for executions that name its digest: as version 0 without a path, or the version under which it is
        registered."""
        ...

    def get(self, path: str, version: int | None = None) -> PlaybookVersion:
        """Return a version (None: the latest). Raises `NotFound`."""
        ...

    def by_digest(self, digest: str) -> PlaybookVersion:
        """Return the content that an execution pins; version 0 unless it is registered. Raises `NotFound`."""
        ...

    def versions(self, path: str) -> Sequence[PlaybookVersion]: ...

    def list(self, prefix: str = "") -> Sequence[PlaybookVersion]:
        """Return the latest version of every path that starts with `prefix`, by path."""
        ...


@dataclass(frozen=True, slots=True, order=True)
class Due:
    """An execution is to be reconciled at `at` (microseconds)."""

    at: int
    execution_id: str


class Heads(Protocol):
    """Summaries of executions beside the log, for lists. When a log cannot be read, its head is all there is."""

    def head(self, execution_id: str) -> Head | None: ...

    def put_head(self, head: Head) -> None:
        """Write a head unless a newer one is stored (`updated_at`), or a terminal one while this one is neither terminal nor
        newer."""
        ...

    def heads(
        self,
        status: str | None = None,
        path: str | None = None,
        since: int | None = None,
        limit: int = 50,
        before: str | None = None,
    ) -> Sequence[Head]:
        """Return heads, newest first; `before` is the execution id after which to continue."""
        ...


class DueItems(Protocol):
    """When executions are to be reconciled next: the sweeper reads them, which is also the timer service."""

    def set_due(self, execution_id: str, at: int, seen: int | None = None) -> None:
        """Record that the execution is to be reconciled at `at` (microseconds), in place of the stored instant. With `seen`,
        write only if the stored instant is `seen`, so that an earlier instant that somebody else recorded meanwhile is not
        lost."""
        ...

    def clear_due(self, execution_id: str) -> None: ...

    def claim_due(self, due: Due, at: int) -> int | None:
        """Move `due` on to `at` before reconciling, as a queue hides a message: if the process never ends its attempt, the
        execution comes again then. Returns how many attempts in a row have begun since `set_due`, this one included; None if
        the item has moved meanwhile."""
        ...

    def due(self, now: int) -> Iterator[Due]:
        """Yield the items that are due, the oldest first, reading as they are taken."""
        ...


class ExecutionIndex(Heads, DueItems, Protocol):
    """Heads and due items: how executions are found beside the log."""


@dataclass(frozen=True, slots=True)
class Gate:
    """What running workers must know: run, pause or stop; and single runs that are to stop."""

    mode: Literal["run", "pause", "stop"] = "run"
    stopped_runs: frozenset[str] = frozenset()
    expires_at: int = field(default=0, compare=False)
    """Seconds, as in the commits of the execution, so that a gate expires with the log. 0: never."""


class Gates(Protocol):
    """One small item per execution, which workers read when they claim a run and with each periodic commit. An absent or
    expired gate means `run`."""

    def gate(self, execution_id: str) -> Gate: ...

    def set_gate(self, execution_id: str, gate: Gate) -> None: ...
