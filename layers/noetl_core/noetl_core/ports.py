"""The ports: small protocols through which the engine reaches the outside world. Each has one contract test suite
(`tests/contract`) that all its adapters pass.

The errors of the ports, by who must act:

* `PortError`
  * `Conflict`: the position is taken. The caller reloads and decides again (control) or stops (worker).
  * `NotFound`: there is no such item. The caller says so.
  * `Unavailable`: the service did not answer, or throttled. The platform tries again (queue redelivery, stream retry).
    * `StorageFailed`: the disk is full, read-only or broken. The owner of the machine must act; then the work can continue.
    * `NewerLog`: a newer version of the code wrote it. Processes of that version continue; this one waits.
  * `Forbidden`: the caller may not have the item. Whoever grants rights acts.
  * `TooLarge`: the value exceeds the limit of the service. The author must make it smaller or pass it by reference.
  * `CorruptLog`: a commit cannot be interpreted (gap, checksum). An operator must act.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, Self

from noetl_core.engine.heads import Head as Head
from noetl_core.engine.records import Command, Commit, Snapshot, StreamId


class PortError(Exception):
    """Base class of all errors of ports."""


class Conflict(PortError):
    """The condition of a write failed, because another writer was first. `existing` is the stored item, when the store
    returns it."""

    def __init__(self, message: str, existing: Commit | None = None) -> None:
        super().__init__(message)
        self.existing = existing


class NotFound(PortError):
    """There is no such item."""


class Unavailable(PortError):
    """The service did not answer, or refused because of load. Trying again later is right."""


class StorageFailed(Unavailable):
    """The storage of this machine cannot be written: full, read-only or broken. Trying again helps only after somebody acted."""


class TooLarge(PortError):
    """The value exceeds what the service accepts."""


class Forbidden(PortError):
    """The item exists, but the caller may not have it. Whoever grants rights acts."""


class MissingPackages(PortError):
    """The packages that a playbook requires are not where its tasks run. Who acts: whoever deploys; the message says how."""


class NewerLog(Unavailable):
    """A commit requires a newer reader: a release is being rolled out, or was rolled back. The execution is not given up: it
    waits for code that can read it."""


class CorruptLog(PortError):
    """The log contains something that this reader must not interpret."""


class CommitReader(Protocol):
    """The part of the event store that readers of a history need."""

    def read(self, stream: StreamId, after: int = -1, limit: int | None = None) -> Sequence[Commit]:
        """As `EventStore.read`."""
        ...


class EventStore(Protocol):
    """The append-only event log. Reads are strongly consistent."""

    def append(self, commit: Commit) -> None:
        """Write `commit` at its position, or raise `Conflict`. It also succeeds when the position holds a commit of the same
        `writer`."""
        ...

    def read(self, stream: StreamId, after: int = -1, limit: int | None = None) -> Sequence[Commit]:
        """Return the commits of `stream` with `seq > after` in order, at most `limit` (None: all). Raises `CorruptLog` on a
        gap. A store may decode a commit when it is taken from the answer, and raise `CorruptLog` or `NewerLog` then."""
        ...

    def last(self, stream: StreamId) -> Commit | None:
        """Return the newest commit of `stream`, or None."""
        ...

    def save_snapshot(self, snapshot: Snapshot) -> None:
        """Store `snapshot` if it is newer than the stored one; otherwise do nothing."""
        ...

    def load_snapshot(self, execution_id: str) -> Snapshot | None: ...


@dataclass(frozen=True, slots=True)
class Waiting:
    """Numbers of messages in one queue: visible, received and not yet deleted, delayed."""

    waiting: int = 0
    in_flight: int = 0
    delayed: int = 0


@dataclass(frozen=True, slots=True)
class Backlog:
    """Waiting commands by pool, wakes of the control plane, and dead letters by the queue from which they come."""

    pools: Mapping[str, Waiting]
    control: Waiting
    dead_letters: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A message of `execution_id` that failed every time: a wake, or (with `run_id`) a command."""

    execution_id: str
    run_id: str | None = None
    step: str | None = None
    expected_seq: int = 0


class CommandQueue(Protocol):
    """Where the control plane sends work. Messages are delivered at least once, in no order."""

    def send(self, commands: Sequence[Command], delay_s: int = 0) -> Sequence[Command]:
        """Send each command to its pool (delay 0-900 s). Returns the commands that could not be sent."""
        ...

    def wake(self, *executions: str, delay_s: int = 0) -> None:
        """Ask the router to reconcile executions after `delay_s` (0-900 s)."""
        ...

    def depth(self, pool: str | None) -> int:
        """Return about how many commands of `pool`, or wakes (None), wait to be received."""
        ...

    def backlog(self) -> Backlog:
        """Return about what every queue holds."""
        ...


