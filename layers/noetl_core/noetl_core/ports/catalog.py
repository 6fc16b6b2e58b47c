"""Registered playbooks, and how executions are found beside the log."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
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


@dataclass(frozen=True, slots=True)
class PathChange:
    """Something that was changed about a path, when, and by whom as far as that is known."""

    at: int
    by: str
    what: str


@dataclass(frozen=True, slots=True)
class PathRecord:
    """What holds for a path as a whole. `revision` counts its changes; 0: nothing was ever changed."""

    path: str
    revision: int = 0
    aliases: Mapping[str, Mapping[int, int]] = field(default_factory=dict)
    """Alias -> the versions that it stands for, each with its weight."""
    tags: tuple[str, ...] = ()
    deleted_at: int | None = None
    """Since when nothing new starts from it (microseconds)."""
    changes: tuple[PathChange, ...] = ()
    """The last changes, the newest first."""


class PathRecords(Protocol):
    """Aliases, tags and deletions of playbooks: what is said about their paths and may change."""

    def about(self, path: str, *, fresh: bool = True) -> PathRecord:
        """Return what holds for `path`. Not `fresh`: as it was some seconds ago is good enough."""
        ...

    def put_about(self, record: PathRecord) -> None:
        """Write revision `record.revision`. Raises `Conflict` unless the one before is stored (0: none)."""
        ...

    def all_about(self, prefix: str = "") -> Sequence[PathRecord]:
        """Return the records of paths that start with `prefix`, as far as there are any, by path."""
        ...


class PlaybookCatalog(PathRecords, Protocol):
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
        where: Mapping[str, str] | None = None,
    ) -> Sequence[Head]:
        """Return heads, newest first; `before` is the execution id after which to continue. `where`: search attributes that they
        have; they are looked for by the first of these, and what is found is compared with the rest."""
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
