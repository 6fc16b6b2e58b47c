"""Tests the local adapters beyond the contracts: several processes, waking, a killed process, expired rows."""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import stat
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from noetl_core.adapters.local.catalog import SqliteExecutionIndex, SqlitePlaybookCatalog
from noetl_core.adapters.local.database import Database
from noetl_core.adapters.local.events import PACKED_FROM, SqliteEventStore
from noetl_core.adapters.local.queue import LocalQueue
from noetl_core.adapters.local.results import FileResultStore, LazyTempResultStore
from noetl_core.adapters.local.secrets import LocalSecrets
from noetl_core.engine.records import Commit, Event, LoopProgress, Snapshot, StreamId, Tally
from noetl_core.log.codec import encode_events
from noetl_core.log.history import stated_aggregates
from noetl_core.ports import Conflict, CorruptLog, NotFound, Unavailable
from noetl_core.testing.contracts.catalog import head
from noetl_core.testing.contracts.clocks import FakeClock
from noetl_core.testing.contracts.event_store import CONTROL, NOW_S, RUN, commit
from noetl_core.testing.contracts.stores import command

WRITE = """
import sys
from noetl_core.adapters.local.database import Database
from noetl_core.adapters.local.events import PACKED_FROM, SqliteEventStore
from noetl_core.ports import Conflict
from noetl_core.testing.contracts.event_store import RUN, commit
path, writer, n = sys.argv[1], sys.argv[2], int(sys.argv[3])
store = SqliteEventStore(Database(path))
won = 0
for seq in range(n):
    try:
        store.append(commit(RUN, seq, writer))
        won += 1
    except Conflict:
        pass
    if seq == 20:
        print("going", flush=True)
print(won)
"""


def process(*arguments: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", WRITE, *map(str, arguments)]
    root = Path(__file__).parents[3]
    env = {**os.environ, "PYTHONPATH": f"{root}"}
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=root, env=env)


@pytest.mark.nightly
def test_several_processes_share_a_file(tmp_path: Path) -> None:
    path = tmp_path / "log.sqlite"
    writers = [process(path, name, 300) for name in ("a", "b", "c")]
    won = [int(w.communicate(timeout=60)[0].split()[-1]) for w in writers]
    assert sum(won) == 300
    database = Database(path)
    assert [c.seq for c in SqliteEventStore(database).read(RUN)] == list(range(300))
    database.close()


def test_a_killed_process_loses_nothing_that_was_committed(tmp_path: Path) -> None:
    path = tmp_path / "log.sqlite"
    writer = process(path, "a", 10**7)
    assert writer.stdout is not None
    assert writer.stdout.readline() == "going\n"
    writer.send_signal(signal.SIGKILL)
    writer.communicate(timeout=10)
    database = Database(path)
    store = SqliteEventStore(database)
    kept = store.read(RUN)
    assert len(kept) > 20
    store.append(commit(RUN, len(kept), "b"))
    database.close()


def test_another_process_reads_while_one_writes(tmp_path: Path) -> None:
    database, reader = Database(tmp_path / "log.sqlite"), Database(tmp_path / "log.sqlite")
    store, view = SqliteEventStore(database), SqliteEventStore(reader)
    for seq in range(20):
        store.append(commit(RUN, seq))
        assert len(view.read(RUN)) == seq + 1
    database.close()
    reader.close()


def test_a_file_held_by_another_process_is_unavailable(tmp_path: Path) -> None:
    path = tmp_path / "log.sqlite"
    database = Database(path, busy_s=0.05)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(Unavailable, match="locked"):
        SqliteEventStore(database).append(commit())
    other.execute("ROLLBACK")
    SqliteEventStore(database).append(commit())
    other.close()
    database.close()


@pytest.mark.parametrize("content", [b"no database at all, just text", b"SQLite format 3\x00" + b"\xff" * 200])
def test_a_file_that_is_no_store_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "notes.txt"
    path.write_bytes(content)
    with pytest.raises(CorruptLog, match=r"notes\.txt"):
        Database(path)


def test_a_store_of_a_newer_version_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "log.sqlite"
    Database(path).close()
    other = sqlite3.connect(path)
    other.execute("PRAGMA user_version=99")
    other.close()
    with pytest.raises(CorruptLog, match="newer version"):
        Database(path)


