"""COPY of `kind: postgres`, in and out, against a real server."""

from __future__ import annotations

import csv
import io
import json
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import duckdb
import psycopg
import pytest

from noetl_core.adapters.local.results import LazyTempResultStore
from noetl_core.engine.outcome import Outcome
from noetl_core.expr import Secret
from noetl_core.tools.network.addresses import AddressPolicy
from noetl_core.tools.postgres.tool import PostgresTool
from noetl_core.tools.registry import ToolRegistry
from noetl_core.tools.store import encode

from .conftest import Run, kind

Copy = Callable[..., Outcome]
ROWS: list[dict[str, Any]] = [
    {"id": 1, "name": 'a,"b"\n\\N', "price": 1.5, "info": {"k": [1, "ü"]}, "at": "2013-01-01T05:00:00+00:00"},
    {"id": 2, "name": "", "price": None, "info": [1, 2], "at": None},
    {"id": 3, "name": None, "price": 1e20, "info": "text", "at": "2013-12-31T00:00:00Z"},
]


@pytest.fixture(scope="module")
def registry() -> Iterator[ToolRegistry]:
    tools = ToolRegistry({"postgres": PostgresTool(AddressPolicy(allow_private=True))})
    yield tools
    tools.close()


@pytest.fixture
def items(uri: str) -> Iterator[Callable[[str], list[tuple[Any, ...]]]]:
    """A table `items`; gives the rows of a query."""
    with psycopg.connect(uri, autocommit=True) as connection:
        connection.execute("DROP TABLE IF EXISTS items; DROP SCHEMA IF EXISTS other CASCADE")
        connection.execute(
            "CREATE TABLE items (id INT PRIMARY KEY, name TEXT, price FLOAT8, info JSONB, at TIMESTAMPTZ, noted INT DEFAULT 7)"
        )
        yield lambda query: connection.execute(query.encode()).fetchall()


@pytest.fixture
def copy(run: Run, uri: str) -> Copy:
    def copy(options: Mapping[str, Any], **fields: Any) -> Outcome:
        inputs = {"auth": uri, "copy": options, **fields.pop("inputs", {})}
        return run("postgres", inputs, **fields)

    return copy


def stored(store: LazyTempResultStore, rows: list[dict[str, Any]], form: str, key: str = "1/in") -> dict[str, Any]:
    return {**store.put(f"{key}.{form}", encode(rows, form)), "format": form}


Items = Callable[[str], list[tuple[Any, ...]]]


def test_rows_go_into_a_table(copy: Copy, items: Items) -> None:
    outcome = copy({"from": ROWS, "into": "items"})
    assert outcome.result == {"rows": [], "columns": ["id", "name", "price", "info", "at"], "row_count": 3, "rows_read": 3}
    assert items("SELECT id, name, price, info, extract(epoch FROM at)::int, noted FROM items ORDER BY id") == [
        (1, 'a,"b"\n\\N', 1.5, {"k": [1, "ü"]}, 1357016400, 7),
        (2, "", None, [1, 2], None, 7),
        (3, None, 1e20, "text", 1388448000, 7),
    ]


@pytest.mark.parametrize("form", ["json", "jsonl"])
def test_stored_rows_go_into_a_table(copy: Copy, items: Items, store: LazyTempResultStore, form: str) -> None:
    refs = [stored(store, ROWS[:1], form, "1/a"), stored(store, [], form, "1/b"), stored(store, ROWS[1:], form, "1/c")]
    assert copy({"from": refs, "into": "items"}).result["row_count"] == 3
    assert items("SELECT id, name, info FROM items ORDER BY id") == [(r["id"], r["name"], r["info"]) for r in ROWS]


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_files_go_into_a_table(copy: Copy, items: Items, store: LazyTempResultStore, form: str) -> None:
    rows = [{"id": n, "name": f'x,"{n}"\nü', "price": n / 4} for n in range(5_000)]
    assert copy({"from": stored(store, rows, form), "into": "public.items"}).result["row_count"] == 5_000
    assert items("SELECT count(*), sum(id), sum(price), max(name) FROM items") == [
        (5_000, sum(range(5_000)), sum(range(5_000)) / 4, 'x,"999"\nü')
    ]


@pytest.mark.parametrize("form", ["json", "jsonl", "csv", "parquet"])
def test_columns_are_chosen_and_renamed(copy: Copy, items: Items, store: LazyTempResultStore, form: str) -> None:
    ref = stored(store, [{"nr": 5, "title": "five", "other": "x"}, {"nr": 6, "title": "six", "other": "y"}], form)
    assert copy({"from": ref, "into": "items", "columns": {"name": "title", "id": "nr"}}).error is None
    assert items("SELECT id, name FROM items ORDER BY id") == [(5, "five"), (6, "six")]


