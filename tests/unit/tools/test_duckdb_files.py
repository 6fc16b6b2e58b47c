"""`kind: duckdb`: files as results, tables of PostgreSQL, and what does not fit into memory."""

from __future__ import annotations

import errno
import json
import tracemalloc
from collections.abc import Iterator
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any

import duckdb
import psycopg
import pytest

from noetl_core.adapters.local.results import LazyTempResultStore
from noetl_core.expr import Secret
from noetl_core.tools.aws.clients import client
from noetl_core.tools.duckdb.tool import IN_FILE, DuckDBTool, failed
from noetl_core.tools.network.addresses import AddressPolicy
from noetl_core.tools.registry import ToolRegistry
from noetl_core.tools.rows.scratch import spilling
from noetl_core.tools.store import encode
from tests.fake_dns import resolve
from tests.servers import Handler, serving
from tests.unit.tools.aws_playbooks import mocked

from .conftest import Run, kind


class Remote(LazyTempResultStore):
    """A store whose objects are not files of this machine."""

    def url(self, key: str) -> str:
        return f"s3://bucket/{key}"


@pytest.fixture(scope="module")
def registry() -> Iterator[ToolRegistry]:
    tools = ToolRegistry({"duckdb": DuckDBTool(AddressPolicy(allow_private=True))})
    yield tools
    tools.close()


@pytest.mark.parametrize("form", ["parquet", "csv", "jsonl"])
def test_rows_become_a_file(run: Run, store: LazyTempResultStore, form: str) -> None:
    commands = [
        "CREATE TABLE t AS SELECT range AS n, 'x' || range AS s FROM range(5000)",
        "SELECT * FROM t WHERE n >= $low ORDER BY n;",
    ]
    outcome = run("duckdb", {"commands": commands, "params": {"low": 10}, "to": form})
    assert outcome.error is None, outcome.error
    assert outcome.result["key"] == f"1/store/run-1.{form}" and (outcome.result["format"], outcome.result["rows"]) == (form, 4990)
    assert outcome.result["schema_hint"] == {"type": "list", "length": 4990, "columns": ["n", "s"]}
    again = run(
        "duckdb", {"sources": {"r": outcome.result}, "command": "SELECT count(*) AS c, sum(n)::BIGINT AS n, max(s) AS s FROM r"}
    )
    assert again.result["rows"] == [{"c": 4990, "n": sum(range(10, 5000)), "s": "x999"}]


def test_jsonl_output_equals_the_rows_of_the_same_query(run: Run, store: LazyTempResultStore) -> None:
    command = "SELECT 2.50::DECIMAL(10,2) AS b, DATE '2020-01-02' AS c, [1, NULL] AS d, {'x': 1} AS e, 'nan'::FLOAT AS f, 'ab'::BLOB AS g, 1 AS a, 2 AS a"
    outcome = run("duckdb", {"command": command, "to": "jsonl"})
    assert [json.loads(line) for line in store.get(outcome.result["key"]).splitlines()] == run(
        "duckdb", {"command": command}
    ).result["rows"]


@pytest.mark.parametrize("form", ["parquet", "csv", "jsonl"])
def test_no_rows_are_a_file_too(run: Run, form: str) -> None:
    assert run("duckdb", {"command": "SELECT 1 AS a WHERE false", "to": form}).result["rows"] == 0


@pytest.mark.parametrize(
    ("inputs", "expected"),
    [
        ({"command": "CREATE TABLE t (a INT)", "to": "csv"}, "schema"),
        ({"command": "SELECT 1", "to": "xml"}, "schema"),
        ({"command": "SELECT * FROM nowhere", "to": "parquet"}, "schema"),
        ({"command": "SELECT CAST(s AS INT) FROM (VALUES ('1'), ('x')) t(s)", "to": "parquet"}, "schema"),
        ({"command": "SELECT $a", "params": {"a": 1, "b": 2}, "to": "csv"}, "schema"),
        ({"command": "SELECT $a", "params": {"a": Secret("hush")}, "to": "csv"}, "schema"),
        ({"command": "SELECT 1", "sources": {"s": [{"a": Secret("hush")}]}, "to": "jsonl"}, "schema"),
    ],
)
def test_a_failed_write_leaves_no_object(run: Run, store: LazyTempResultStore, inputs: Any, expected: str) -> None:
    assert kind(run("duckdb", inputs)) == expected
    assert list(Path(store.url("1/x")).parent.rglob("*run-1*")) == []


