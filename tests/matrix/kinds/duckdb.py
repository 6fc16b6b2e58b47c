"""The cases of `duckdb`."""

from __future__ import annotations

from typing import Any

from noetl_core.tools.aws.clients import client
from tests.matrix.cases import Case
from tests.matrix.database import tables


def prepare() -> dict[str, Any]:
    for bucket in ("matrix-files", "closed-files"):
        client("s3").create_bucket(Bucket=bucket)
    for n in (1, 2):
        client("s3").put_object(Bucket="matrix-files", Key=f"{n}.jsonl", Body=b'{"n": %d}' % n)
    return tables("attached")


CASES = [
    Case(
        "select",
        {"command": "SELECT sum(n)::int AS n FROM rows WHERE n > $least", "sources": {"rows": [{"n": 1}, {"n": 2}, {"n": 3}]},
         "params": {"least": 1}},
        gives={"{{ _prev.rows }}": [{"n": 5}]},
    ),
    Case("file", {"command": "SELECT range AS n FROM range(3000)", "to": "parquet"}, "large result"),
    Case("file_read", {"command": "SELECT count(*) AS n FROM f", "sources": {"f": "{{ file }}"}}, "large result", gives={"{{ _prev.rows }}": [{"n": 3000}]}),
    Case("secret_file", {"command": "SELECT $t AS t", "params": {"t": "{{ keychain.matrix.token }}"}, "to": "csv"}, "secret", fails="schema", says="refuses secrets"),
    Case("attached", {"command": "SELECT count(*) AS n FROM pg.origin", "attach": {"pg": {"auth": "{{ workload.dsn }}", "tables": ["attached.origin"]}}},
         gives={"{{ _prev.rows }}": [{"n": 2500}]}),
    Case("nobody", {"command": "SELECT 1", "attach": {"pg": {"auth": {"host": "127.0.0.1", "port": 1}, "tables": ["t"]}}}, "errors",
         fails="db_connection", retryable=True),
    Case("in_s3", {"command": "SELECT sum(n)::int AS n FROM f", "sources": {"f": "s3://matrix-files/*.jsonl"}}, gives={"{{ _prev.rows }}": [{"n": 3}]}),
    Case("none_in_s3", {"command": "SELECT 1", "sources": {"f": "s3://matrix-files/*.csv"}}, "errors", fails="not_found", retryable=False),
    Case("not_named", {"command": "SELECT 1", "sources": {"f": "s3://closed-files/*.csv"}}, "rights", fails="auth",
         says="ToolBuckets does not name bucket `closed-files`", on=("stack",)),
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