def test_csv_with_other_delimiters_or_without_a_header_is_read(copy: Copy, items: Items, store: LazyTempResultStore) -> None:
    body = '\ufeff"id";"name"\r\n1;"semi;colon"\r\n2;""\r\n3;\r\n'.encode()
    ref = {**store.put("1/x.csv", body), "format": "csv"}
    assert copy({"from": ref, "into": "items", "delimiter": ";"}).error is None
    assert items("SELECT id, name FROM items ORDER BY id") == [(1, "semi;colon"), (2, ""), (3, None)]
    headless = {**store.put("1/y.data", b"4\tfour\n"), "format": "csv"}
    assert copy({"from": headless, "into": "items", "header": False, "delimiter": "\t", "columns": ["id", "name"]}).error is None
    assert items("SELECT name FROM items WHERE id = 4") == [("four",)]


def test_an_upsert_updates_known_keys_and_takes_the_last_of_duplicate_rows(copy: Copy, items: Items) -> None:
    assert copy({"from": ROWS[:2], "into": "items"}).error is None
    rows = [{"id": 2, "name": "old"}, {"id": 3, "name": "new"}, {"id": 2, "name": "newest"}]
    for _ in range(2):
        outcome = copy({"from": rows, "into": "items", "mode": "upsert", "keys": ["id"]})
        assert (outcome.result["rows_read"], outcome.result["row_count"]) == (3, 2)
        assert items("SELECT id, name, info FROM items ORDER BY id") == [
            (1, ROWS[0]["name"], ROWS[0]["info"]), (2, "newest", [1, 2]), (3, "new", None)
        ]  # fmt: skip
    assert copy({"from": [{"id": 1}], "into": "items", "mode": "upsert", "keys": "id"}).error is None


def test_a_replacement_is_one_transaction(copy: Copy, items: Items) -> None:
    assert copy({"from": ROWS, "into": "items"}).error is None
    assert kind(copy({"from": [{"id": 8}, {"id": 8}], "into": "items", "mode": "replace"})) == "db_constraint"
    assert items("SELECT count(*) FROM items") == [(3,)]
    assert copy({"from": [{"id": 9}], "into": "items", "mode": "replace"}).result["row_count"] == 1
    assert items("SELECT id FROM items") == [(9,)]
    assert copy({"from": [], "into": "items", "mode": "replace"}).result["row_count"] == 0
    assert items("SELECT count(*) FROM items") == [(0,)]


@pytest.mark.parametrize(
    ("options", "expected", "words"),
    [
        ({"from": [{"id": 1}, {"id": 2, "nmae": "x"}]}, "schema", "nmae"),
        ({"from": [{"id": 1}, 5]}, "schema", "must be rows"),
        ({"from": [{"id": 1}], "columns": ["id", "nmae"]}, "schema", "nmae"),
        ({"from": [{"id": 1, "nowhere": 2}]}, "schema", "nowhere"),
        ({"from": [{"id": 1}, {"id": 1}]}, "db_constraint", "duplicate key"),
        ({"from": [{"id": "x"}]}, "schema", "invalid input syntax"),
        ({"from": [{"id": 1, "name": "a\x00b"}]}, "schema", "NUL"),
        ({"from": [{"id": 1}], "into": "nowhere"}, "schema", "nowhere"),
        ({"from": [{"id": 1}], "into": 'items"; DROP TABLE items; --'}, "schema", "does not exist"),
        ({"from": [{"id": 1}], "mode": "merge"}, "schema", "append, replace, upsert"),
        ({"from": [{"id": 1}], "mode": "upsert"}, "schema", "only this mode takes them"),
        ({"from": [{"id": 1}], "keys": ["id"]}, "schema", "only this mode takes them"),
        ({"from": [{"name": "x"}], "mode": "upsert", "keys": ["id"]}, "schema", "not among the columns"),
        ({"from": [{"id": 1, "name": "x"}], "mode": "upsert", "keys": ["name"]}, "schema", "ON CONFLICT"),
        ({"from": [{"id": 1}], "to": "csv"}, "schema", "`into`"),
        ({"from": {"kind": "result_ref", "store": "s3", "key": "1/gone.csv"}}, "not_found", "gone.csv"),
        ({"from": {"kind": "result_ref", "store": "s3", "key": "1/x.csv", "format": "avro"}}, "schema", "avro"),
    ],
)
def test_a_failed_copy_changes_nothing(copy: Copy, items: Items, options: dict[str, Any], expected: str, words: str) -> None:
    outcome = copy({"into": "items", **options})
    assert kind(outcome) == expected and outcome.error and words in outcome.error.message, outcome.error
    assert items("SELECT count(*) FROM items") == [(0,)]
    assert copy({"from": [{"id": 1}], "into": "items"}).error is None  # the connection lives