def test_a_store_of_an_older_version_is_brought_up_to_date_and_reads(tmp_path: Path) -> None:
    path = tmp_path / "log.sqlite"
    other = sqlite3.connect(path)
    other.executescript(
        "CREATE TABLE commits (execution_id TEXT, run_id TEXT, seq INTEGER, ts INTEGER, writer TEXT, wake INTEGER,"
        " lease_until INTEGER, expires_at INTEGER, v INTEGER, body BLOB, PRIMARY KEY (execution_id, run_id, seq)) WITHOUT ROWID;"
        "CREATE TABLE snapshots (execution_id TEXT PRIMARY KEY, seq INTEGER, reducer INTEGER, state TEXT, expires_at INTEGER);"
        "INSERT INTO snapshots VALUES ('7', 120, 8, '{\"ctx\": {}}', 0);"
        "CREATE TABLE due (execution_id TEXT PRIMARY KEY, due_at INTEGER);"
        "CREATE TABLE heads (execution_id TEXT PRIMARY KEY, status TEXT, path TEXT, started_at INTEGER);"
        "INSERT INTO commits VALUES ('7', 'r1', 0, 1, 'w', 0, 0, 0, 1, CAST('[[\"StepStarted\",1,{}]]' AS BLOB));"
        "INSERT INTO due VALUES ('7', 5);"
        "PRAGMA user_version=1;"
    )
    other.close()
    for _ in range(2):
        database = Database(path)
        stream = StreamId("7", "r1")
        (commit,) = SqliteEventStore(database).read(stream)
        assert (commit.events[0].name, commit.tally) == ("StepStarted", None)
        assert SqliteEventStore(database).load_snapshot("7", upto=200) == Snapshot("7", 120, 8, {"ctx": {}})
        index = SqliteExecutionIndex(database)
        assert [due.execution_id for due in index.due(5)] == ["7"]
        database.close()


def test_a_store_with_aggregates_in_every_commit_reads_and_continues(tmp_path: Path) -> None:
    """Version 14 had no other progress of a loop."""
    path, stream = tmp_path / "log.sqlite", StreamId("7", "r1")
    Database(path).close()
    other = sqlite3.connect(path)
    other.executescript(
        "ALTER TABLE commits DROP COLUMN progress; ALTER TABLE heads DROP COLUMN redriven_at;"
        "INSERT INTO commits VALUES ('7', 'r1', 0, 1, 'w', 0, 0, 0, 1, CAST('[]' AS BLOB), 9, 0, '{\"us\": {\"3\": 2}}');"
        "PRAGMA user_version=14;"
    )
    other.close()
    database = Database(path)
    store = SqliteEventStore(database)
    later = replace(commit(), stream=stream, seq=1, tally=Tally(12, progress=LoopProgress(0, 3, 1, 40)))
    store.append(later)
    older, newer = store.read(stream)
    assert older.tally == Tally(9, 0, {"us": {"3": 2}}) and newer.tally == later.tally
    assert stated_aggregates(store, newer) == stated_aggregates(store, older) == {"us": {"3": 2}}
    database.close()


@pytest.mark.parametrize("stored", ["{", b"no zlib"])
def test_a_snapshot_that_does_not_read_is_no_snapshot(stored: str | bytes) -> None:
    database = Database()
    database.write("INSERT INTO snapshots VALUES ('7', 1, 1, ?, 0)", (stored,))
    assert SqliteEventStore(database).load_snapshot("7") is None
    database.close()


def test_an_expired_execution_is_deleted_whole_and_nothing_else(tmp_path: Path) -> None:
    database = Database(tmp_path / "log.sqlite")
    clock = FakeClock()
    store, index = SqliteEventStore(database, clock=clock), SqliteExecutionIndex(database, clock)
    results = FileResultStore(tmp_path / "results")
    for execution_id, lives_s in (("1", 60), ("2", 600), ("3", 0)):
        ends = NOW_S + lives_s if lives_s else 0
        store.append(commit(StreamId(execution_id), expires_at=ends))
        store.append(commit(StreamId(execution_id, "r1"), expires_at=ends))
        for seq in (100, 200):
            store.save_snapshot(Snapshot(execution_id, seq, 1, {"expires_at": ends}))
        index.put_head(head(execution_id, expires_at=ends))
        results.put(f"{execution_id}/a", b"x")
    clock.sleep(61)
    gone = database.forget_expired(clock.now())
    assert gone == ["1"]
    for execution_id in gone:
        results.forget(execution_id)
    kept = {row[0] for row in database.rows("SELECT execution_id FROM commits UNION SELECT execution_id FROM heads")}
    assert kept == {row[0] for row in database.rows("SELECT execution_id FROM snapshots")}
    assert kept == {"2", "3"}
    assert sorted(p.name for p in (tmp_path / "results").iterdir()) == ["2", "3"]
    database.close()


