"""What the engine needs of the world, as small protocols. Each has one contract test suite that all its adapters pass.

Errors of the ports are one small vocabulary, split by who must act:

* `PortError`
  * `Conflict`: the position is taken; the caller reloads and decides again (control) or stops (worker).
  * `NotFound`: there is no such thing; the caller answers so.
  * `Unavailable`: the service did not answer or throttled; the platform retries (queue redelivery, stream retry).
    * `StorageFailed`: the disk is full, read-only or broken; whoever owns the machine must make room, and go on then.
  * `Forbidden`: it is not for whom it was asked for; whoever gives out rights acts.
  * `TooLarge`: the value exceeds the service's limit; the author must make it smaller or reference it.
    * `NewerLog`: a newer version of the code wrote it; whoever runs that version goes on, and this one waits.
  * `CorruptLog`: a commit that cannot be interpreted (gap, checksum); an operator must look.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from noetl_core.engine.heads import Head as Head
from noetl_core.engine.records import Command, Commit, Snapshot, StreamId


class PortError(Exception):
    """Base of all port errors."""


class Conflict(PortError):
    """The condition of a write failed: somebody else was first. `existing` is what stands there, when the store says."""

    def __init__(self, message: str, existing: Commit | None = None) -> None:
        super().__init__(message)
        self.existing = existing


class NotFound(PortError):
    """There is no such item."""


class Unavailable(PortError):
    """The service did not answer, or refused for load; trying again later is right."""


class StorageFailed(Unavailable):
    """What is kept on this machine cannot be written: no room, read-only, broken. Trying again helps once somebody acted."""


class TooLarge(PortError):
    """The value exceeds what the service takes."""


class Forbidden(PortError):
    """The item is there, and not for whom it was asked for; whoever gives out rights acts."""


class NewerLog(Unavailable):
    """A commit asks for a newer reader: while a release is rolled out, or after one was rolled back. It is not broken, so it is
    not given up: it waits for the code that reads it."""


class CorruptLog(PortError):
    """The log holds something this reader must not interpret."""


class CommitReader(Protocol):
    """What readers of a history need of the log."""

    def read(self, stream: StreamId, after: int = -1, limit: int | None = None) -> Sequence[Commit]:
        """As `EventStore.read`."""
        ...


class EventStore(Protocol):
    """The append-only log. Reads are strongly consistent."""

    def append(self, commit: Commit) -> None:
        """Write `commit` at its position or raise `Conflict`. A position that holds a commit of the same `writer` is success."""
        ...

    def read(self, stream: StreamId, after: int = -1, limit: int | None = None) -> Sequence[Commit]:
        """Commits of `stream` with `seq > after` in order, at most `limit` (None: all). Raises `CorruptLog` on a gap."""
        ...

    def last(self, stream: StreamId) -> Commit | None:
        """The newest commit of `stream`, or None."""
        ...

    def save_snapshot(self, snapshot: Snapshot) -> None:
        """Keep `snapshot` if it is newer than the kept one; silently do nothing otherwise."""
        ...

    def load_snapshot(self, execution_id: str) -> Snapshot | None: ...


@dataclass(frozen=True, slots=True)
class Waiting:
    """Messages of one queue: to be received, received and not yet deleted, to become visible later."""

    waiting: int = 0
    in_flight: int = 0
    delayed: int = 0


@dataclass(frozen=True, slots=True)
class Backlog:
    """Commands by pool, wakes of the control plane, and what was given up, by the queue it was in."""

    pools: Mapping[str, Waiting]
    control: Waiting
    dead_letters: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A message of `execution_id` whose handling failed every time: a wake, or (with `run_id`) a command."""

    execution_id: str
    run_id: str | None = None
    step: str | None = None
    expected_seq: int = 0


class CommandQueue(Protocol):
    """Where the control plane puts work. Delivery is at least once, in no order."""

    def send(self, commands: Sequence[Command], delay_s: int = 0) -> Sequence[Command]:
        """Send to each command's pool (delay 0-900 s); returns those that could not be sent."""
        ...

    def wake(self, *executions: str, delay_s: int = 0) -> None:
        """Ask the router to look at executions after `delay_s` (0-900 s)."""
        ...

    def depth(self, pool: str | None) -> int:
        """About how many commands of `pool`, or (None) wakes, are waiting to be received."""
        ...

    def backlog(self) -> Backlog:
        """About what every queue holds."""
        ...


class ResultStore(Protocol):
    """Objects under `<execution_id>/...`: large results, collections, large commit bodies."""

    def put(self, key: str, body: bytes, content_type: str = "application/json") -> Mapping[str, Any]:
        """Store and return the reference `{kind, store, key, size, checksum}` (resolution 22). Same key, same body: no change."""
        ...

    def get(self, key: str, start: int | None = None, end: int | None = None) -> bytes:
        """The object, or its bytes `start` to `end` exclusive. Raises `NotFound`."""
        ...

    def url(self, key: str) -> str:
        """Where a tool of its own (DuckDB) reads the object: `s3://bucket/key`, or a file path."""
        ...


@dataclass(frozen=True, slots=True)
class PlaybookVersion:
    """One immutable version in the catalog."""

    path: str
    version: int
    digest: str
    source: str
    registered_at: int


