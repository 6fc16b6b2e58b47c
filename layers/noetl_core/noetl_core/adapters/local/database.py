"""One SQLite database for everything that the local wiring stores; many threads and processes use it."""

from __future__ import annotations

import os
import sqlite3
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, Literal
from urllib.parse import quote

from noetl_core.adapters.local.home import private_folder
from noetl_core.adapters.local.tables import SCHEMA, SCHEMA_VERSION, UPGRADES
from noetl_core.engine.limits.rates import FORGOTTEN_S
from noetl_core.ports import StorageFailed, Unavailable, UnreadableStore
from noetl_core.values.instants import SECOND

_NO_STORAGE = frozenset(
    {
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_READONLY,
        sqlite3.SQLITE_CANTOPEN,
        sqlite3.SQLITE_PERM,
        sqlite3.SQLITE_NOLFS,
    }
)
"""Errors that waiting does not repair. They are the lowest byte of extended codes."""
MEMORY = ":memory:"
WAL_ATTEMPTS, WAL_PAUSE_S = 100, 0.05
WAL_PAGES = 8000
"""Pages (of 4 KB) after which SQLite copies its write-ahead log into the file and syncs; its default of 1,000 is some 300
steps."""
LEFT_BYTES = 1024 * 1024
"""The largest write-ahead log that a process leaves to the next one, which reads it to open the store: 1 ms for each 250 KB."""
_OF_AN_EXECUTION = ("commits", "snapshots", "gates", "due", "heads")
"""Tables with rows per execution. The head is deleted last, because the other rows are found by it."""


_EXPIRED = {
    "limits": "limits WHERE holders='{}' AND NOT waiting AND displaced='{}' AND ?1>0"
    " AND NOT EXISTS (SELECT 1 FROM limit_waiters w WHERE w.key=limits.key)",
    "rates": f"rates WHERE free_at < (?1 - {FORGOTTEN_S}) * {SECOND}",
    "tokens": "tokens WHERE expires_at BETWEEN 1 AND ?1",
    "stored values": "key_values WHERE expires_at BETWEEN 1 AND ?1",
    "occurrences": "firings WHERE expires_at BETWEEN 1 AND ?1",
    "refusals": "refused WHERE expires_at BETWEEN 1 AND ?1",
    "commits": "commits WHERE expires_at BETWEEN 1 AND ?1 AND execution_id NOT IN (SELECT execution_id FROM heads)",
}
"""Rows that nothing reads any more, by kind; ?1 is the present (seconds)."""


class WriteAheadLog:
    """The file to which SQLite appends, and whether it is synced. SQLite itself syncs it before a checkpoint, and before it
    starts the file over."""

    def __init__(self, database: Path) -> None:
        self._path = Path(f"{database.resolve()}-wal")
        self._lock = threading.Lock()
        self._handle = -1
        self._failure: tuple[Any, ...] = ()
        """The arguments of the first error of a sync."""
        self.unsynced = False
        """True if something was written since the last sync began, or a sync has failed."""

    def sync(self) -> None:
        """Sync the file. Threads that call this meanwhile wait, and share the next sync.

        After a failed sync all later ones of this process fail too: Linux drops what it could not write, and the next `fdatasync`
        succeeds without it.
        """
        with self._lock:
            if self._failure:
                raise OSError(*self._failure)
            if not self.unsynced:
                return
            if self._handle < 0:
                self._open()
            self.unsynced = False
            self._carry_out(sync_file, self._handle)

    def _open(self) -> None:
        """Sync the directory entry of the file, and open the file, which stays the same while the database is open."""
        folder = os.open(self._path.parent, os.O_RDONLY | os.O_CLOEXEC)
        try:
            self._carry_out(os.fsync, folder)
        finally:
            os.close(folder)
        self._handle = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)

    def _carry_out(self, sync: Callable[[int], None], handle: int) -> None:
        try:
            sync(handle)
        except OSError as error:
            self._failure, self.unsynced = error.args, True
            raise

    def close(self) -> None:
        with self._lock:
            if self._handle >= 0:
                os.close(self._handle)
                self._handle = -1


sync_file = getattr(os, "fdatasync", os.fsync)
"""The function that makes durable what was written to an open file."""


