"""The database that cases ask: one for the process."""

from __future__ import annotations

import atexit
from contextlib import ExitStack
from functools import cache
from typing import Any

import psycopg

from tests.databases import postgres

TABLES = """
DROP SCHEMA IF EXISTS {0} CASCADE;
CREATE SCHEMA {0};
CREATE TABLE {0}.items (id INT PRIMARY KEY, name TEXT);
CREATE TABLE {0}.origin AS SELECT i AS id, 'n' || i AS name FROM generate_series(1, 2500) i;
"""


@cache
def _started() -> str:
    stack = ExitStack()
    uri = stack.enter_context(postgres())
    atexit.register(stack.close)  # after the server's, so that it is done before
    return uri


def tables(schema: str) -> dict[str, Any]:
    """Tables of the schema as they are at first; `dsn` is where."""
    with psycopg.connect(_started(), autocommit=True) as connection:
        connection.execute(TABLES.format(schema).encode())
    return {"dsn": _started()}