def test_a_query_that_gives_a_file_still_reaches_no_other(run: Run) -> None:
    for command in (
        "SELECT * FROM read_text('/etc/passwd')",
        "COPY (SELECT 1) TO '/tmp/noetl-out.csv'",
        "SELECT * FROM glob('/*')",
    ):
        assert kind(run("duckdb", {"command": command, "to": "csv"})) in ("auth", "schema")
    assert not Path("/tmp/noetl-out.csv").exists()


# --- large sources --------------------------------------------------------------------------------------------------------


@pytest.mark.one_in(4)
@pytest.mark.parametrize("form", ["json", "jsonl", "csv", "parquet"])
def test_large_and_small_objects_are_one_table_and_never_in_memory(run: Run, monkeypatch: pytest.MonkeyPatch, form: str) -> None:
    monkeypatch.setattr("noetl_core.tools.duckdb.sources.LARGE", 20_000)
    asked: list[int] = []

    class Asked(Remote):
        def get(self, key: str, start: int | None = None, end: int | None = None) -> bytes:
            asked.append((end or 10**9) - (start or 0))
            return super().get(key, start, end)

    remote = Asked()
    refs = []
    for page, size in enumerate((3, 2_000, 2, 3_000)):
        rows = [{"id": page * 10_000 + n, "text": f"ü{n} " * 5} for n in range(size)]
        refs.append(run("store", {"data": rows, "format": form}, task_run_id=f"p{page}", results=remote).result)
    asked.clear()
    command = "SELECT count(*) AS n, sum(id)::BIGINT AS s FROM t"
    outcome = run("duckdb", {"sources": {"t": refs}, "command": command}, results=remote)
    total = sum(p * 10_000 + n for p, size in enumerate((3, 2_000, 2, 3_000)) for n in range(size))
    assert outcome.result["rows"] == [{"n": 5_005, "s": total}]
    pieces = [size for size in asked if size <= 8 * 1024 * 1024]
    assert len(pieces) >= (4 if form in ("csv", "parquet") else 2)  # the large ones, piece by piece


def test_references_within_a_large_object_are_loaded(run: Run, store: LazyTempResultStore) -> None:
    inner = run("store", {"data": [7, 8]}, task_run_id="inner").result
    rows = [{"id": n, "list": [n], "text": "x" * 100_000} for n in range(50)] + [{"id": 50, "list": inner}]
    outer = {**store.put("1/store/outer.json", json.dumps(rows).encode()), "format": "json"}
    outcome = run("duckdb", {"sources": {"t": outer}, "command": "SELECT list FROM t WHERE id = 50"})
    assert outcome.error is None, outcome.error
    assert outcome.result["rows"] == [{"list": [7, 8]}]


@pytest.mark.parametrize("form", ["parquet", "csv", "jsonl"])
def test_a_stored_list_of_references_is_read_like_the_list_itself(run: Run, store: LazyTempResultStore, form: str) -> None:
    refs = [run("store", {"data": [{"id": n}], "format": form}, task_run_id=f"p{n}").result for n in range(5)]
    kept = {**store.put("1/store/parts.json", json.dumps(refs).encode()), "format": "json"}
    outcome = run("duckdb", {"sources": {"t": kept}, "command": "SELECT count(*) AS n, sum(id)::INT AS s FROM t"})
    assert outcome.error is None, outcome.error
    assert outcome.result["rows"] == [{"n": 5, "s": 10}]


def test_tables_of_large_sources_are_in_a_file(run: Run) -> None:
    ref = run("store", {"data": [{"id": 1}], "format": "parquet"}).result
    where = "SELECT path IS NOT NULL AS file FROM duckdb_databases() WHERE NOT internal"
    assert run("duckdb", {"sources": {"t": ref}, "command": where}).result["rows"] == [{"file": False}]
    large = {**ref, "size": IN_FILE}
    assert run("duckdb", {"sources": {"t": large}, "command": where}).result["rows"] == [{"file": True}]


@pytest.mark.nightly
def test_a_query_larger_than_memory_spills_to_disk(run: Run) -> None:
    command = "SELECT count(*) AS n FROM (SELECT range AS a, repeat('x', 100) || range AS s FROM range(1500000) ORDER BY s DESC)"
    assert run("duckdb", {"command": command}, spec={"memory_limit": "100MB"}, timeout_s=120).result["rows"] == [{"n": 1_500_000}]


@pytest.mark.nightly
def test_a_full_disk_names_the_remedy(tmp_path: Path) -> None:
    with duckdb.connect(config={"memory_limit": "60MB", **spilling(tmp_path)}) as connection:
        connection.execute("SET max_temp_directory_size = '1MB'")
        with pytest.raises(duckdb.Error) as raised:
            connection.execute("CREATE TABLE t AS SELECT md5(range::text) || md5((range + 1)::text) AS s FROM range(3000000)")
    outcome = failed(raised.value)
    assert kind(outcome) == "limit" and outcome.error and "WorkerStorage" in outcome.error.message
    assert not outcome.error.retryable