class ObjectWriter(Protocol):
    """Writes one object piece by piece, in constant memory, as the target of a `with`. Nothing is stored before `finish`; what
    is not finished when the block ends is discarded. Raises `Unavailable`."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...

    def write(self, data: bytes) -> None: ...

    def finish(self) -> Mapping[str, Any]:
        """Complete the object and return its reference, as `ResultStore.put` does."""
        ...


class ResultStore(Protocol):
    """Objects under `<execution_id>/...`: large results, collections, large commit bodies."""

    def put(self, key: str, body: bytes, content_type: str = "application/json") -> Mapping[str, Any]:
        """Store an object and return its reference `{kind, store, key, size, checksum}` (resolution 22). The same key with
        the same body changes nothing."""
        ...

    def get(self, key: str, start: int | None = None, end: int | None = None) -> bytes:
        """Return the object, or its bytes from `start` to `end` (exclusive). Raises `NotFound`."""
        ...

    def url(self, key: str) -> str:
        """Return where a library of a tool (DuckDB) reads the object: `s3://bucket/key`, or a file path."""
        ...

    def writer(self, key: str, content_type: str = "application/json") -> ObjectWriter:
        """Return what writes an object of any size. `result_streams.pieces` reads one."""
        ...


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


class ReadsSecrets(Protocol):
    """Read access to credentials by name."""

    def get(self, name: str) -> Mapping[str, Any]:
        """Return the fields of a credential, e.g. `{type: postgres, data: {...}}`. Raises `NotFound`, `Forbidden`."""
        ...


class Secrets(ReadsSecrets, Protocol):
    """Credentials by name. Only the worker and the credentials API have an adapter."""

    def put(self, name: str, value: Mapping[str, Any]) -> None: ...

    def delete(self, name: str) -> None: ...

    def names(self) -> Iterable[str]: ...


class Sealer(Protocol):
    """Encrypts what a resumed run needs and the log must not show. Only workers have an adapter."""

    def seal(self, plain: bytes, context: Mapping[str, str]) -> str:
        """Return encrypted text, which reveals nothing of `plain` but its length. The same `context` is needed to decrypt it."""
        ...

    def open(self, sealed: str, context: Mapping[str, str]) -> bytes:
        """Return the decrypted content. Raises `CorruptLog` for another key or context, and for text that was changed."""
        ...


@dataclass(frozen=True, slots=True)
class StoredToken:
    """An access token that workers share. `sealed` is what only they can open."""

    sealed: str
    until: int
    """When it ends (microseconds)."""
    expires_at: int
    """Seconds: when the store may forget it."""
    version: str = ""
    """Given by the store: another one for each token that is written."""
    accesses: int = 0


class TokenCache(Protocol):
    """Access tokens by a key that tells nothing of them. Of the workers that find one ended, one renews it."""

    def read(self, key: str, now: int) -> StoredToken | None:
        """Return a token, counting the access at `now`. None where there is none, or the store may have forgotten it."""
        ...

    def begin_renewal(self, key: str, seen: str | None, now: int, until: int) -> bool:
        """Reserve the renewal of the token with version `seen` (None: of what is not there) until `until`. Return False where
        there is another version, or another worker has reserved it."""
        ...

    def end_renewal(self, key: str, seen: str | None) -> None:
        """Give a reservation back that came to nothing."""
        ...

    def write(self, key: str, token: StoredToken, seen: str | None) -> bool:
        """Store a token in place of the one with version `seen`, and end the reservation. Return False where there is another
        version: then it stays."""
        ...


@dataclass(frozen=True, slots=True)
class Entry:
    """A value that tasks keep under a key of a bucket. `revision` is another one for every write; `expires_at` (seconds) is 0
    where it does not expire."""

    key: str
    value: str
    revision: str
    expires_at: int = 0


class OtherRevision(PortError):
    """The entry is not what its writer expects: `revision` is the one it has, None where there is none. The author acts."""

    def __init__(self, revision: str | None) -> None:
        super().__init__("there is no such entry" if revision is None else f"its revision is {revision}")
        self.revision = revision


class KeyValues(Protocol):
    """Values that tasks of all playbooks share. Reads are strongly consistent; what has expired at `now` (seconds) is not there.

    A write gives the entry its revision. Writing again with the revision that an entry has already changes nothing, whatever it
    expects, so a write whose answer was lost can be repeated.
    """

    def get(self, bucket: str, key: str, now: int) -> Entry | None: ...

    def put(self, bucket: str, entry: Entry, now: int, expected: str | None = None) -> None:
        """Write an entry if its revision is `expected` (empty: if there is none; None: in any case). Raises `OtherRevision`,
        `TooLarge`."""
        ...

    def delete(self, bucket: str, key: str, now: int, expected: str | None = None) -> bool:
        """Delete an entry if its revision is `expected`; return whether there was one. Raises `OtherRevision`."""
        ...

    def list(self, bucket: str, prefix: str, now: int, limit: int) -> Sequence[Entry]:
        """Return the entries whose keys begin with `prefix`, by key, at most `limit`."""
        ...


@dataclass(frozen=True, slots=True)
class Upload:
    """One put into the inbox, as its notification describes it. `version_id` (or `sequencer`) tells one put from the next."""

    bucket: str
    key: str
    size: int = 0
    etag: str = ""
    version_id: str | None = None
    sequencer: str | None = None

    @property
    def identity(self) -> str:
        """Return a value that is equal for every delivery of the same put and different for every other put."""
        mark = self.version_id if self.version_id not in (None, "", "null") else self.sequencer or self.etag
        return f"s3:{self.bucket}/{self.key}@{mark}"


class Inbox(Protocol):
    """Where uploads are stored. Raises `NotFound` for an object that no longer exists."""

    def read(self, upload: Upload) -> bytes:
        """Return the content of the object. The caller has checked its size."""
        ...

    def copy(self, upload: Upload, key: str) -> Mapping[str, Any]:
        """Copy the object into the result store, as this put left it. Returns the reference `{kind, store, key, size}`."""
        ...

    def reject(self, upload: Upload, error: Mapping[str, Any]) -> None:
        """Move the object aside and store the reason beside it."""
        ...


class PackageFinder(Protocol):
    """The packages that playbooks require (`dsl.requirements`), where tasks run."""

    def __call__(self, requirements: tuple[str, ...], /) -> str:
        """Return the folder to import them from. Raises `MissingPackages`."""
        ...


class Clock(Protocol):
    """Time and random names, injected, so that tests control both."""

    def now(self) -> int:
        """Return microseconds since the epoch, UTC."""
        ...

    def sleep(self, seconds: float) -> None: ...

    def nonce(self) -> str:
        """Return a new random name for a writer."""
        ...
