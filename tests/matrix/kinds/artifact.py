"""The cases of `artifact`."""

from __future__ import annotations

from typing import Any

from tests.matrix.cases import Case

leaves_out = {"rights": "it is open to all tasks of the default pool, as the page says"}
ROWS: list[dict[str, Any]] = [{"n": 1, "name": "one"}, {"n": 2, "name": "two"}]
READ = {"kind": "duckdb", "sources": {"r": "{{ rows_again.data }}"}, "command": "SELECT sum(n)::int AS n FROM r"}


def _put(key: str, **more: Any) -> dict[str, Any]:
    return {"action": "put", "key": key, **more}


CASES = [
    Case(
        "put",
        _put("matrix/a.json", data={"a": [1]}),
        gives={"{{ [_prev.format, _prev.version == execution_id] }}": ["json", True]},
    ),
    Case("get", {"key": "matrix/a.json"}, gives={"{{ _prev.data.a[0] }}": 1}),
    Case("of_execution", {"key": "matrix/a.json", "version": "{{ execution_id }}"}, gives={"{{ _prev.data.a[0] }}": 1}),
    Case("text", _put("matrix/a.txt", data="ä"), gives={"{{ _prev.format }}": "text"}),
    Case("text_again", {"key": "matrix/a.txt"}, gives={"{{ _prev.data }}": "ä"}),
    Case("rows", _put("matrix/rows.parquet", data=ROWS), gives={"{{ _prev.format }}": "parquet"}),
    Case("rows_again", {"key": "matrix/rows.parquet"}, gives={"{{ _prev.format }}": "parquet"}),
    Case("rows_read", READ, gives={"{{ _prev.rows }}": [{"n": 3}]}),
    Case("none", {"key": "matrix/none"}, "errors", fails="not_found", retryable=False, says="no artifact `matrix/none`"),
    Case("no_version", {"key": "matrix/a.json", "version": "1"}, "errors", fails="not_found", retryable=False),
    Case("wrong", {"key": "{{ '../a' }}"}, "errors", fails="schema", retryable=False),
    Case("no_text", {"key": "matrix/rows.parquet", "format": "text"}, "errors", fails="parse", retryable=False),
    Case("too_large", _put("b", data="{{ 'x' * 2000 }}", spec={"max_bytes": 1000}), "errors", fails="limit", retryable=False),
    Case("large", _put("matrix/large.json", data="{{ 'x' * 3000000 }}"), "large result"),
    Case("large_again", {"key": "matrix/large.json"}, "large result", gives={"{{ _prev.data | length }}": 3_000_000}),
    Case(
        "slow",
        _put("matrix/slow", data="{{ large.data }}", format="reference", spec={"timeout": 0.001}),
        "timeout",
        fails="timeout",
    ),
    Case("secret", _put("matrix/s", data=["{{ keychain.matrix.token }}"]), "secret", fails="schema", says="refuses secrets"),
]
