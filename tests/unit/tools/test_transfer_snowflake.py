"""Snowflake as a source of `kind: transfer`, on a fake of Snowflake; and what any plugin can offer as a source."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import psycopg
import pytest
import snowflake.connector

from noetl_core.adapters.local.database import MEMORY, Database
from noetl_core.adapters.local.events import SqliteEventStore
from noetl_core.adapters.local.results import LazyTempResultStore
from noetl_core.dsl.fields.kinds.data import SOURCES
from noetl_core.engine.outcome import Outcome
from noetl_core.tools.aws.clients import client
from noetl_core.tools.base import ToolCall
from noetl_core.tools.invoke import invoke
from noetl_core.tools.network.addresses import AddressPolicy
from noetl_core.tools.registry import ToolRegistry
from noetl_core.tools.rows.stored import reference, stored
from noetl_core.tools.transfer.tool import TransferTool
from noetl_core.worker.values.execution_view import Resolver
from noetl_core.worker.values.inputs import TaskReferences
from noetl_snowflake import SnowflakeTool, files
from tests.plugins import install_only
from tests.snowflakes import faked
from tests.unit.tools.killed_transfers import Killed, killed_at

from .conftest import Run, kind, message

LOGIN = {"account": "myorg-account", "user": "me", "password": "S3cret-Pass", "database": "db", "schema": "public"}
Transfer = Callable[..., Outcome]
ITEMS = """CREATE OR REPLACE TABLE items AS SELECT seq4() AS id, 'n' || seq4() AS name FROM TABLE(GENERATOR(ROWCOUNT => 95))"""
ALL = [(n, f"n{n}") for n in range(95)]
TYPES = """SELECT n::int AS id,
  CASE n WHEN 0 THEN 12345678901234567890.12::number(38, 2) WHEN 1 THEN 0.10::number(38, 2) END AS price,
  CASE n WHEN 0 THEN '2026-07-01 10:00:00 +0200'::timestamp_tz END AS at,
  CASE n WHEN 0 THEN '2026-07-01 10:00:00.123456'::timestamp_ntz END AS seen,
  CASE n WHEN 0 THEN to_binary('00ff', 'HEX') END AS body,
  CASE n WHEN 0 THEN PARSE_JSON('{"a": [1, null, "x"]}') WHEN 1 THEN PARSE_JSON('"text"') END AS info,
  CASE n WHEN 0 THEN true END AS ok,
  CASE n WHEN 0 THEN '2026-07-01'::date END AS day