def test_a_download_that_fills_the_disk_names_the_remedy(run: Run) -> None:
    class Full(Remote):
        def get(self, key: str, start: int | None = None, end: int | None = None) -> bytes:
            raise OSError(errno.ENOSPC, "No space left on device")

    ref = run("store", {"data": [{"id": 1}], "format": "parquet"}).result
    outcome = run("duckdb", {"sources": {"t": ref}, "command": "SELECT 1"}, results=Full())
    assert kind(outcome) == "limit" and outcome.error and "WorkerStorage" in outcome.error.message


# --- files in S3 ----------------------------------------------------------------------------------------------------------

MINE = {"key_id": "AKIATEST", "secret": "hush-hush", "region": "us-east-1"}


@pytest.fixture
def bucket() -> Iterator[str]:
    with mocked():
        client("s3").create_bucket(Bucket="lake")
        for n in range(4):
            for form in ("parquet", "csv", "json", "jsonl"):
                body = encode([{"id": n, "name": f"n{n}"}], form)
                client("s3").put_object(Bucket="lake", Key=f"in/{form}/{n}.{form}", Body=body)
        yield "lake"


@pytest.mark.one_in(5)
@pytest.mark.parametrize(
    ("form", "auth"),
    [
        ("parquet", None),
        ("csv", MINE),
        ("json", "mine"),
        ("jsonl", {"lake": "mine"}),
        ("parquet", {"lake": {"credential": "mine"}}),
    ],
    ids=str,
)
def test_objects_that_fit_a_pattern_are_one_table(run: Run, bucket: str, form: str, auth: Any) -> None:
    credential = {"auth": auth} if auth else {}
    secrets = {"mine": {"type": "s3", "data": MINE}}.__getitem__
    sources = {"t": f"s3://{bucket}/**/*.{form}", "one": [f"s3://{bucket}/in/{form}/3.{form}"]}
    command = "SELECT count(*) AS n, sum(t.id)::BIGINT AS s, any_value(one.name) AS o FROM t, one"
    outcome = run("duckdb", {"sources": sources, "command": command, **credential}, secrets=secrets)
    assert outcome.error is None, outcome.error
    assert outcome.result["rows"] == [{"n": 4, "s": sum(range(4)), "o": "n3"}]


@pytest.mark.one_in(4)
@pytest.mark.parametrize(
    ("uri", "expected"),
    [
        ("s3://lake/none/*.csv", "not_found"),
        ("s3://nowhere/*.csv", "not_found"),
        ("s3://lake", "schema"),
        ("s3://lake/in/**", "schema"),
    ],
)
def test_unusable_s3_patterns_are_errors(run: Run, bucket: str, uri: str, expected: str) -> None:
    assert kind(run("duckdb", {"sources": {"t": uri}, "command": "SELECT 1"})) == expected


@pytest.mark.nightly
def test_a_credential_unusable_for_s3_is_an_error(run: Run, bucket: str) -> None:
    inputs = {"sources": {"t": f"s3://{bucket}/in/csv/*.csv"}, "command": "SELECT 1"}
    assert kind(run("duckdb", {**inputs, "auth": {"user": "u", "password": "p"}})) == "schema"
    outcome = run("duckdb", {**inputs, "auth": {**MINE, "endpoint": "http://169.254.169.254"}})
    assert outcome.error is not None and outcome.error.code == "address_refused"