def test_waking_commits_are_reported_once_after_they_are_stored() -> None:
    database = Database()
    told: list[Commit] = []
    store = SqliteEventStore(database)

    def on_wake(one: Commit) -> None:
        assert store.last(one.stream) == one
        told.append(one)

    store.on_wake = on_wake
    store.append(commit(RUN, 0))
    waking = commit(RUN, 1, wake=True)
    store.append(waking)
    store.append(waking)
    with pytest.raises(Conflict):
        store.append(commit(RUN, 1, "bob", wake=True))
    assert told == [waking]
    database.close()


def test_threads_share_a_database() -> None:
    database = Database()
    store, catalog = SqliteEventStore(database), SqlitePlaybookCatalog(database)

    def work(n: int) -> None:
        for seq in range(50):
            store.append(commit(CONTROL, n * 50 + seq))
            catalog.register(f"p{n}", f"sha256:{seq}", "text", seq)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))
    assert len(store.read(CONTROL)) == 400
    assert [v.version for v in catalog.list()] == [50] * 8
    database.close()


class TestLocalQueue:
    def test_a_delayed_message_appears_when_its_time_comes(self) -> None:
        clock = FakeClock()
        queue = LocalQueue(clock)
        queue.wake("7", delay_s=60)
        assert queue.receive() is None
        assert queue.next_at() == clock.now() + 60_000_000
        clock.sleep(60)
        delivery = queue.receive()
        assert delivery is not None
        assert (delivery.execution_id, delivery.command) == ("7", None)
        assert queue.next_at() is None

    def test_a_message_handed_back_appears_again(self) -> None:
        clock = FakeClock()
        queue = LocalQueue(clock)
        queue.send([command()])
        delivery = queue.receive()
        assert delivery is not None
        assert queue.receive() is None
        queue.put_back(delivery, 30)
        assert queue.receive() is None
        clock.sleep(30)
        again = queue.receive()
        assert again is not None
        assert again.command == command()


class TestResults:
    @pytest.mark.parametrize("key", ["../x", "7/../../x", "/etc/passwd", "", ".", "7/.."])
    def test_a_key_never_leads_out_of_the_folder(self, tmp_path: Path, key: str) -> None:
        store = FileResultStore(tmp_path / "results")
        with pytest.raises(NotFound, match="outside"):
            store.put(key, b"x")
        with pytest.raises(NotFound, match="outside"):
            store.get(key)

    def test_nobody_sees_half_an_object(self, tmp_path: Path) -> None:
        store = FileResultStore(tmp_path)
        bodies = [bytes([n]) * 200_000 for n in range(4)]
        store.put("7/a", bodies[0])
        stop = threading.Event()

        def write() -> None:
            while not stop.is_set():
                for body in bodies:
                    store.put("7/a", body)

        writer = threading.Thread(target=write)
        writer.start()
        for _ in range(50):
            assert store.get("7/a") in bodies
        stop.set()
        writer.join()
        assert [p.name for p in (tmp_path / "7").iterdir()] == ["a"]

    def test_the_temporary_folder_is_made_once_and_goes_with_its_store(self) -> None:
        store = LazyTempResultStore()
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(store.put, (f"7/{n}" for n in range(32)), [b"x"] * 32))
        folder = Path(store.url("7/0")).parent
        assert len(list(folder.iterdir())) == 32
        del store
        assert not folder.exists()