class Transaction:
    """A transaction of one thread. It begins with its first write."""

    def __init__(self) -> None:
        self.thread = threading.get_ident()
        self.begun = False
        """True from before the statement that begins it, so that no interrupt leaves it open."""
        self.synced = False
        """True if one of its writes must be durable at once."""
        self.lost: Exception | None = None
        """The error that took back all its writes."""
        self.committed = False
        self.afterwards: list[Callable[[], None]] = []


class Database:
    """A connection with a lock: SQLite serialises writers anyway, and one connection saves opening more.

    It uses WAL. Every statement is its own transaction, except in the block of `transaction`. `durable`: `process` survives a
    killed process, `power` also a power cut. `busy_s`: how long to wait for another process's write. A file that cannot be
    written is opened `read_only`. Raises `StorageFailed`, `CorruptLog`.

    For `power` this class syncs the write-ahead log itself: a sync makes all earlier writes durable, including those of other
    processes. Writes that nobody depends on yet (`later`) therefore share the next sync.
    """

    def __init__(self, path: str | Path = MEMORY, durable: Literal["process", "power"] = "process", busy_s: float = 30) -> None:
        self.path = str(path)
        self.read_only = self.path != MEMORY and _is_read_only(Path(path))
        self._lock = threading.Lock()
        self._writing = threading.RLock()
        """Held by the thread that writes: by that of a transaction until it ends. Readers do not need it."""
        self._transaction: Transaction | None = None
        self._reader: sqlite3.Connection | None = None
        """Reads for other threads during a transaction: they see what is committed, and do not wait."""
        self._log = WriteAheadLog(Path(path)) if durable == "power" and self.path != MEMORY else None
        try:
            self._open(Path(path), busy_s)
        except (sqlite3.DatabaseError, OSError) as error:
            raise self._failure(error) from error

    def _open(self, path: Path, busy_s: float) -> None:
        if self.path != MEMORY:
            private_folder(path.parent)
            if not self.read_only:  # for its owner alone; SQLite makes the log and the index beside it with the same mode
                os.close(os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600))
        self._connection = sqlite3.connect(
            _read_only_uri(path) if self.read_only else self.path,
            uri=self.read_only,
            isolation_level=None,
            check_same_thread=False,
            timeout=busy_s,
            cached_statements=64,
        )
        self._closing = weakref.finalize(self, self._connection.close)
        if not self.read_only:
            self._prepare()
        (version,) = self._connection.execute("PRAGMA user_version").fetchone()
        if version > SCHEMA_VERSION:
            raise UnreadableStore(
                f"{path} was made by a newer version of noetl (store format {version}; this version reads {SCHEMA_VERSION})"
            )
        if version < SCHEMA_VERSION:
            self._upgrade()

    def _upgrade(self) -> None:
        """Create or upgrade the tables, unless another process has already done so."""
        self._connection.execute("BEGIN IMMEDIATE")
        (version,) = self._connection.execute("PRAGMA user_version").fetchone()
        steps = "".join(UPGRADES[v] for v in range(version, SCHEMA_VERSION)) if version else SCHEMA
        for statement in filter(str.strip, steps.split(";")):
            self._connection.execute(statement)
        self._connection.execute(f"PRAGMA user_version={SCHEMA_VERSION}")
        self._connection.execute("COMMIT")

    def _prepare(self) -> None:
        self._connection.execute("PRAGMA synchronous=NORMAL")
        self._enter_wal()
        self._connection.execute(f"PRAGMA wal_autocheckpoint={WAL_PAGES}")

    def _enter_wal(self) -> None:
        for _ in range(WAL_ATTEMPTS):
            try:
                self._connection.execute("PRAGMA journal_mode=WAL")
                return
            except sqlite3.OperationalError as error:
                if _is_storage_failure(error):
                    raise
                time.sleep(WAL_PAUSE_S)  # two processes create the file at once: SQLite does not wait in this case
        self._connection.execute("PRAGMA journal_mode=WAL")

    def _failure(self, error: sqlite3.DatabaseError | OSError) -> Exception:
        """Return the port error for an error of SQLite or of the system."""
        if not isinstance(error, sqlite3.OperationalError | OSError) or _is_of_another_schema(error):
            return UnreadableStore(f"the local store {self.path}: {error}")
        if self.read_only:
            return StorageFailed(f"the local store {self.path} can only be read: {error}")
        failure = StorageFailed if isinstance(error, OSError) or _is_storage_failure(error) else Unavailable
        return failure(f"the local store {self.path}: {error}")

    def write(self, statement: str, values: Sequence[Any] = (), *, later: bool = False) -> int:
        """Execute and commit one statement; return how many rows it wrote. With `later`, it becomes durable with the next write
        without `later`, or with `sync`. Raises `sqlite3.IntegrityError` for a duplicate key, `Unavailable` when another process
        holds the file too long, and `StorageFailed` when the disk is full."""
        with self._writing:
            rows, _ = self._execute(statement, values)
            if self._transaction is not None:
                self._transaction.synced |= not later
                return rows
        if self._log is not None:
            self._log.unsynced = True
            if not later:
                self.sync()
        return rows

    def returning(self, statement: str, values: Sequence[Any] = ()) -> list[Any]:
        """Like `write` with `later`; return the rows of the statement's RETURNING clause."""
        with self._writing:
            _, rows = self._execute(statement, values)
        if self._log is not None:
            self._log.unsynced = True
        return rows

    def _execute(self, statement: str, values: Sequence[Any]) -> tuple[int, list[Any]]:
        """Execute a statement that writes, in the transaction of this thread if there is one."""
        transaction = self._transaction
        if transaction is not None and transaction.lost is not None:
            raise transaction.lost
        try:
            if transaction is not None and not transaction.begun:
                self._begin(transaction)
            with self._lock:
                cursor = self._connection.execute(statement, values)
                return cursor.rowcount, cursor.fetchall()
        except sqlite3.IntegrityError:
            raise  # SQLite takes back this statement alone
        except (sqlite3.DatabaseError, OSError) as error:
            raise self._lost(error) from error

    def _lost(self, error: sqlite3.DatabaseError | OSError) -> Exception:
        """Return the port error for an error that takes back the transaction of this thread, if there is one: after a failed
        read, too, SQLite may have done so."""
        failure, transaction = self._failure(error), self._transaction
        if transaction is not None and transaction.thread == threading.get_ident():
            transaction.lost = transaction.lost or failure
        return failure

    @contextmanager
    def transaction(self) -> Iterator[Transaction]:
        """Commit the writes that this thread makes in the block together, and sync them once. Other threads and processes write
        before or after it, and meanwhile read what was committed before.

        Each statement keeps its own condition: a duplicate key takes back nothing else. If the block raises, what it wrote before
        is committed all the same. Raises as `write` if the transaction cannot be committed (unless it is `committed`, none of
        its writes happened, and nothing registered by `after_commit` is called) or synced.
        """
        with ExitStack() as afterwards, self._writing:
            if self._transaction is not None:
                yield self._transaction
                return
            transaction = self._transaction = Transaction()
            try:
                yield transaction
            finally:
                try:
                    self._end(transaction)
                finally:
                    if not transaction.committed:
                        self._roll_back()
                    self._transaction = None
                for call in reversed(transaction.afterwards):  # they are called in their order, even where one raises
                    afterwards.callback(call)
                if transaction.synced:
                    afterwards.callback(self.sync)  # first, and together with other threads

    def after_commit(self, call: Callable[[], None]) -> None:
        """Call `call` when the transaction of this thread is committed: at once if there is none."""
        with self._writing:
            if self._transaction is not None:
                self._transaction.afterwards.append(call)
                return
        call()

    def _begin(self, transaction: Transaction) -> None:
        transaction.begun = True
        with self._lock:
            self._connection.execute("BEGIN IMMEDIATE")

    def _end(self, transaction: Transaction) -> None:
        try:
            with self._lock:
                if transaction.begun and transaction.lost is None:
                    self._connection.execute("COMMIT")
        except (sqlite3.DatabaseError, OSError) as error:
            transaction.lost = self._failure(error)
        if transaction.lost is not None:
            raise transaction.lost
        transaction.committed = True
        if transaction.begun and self._log is not None:
            self._log.unsynced = True

    def sync(self) -> None:
        """Make all writes durable against a power cut, if this store is opened with `power`. Raises `StorageFailed`."""
        if self._log is not None:
            try:
                self._log.sync()
            except OSError as error:
                raise StorageFailed(f"the local store {self.path}: {error}") from error

    def _roll_back(self) -> None:
        with self._lock, suppress(sqlite3.DatabaseError):
            if self._connection.in_transaction:  # otherwise SQLite has rolled back already
                self._connection.execute("ROLLBACK")

    def rows(self, statement: str, values: Sequence[Any] = ()) -> list[Any]:
        try:
            with self._lock:
                return self._reading().execute(statement, values).fetchall()
        except (sqlite3.DatabaseError, OSError) as error:
            raise self._lost(error) from error

    def _reading(self) -> sqlite3.Connection:
        """Return the connection that reads for this thread."""
        transaction = self._transaction
        if transaction is None or not transaction.begun or transaction.thread == threading.get_ident() or self.path == MEMORY:
            return self._connection  # memory does not outlive the process: readers may see uncommitted rows
        if self._reader is None:
            (_, _, file) = self._connection.execute("PRAGMA database_list").fetchone()  # its path may be relative
            self._reader = sqlite3.connect(file, isolation_level=None, check_same_thread=False)
        return self._reader

    def knows(self, execution_id: str) -> bool:
        """Return whether there is a log of the execution, readable or not."""
        return bool(self.rows("SELECT 1 FROM commits WHERE execution_id=? LIMIT 1", (execution_id,)))

    def forget_expired(self, now: int, limit: int = 100, ended_before: int = 0) -> list[str]:
        """Delete at most `limit` executions that expired before `now` (microseconds), as TTL does in DynamoDB, or ended before
        `ended_before`; return their ids."""
        gone = [
            row[0]
            for row in self.rows(
                "SELECT execution_id FROM heads WHERE expires_at BETWEEN 1 AND ?1"
                " OR (finished_at<?2 AND status IN ('completed', 'failed', 'cancelled')) LIMIT ?3",
                (now // SECOND - 1, ended_before, limit),
            )
        ]
        for execution_id in gone:
            for table in _OF_AN_EXECUTION:
                self.write(f"DELETE FROM {table} WHERE execution_id=?", (execution_id,), later=True)
        return gone

    def forget_rows(self, now: int) -> dict[str, int]:
        """Delete obsolete rows: expired ones, limits that nobody holds or waits for, rates without a
        reservation, and logs without a head. Returns how many rows of each kind."""
        return {what: self.write(f"DELETE FROM {rows}", (now // SECOND - 1,)) for what, rows in _EXPIRED.items()}

    def vacuum(self) -> None:
        """Give unused space back to the file system. Raises `Unavailable` while another process uses the store."""
        self.write("VACUUM")
        self.rows("PRAGMA wal_checkpoint(TRUNCATE)")

    def leave(self) -> None:
        """Like `close`, for a process that ends next: a short write-ahead log is left to the next process, as after a kill.

        The last connection to close would copy the log into the file and sync both, which takes 10 to 80 ms. A long log is
        copied, because opening the store reads it.
        """
        try:
            self.sync()
        finally:
            if self.path == MEMORY or self.read_only or self._log_size() > LEFT_BYTES:
                self.close()
            else:
                self._closing.atexit = False

    def _log_size(self) -> int:
        try:
            return Path(f"{self.path}-wal").stat().st_size
        except OSError:
            return 0

    def close(self) -> None:
        try:
            self.sync()
        finally:
            with self._lock:
                if self._reader is not None:
                    self._reader.close()
                self._connection.close()
            if self._log is not None:
                self._log.close()


def _is_of_another_schema(error: sqlite3.OperationalError | OSError) -> bool:
    """Return whether a statement does not fit the tables: waiting does not repair that, either."""
    return isinstance(error, sqlite3.OperationalError) and error.sqlite_errorcode == sqlite3.SQLITE_ERROR


def _is_storage_failure(error: sqlite3.Error) -> bool:
    return error.sqlite_errorcode & 0xFF in _NO_STORAGE


def _is_read_only(path: Path) -> bool:
    """Return whether the database exists and this process may not write it or its folder, which holds the write-ahead log."""
    return path.exists() and not (os.access(path, os.W_OK) and os.access(path.parent, os.W_OK))


def _read_only_uri(path: Path) -> str:
    """Return the URI to open a read-only file. A non-empty write-ahead log is read too; without one SQLite is told `immutable`,
    because it would create one."""
    log = Path(f"{path}-wal")
    still = "" if log.exists() and log.stat().st_size else "&immutable=1"
    return f"file:{quote(str(path.absolute()))}?mode=ro{still}"
