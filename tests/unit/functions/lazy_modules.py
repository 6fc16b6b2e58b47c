"""Lists modules that no function imports when it starts."""

from __future__ import annotations

HEAVY = {
    "duckdb",
    "psycopg",
    "httpx",
    "boto3",
    "s3transfer",
    "multiprocessing",
    "aws_lambda_powertools.utilities.parameters",
    "sqlite3",
    "noetl_core.runtime.local",
    "noetl_cli",
}
