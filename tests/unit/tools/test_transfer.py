"""`kind: transfer`: every row once, whatever ends it in the middle."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import psycopg
import pytest

from noetl_core.adapters.local.results import LazyTempResultStore
from noetl_core.engine.outcome import Outcome
from noetl_core.tools.aws.clients import client
from noetl_core.tools.network.addresses import AddressPolicy
from noetl_core.tools.registry import ToolRegistry
from noetl_core.tools.store import encode
from noetl_core.tools.transfer.staged import chunks
from noetl_core.tools.transfer.tool import TransferTool
from tests.properties import some
from tests.unit.tools.killed_transfers import killed_at

from .conftest import Run, Server, kind

Transfer = Callable[..., Outcome]
Query = Callable[[str], list[tuple[Any, ...]]]
ROWS = [{"id": n, "name": f"n{n}"} for n in range(95)]


@pytest.fixture(scope="module")
def registry() -> Iterator[ToolRegistry]:
    tools = ToolRegistry({"transfer": TransferTool(AddressPolicy(allow_private=True))})
    yield tools
    tools.close()


@pytest.fixture(autouse=True)
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("NOETL_SCRATCH", str(tmp_path))
    return tmp_path


@pytest.fixture
def query(uri: str) -> Iterator[Query]:
    """Tables `items` and `origin`; gives the rows of a query."""
    with psycopg.connect(uri, autocommit=True) as connection:
        connection.execute("DROP TABLE IF EXISTS items, origin, noetl_transfers")
        connection.execute("CREATE TABLE items (id INT PRIMARY KEY, name TEXT)")
        connection.execute(
            "CREATE TABLE origin AS SELECT i AS id, 'n' || i AS name, i * 1.5 AS price FROM generate_series(0, 94) i"
        )
        yield lambda text: all_of(connection, text)


def all_of(connection: psycopg.Connection[Any], text: str) -> list[tuple[Any, ...]]:
    cursor = connection.execute(text.encode())
    while cursor.nextset():
        pass
    return cursor.fetchall()


@pytest.fixture
def transfer(run: Run, uri: str, query: Query) -> Transfer:
    def transfer(source: Any, target: Any = None, chunk_rows: int = 10, **fields: Any) -> Outcome:
        spec, more = {"chunk_rows": chunk_rows}, fields.pop("inputs", {})
        into = {"kind": "postgres", "auth": uri, "table": "items"} if target is None else target
        return run("transfer", {"source": source, "target": into, **more}, spec=spec, **fields)

    return transfer


def stored(run: Run, rows: list[dict[str, Any]], form: str, name: str = "stored") -> Any:
    return run("store", {"data": rows, "format": form}, task_run_id=name).result


ALL = [(n, f"n{n}") for n in range(95)]
ITEMS = "SELECT id, name FROM items ORDER BY id"


@pytest.mark.parametrize("form", ["json", "jsonl", "csv", "parquet"])
def test_stored_rows_go_into_postgres(transfer: Transfer, run: Run, query: Query, form: str) -> None:
    refs = [stored(run, ROWS[:40], form, "a"), stored(run, ROWS[40:], form, "b")]
    outcome = transfer({"rows": refs})
    assert outcome.error is None, outcome.error
    assert outcome.result == {"rows_read": 95, "rows_written": 95, "chunks": 10, "table": "items"}
    assert query(ITEMS) == ALL


def test_a_missing_table_is_refused_with_advice_to_create_it(transfer: Transfer, uri: str) -> None:
    error = transfer({"rows": ROWS}, {"kind": "postgres", "auth": uri, "table": "none"}).error
    assert error is not None and error.kind == "schema"
    assert "does not exist" in error.message and "CREATE TABLE IF NOT EXISTS in an earlier task of kind postgres" in error.message


def test_rows_themselves(transfer: Transfer, query: Query) -> None:
    assert transfer({"rows": ROWS}).result["rows_written"] == 95
    assert query(ITEMS) == ALL


def test_a_query_of_postgres_and_one_of_duckdb(transfer: Transfer, query: Query, uri: str, store: LazyTempResultStore) -> None:
    source = {
        "kind": "postgres",
        "auth": uri,
        "query": "SELECT id, name FROM origin WHERE id < %(most)s ORDER BY id",
        "params": {"most": 50},
    }
    assert transfer(source, task_run_id="one").result["rows_written"] == 50
    duck = {
        "kind": "duckdb",
        "sources": {"r": ROWS},
        "command": "SELECT id, name FROM r WHERE id >= $least ORDER BY id",
        "params": {"least": 50},
    }
    assert transfer(duck, task_run_id="two").result["rows_written"] == 45
    assert query(ITEMS) == ALL


@pytest.mark.parametrize("mode", ["append", "replace", "upsert"])
def test_the_modes(transfer: Transfer, query: Query, mode: str) -> None:
    query("INSERT INTO items VALUES (500, 'there'), (3, 'old') RETURNING 1")
    rows = ROWS if mode != "append" else ROWS[4:]
    keys = {"keys": ["id"]} if mode == "upsert" else {}
    outcome = transfer({"rows": rows}, inputs={"mode": mode, **keys})
    assert outcome.error is None, outcome.error
    there = [] if mode == "replace" else [(500, "there")]
    assert query(ITEMS) == ([(3, "old"), *ALL[4:]] if mode == "append" else ALL) + there


def test_columns_are_chosen_and_renamed(transfer: Transfer, run: Run, query: Query) -> None:
    ref = stored(run, [{"nr": n, "title": "t", "more": 1} for n in range(15)], "jsonl")
    assert transfer({"rows": ref}, inputs={"columns": {"id": "nr", "name": "title"}}).error is None
    assert query("SELECT count(*), min(name) FROM items") == [(15, "t")]


def test_nothing_to_transfer(transfer: Transfer, query: Query) -> None:
    query("INSERT INTO items VALUES (1, 'x') RETURNING 1")
    assert transfer({"rows": []}, task_run_id="none").result["chunks"] == 0
    assert query("SELECT count(*) FROM items") == [(1,)]
    assert transfer({"rows": []}, inputs={"mode": "replace"}, task_run_id="all").result["rows_written"] == 0
    assert query("SELECT count(*) FROM items") == [(0,)]


# --- interruptions --------------------------------------------------------------------------------------------------------


@pytest.mark.one_in(6)
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("mode", ["append", "replace", "upsert"])
@pytest.mark.sized
def test_after_a_kill_at_any_chunk_every_row_is_there_once(
    transfer: Transfer, run: Run, query: Query, mode: str, when: str
) -> None:
    source = {"rows": [stored(run, ROWS[:33], "csv", "a"), stored(run, ROWS[33:], "csv", "b")]}
    inputs = {"mode": mode, **({"keys": ["id"]} if mode == "upsert" else {})}
    for chunk in some(range(11), 5):
        query("DELETE FROM items RETURNING 1")
        query("DELETE FROM noetl_transfers RETURNING 1" if chunk else "SELECT 1")

        with killed_at(chunk, when):
            transfer(source, inputs=inputs, task_run_id=f"run-{chunk}")
        outcome = transfer(source, inputs=inputs, task_run_id=f"run-{chunk}")
        assert outcome.result == {"rows_read": 95, "rows_written": 95, "chunks": 10, "table": "items"}
        assert query(ITEMS) == ALL


def test_a_finished_transfer_is_not_repeated(transfer: Transfer, query: Query) -> None:
    first = transfer({"rows": ROWS})
    assert transfer({"rows": ROWS}).result == first.result
    assert query("SELECT count(*) FROM items") == [(95,)]
    assert kind(transfer({"rows": ROWS}, task_run_id="another")) == "db_constraint"


def test_two_workers_at_the_same_transfer_double_nothing(transfer: Transfer, query: Query, uri: str) -> None:
    query("DROP TABLE items; CREATE TABLE items (id INT, name TEXT); SELECT 1")
    outcomes: list[Outcome] = []
    threads = [threading.Thread(target=lambda: outcomes.append(transfer({"rows": ROWS}, chunk_rows=3))) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [outcome.result for outcome in outcomes] == [{"rows_read": 95, "rows_written": 95, "chunks": 32, "table": "items"}] * 3
    assert query(ITEMS) == ALL


def test_a_resumed_transfer_does_not_run_its_query_again(transfer: Transfer, query: Query, uri: str) -> None:
    source = {"kind": "postgres", "auth": uri, "query": "SELECT id, name FROM origin ORDER BY id"}
    with killed_at(4, "before"):
        transfer(source)
    query("DELETE FROM origin WHERE id < 90 RETURNING 1")
    assert transfer(source).result["rows_read"] == 95
    assert query(ITEMS) == ALL


def test_an_invocation_without_time_leaves_the_rest_to_the_next(transfer: Transfer, query: Query) -> None:
    answers = [transfer({"rows": ROWS}, resume_after_s=0.0) for _ in range(10)]
    assert [answer.status for answer in answers] == ["unfinished"] * 10
    assert transfer({"rows": ROWS}, resume_after_s=0.0).result["rows_written"] == 95
    assert query(ITEMS) == ALL


def test_chunks_of_large_rows_are_smaller() -> None:
    rows = [{"id": n, "name": "x" * 400} for n in range(10)]
    parts = [*chunks(iter(rows), 100, most_bytes=1000)]
    assert [len(part) for part in parts] == [2] * 5
    assert [row for part in parts for row in part] == rows


def test_chunks_of_rows_with_many_columns_are_smaller() -> None:
    rows = [{f"c{k}": 1 for k in range(100)} for _ in range(30)]
    assert len([*chunks(iter(rows), 100, most_bytes=64_000)]) == 3


def test_a_transfer_does_not_resume_with_another_source(transfer: Transfer, query: Query) -> None:
    assert transfer({"rows": ROWS}, resume_after_s=0.0).status == "unfinished"
    assert kind(transfer({"rows": ROWS[1:]})) == "storage"
    assert query("SELECT count(*) FROM items") == [(10,)]


def test_replacing_with_no_rows_empties_a_duckdb_table(transfer: Transfer, scratch: Path) -> None:
    target = {"kind": "duckdb", "database": "my.db", "table": "items"}
    assert transfer({"rows": ROWS}, target, task_run_id="before").error is None
    outcome = transfer({"rows": []}, target, inputs={"mode": "replace"})
    assert outcome.result == {"rows_read": 0, "rows_written": 0, "chunks": 0, "table": "items"}
    with duckdb.connect(str(scratch / "1" / "my.db")) as connection:
        assert connection.execute("SELECT count(*) FROM items").fetchall() == [(0,)]
    fresh = {**target, "table": "fresh"}
    assert transfer({"rows": []}, fresh, inputs={"mode": "replace"}, task_run_id="fresh").error is None


# --- other targets --------------------------------------------------------------------------------------------------------


@pytest.mark.one_in(3)
@pytest.mark.parametrize("mode", ["append", "replace", "upsert"])
def test_into_a_duckdb_file(transfer: Transfer, scratch: Path, mode: str) -> None:
    target = {"kind": "duckdb", "database": "my.db", "table": "items"}
    keys = {"keys": ["id"]} if mode == "upsert" else {}
    first = transfer({"rows": [{"id": 3, "name": "old"}, {"id": 500, "name": "there"}]}, target, task_run_id="first")
    assert first.result == {"rows_read": 2, "rows_written": 2, "chunks": 1, "table": "items"}
    rows = ROWS if mode != "append" else ROWS[4:]
    assert transfer({"rows": rows}, target, inputs={"mode": mode, **keys}, resume_after_s=0.0).status == "unfinished"
    assert transfer({"rows": rows}, target, inputs={"mode": mode, **keys}).error is None
    with duckdb.connect(str(scratch / "1" / "my.db")) as connection:
        there = [] if mode == "replace" else [(500, "there")]
        expected = ([(3, "old"), *ALL[4:]] if mode == "append" else ALL) + there
        assert connection.execute(ITEMS).fetchall() == expected


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    from tests.contract.aws import environment
    from tests.fast_moto import mock_aws

    with mock_aws(), environment():
        client("s3").create_bucket(Bucket="lake")
        client("s3").put_object(Bucket="lake", Key="out/old.jsonl", Body=b"{}")
        yield "lake"


def objects(bucket: str) -> dict[str, bytes]:
    s3 = client("s3")
    found = [one["Key"] for one in s3.list_objects_v2(Bucket=bucket).get("Contents", [])]
    return {key: s3.get_object(Bucket=bucket, Key=key)["Body"].read() for key in found}


@pytest.mark.one_in(3)
@pytest.mark.parametrize("form", ["jsonl", "csv", "parquet"])
def test_into_s3(transfer: Transfer, bucket: str, form: str, tmp_path: Path) -> None:
    target = {"kind": "s3", "uri": f"s3://{bucket}/out/", "format": form}
    fields: dict[str, Any] = {"chunk_rows": 40, "inputs": {"mode": "replace"}}
    assert transfer({"rows": ROWS}, target, resume_after_s=0.0, **fields).status == "unfinished"
    outcome = transfer({"rows": ROWS}, target, **fields)
    assert outcome.result == {"rows_read": 95, "rows_written": 95, "chunks": 3, "uri": "s3://lake/out/", "objects": 3}
    found = objects(bucket)
    assert list(found) == [f"out/part-0000{n}.{form}" for n in range(3)]
    for key, body in found.items():
        (tmp_path / Path(key).name).write_bytes(body)
    reader = {"jsonl": "read_json", "csv": "read_csv", "parquet": "read_parquet"}[form]
    assert duckdb.connect().execute(f"SELECT id, name FROM {reader}('{tmp_path}/part-*') ORDER BY id").fetchall() == ALL


def test_appending_to_s3_keeps_existing_objects(transfer: Transfer, bucket: str) -> None:
    target = {"kind": "s3", "uri": f"s3://{bucket}/out/"}
    for run_id in ("one", "two", "one"):
        assert transfer({"rows": ROWS[:3]}, target, task_run_id=run_id).error is None
    assert list(objects(bucket)) == ["out/old.jsonl", "out/one-00000.jsonl", "out/two-00000.jsonl"]
    assert [json.loads(line) for line in objects(bucket)["out/one-00000.jsonl"].splitlines()] == ROWS[:3]


def test_a_bucket_that_the_stack_does_not_name_is_refused(
    transfer: Transfer, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STACK_RESOURCES", "{}")
    monkeypatch.setenv("NOETL_TOOL_BUCKETS", "other")
    outcome = transfer({"rows": ROWS}, {"kind": "s3", "uri": "s3://lake/out/"})
    assert kind(outcome) == "auth" and outcome.error and "ToolBuckets" in outcome.error.message


# --- other sources ----------------------------------------------------------------------------------------------------------


@pytest.mark.one_in(3)
@pytest.mark.parametrize("form", ["jsonl", "csv", "parquet"])
def test_from_s3(transfer: Transfer, query: Query, bucket: str, form: str) -> None:
    for n, rows in enumerate((ROWS[:33], ROWS[33:])):
        client("s3").put_object(Bucket=bucket, Key=f"in/{n}.{form}", Body=encode(rows, form))
    source = {"kind": "s3", "uri": f"s3://{bucket}/in/*.{form}"}
    assert transfer(source, resume_after_s=0.0).status == "unfinished"
    client("s3").put_object(Bucket=bucket, Key=f"in/0.{form}", Body=b"another")
    client("s3").put_object(Bucket=bucket, Key=f"in/2.{form}", Body=b"more")
    assert transfer(source).result["rows_written"] == 95
    assert query(ITEMS) == ALL


def test_from_s3_without_objects_or_rights(transfer: Transfer, bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert kind(transfer({"kind": "s3", "uri": f"s3://{bucket}/none/*.csv"})) == "not_found"
    monkeypatch.setenv("STACK_RESOURCES", "{}")
    monkeypatch.setenv("NOETL_TOOL_BUCKETS", "other")
    outcome = transfer({"kind": "s3", "uri": f"s3://{bucket}/out/*"})
    assert kind(outcome) == "auth" and outcome.error and "ToolBuckets" in outcome.error.message


def test_a_resumed_transfer_does_not_request_its_http_source_again(transfer: Transfer, query: Query, server: Server) -> None:
    query("DROP TABLE items; CREATE TABLE items (id INT, name TEXT); SELECT 1")
    source = {"kind": "http", "url": f"{server.base}/echo", "params": {"a": 1}, "format": "json"}
    named: dict[str, Any] = {"inputs": {"columns": {"name": "method"}}}
    assert transfer(source, resume_after_s=0.0, **named).status == "unfinished"
    assert transfer(source, **named).result["rows_written"] == 1
    assert query("SELECT name FROM items") == [("GET",)] and len(server.requests) == 1
    failed = transfer({"kind": "http", "url": f"{server.base}/status?code=503"}, task_run_id="other")
    assert kind(failed) == "server_error" and failed.error and "source" in failed.error.message


# --- refusals -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "target", "inputs", "expected", "words"),
    [
        ({"kind": "ftp"}, None, {}, "schema", "source.kind"),
        ({"rows": 5}, None, {}, "schema", "must be rows"),
        ({"rows": ROWS}, {"kind": "mysql"}, {}, "schema", "target.kind"),
        ({"rows": ROWS}, {"kind": "s3", "uri": "lake/out/"}, {}, "schema", "s3://"),
        ({"rows": ROWS}, {"kind": "s3", "uri": "s3://lake/out"}, {}, "schema", "end with /"),
        ({"rows": ROWS}, {"kind": "s3", "uri": "s3://lake/"}, {"mode": "replace"}, "schema", "folder"),
        ({"rows": ROWS}, {"kind": "s3", "uri": "s3://lake/out/", "table": "x"}, {}, "schema", "does not take table"),
        ({"rows": ROWS}, {"kind": "s3", "uri": "s3://lake/out/"}, {"mode": "upsert", "keys": ["id"]}, "schema", "no keys"),
        ({"rows": ROWS}, {"kind": "duckdb", "database": "../x", "table": "t"}, {}, "schema", "plain file name"),
        ({"rows": ROWS}, None, {"mode": "upsert"}, "schema", "only this mode takes them"),
        ({"rows": ROWS}, {"kind": "postgres", "auth": {"host": "127.0.0.1", "port": 1}, "table": "t"}, {}, "db_connection", ""),
        ({"rows": [{"id": 1}, {"id": "x"}]}, None, {}, "schema", "invalid input syntax"),
        ({"rows": [{"id": 1}, {"id": 1}]}, None, {}, "db_constraint", "duplicate key"),
        ({"kind": "duckdb", "command": "SELECT * FROM nowhere"}, None, {}, "schema", "nowhere"),
        ({"kind": "duckdb", "comand": "SELECT 1"}, None, {}, "schema", "comand"),
    ],
)  # fmt: skip
def test_refusals(transfer: Transfer, query: Query, source: Any, target: Any, inputs: Any, expected: str, words: str) -> None:
    outcome = transfer(source, target, inputs=inputs)
    assert kind(outcome) == expected and outcome.error and words in outcome.error.message, outcome.error
    assert query("SELECT count(*) FROM items") == [(0,)]
