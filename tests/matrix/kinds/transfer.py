"""The cases of `transfer`."""

from __future__ import annotations

from typing import Any

from noetl_core.tools.aws.clients import client
from tests.matrix.cases import Case
from tests.matrix.database import tables
from tests.matrix.kinds.snowflake import LOGIN, MANY
from tests.snowflakes import stand

HERE = ("local",)
"""The wirings on which the fake of Snowflake is available."""
CREDENTIALS = {"warehouse": LOGIN}
TABLE = {"kind": "postgres", "auth": "{{ workload.dsn }}", "table": "moved.items"}
ROWS = [{"id": n, "name": f"n{n}"} for n in range(1, 6)]


def prepare() -> dict[str, Any]:
    stand()
    for bucket in ("matrix-moved", "closed-moved"):
        client("s3").create_bucket(Bucket=bucket)
    return tables("moved")


def _move(source: Any, target: Any = None, **more: Any) -> dict[str, Any]:
    return {"source": source, "target": target or TABLE, "mode": "replace", "spec": {"chunk_rows": 1000}, **more}


def _from_snowflake(query: str, target: Any = None, **more: Any) -> dict[str, Any]:
    columns = {"columns": {"id": "N", "name": "T"}} if target is None else {}
    return _move({"kind": "snowflake", "auth": "warehouse", "query": query}, target, **columns, **more)


def _counts(rows: int, chunks: int) -> dict[str, Any]:
    return {"{{ [_prev.rows_read, _prev.rows_written, _prev.chunks] }}": [rows, rows, chunks]}


CASES = [
    Case("rows", _move({"rows": ROWS}), gives=_counts(5, 1)),
    Case("upsert", _move({"rows": ROWS}, mode="upsert", keys=["id"]), gives=_counts(5, 1)),
    Case("duckdb", _move({"kind": "duckdb", "command": "SELECT 1 AS id, 'x' AS name"}), gives=_counts(1, 1)),
    Case("into_duckdb", _move({"rows": ROWS}, {"kind": "duckdb", "database": "m.db", "table": "items"}), gives=_counts(5, 1)),
    Case("http", _move({"kind": "http", "url": "{{ workload.http }}/rows/50"}, columns={"id": "n", "name": "text"}), gives=_counts(50, 1)),
    Case("into_s3", _move({"rows": ROWS}, {"kind": "s3", "uri": "s3://matrix-moved/out/", "format": "csv"}), gives=_counts(5, 1)),
    Case("from_s3", _move({"kind": "s3", "uri": "s3://matrix-moved/out/*.csv"}), gives=_counts(5, 1)),
    Case("snowflake", _from_snowflake("SELECT 1 AS n, 'x' AS t"), gives=_counts(1, 1), on=HERE),
    Case("snowflake_into_s3", _from_snowflake("SELECT 1 AS n", {"kind": "s3", "uri": "s3://matrix-moved/flakes/", "format": "parquet"}),
         gives=_counts(1, 1), on=HERE),
    Case("not_named", _move({"rows": ROWS}, {"kind": "s3", "uri": "s3://closed-moved/out/"}), "rights", fails="auth",
         says="ToolBuckets does not name bucket `closed-moved`", on=("stack",)),
    Case("not_named_source", _move({"kind": "s3", "uri": "s3://closed-moved/*.csv"}), "rights", fails="auth", says="ToolBuckets", on=("stack",)),
    Case("large", _move({"kind": "postgres", "auth": "{{ workload.dsn }}", "query": "SELECT * FROM moved.origin ORDER BY id"}), "large result",
         gives=_counts(2500, 3)),
    Case("snowflake_large", _from_snowflake(MANY.format(20_000)), "large result", gives=_counts(20_000, 20), on=HERE),
    Case("snowflake_syntax", _from_snowflake("SELEC 1"), "errors", fails="parse", retryable=False, on=HERE),
    Case("snowflake_account", _move({"kind": "snowflake", "auth": {"account": "a/b"}, "query": "SELECT 1"}), "errors", fails="schema", says="`account`"),
    Case("no_rows", _move({"rows": 5}), "errors", fails="schema", retryable=False),
    Case("twice", _move({"rows": [*ROWS, *ROWS]}), "errors", fails="db_constraint", retryable=False),
    Case("nobody", _move({"rows": ROWS}, {**TABLE, "auth": {"host": "127.0.0.1", "port": 1}}), "errors", fails="db_connection", retryable=True),
    Case("broken", _move({"kind": "http", "url": "{{ workload.http }}/status/503"}), "errors", fails="server_error", retryable=True),
    Case("absent", _move({"kind": "http", "url": "{{ workload.http }}/status/404"}), "errors", fails="not_found", retryable=False),
    Case("syntax", _move({"kind": "duckdb", "command": "SELEC 1"}), "errors", fails="parse", retryable=False),
    Case("slow", _move({"kind": "postgres", "auth": "{{ workload.dsn }}", "query": "SELECT pg_sleep(60) AS id"}, spec={"timeout": 0.5}),
         "timeout", fails="db_timeout"),
    Case("secret", _move({"rows": [{"id": 1, "name": "{{ keychain.matrix.token }}"}]}, mode="upsert", keys=["id"]), "secret"),
]  # fmt: skip