def test_an_endpoint_is_connected_to_at_the_address_that_was_checked(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """A name that stands for an allowed address when it is asked first, and for this machine later."""
    asked: list[str] = []

    def addresses_of(host: str) -> list[str]:
        asked.append(host)
        return ["127.0.0.2"] if len(asked) == 1 else ["127.0.0.1"]

    class Objects(Handler):
        def do_GET(self) -> None:
            reached.append(self.path)
            self.say(404)

    reached: list[str] = []
    resolve(monkeypatch, addresses_of)
    monkeypatch.setenv("NOETL_HTTP_ALLOW_PRIVATE", "127.0.0.2/32")
    with serving(ThreadingHTTPServer(("127.0.0.1", 0), Objects)) as server:
        inputs = {"sources": {"t": "s3://b/in/*.csv"}, "command": "SELECT 1"}
        endpoint = f"http://lake.test:{server.server_port}"
        outcome = run("duckdb", {**inputs, "auth": {**MINE, "endpoint": endpoint}}, timeout_s=20)
    assert not reached and len(asked) == 2
    assert outcome.error is not None and outcome.error.code == "address_refused"


def test_a_bucket_that_the_stack_does_not_grant_is_refused(run: Run, bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STACK_RESOURCES", '{"buckets": ["noetl-results"]}')
    monkeypatch.setenv("NOETL_TOOL_BUCKETS", "other")
    for auth, name, words in (
        (None, bucket, "ToolBuckets"),
        (None, "noetl-results", "engine's own"),
        (MINE, "noetl-results", "engine's own"),
    ):
        outcome = run("duckdb", {"sources": {"t": f"s3://{name}/*.csv"}, "command": "SELECT 1", "auth": auth})
        assert kind(outcome) == "auth" and outcome.error and words in outcome.error.message


# --- attach ---------------------------------------------------------------------------------------------------------------


@pytest.fixture
def there(uri: str) -> Iterator[str]:
    with psycopg.connect(uri, autocommit=True) as connection:
        connection.execute("CREATE TABLE pilots (id INT, name TEXT, flown NUMERIC(10,2), born DATE, data JSONB, raw BYTEA)")
        connection.execute(
            """INSERT INTO pilots VALUES (1, 'Amelia, "A"', 10.50, '1897-07-24', '{"a": [1]}', 'ab'), (2, '', NULL, NULL, NULL, NULL)"""
        )
        connection.execute("CREATE SCHEMA other; CREATE TABLE other.empty (id INT)")
        yield uri
        connection.execute("DROP TABLE pilots; DROP SCHEMA other CASCADE")


@pytest.mark.nightly
def test_tables_and_queries_of_postgres_are_tables(run: Run, there: str) -> None:
    attach = {
        "pg": {"auth": there, "tables": ["pilots", "other.empty"], "queries": {"one": "SELECT count(*) AS n FROM pilots; "}}
    }
    commands = (
        """SELECT p.*, o.n, (SELECT count(*) FROM pg.empty) AS e, s.x FROM pg.pilots p, pg.one o JOIN s ON true ORDER BY id"""
    )
    outcome = run("duckdb", {"attach": attach, "sources": {"s": [{"x": 5}]}, "command": commands})
    assert outcome.error is None, outcome.error
    assert outcome.result["rows"] == [
        {"id": 1, "name": 'Amelia, "A"', "flown": 10.5, "born": "1897-07-24", "data": '{"a": [1]}', "raw": {"base64": "YWI="}, "n": 2, "e": 0, "x": 5},
        {"id": 2, "name": "", "flown": None, "born": None, "data": None, "raw": None, "n": 2, "e": 0, "x": 5},
    ]  # fmt: skip
    assert (
        run("duckdb", {"attach": attach, "command": "SELECT sum(flown) AS s FROM pg.pilots", "to": "parquet"}).result["rows"] == 1
    )


@pytest.mark.one_in(4)
@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        ({"tables": ["nowhere"]}, "schema"),
        ({"tables": []}, "schema"),
        ({"tables": "pilots"}, "schema"),
        ({"tables": ["pilots"], "misspelt": 1}, "schema"),
        ({"queries": {"q": "DELETE FROM pilots RETURNING 1"}}, "parse"),
        ({"queries": {"q": "SELECT 1 AS a, 2 AS a"}}, "schema"),
        ({"queries": {"q": "SELECT pg_sleep(600)"}}, "db_timeout"),
        ({"tables": ["pilots"], "auth": "unknown"}, "not_found"),
        ({"tables": ["pilots"], "auth": {"host": "127.0.0.1", "port": 1}}, "db_connection"),
        ({"tables": ["pilots"], "auth": {"host": "169.254.169.254"}}, "client_error"),
    ],
)
def test_an_invalid_attachment_fails_and_changes_no_data(run: Run, there: str, entry: dict[str, Any], expected: str) -> None:
    outcome = run(
        "duckdb", {"attach": {"pg": {"auth": there, **entry}}, "command": "SELECT 1"}, timeout_s=1.5, secrets={}.__getitem__
    )
    assert kind(outcome) == expected, outcome.error
    with psycopg.connect(there) as connection:
        assert connection.execute("SELECT count(*) FROM pilots").fetchone() == (2,)


@pytest.mark.nightly
def test_a_large_query_is_attached_in_constant_memory(run: Run, there: str) -> None:
    queries = {"many": "SELECT i, repeat('x', 200) AS t FROM generate_series(1, 200000) i"}
    tracemalloc.start()
    try:
        outcome = run(
            "duckdb",
            {
                "attach": {"pg": {"auth": there, "queries": queries}},
                "command": "SELECT count(*) AS n, sum(length(t))::BIGINT AS l FROM pg.many",
            },
            timeout_s=60,
        )
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert outcome.result["rows"] == [{"n": 200_000, "l": 40_000_000}]
    assert peak < 20_000_000