@pytest.mark.parametrize(
    ("form", "body"),
    [
        ("json", b'[{"id": 1}, {"id": 2}'), ("json", b'[{"id": 1}] x'), ("json", b'[{"id": NaN}]'), ("json", b'[{"id": 1}, "\xff"]'),
        ("json", b'[{"id": 1} {"id": 2}]'), ("jsonl", b'{"id": 1}\n{"id": '), ("jsonl", b'{"id": 1}\n7\n'), ("csv", b'id,id\n1,2\n'),
        ("csv", b'id,name\n1\n'), ("csv", b'id,name\n1,"a\n'), ("csv", b'id,name\n1,\xff\n'), ("parquet", b"PAR1 this is not"),
        ("json", b"[" * 100_000),
    ],
)  # fmt: skip
def test_a_file_that_contradicts_its_format_is_refused(
    copy: Copy, items: Items, store: LazyTempResultStore, form: str, body: bytes
) -> None:
    ref = {**store.put(f"1/x.{form}", body), "format": form}
    assert kind(copy({"from": ref, "into": "items"})) == "schema"
    assert items("SELECT count(*) FROM items") == [(0,)]


def test_an_object_that_was_changed_is_not_copied(copy: Copy, items: Items, store: LazyTempResultStore) -> None:
    ref = stored(store, [{"id": 1}], "csv")
    store.put("1/in.csv", b"id\n2\n")
    assert kind(copy({"from": ref, "into": "items"})) == "storage"
    assert items("SELECT count(*) FROM items") == [(0,)]


def test_references_in_rows_are_their_values(copy: Copy, items: Items, store: LazyTempResultStore) -> None:
    big = stored(store, [{"deep": True}], "json", "1/big")
    page = stored(store, [{"id": 2, "info": None}], "json", "1/page")
    pages = {**store.put("1/pages.json", json.dumps([{"id": 1, "info": big}, page]).encode()), "format": "json"}
    assert copy({"from": pages, "into": "items"}).error is None
    assert items("SELECT id, info FROM items ORDER BY id") == [(1, [{"deep": True}]), (2, None)]


# --- out ------------------------------------------------------------------------------------------------------------------

TYPES = """SELECT 1::int AS i, 2::int8 AS l, 1.5::numeric(10,2) AS d, 'a,"b'||chr(10)||'ü' AS t, NULL::text AS n, ''::text AS e, true AS b,
           DATE '2020-01-02' AS day, TIMESTAMPTZ '2020-01-02 03:04:05+00' AS at, '{"x": [1]}'::jsonb AS j, 'ab'::bytea AS y, 'NaN'::float8 AS f"""


def content(store: LazyTempResultStore, outcome: Outcome) -> bytes:
    assert outcome.error is None, outcome.error
    return store.get(outcome.result["key"])


def test_a_query_becomes_a_csv_file(copy: Copy, store: LazyTempResultStore) -> None:
    outcome = copy(
        {"query": "SELECT i AS id, CASE i WHEN 2 THEN NULL ELSE 'ü,' END AS name FROM generate_series(1, 3) i;", "to": "csv"}
    )
    assert list(csv.DictReader(io.StringIO(content(store, outcome).decode()))) == [
        {"id": "1", "name": "ü,"}, {"id": "2", "name": ""}, {"id": "3", "name": "ü,"}
    ]  # fmt: skip
    assert {k: outcome.result[k] for k in ("kind", "format", "rows")} == {"kind": "result_ref", "format": "csv", "rows": 3}
    assert outcome.result["key"] == "1/store/run-1.csv" and outcome.result["schema_hint"]["columns"] == ["id", "name"]


def test_exported_json_lines_equal_the_rows_of_the_query(run: Run, copy: Copy, store: LazyTempResultStore, uri: str) -> None:
    outcome = copy({"query": TYPES + " -- a comment", "to": "jsonl"})
    rows = [json.loads(line) for line in content(store, outcome).splitlines()]
    assert rows == run("postgres", {"auth": uri, "command": TYPES}).result["rows"]


def test_parquet_has_the_types_of_the_query(copy: Copy, store: LazyTempResultStore) -> None:
    outcome = copy({"query": TYPES, "to": "parquet"})
    assert outcome.error is None, outcome.error
    found = duckdb.read_parquet(store.url(outcome.result["key"]))
    types = dict(zip(found.columns, map(str, found.types), strict=True))
    assert types == {"i": "INTEGER", "l": "BIGINT", "d": "DECIMAL(10,2)", "t": "VARCHAR", "n": "VARCHAR", "e": "VARCHAR", "b": "BOOLEAN",
                     "day": "DATE", "at": "TIMESTAMP WITH TIME ZONE", "j": "JSON", "y": "BLOB", "f": "DOUBLE"}  # fmt: skip
    row = (
        duckdb.connect()
        .execute(f"""SELECT t, n, e, y, j::VARCHAR, epoch("at")::int FROM '{store.url(outcome.result["key"])}'""")
        .fetchall()
    )
    assert row == [('a,"b\nü', None, "", b"ab", '{"x": [1]}', 1577934245)]


