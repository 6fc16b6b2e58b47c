"""What no function imports when it starts."""

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
    "noetl_core.local",
    "noetl_cli",
}