FROM (SELECT seq4() AS n FROM TABLE(GENERATOR(ROWCOUNT => 3))) ORDER BY n"""


@pytest.fixture(autouse=True)
def fake() -> Iterator[None]:
    with faked():
        yield


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
def items(run: Run) -> None:
    outcome = run("snowflake", {"auth": LOGIN, "command": ITEMS})
    assert outcome.error is None, outcome.error


@pytest.fixture
def transfer(run: Run) -> Transfer:
    def transfer(source: Any, target: Any, chunk_rows: int = 10, **fields: Any) -> Outcome:
        more = fields.pop("inputs", {})
        whole = {"kind": "snowflake", "auth": LOGIN, **source}
        return run("transfer", {"source": whole, "target": target, **more}, spec={"chunk_rows": chunk_rows}, **fields)

    return transfer


@pytest.fixture
def there(uri: str) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(uri, autocommit=True) as connection:
        connection.execute("DROP TABLE IF EXISTS items, noetl_transfers")
        connection.execute("CREATE TABLE items (id INT, name TEXT)")
        yield connection


def rows_of(connection: psycopg.Connection[Any]) -> list[Any]:
    return connection.execute("SELECT * FROM items ORDER BY 1").fetchall()


NAMED = {"columns": {"id": "ID", "name": "NAME"}}


# --- into each target ---------------------------------------------------------------------------------------------------


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    "source",
    [
        {"query": "SELECT id, name FROM items WHERE id < %(most)s ORDER BY id", "params": {"most": 95}},
        {"table": "items"},
        {"table": 'public."ITEMS"', "columns": ["id", '"NAME"']},
    ],
    ids=["query", "table", "columns"],
)
def test_rows_of_snowflake_go_into_postgres(
    transfer: Transfer, items: None, uri: str, there: psycopg.Connection[Any], source: Any
) -> None:
    outcome = transfer(source, {"kind": "postgres", "auth": uri, "table": "items"}, inputs=NAMED)
    assert outcome.error is None, outcome.error
    assert outcome.result == {"rows_read": 95, "rows_written": 95, "chunks": 10, "table": "items"}
    assert rows_of(there) == ALL


def test_postgres_receives_every_snowflake_type_unchanged(transfer: Transfer, uri: str, there: psycopg.Connection[Any]) -> None:
    there.execute(
        "DROP TABLE items; CREATE TABLE items (id INT, price NUMERIC, at TIMESTAMPTZ, seen TIMESTAMP, body BYTEA,"
        " info JSONB, ok BOOL, day DATE)"
    )
    names = ("id", "price", "at", "seen", "body", "info", "ok", "day")
    outcome = transfer(
        {"query": TYPES}, {"kind": "postgres", "auth": uri, "table": "items"}, inputs={"columns": {n: n.upper() for n in names}}
    )
    assert outcome.error is None, outcome.error
    first, second, third = rows_of(there)
    assert first[1] == Decimal("12345678901234567890.12") and second[1] == Decimal("0.10")
    assert first[2].timestamp() == 1782892800 and first[3].isoformat() == "2026-07-01T10:00:00.123456"
    assert first[4:] == (b"\x00\xff", {"a": [1, None, "x"]}, True, first[7]) and first[7].isoformat() == "2026-07-01"
    assert second[5] == "text" and third == (2, *[None] * 7)


EXPECTED_TYPES = {
    "ID": "BIGINT|DECIMAL(38,0)", "PRICE": "DECIMAL(38,2)", "AT": "TIMESTAMP WITH TIME ZONE", "SEEN": "TIMESTAMP",
    "BODY": "BLOB", "INFO": "JSON", "OK": "BOOLEAN", "DAY": "DATE",
}  # fmt: skip


def check_typed(described: list[Any], rows: list[Any], *, json_as: str = "JSON") -> None:
    expected = {**EXPECTED_TYPES, "INFO": json_as}
    assert [name for name, *_ in described] == list(expected)
    assert all(str(found) in expected[name].split("|") for name, found, *_ in described), described
    assert [row[1] for row in rows] == [Decimal("12345678901234567890.12"), Decimal("0.10"), None]
    assert rows[0][4] == b"\x00\xff" and json.loads(rows[0][5]) == {"a": [1, None, "x"]} and json.loads(rows[1][5]) == "text"
    assert rows[0][2].timestamp() == 1782892800


@pytest.mark.nightly  # a Parquet file has them at each commit
@pytest.mark.one_in(2)
@pytest.mark.parametrize("chunk_rows", [1, 10])
def test_a_table_of_duckdb_has_the_types_of_the_source(transfer: Transfer, scratch: Path, chunk_rows: int) -> None:
    outcome = transfer({"query": TYPES}, {"kind": "duckdb", "database": "my.db", "table": "typed"}, chunk_rows)
    assert outcome.error is None, outcome.error
    with duckdb.connect(str(scratch / "1" / "my.db")) as connection:
        check_typed(
            connection.execute("DESCRIBE typed").fetchall(), connection.execute("SELECT * FROM typed ORDER BY 1").fetchall()
        )


@pytest.fixture
def bucket() -> Iterator[str]:
    from tests.contract.aws import environment
    from tests.fast_moto import mock_aws

    with mock_aws(), environment():
        client("s3").create_bucket(Bucket="lake")
        yield "lake"


def test_parquet_files_have_the_types_of_the_source_whatever_is_in_a_chunk(
    transfer: Transfer, bucket: str, tmp_path: Path
) -> None:
    outcome = transfer({"query": TYPES}, {"kind": "s3", "uri": f"s3://{bucket}/out/", "format": "parquet"}, 1)
    assert outcome.error is None, outcome.error
    found = [one["Key"] for one in client("s3").list_objects_v2(Bucket=bucket)["Contents"]]
    for n, key in enumerate(found):
        (tmp_path / f"{n}.parquet").write_bytes(client("s3").get_object(Bucket=bucket, Key=key)["Body"].read())
    with duckdb.connect() as connection:
        whole = f"SELECT * FROM read_parquet('{tmp_path}/*.parquet') ORDER BY 1"  # fails where the types differ
        described = connection.execute(f"DESCRIBE {whole}").fetchall()
        check_typed(described, connection.execute(whole).fetchall(), json_as="JSON|VARCHAR")


@pytest.mark.nightly
@pytest.mark.parametrize("form", ["jsonl", "csv"])
def test_text_files_have_the_rows_as_results_do(transfer: Transfer, bucket: str, form: str) -> None:
    query = "SELECT 1 AS n, 1.50::number(10, 2) AS price, PARSE_JSON('[1]') AS list, to_binary('00ff', 'HEX') AS b, NULL AS none"
    outcome = transfer({"query": query}, {"kind": "s3", "uri": f"s3://{bucket}/out/", "format": form})
    assert outcome.error is None, outcome.error
    body = client("s3").get_object(Bucket=bucket, Key=f"out/run-1-00000.{form}")["Body"].read().decode()
    if form == "jsonl":
        assert json.loads(body) == {"N": 1, "PRICE": 1.5, "LIST": [1], "B": {"base64": "AP8="}, "NONE": None}
    else:
        assert body == 'N,PRICE,LIST,B,NONE\n1,1.5,[1],"{""base64"":""AP8=""}",\n'


def duck(scratch: Path, query: str) -> list[Any]:
    with duckdb.connect(str(scratch / "1" / "my.db")) as connection:
        return connection.execute(query).fetchall()


INTO_DUCK = {"kind": "duckdb", "database": "my.db", "table": "t"}


@pytest.mark.nightly
def test_names_of_columns_may_be_anything(transfer: Transfer, scratch: Path) -> None:
    outcome = transfer({"query": """SELECT 1 AS "a""b'c", 2 AS "ä ö" """}, INTO_DUCK)
    assert outcome.error is None, outcome.error
    assert [name for name, *_ in duck(scratch, "DESCRIBE t")] == ["a\"b'c", "ä ö"]
    assert duck(scratch, "SELECT * FROM t") == [(1, 2)]


@pytest.mark.nightly
@pytest.mark.parametrize("size", [10_000_000, 40_000_000])
def test_a_large_cell_is_moved(
    transfer: Transfer, scratch: Path, uri: str, there: psycopg.Connection[Any], size: int, bucket: str
) -> None:
    query = {"query": f'SELECT 1 AS "id", repeat(\'x\', {size}) AS "name"'}
    for number, into in enumerate((INTO_DUCK, {"kind": "postgres", "auth": uri, "table": "items"})):
        outcome = transfer(query, into, task_run_id=f"run-{number}", timeout_s=120.0)
        assert outcome.error is None, outcome.error
    assert duck(scratch, "SELECT id, length(name) FROM t") == [(1, size)]
    assert there.execute("SELECT id, length(name) FROM items").fetchall() == [(1, size)]
    outcome = transfer(
        query, {"kind": "s3", "uri": f"s3://{bucket}/out/", "format": "parquet"}, task_run_id="s3", timeout_s=120.0
    )
    assert outcome.error is None, outcome.error


def test_a_null_character_is_refused_by_postgres_alone(
    transfer: Transfer, scratch: Path, uri: str, there: psycopg.Connection[Any], run: Run
) -> None:
    query = {"query": "SELECT 1 AS \"id\", 'a' || chr(0) || 'b' AS \"name\""}
    assert transfer(query, INTO_DUCK, task_run_id="duck").error is None
    assert duck(scratch, "SELECT name FROM t") == [("a\0b",)]
    outcome = transfer(query, {"kind": "postgres", "auth": uri, "table": "items"})
    assert kind(outcome) == "schema" and "row 1 of `source`: column name: " in message(outcome) and "NUL" in message(outcome), (
        outcome.error
    )
    assert outcome.error is not None and outcome.error.retryable is False and rows_of(there) == []


@pytest.mark.nightly  # the quicker test with a file: test_transfer
@pytest.mark.one_in(2)
@pytest.mark.parametrize("mode", ["append", "replace"])
def test_a_query_without_rows_appends_nothing_or_replaces_the_table(transfer: Transfer, scratch: Path, mode: str) -> None:
    assert transfer({"query": "SELECT 1.5::number(10, 2) AS n"}, INTO_DUCK, task_run_id="before").error is None
    for table in ("t", "new"):
        fields: Any = {"inputs": {"mode": mode}, "task_run_id": f"none-{table}"}
        outcome = transfer({"query": "SELECT 1.5::number(10, 2) AS n WHERE false"}, {**INTO_DUCK, "table": table}, **fields)
        assert outcome.error is None and outcome.result["rows_read"] == 0, outcome.error
    assert duck(scratch, "SELECT count(*) FROM t") == [(1 if mode == "append" else 0,)]
    assert [tuple(column[:2]) for column in duck(scratch, "DESCRIBE new")] == [("N", "DECIMAL(10,2)")]


@pytest.mark.nightly
def test_a_wider_value_than_the_table_takes_ends_the_transfer_at_its_chunk(transfer: Transfer, scratch: Path) -> None:
    assert transfer({"query": "SELECT 1::number(10, 0) AS n"}, INTO_DUCK, task_run_id="before").error is None
    many = "SELECT CASE seq4() WHEN 4 THEN 'x' ELSE seq4()::varchar END AS n FROM TABLE(GENERATOR(ROWCOUNT => 5))"
    outcome = transfer({"query": many}, INTO_DUCK, 2)
    assert kind(outcome) == "schema" and "'x'" in message(outcome), outcome.error
    assert duck(scratch, "SELECT count(*) FROM t") == [(5,)]


# --- interruptions ------------------------------------------------------------------------------------------------------


def test_a_resumed_transfer_does_not_run_its_query_again(
    transfer: Transfer, items: None, run: Run, uri: str, there: psycopg.Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    fields: Any = {"inputs": NAMED}
    into = {"kind": "postgres", "auth": uri, "table": "items"}
    with killed_at(4, "before"):
        transfer({"table": "items"}, into, **fields)
    assert run("snowflake", {"auth": LOGIN, "command": "DELETE FROM items"}).error is None
    monkeypatch.setattr(snowflake.connector, "connect", lambda **_: pytest.fail("it was asked again"))
    assert transfer({"table": "items"}, into, **fields).result["rows_read"] == 95
    assert rows_of(there) == ALL


def test_a_worker_that_dies_while_the_result_is_stored_leaves_nothing_behind(
    transfer: Transfer, items: None, uri: str, there: psycopg.Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    batches = files.batches

    def killed(cursor: Any, stop: Any) -> Iterator[Any]:
        yield next(batches(cursor, stop))
        raise Killed

    monkeypatch.setattr(files, "BATCH_ROWS", 20)
    into = {"kind": "postgres", "auth": uri, "table": "items"}
    with monkeypatch.context() as dying, pytest.raises(Killed):
        dying.setattr(files, "batches", killed)
        transfer({"table": "items"}, into, inputs=NAMED)
    assert rows_of(there) == []
    assert transfer({"table": "items"}, into, inputs=NAMED).result["rows_written"] == 95
    assert rows_of(there) == ALL


def test_rows_are_held_by_their_size() -> None:
    class Cursor:
        description = (("T", 2),)

        def __init__(self) -> None:
            self.left = 10

        def fetchone(self) -> Any:
            self.left -= 1
            return ("x" * 3_000_000,) if self.left >= 0 else None

    assert [len(batch) for batch in files.batches(Cursor(), lambda: None)] == [2] * 5


# --- refusals -----------------------------------------------------------------------------------------------------------


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    ("source", "expected", "words"),
    [
        ({}, "schema", "`query` or `table`"),
        ({"query": "SELECT 1", "table": "items"}, "schema", "`query` or `table`"),
        ({"query": "SELECT 1", "columns": ["a"]}, "schema", "`source.columns` belongs to `table`"),
        ({"query": " "}, "schema", "must be SQL text"),
        ({"table": "items; DROP TABLE items"}, "schema", "`source.table`"),
        ({"table": "items", "columns": ["id, name"]}, "schema", "`source.columns`"),
        ({"table": "items", "columns": []}, "schema", "`source.columns`"),
        ({"query": "SELECT 1", "url": "x"}, "schema", "does not take url"),
        ({"query": "SELECT 1", "connection": "w"}, "schema", "auth and connection"),
        ({"query": "SELECT * FROM nowhere"}, "not_found", "transfer: source: snowflake: "),
        ({"query": "SELEC 1"}, "parse", "transfer: source: snowflake: "),
        ({"query": "SELECT 1", "auth": {**LOGIN, "account": "evil.example.org/"}}, "schema", "`account`"),
        ({"query": "SELECT 1", "auth": {**LOGIN, "host": "10.0.0.1"}}, "schema", "`host`"),
        ({"query": "CREATE OR REPLACE TABLE x (n INT)"}, "schema", "gives none"),
    ],
)
def test_refusals(transfer: Transfer, items: None, source: Any, expected: str, words: str) -> None:
    outcome = transfer(source, {"kind": "duckdb", "database": "my.db", "table": "items"})
    assert kind(outcome) == expected and words in message(outcome), outcome.error
    assert "S3cret-Pass" not in message(outcome)


def test_a_missing_source_column_is_reported_with_the_existing_columns(
    transfer: Transfer, items: None, uri: str, there: psycopg.Connection[Any], bucket: str
) -> None:
    for target in (
        {"kind": "duckdb", "database": "my.db", "table": "items"},
        {"kind": "s3", "uri": f"s3://{bucket}/out/"},
    ):
        outcome = transfer(
            {"table": "items"}, target, inputs={"columns": {"id": "ID", "name": "name"}}, task_run_id=target["kind"]
        )
        assert kind(outcome) == "schema" and "no column name: it has ID, NAME" in message(outcome)
    outcome = transfer({"table": "items"}, {"kind": "postgres", "auth": uri, "table": "items"})
    assert kind(outcome) == "schema" and "capitals count: columns: {id: ID}" in message(outcome), outcome.error


def test_a_credential_is_read_by_its_name_and_masked_in_rows(transfer: Transfer, items: None, run: Run, scratch: Path) -> None:
    source = {"auth": "warehouse", "query": "SELECT 'S3cret-Pass' AS p"}
    target = {"kind": "duckdb", "database": "my.db", "table": "p"}
    assert transfer(source, target, secrets=lambda _: {"type": "snowflake", "data": LOGIN}).error is None
    with duckdb.connect(str(scratch / "1" / "my.db")) as connection:
        assert connection.execute("SELECT * FROM p").fetchall() == [("***",)]


def test_a_failed_statement_is_named_in_the_error(run: Run) -> None:
    outcome = run("snowflake", {"auth": LOGIN, "command": ["SELECT 1", "SELECT nothing FROM nowhere"]})
    assert outcome.error is not None and outcome.error.message.startswith("snowflake: statement 2 of 2: ")
    assert outcome.error.details["statement"] == 2


# --- sources of plugins -------------------------------------------------------------------------------------------------


def test_the_language_declares_the_source_fields_of_the_snowflake_tool() -> None:
    assert SOURCES["snowflake"] == SnowflakeTool.source


@pytest.fixture
def move(store: LazyTempResultStore) -> Callable[..., Outcome]:
    """`move(source)`: a transfer by a tool of its own into a table of DuckDB."""
    tool = TransferTool()

    def move(source: Any, task_run_id: str = "r") -> Outcome:
        resolve = Resolver(SqliteEventStore(Database(MEMORY)), store, "1")
        inputs = {"source": source, "target": {"kind": "duckdb", "database": "d.db", "table": "t"}}
        references = TaskReferences("t", resolve, 64 * 1024 * 1024)
        call = ToolCall("transfer", inputs, execution_id="1", task_run_id=task_run_id, results=store, references=references)
        return invoke(tool, call)

    return move


def test_a_missing_snowflake_distribution_names_the_install_command(
    move: Callable[..., Outcome], monkeypatch: pytest.MonkeyPatch
) -> None:
    install_only(monkeypatch)
    outcome = move({"kind": "snowflake", "query": "SELECT 1"})
    assert kind(outcome) == "unsupported" and "noetl up --tools noetl-snowflake" in message(outcome)


class Herd:
    """A source of somebody else's."""

    kind = "herd"
    inline = False
    source = frozenset({"pasture"})

    def run(self, call: ToolCall) -> Outcome:
        return Outcome.ok(None)

    def export(self, call: ToolCall) -> Outcome:
        if not isinstance(call.inputs["pasture"], str):
            return Outcome.ok(call.inputs["pasture"])
        with stored(call, "jsonl") as out:
            out.write(b"".join(json.dumps({"n": n, "of": call.inputs["pasture"]}).encode() + b"\n" for n in range(3)))
            return Outcome.ok(reference(out.finish(), "jsonl", 3, ["n", "of"]))


