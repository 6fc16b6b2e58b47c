"""The cases of `postgres`."""

from __future__ import annotations

from typing import Any

from tests.matrix.cases import Case
from tests.matrix.database import tables

leaves_out = {"rights": "it asks no service of AWS"}


def prepare() -> dict[str, Any]:
    return tables("asked")


def _sql(command: Any, **more: Any) -> dict[str, Any]:
    return {"auth": "{{ workload.dsn }}", "command": command, **more}


def _copy(**options: Any) -> dict[str, Any]:
    return {"auth": "{{ workload.dsn }}", "copy": options}


CASES = [
    Case("select", _sql("SELECT %(a)s::int AS a", params={"a": 5}), gives={"{{ _prev.rows }}": [{"a": 5}]}),
    Case("copy_in", _copy(**{"from": [{"id": 1, "name": "a"}, {"id": 2, "name": "b"}], "into": "asked.items", "mode": "replace"}),
         gives={"{{ [_prev.rows_read, _prev.row_count] }}": [2, 2]}),
    Case("upsert", _copy(**{"from": [{"id": 2, "name": "c"}], "into": "asked.items", "mode": "upsert", "keys": ["id"]})),
    Case("upserted", _sql("SELECT name FROM asked.items ORDER BY id"), gives={"{{ _prev.rows | map(attribute='name') | list }}": ["a", "c"]}),
    *(Case(f"copy_{form}", _copy(table="asked.origin", to=form)) for form in ("csv", "jsonl", "parquet")),
    *(Case(f"again_{form}", _copy(**{"from": f"{{{{ copy_{form} }}}}", "into": "asked.items", "mode": "replace"}), "large result",
           gives={"{{ _prev.row_count }}": 2500}) for form in ("csv", "jsonl", "parquet")),
    Case("syntax", _sql("SELEC 1"), "errors", fails="parse", retryable=False),
    Case("no_table", _sql("SELECT * FROM nowhere"), "errors", fails="schema", retryable=False),
    Case("twice", _sql("INSERT INTO asked.items (id) VALUES (1)"), "errors", fails="db_constraint", retryable=False),
    Case("conflict", _sql("DO $$ BEGIN RAISE EXCEPTION 'x' USING ERRCODE = '40001'; END $$"), "errors", fails="db_deadlock", retryable=True),
    Case("too_many", _sql("SELECT * FROM asked.origin", spec={"max_rows": 5}), "errors", fails="limit", retryable=False),
    Case("nobody", {"command": "SELECT 1", "auth": {"host": "127.0.0.1", "port": 1}}, "errors", fails="db_connection", retryable=True),
    Case("no_database", _sql("SELECT 1", database="nowhere"), "errors", fails="not_found"),
    Case("forbidden", {"command": "SELECT 1", "auth": {"host": "169.254.169.254"}}, "errors", fails="client_error", retryable=False),
    Case("read_only", _sql("DELETE FROM asked.items", spec={"read_only": True}), "errors", fails="client_error", retryable=False),
    Case("role", _sql(["CREATE ROLE nobody_here", "SET ROLE nobody_here", "SELECT * FROM asked.items"]), "errors", fails="auth", retryable=False),
    Case("slow", _sql("SELECT pg_sleep(60)", spec={"timeout": 0.5}), "timeout", fails="db_timeout"),
    Case("slow_copy", {**_copy(query="SELECT pg_sleep(60)", to="csv"), "spec": {"timeout": 0.5}}, "timeout", fails="db_timeout"),
    Case("large", _sql("SELECT * FROM asked.origin"), "large result", gives={"{{ _prev.rows | length }}": 2500}),
    Case("secret", _sql("SELECT %(t)s::text AS t", params={"t": "{{ keychain.matrix.token }}"}), "secret", gives={"{{ _prev.rows[0].t }}": "***"}),
    Case("secret_file", {**_copy(query="SELECT %(t)s::text AS t", to="csv"), "params": {"t": "{{ keychain.matrix.token }}"}}, "secret",
         fails="schema", says="refuses secrets"),
]  # fmt: skip
