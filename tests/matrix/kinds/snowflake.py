"""The cases of `snowflake`, on a fake of Snowflake that is in this process; on the stack what is asked of nobody."""

from __future__ import annotations

from typing import Any

from tests.matrix.cases import SECRET, Case
from tests.snowflakes import stand

leaves_out = {"rights": "it reaches Snowflake and nothing in AWS"}
HERE = ("local",)
LOGIN = {"account": "myorg-account", "user": "me", "password": SECRET, "database": "db", "schema": "public"}
CREDENTIALS = {"warehouse": LOGIN}
MANY = "SELECT seq4() AS n, 'xxxxxxxxxxxxxxxxxxxx' AS t FROM TABLE(GENERATOR(ROWCOUNT => {0}))"


def prepare() -> dict[str, Any]:
    """The fake, for as long as the process lasts."""
    stand()
    return {}


def _sql(command: Any, **more: Any) -> dict[str, Any]:
    return {"auth": "warehouse", "command": command, **more}


CASES = [
    Case("table", _sql("CREATE OR REPLACE TABLE t (id INT, name VARCHAR)"), gives={"{{ _prev.row_count }}": 0}, on=HERE),
    Case("insert", _sql("INSERT INTO t VALUES (%(id)s, %(name)s)", params={"id": 1, "name": "x'y"}), on=HERE),
    Case("query", _sql("SELECT id, name FROM t"), gives={"{{ _prev.rows }}": [{"ID": 1, "NAME": "x'y"}]}, on=HERE),
    Case("view", _sql(["SELECT 1 AS a", "SELECT 2 AS b"]), gives={"{{ [_prev.command_0.rows[0].A, _prev[0].B] }}": [1, 2]}, on=HERE),
    Case("syntax", _sql("SELEC 1"), "errors", fails="parse", retryable=False, on=HERE),
    Case("no_table", _sql("SELECT 1 FROM nowhere"), "errors", fails="not_found", retryable=False, on=HERE),
    Case("too_many", _sql(MANY.format(20), spec={"max_rows": 10}), "errors", fails="limit", retryable=False, on=HERE),
    Case("no_account", {"auth": {"account": "a/b"}, "command": "SELECT 1"}, "errors", fails="schema", retryable=False),
    Case("host", {"auth": {**LOGIN, "host": "10.0.0.1"}, "command": "SELECT 1"}, "errors", fails="schema", says="`host`"),
    Case("slow", _sql(MANY.format(2_000_000), to="csv", spec={"timeout": 0.2}), "timeout", fails="timeout", on=HERE),
    Case("large", _sql(MANY.format(20_000)), "large result", gives={"{{ _prev.rows[19999].N }}": 19999}, on=HERE),
    Case("file", _sql(MANY.format(20_000), to="jsonl"), "large result", gives={"{{ _prev[19999].N }}": 19999}, on=HERE),
    Case("secret", _sql("SELECT %(t)s AS t", params={"t": "{{ keychain.matrix.token }}"}), "secret",
         gives={"{{ _prev.rows }}": [{"T": "***"}]}, on=HERE),
    Case("secret_file", _sql("SELECT %(t)s AS t", params={"t": "{{ keychain.matrix.token }}"}, to="csv"), "secret",
         fails="schema", says="refuses secrets"),
]  # fmt: skip