class TestLocalSecrets:
    def test_a_missing_credential_is_reported_with_the_ways_to_store_it(self, tmp_path: Path) -> None:
        secrets = LocalSecrets(tmp_path / "c.json", {"NOETL_CREDENTIAL_PG_MAIN": "{}"})
        with pytest.raises(NotFound) as missing:
            secrets.get("pg.mian")
        assert str(missing.value) == (
            "there is no credential 'pg.mian' on this machine (did you mean \"pg_main\"?): "
            "noetl credentials put pg.mian --data @FILE --on local, or set the environment variable NOETL_CREDENTIAL_PG_MIAN"
        )

    def test_the_environment_goes_first(self, tmp_path: Path) -> None:
        secrets = LocalSecrets(tmp_path / "c.json", {"NOETL_CREDENTIAL_PG_MAIN": '{"type": "env"}'})
        secrets.put("pg.main", {"type": "file"})
        assert secrets.get("pg.main") == {"type": "env"}

    def test_only_the_owner_may_read_the_file(self, tmp_path: Path) -> None:
        LocalSecrets(tmp_path / "c.json", {}).put("a", {})
        assert stat.S_IMODE((tmp_path / "c.json").stat().st_mode) == 0o600

    def test_an_invalid_credential_is_refused_without_being_shown(self, tmp_path: Path) -> None:
        secrets = LocalSecrets(tmp_path / "c.json", {"NOETL_CREDENTIAL_A": "{hunter2"})
        with pytest.raises(NotFound) as refused:
            secrets.get("a")
        assert "hunter2" not in str(refused.value)


def test_a_variable_that_is_plain_text_is_a_credential_with_a_value(tmp_path: Path) -> None:
    secrets = LocalSecrets(
        tmp_path / "credentials.json", {"NOETL_CREDENTIAL_TOKEN": "hunter2\n", "NOETL_CREDENTIAL_BROKEN": '{"a": '}
    )
    assert secrets.get("token") == {"value": "hunter2"}
    with pytest.raises(NotFound):
        secrets.get("broken")


def test_a_large_commit_is_packed_a_short_one_is_not_and_those_of_older_versions_are_read(tmp_path: Path) -> None:
    database = Database(tmp_path / "log.sqlite")
    store = SqliteEventStore(database, clock=FakeClock())
    events: Any = tuple(Event("LoopIterationStarted", n, {"path": [n]}) for n in range(2_000))
    plain = encode_events(events)
    assert len(plain) > PACKED_FROM
    store.append(commit(RUN, 0, events=events))
    store.append(commit(RUN, 1, events=events[:10]))
    sizes = [size for (size,) in database.rows("SELECT length(body) FROM commits ORDER BY seq")]
    assert sizes[0] < len(plain) / 3
    assert sizes[1] == len(encode_events(events[:10]))
    database.write("UPDATE commits SET body=? WHERE seq=0", (plain,))  # as older versions stored it
    assert [each.events for each in store.read(RUN)] == [events, events[:10]]
    noise = random.Random(7).randbytes(PACKED_FROM).hex()
    store.append(commit(RUN, 2, events=(Event("X", 1, {"n": noise}),)))
    assert store.read(RUN, after=1)[0].events[0].data == {"n": noise}


LEAVES = """
import gc, sys
from noetl_core.adapters.local.database import Database
database = Database(sys.argv[1], sys.argv[2])
for n in range(int(sys.argv[3])):
    database.write("INSERT INTO pinned VALUES (?, 'p', ?, 1)", (str(n), "x" * 3000))
kept = [database]
kept.append(kept)
database.leave()
gc.freeze()
"""


@pytest.mark.one_in(2)
@pytest.mark.parametrize("durable", ["process", "power"])
@pytest.mark.parametrize(("rows", "is_left"), [(20, True), (600, False)])
def test_a_process_that_ends_leaves_a_short_log_and_copies_a_long_one(
    tmp_path: Path, durable: str, rows: int, is_left: bool
) -> None:
    store = tmp_path / "log.sqlite"
    for _ in range(2):
        subprocess.run([sys.executable, "-c", LEAVES, str(store), durable, str(rows)], check=True)
        log = Path(f"{store}-wal")
        assert (log.exists() and log.stat().st_size > 0) is is_left
        database = Database(store)
        assert database.rows("SELECT count(*) FROM pinned") == [(rows,)]
        database.write("DELETE FROM pinned")
        database.close()
        assert not log.exists(), "the last one that closes the store copies the log"


def test_a_store_in_memory_is_closed_at_once() -> None:
    database = Database()
    database.leave()
    with pytest.raises(Exception, match="closed"):
        database.rows("SELECT 1")
