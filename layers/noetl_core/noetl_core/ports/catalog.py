"""Registered playbooks, and the index by which executions are found without their logs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

from noetl_core.engine.heads import Head
from noetl_core.values.frozen import frozen


@frozen
class PlaybookVersion:
    """One immutable version of a playbook in the catalog."""

    path: str
    version: int
    digest: str
    source: str
    registered_at: int


@frozen
class PathChange:
    """A change of a path's record: what, when, and by whom if known."""

    at: int
    by: str
    what: str


@frozen
class PathRecord:
    """Properties of a path as a whole. `revision` counts its changes; 0: there is no record."""

    path: str
    revision: int = 0
    aliases: Mapping[str, Mapping[int, int]] = field(default_factory=dict)
    """Alias -> its versions, each with its weight."""
    tags: tuple[str, ...] = ()
    deleted_at: int | None = None
    """The instant at which the path was deleted (microseconds). From then on nothing new starts from it."""
    changes: tuple[PathChange, ...] = ()
    """The latest changes, newest first."""


class PathRecords(Protocol):
    """The changeable properties of playbook paths: aliases, tags and deletion."""

    def about(self, path: str, *, fresh: bool = True) -> PathRecord:
        """Return the record of `path`; if not `fresh`, it may be some seconds old."""
        ...

    def put_about(self, record: PathRecord) -> None:
        """Write revision `record.revision`. Raises `Conflict` unless the previous revision is stored (0: none)."""
        ...

    def all_about(self, prefix: str = "") -> Sequence[PathRecord]:
        """Return the existing records of paths that start with `prefix`, by path."""
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
    """Summaries of executions for lists. When a log cannot be read, its head still can."""

    def head(self, execution_id: str) -> Head | None: ...

    def put_head(self, head: Head) -> None:
        """Write a head, unless a newer one is stored (`updated_at`), or a terminal one and this one is neither terminal nor
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
        oldest_first: bool = False,
    ) -> Sequence[Head]:
        """Return heads, newest first unless `oldest_first`; `before` is the execution id after which to continue. `where` are
        search attributes: the first one selects heads, the others filter them."""
        ...


class DueItems(Protocol):
    """The instants at which executions are to be reconciled next. The sweeper reads them; it is also the timer service."""

    def set_due(self, execution_id: str, at: int, seen: int | None = None) -> None:
        """Record that the execution is to be reconciled at `at` (microseconds), replacing the stored instant. With `seen`, write
        only if the stored instant is `seen`, so that an earlier instant recorded meanwhile is not lost."""
        ...

    def clear_due(self, execution_id: str) -> None: ...

    def claim_due(self, due: Due, at: int) -> int | None:
        """Move `due` to `at` before reconciling, like a visibility timeout: if the process dies, the execution is due again then.
        Returns how many attempts have begun since `set_due`, including this one; None if the item has moved meanwhile."""
        ...

    def due(self, now: int) -> Iterator[Due]:
        """Yield the due items, oldest first, reading on demand."""
        ...


class ExecutionIndex(Heads, DueItems, Protocol):
    """Heads and due items."""


@frozen
class Gate:
    """The orders to the workers of an execution: run, pause or stop; and single runs that must stop."""

    mode: Literal["run", "pause", "stop"] = "run"
    stopped_runs: frozenset[str] = frozenset()
    expires_at: int = field(default=0, compare=False)
    """Seconds, the same as in the commits of the execution, so that a gate expires with the log. 0: never."""


class Gates(Protocol):
    """One small item per execution, which workers read when they claim a run and with each periodic commit. An absent or
    expired gate means `run`."""

    def gate(self, execution_id: str) -> Gate: ...

    def set_gate(self, execution_id: str, gate: Gate) -> None: ...
