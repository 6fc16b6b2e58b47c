"""The cases of `store`."""

from __future__ import annotations

from typing import Any

from tests.matrix.cases import Case

leaves_out = {
    "timeout": "it writes one object, and the client of the result store has a timeout of its own",
    "rights": "it writes among the results of its execution and nowhere else",
}
ROWS: list[dict[str, Any]] = [{"n": 1, "name": "one"}, {"n": 2, "name": "two"}]


def _written(form: str) -> list[Case]:
    """Rows in this form, and what DuckDB reads of them: templates read JSON only."""
    read = {
        "kind": "duckdb",
        "sources": {"r": f"{{{{ {form} }}}}"},
        "command": "SELECT sum(n)::int AS n, min(name) AS name FROM r",
    }
    return [
        Case(form, {"data": ROWS, "format": form}),
        Case(f"{form}_read", read, gives={"{{ _prev.rows }}": [{"n": 3, "name": "one"}]}),
    ]


CASES = [
    *(case for form in ("json", "jsonl", "csv", "parquet") for case in _written(form)),
    Case("named", {"data": {"a": [1]}, "key": "pages/1.json"}, gives={"{{ _prev.a[0] }}": 1}),
    Case("again", {"data": "{{ named }}"}, gives={"{{ _prev == named }}": True}),
    Case("no_rows", {"data": {"a": 1}, "format": "csv"}, "errors", fails="schema", retryable=False, says="csv needs a list"),
    Case("outside", {"data": 1, "key": "../other/1.json"}, "errors", fails="schema", retryable=False, says="relative name"),
    Case("no_form", {"data": 1, "format": "{{ 'xml' }}"}, "errors", fails="schema", retryable=False),
    Case("too_large", {"data": "{{ 'x' * 2000 }}", "spec": {"max_bytes": 1000}}, "errors", fails="limit", retryable=False),
    Case("large", {"data": "{{ range(100000) | list }}"}, "large result", gives={"{{ _prev | length }}": 100_000}),
    Case("secret", {"data": ["{{ keychain.matrix.token }}"]}, "secret", fails="schema", says="refuses secrets"),
]