class PlaybookCatalog(Protocol):
    """Registered playbooks. Versions are immutable; `latest` moves."""

    def register(self, path: str, digest: str, source: str, now: int) -> PlaybookVersion:
        """A new version, or the existing one if its digest is already the latest of `path`."""
        ...

    def pin(self, path: str, digest: str, source: str, now: int) -> PlaybookVersion:
        """Keep content for executions that name its digest: version 0, which is none of `path`, or that it is registered as."""
        ...

    def get(self, path: str, version: int | None = None) -> PlaybookVersion:
        """A version (None: latest). Raises `NotFound`."""
        ...

    def by_digest(self, digest: str) -> PlaybookVersion:
        """The content pinned by an execution; version 0 unless it is registered. Raises `NotFound`."""
        ...

    def versions(self, path: str) -> Sequence[PlaybookVersion]: ...

    def list(self, prefix: str = "") -> Sequence[PlaybookVersion]:
        """The latest version of every path that starts with `prefix`, by path."""
        ...


@dataclass(frozen=True, slots=True, order=True)
class Due:
    """That an execution is to be reconciled at `at` (microseconds)."""

    at: int
    execution_id: str


class Heads(Protocol):
    """Summaries of executions beside the log, for lists; and all that is left where a log does not read."""

    def head(self, execution_id: str) -> Head | None: ...

    def put_head(self, head: Head) -> None:
        """Write unless a newer one (`updated_at`) stands, or a terminal one does and this is not terminal and not newer."""
        ...

    def heads(
        self,
        status: str | None = None,
        path: str | None = None,
        since: int | None = None,
        limit: int = 50,
        before: str | None = None,
    ) -> Sequence[Head]:
        """Newest first; `before` is the execution id to continue after."""
        ...


class DueItems(Protocol):
    """When executions are next to be reconciled: for the sweeper, which is the timer service too."""

    def set_due(self, execution_id: str, at: int, seen: int | None = None) -> None:
        """The execution wants a look at `at` (microseconds); replaces what stood. With `seen`: only if what stands is still that
        instant, and nothing otherwise, so that whoever asked for another one meanwhile gets it."""
        ...

    def clear_due(self, execution_id: str) -> None: ...

    def claim_due(self, due: Due, at: int) -> int | None:
        """Move `due` on to `at` before reconciling, as a queue hides a message: if that never ends, it comes again then. Returns
        how many attempts in a row have begun so, this one included, and none since put off by `set_due`; None if it has moved
        meanwhile."""
        ...

    def due(self, now: int) -> Iterator[Due]:
        """What is due, the oldest first, read as it is taken."""
        ...


class ExecutionIndex(Heads, DueItems, Protocol):
    """Finding executions beside the log."""


@dataclass(frozen=True, slots=True)
class Gate:
    """What running workers must know without being told: go on, pause, or stop; and single runs to stop."""

    mode: Literal["run", "pause", "stop"] = "run"
    stopped_runs: frozenset[str] = frozenset()
    expires_at: int = field(default=0, compare=False)
    """Seconds; as in the execution's commits: a gate outlives its log no more than anything else of it. 0: never."""


class Gates(Protocol):
    """One small item per execution, read at claim and with each periodic commit. Absent, or expired, means `run`."""

    def gate(self, execution_id: str) -> Gate: ...

    def set_gate(self, execution_id: str, gate: Gate) -> None: ...


class ReadsSecrets(Protocol):
    """Credentials by name, to read."""

    def get(self, name: str) -> Mapping[str, Any]:
        """The credential's fields, e.g. `{type: postgres, data: {...}}`. Raises `NotFound`, `Forbidden`."""
        ...


class Secrets(ReadsSecrets, Protocol):
    """Credentials by name. Only the worker and the credentials API hold an adapter."""

    def put(self, name: str, value: Mapping[str, Any]) -> None: ...

    def delete(self, name: str) -> None: ...

    def names(self) -> Iterable[str]: ...


class Sealer(Protocol):
    """Encrypts what a resumed run needs and the log may not show. Only workers hold an adapter."""

    def seal(self, plain: bytes, context: Mapping[str, str]) -> str:
        """Text that gives away nothing of `plain` but its length. The same `context` is needed to open it."""
        ...

    def open(self, sealed: str, context: Mapping[str, str]) -> bytes:
        """What was sealed. Raises `CorruptLog` for another key or context, and for what was tampered with."""
        ...


@dataclass(frozen=True, slots=True)
class Upload:
    """One put into the inbox, as its notification tells it. `version_id` (or `sequencer`) makes one put differ from the next."""

    bucket: str
    key: str
    size: int = 0
    etag: str = ""
    version_id: str | None = None
    sequencer: str | None = None

    @property
    def identity(self) -> str:
        """Equal for every delivery of the same put, different for every put."""
        mark = self.version_id if self.version_id not in (None, "", "null") else self.sequencer or self.etag
        return f"s3:{self.bucket}/{self.key}@{mark}"


class Inbox(Protocol):
    """Where uploads are. Raises `NotFound` for an object that is gone."""

    def read(self, upload: Upload) -> bytes:
        """The object's content; the caller has looked at its size."""
        ...

    def copy(self, upload: Upload, key: str) -> Mapping[str, Any]:
        """Copy the object into the result store, as this put left it; the reference `{kind, store, key, size}`."""
        ...

    def reject(self, upload: Upload, error: Mapping[str, Any]) -> None:
        """Move the object aside, with what is wrong with it beside it."""
        ...


class Clock(Protocol):
    """Time and chance, injected, so that tests own both."""

    def now(self) -> int:
        """Microseconds since the epoch, UTC."""
        ...

    def sleep(self, seconds: float) -> None: ...

    def nonce(self) -> str:
        """A fresh random name for a writer."""
        ...