class Mute:
    """A kind without rows."""

    kind = "mute"
    inline = False

    def run(self, call: ToolCall) -> Outcome:
        return Outcome.ok(None)


@pytest.fixture
def plugins(monkeypatch: pytest.MonkeyPatch) -> None:
    install_only(monkeypatch, Herd, Mute)


def test_a_third_party_plugin_is_a_source(plugins: None, move: Callable[..., Outcome]) -> None:
    outcome = move({"kind": "herd", "pasture": "north"})
    assert outcome.error is None, outcome.error
    assert outcome.result["rows_written"] == 3
    assert "does not take meadow: it takes pasture" in message(move({"kind": "herd", "meadow": 1}, "other"))


@pytest.mark.one_in(4)
@pytest.mark.parametrize(
    "gives", [5, [], {"rows": []}, {"kind": "result_ref", "store": "s3", "key": "k", "types": {"n": "INT); DROP"}}]
)
def test_a_plugin_that_gives_no_rows_ends_the_task(plugins: None, move: Callable[..., Outcome], gives: Any) -> None:
    outcome = move({"kind": "herd", "pasture": gives})
    assert kind(outcome) == "unknown" and "is not a reference to rows" in message(outcome)


def test_a_plugin_without_rows_is_no_source(plugins: None, move: Callable[..., Outcome]) -> None:
    assert "`source.kind` 'mute' is unknown" in message(move({"kind": "mute"}))
    assert 'did you mean "snowflake"?' in message(move({"kind": "snowflke"}))
