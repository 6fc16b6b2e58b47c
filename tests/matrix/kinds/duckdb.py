"""The cases of `duckdb`."""

from __future__ import annotations

from tests.matrix.cases import Case

leaves_out = {"rights": "it asks no service of AWS"}
CASES = [
    Case(
        "select",
        {"command": "SELECT sum(n)::int AS n FROM rows WHERE n > $least", "sources": {"rows": [{"n": 1}, {"n": 2}, {"n": 3}]},
         "params": {"least": 1}},
        gives={"{{ _prev.rows }}": [{"n": 5}]},
    ),
    Case("syntax", {"command": "SELEC 1"}, "errors", fails="parse", retryable=False),
    Case("no_table", {"command": "SELECT * FROM nowhere"}, "errors", fails="schema", retryable=False),
    Case("too_many", {"command": "SELECT * FROM range(10)", "spec": {"max_rows": 5}}, "errors", fails="limit", retryable=False),
    Case("wrong", {"command": "SELECT 1", "sources": {"a b": [{"n": 1}]}}, "errors", fails="schema", retryable=False),
    Case(
        "slow",
        {"command": "SELECT count(*) FROM range(1000000000) a, range(1000000) b", "spec": {"timeout": 0.5}},
        "timeout",
        fails="db_timeout",
    ),
    Case(
        "large",
        {"command": "SELECT range AS n, repeat('x', 100) AS text FROM range(3000)"},
        "large result",
        gives={"{{ _prev.rows | length }}": 3000},
    ),
    Case(
        "secret",
        {"command": "SELECT $token AS t", "params": {"token": "{{ keychain.matrix.token }}"}},
        "secret",
        gives={"{{ _prev.rows[0].t }}": "***"},
    ),
]  # fmt: skip
