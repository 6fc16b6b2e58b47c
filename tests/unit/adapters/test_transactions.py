"""Commits of the local store that share a transaction: each with its own condition, what others see meanwhile, and what is left
after a failure at any place."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from noetl_core.adapters.local import database as module
from noetl_core.adapters.local.database import Database
from noetl_core.adapters.local.events import ObservedEventStore, SqliteEventStore
from noetl_core.engine.records import Commit
from noetl_core.ports import Conflict, StorageFailed, Unavailable, UnreadableStore
from noetl_core.testing.contracts.event_store import CONTROL, RUN, commit


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    database = Database(tmp_path / "runs.db", busy_s=0.05)
    yield database
    database.close()


@pytest.fixture
def store(database: Database) -> ObservedEventStore:
    return ObservedEventStore(database)


@pytest.fixture
def other(database: Database) -> Iterator[SqliteEventStore]:
    """The store as another process has it."""
    others = Database(database.path, busy_s=0.05)
    yield SqliteEventStore(others)
    others.close()


def positions(store: SqliteEventStore) -> list[int]:
    return [c.seq for c in store.read(RUN)]


def test_others_see_all_commits_of_a_transaction_or_none(
    database: Database, store: ObservedEventStore, other: SqliteEventStore
) -> None:
    with database.transaction():
        store.append(commit(RUN, 0))
        store.append(commit(RUN, 1))
        assert positions(store) == [0, 1]
        assert positions(other) == []
        threads = [threading.Thread(target=lambda: found.append(positions(store)))]
        found: list[list[int]] = []
        for thread in threads:
            thread.start()
            thread.join(5)
        assert found == [[]], "another thread of this process neither waits nor sees what is not committed"
    assert positions(other) == [0, 1]


def test_a_conflict_takes_back_its_own_commit_alone(
    database: Database, store: ObservedEventStore, other: SqliteEventStore
) -> None:
    other.append(commit(CONTROL, 0, "another process"))
    with database.transaction():
        store.append(commit(RUN, 0))
        with pytest.raises(Conflict):
            store.append(commit(CONTROL, 0, "this one"))
        store.append(commit(RUN, 1))
    assert positions(other) == [0, 1]
    assert other.read(CONTROL)[0].writer == "another process"


def test_an_error_in_the_block_keeps_the_commits_before_it(
    database: Database, store: ObservedEventStore, other: SqliteEventStore
) -> None:
    with pytest.raises(ZeroDivisionError), database.transaction():
        store.append(commit(RUN, 0))
        raise ZeroDivisionError
    assert positions(other) == [0]


def test_observers_are_notified_in_order_after_the_transaction_commits(
    database: Database, store: ObservedEventStore, other: SqliteEventStore
) -> None:
    seen: list[tuple[int, list[int]]] = []
    store.observer = lambda stored: seen.append((stored.seq, positions(other)))
    with database.transaction():
        for seq in range(3):
            store.append(commit(RUN, seq))
        assert seen == []
    assert seen == [(seq, [0, 1, 2]) for seq in range(3)]


def test_an_observer_that_raises_does_not_hide_commits_from_the_next(database: Database, store: ObservedEventStore) -> None:
    seen: list[int] = []

    def observer(stored: Commit) -> None:
        seen.append(stored.seq)
        raise ZeroDivisionError

    store.observer = observer
    with pytest.raises(ZeroDivisionError), database.transaction():
        store.append(commit(RUN, 0))
        store.append(commit(RUN, 1))
    assert seen == [0, 1]


def test_another_writer_that_holds_the_file_leaves_nothing_written(
    database: Database, store: ObservedEventStore, other: SqliteEventStore
) -> None:
    seen: list[Commit] = []
    store.observer = seen.append
    holder = sqlite3.connect(database.path, isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    with pytest.raises(Unavailable), database.transaction() as transaction:
        store.append(commit(RUN, 0))
    assert not transaction.committed
    holder.execute("ROLLBACK")
    holder.close()
    assert (positions(other), seen) == ([], [])
    with database.transaction():
        store.append(commit(RUN, 0))
    assert positions(other) == [0]


def test_a_full_disk_in_the_middle_leaves_nothing_written(
    database: Database, store: ObservedEventStore, other: SqliteEventStore
) -> None:
    def fill() -> None:
        (pages,) = database.rows("PRAGMA page_count")[0]
        database.rows(f"PRAGMA max_page_count={pages}")
        for seq in range(1, 500):
            store.append(commit(RUN, seq, "x" * 5000))

    with pytest.raises(StorageFailed), database.transaction() as transaction:
        store.append(commit(RUN, 0))
        fill()
    assert not transaction.committed
    assert positions(other) == []
    database.rows("PRAGMA max_page_count=1000000")
    store.append(commit(RUN, 0))
    assert positions(other) == [0]


def test_a_transaction_is_synced_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    syncs: list[int] = []
    monkeypatch.setattr(module, "sync_file", syncs.append)
    database = Database(tmp_path / "runs.db", "power")
    store = ObservedEventStore(database)
    with database.transaction():
        for seq in range(5):
            store.append(commit(RUN, seq))
        assert not syncs
    assert len(syncs) == 1


def test_the_routing_of_an_end_is_in_its_transaction(store: ObservedEventStore, other: SqliteEventStore) -> None:
    lost: list[bool] = []

    def route(end: Commit) -> None:
        store.append(commit(CONTROL, end.seq))
        assert (positions(other), len(other.read(CONTROL))) == ([], 0)

    store.route, store.router, store.lost = route, threading.get_ident(), lambda: lost.append(True)
    store.append(commit(RUN, 0, wake=True))
    assert (positions(other), len(other.read(CONTROL)), lost) == ([0], 1, [])


def test_an_end_of_another_thread_is_not_routed_in_its_transaction(store: ObservedEventStore) -> None:
    routed: list[Commit] = []
    store.route, store.router = routed.append, threading.get_ident()
    thread = threading.Thread(target=lambda: store.append(commit(RUN, 0, wake=True)))
    thread.start()
    thread.join(5)
    assert (positions(store), routed) == ([0], [])


def test_a_write_of_another_thread_waits_and_is_not_lost_with_the_transaction(
    database: Database, store: ObservedEventStore, other: SqliteEventStore
) -> None:
    thread = threading.Thread(target=lambda: store.append(commit(CONTROL, 0)))
    with pytest.raises(Unavailable), database.transaction() as transaction:
        store.append(commit(RUN, 0))
        thread.start()
        thread.join(0.05)
        assert thread.is_alive()
        transaction.lost = Unavailable("lost")
    thread.join(5)
    assert (positions(other), len(other.read(CONTROL))) == ([], 1)


def test_an_end_of_a_run_that_another_process_ended_is_not_routed(store: ObservedEventStore, other: SqliteEventStore) -> None:
    routed: list[Commit] = []
    lost: list[bool] = []
    store.route, store.router, store.lost = routed.append, threading.get_ident(), lambda: lost.append(True)
    other.append(commit(RUN, 0, "another process", wake=True))
    with pytest.raises(Conflict):
        store.append(commit(RUN, 0, "this one", wake=True))
    assert (routed, lost, other.read(RUN)[0].writer) == ([], [True], "another process")


class Connection(sqlite3.Connection):
    """A connection that lets a test come between two of its statements."""

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self.before: dict[str, Callable[[], None]] = {}
        self.after: dict[str, Callable[[], None]] = {}

    def execute(self, statement: str, values: Any = (), /) -> sqlite3.Cursor:
        word = statement.split()[0]
        self.before.pop(word, int)()
        cursor = super().execute(statement, values)
        self.after.pop(word, int)()
        return cursor


@pytest.fixture
def connections(monkeypatch: pytest.MonkeyPatch) -> list[Connection]:
    """The connections that are opened from now on; the first writes."""
    opened: list[Connection] = []
    connect = sqlite3.connect

    def noted(*arguments: Any, **settings: Any) -> Connection:
        opened.append(connect(*arguments, **settings, factory=Connection))
        return opened[-1]

    monkeypatch.setattr(sqlite3, "connect", noted)
    return opened


def interrupt() -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("word", ["BEGIN", "INSERT", "COMMIT"])
def test_an_interrupt_leaves_no_transaction_open(
    connections: list[Connection], database: Database, store: ObservedEventStore, other: SqliteEventStore, word: str, when: str
) -> None:
    getattr(connections[0], when)[word] = interrupt
    with pytest.raises((KeyboardInterrupt, UnreadableStore)), database.transaction():
        store.append(commit(RUN, 0))
    other.append(commit(CONTROL, 0))
    with database.transaction():
        store.append(commit(CONTROL, 1))
    assert len(other.read(CONTROL)) == 2


def test_a_read_that_fails_takes_back_the_whole_transaction(
    connections: list[Connection], database: Database, store: ObservedEventStore, other: SqliteEventStore
) -> None:
    connection = connections[0]

    def fail() -> None:
        connection.execute("ROLLBACK")  # as SQLite does
        error = sqlite3.OperationalError("disk I/O error")
        error.sqlite_errorcode = sqlite3.SQLITE_IOERR
        raise error

    connection.before["SELECT"] = fail
    with pytest.raises(StorageFailed), database.transaction():
        store.append(commit(RUN, 0))
        with suppress(StorageFailed):
            positions(store)
        with suppress(StorageFailed):
            store.append(commit(RUN, 1))
    assert positions(other) == []


def test_a_store_that_is_closed_in_the_middle_leaves_nothing_written(
    database: Database, store: ObservedEventStore, other: SqliteEventStore
) -> None:
    with pytest.raises(UnreadableStore), database.transaction():
        store.append(commit(RUN, 0))
        database.close()
    assert positions(other) == []


def test_readers_find_the_file_from_another_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    database = Database("runs.db")
    store = ObservedEventStore(database)
    store.append(commit(RUN, 0))
    monkeypatch.chdir("elsewhere")
    found: list[list[int]] = []
    with database.transaction():
        store.append(commit(RUN, 1))
        thread = threading.Thread(target=lambda: found.append(positions(store)))
        thread.start()
        thread.join(5)
    database.close()
    assert found == [[0]]


def test_a_commit_is_reported_to_observers_though_its_sync_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = ObservedEventStore(Database(tmp_path / "runs.db", "power"))
    synced: list[int] = []

    def sync(handle: int) -> None:
        synced.append(handle)
        raise OSError("no")

    monkeypatch.setattr(module, "sync_file", sync)
    told: list[int] = []
    lost: list[bool] = []
    store.observer = lambda stored: told.append(stored.seq)
    store.route, store.router, store.lost = (
        lambda end: store.append(commit(CONTROL, 0)),
        threading.get_ident(),
        lambda: lost.append(True),
    )
    store.append(commit(RUN, 0, wake=True))
    assert (told, lost, len(synced)) == ([0, 0], [], 1), "the next task syncs before it begins"
    claim = commit(RUN, 1)
    for _ in range(2):
        with pytest.raises(StorageFailed):
            store.append(claim)
    assert len(synced) == 1, "a later sync would not write what the first one lost"