@pytest.mark.one_in(3)
@pytest.mark.parametrize("form", ["csv", "jsonl", "parquet"])
def test_a_table_exported_and_imported_again_is_the_same(copy: Copy, items: Items, form: str) -> None:
    assert copy({"from": ROWS, "into": "items"}).error is None
    assert copy({"from": [{"id": n, "name": f"n{n}"} for n in range(10, 20_000)], "into": "items"}).error is None
    before = items("SELECT * FROM items ORDER BY id")
    out = copy({"table": "public.items", "to": form})
    assert out.error is None and out.result["rows"] == 19_993
    assert copy({"from": out.result, "into": "items", "mode": "replace"}).result["row_count"] == 19_993
    assert items("SELECT * FROM items ORDER BY id") == before


@pytest.mark.parametrize("form", ["csv", "jsonl", "parquet"])
def test_nothing_gives_an_empty_file(copy: Copy, items: Items, form: str) -> None:
    out = copy({"table": "items", "columns": ["id", "name"], "to": form})
    assert out.result["rows"] == 0
    assert copy({"from": out.result, "into": "items"}).result["row_count"] == 0


@pytest.mark.parametrize("form", ["csv", "jsonl", "parquet"])
def test_parameters_are_bound(copy: Copy, store: LazyTempResultStore, form: str) -> None:
    query = "SELECT %(evil)s::text AS t, 5 %% 3 AS m"
    out = copy({"query": query, "to": form}, inputs={"params": {"evil": "'; DROP TABLE items; --"}})
    assert out.error is None and out.result["rows"] == 1
    if form == "jsonl":
        assert json.loads(content(store, out)) == {"t": "'; DROP TABLE items; --", "m": 2}


@pytest.mark.parametrize(
    ("options", "expected"),
    [({"query": "SELEC", "to": "csv"}, "parse"), ({"query": "SELECT * FROM nowhere", "to": "jsonl"}, "schema"), ({"table": "x", "query": "y", "to": "csv"}, "schema"),
     ({"to": "csv"}, "schema"), ({"query": "SELECT 1", "to": "xml"}, "schema"), ({"query": "SELECT 1 AS a, 2 AS a", "to": "parquet"}, "schema"),
     ({"query": "SELECT 1/(5-i) FROM generate_series(1,9) i", "to": "csv"}, "schema"), ({"query": "SELECT 1/(5-i) FROM generate_series(1,9) i", "to": "parquet"}, "schema"),
     ({"query": "DELETE FROM items RETURNING id", "to": "csv"}, "parse")],
)  # fmt: skip
def test_an_export_that_fails_leaves_no_object(
    copy: Copy, items: Items, store: LazyTempResultStore, options: dict[str, Any], expected: str
) -> None:
    outcome = copy(options)
    assert kind(outcome) == expected, outcome.error
    assert list(Path(store.url("1/x")).parent.rglob("*run-1*")) == []


def test_a_secret_is_not_written_to_a_file(copy: Copy) -> None:
    for inputs in ({"params": {"t": Secret("hush-hush")}}, {}):
        options = {"query": "SELECT %(t)s AS t" if inputs else Secret("SELECT 1"), "to": "csv"}
        outcome = copy(options, inputs=inputs)
        assert kind(outcome) == "schema" and outcome.error and "secrets" in outcome.error.message


def test_a_secret_may_be_copied_into_a_table(copy: Copy, items: Items) -> None:
    assert copy({"from": [{"id": 1, "name": Secret("hush-hush")}], "into": "items"}).error is None
    assert items("SELECT name FROM items") == [("hush-hush",)]


def test_a_slow_copy_ends_with_the_time_and_when_it_is_cancelled(copy: Copy, items: Items) -> None:
    slow = {"query": "SELECT i, pg_sleep(0.1) FROM generate_series(1, 6000) i", "to": "csv"}
    assert kind(copy(slow, timeout_s=0.4)) == "db_timeout"
    for form in ("csv", "jsonl", "parquet"):
        cancelled = threading.Event()
        threading.Timer(0.3, cancelled.set).start()
        assert kind(copy({**slow, "to": form}, cancelled=cancelled)) == "cancelled"
    assert copy({"from": [{"id": 1}], "into": "items"}).error is None
