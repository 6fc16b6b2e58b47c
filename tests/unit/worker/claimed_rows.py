"""A table of PostgreSQL, and runs of cursor loops that claim its rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import psycopg
import pytest

from noetl_core.tools.network.addresses import AddressPolicy
from noetl_core.tools.postgres.tool import PostgresTool
from tests.databases import postgres

from .cursor_runs import ClaimingRun
from .one_run import Script, echo, task

TOOL = PostgresTool(AddressPolicy(allow_private=True))
TABLE: dict[str, Any] = {
    "kind": "postgres",
    "auth": "pg",
    "table": "items",
    "where": "state = 'ready'",
    "done": {"state": "done"},
}


@pytest.fixture(scope="module")
def uri() -> Iterator[str]:
    with postgres() as found:
        yield found
    TOOL.close()


@pytest.fixture
def db(uri: str) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(uri, autocommit=True) as connection:
        connection.execute("DROP TABLE IF EXISTS items")
        connection.execute(
            "CREATE TABLE items (id int PRIMARY KEY, state text NOT NULL DEFAULT 'ready', name text,"
            " claimed_by text, claimed_until timestamptz)"
        )
        connection.execute("INSERT INTO items (id, name) SELECT n, 'row ' || n FROM generate_series(1, 7) AS n")
        yield connection


def claiming(
    uri: str,
    script: Script = echo,
    cursor: Mapping[str, Any] | None = None,
    *,
    run_id: str = "r1",
    mode: str = "parallel",
    policy: Mapping[str, Any] | None = None,
    root: Mapping[str, Any] | None = None,
    frame: int = 3,
    kind: str = "noop",
    result: str = "{{ iter.row.id }}",
) -> ClaimingRun:
    """A run over the table, with the rows' ids as results."""
    spec = {"mode": mode, "frame": frame, "policy": dict(policy or {})}
    step = {
        "loop": {"cursor": dict(cursor or TABLE), "iterator": "row", "spec": spec},
        "tool": task("a", kind=kind, result=result),
    }
    return ClaimingRun(step, script, root=root or {}, credentials={"pg": {"dsn": uri}}, run_id=run_id, tool=TOOL)


def states(db: psycopg.Connection[Any]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for number, state in db.execute("SELECT id, state FROM items ORDER BY id"):
        found.setdefault(state, []).append(number)
    return found


def claims(db: psycopg.Connection[Any]) -> int:
    """Rows that are claimed."""
    (found,) = db.execute("SELECT count(*) FROM items WHERE claimed_until > now()").fetchone() or (None,)
    assert isinstance(found, int)
    return found


BEST_EFFORT = {"failure": {"mode": "best_effort"}}


def redriven(run: ClaimingRun, rerun: Any = None, script: Script = echo) -> ClaimingRun:
    again = ClaimingRun(run.step, script, root=run.root, credentials=run.credentials, run_id=run.run_id + "x", tool=TOOL)
    again.store, again.results, again.gates = run.store, run.results, run.gates
    again.handle(carried_over={"runs": [[run.run_id, rerun or {"failed": True}]]})
    return again


def expire(db: psycopg.Connection[Any]) -> None:
    db.execute("UPDATE items SET claimed_until = now() - interval '1 s' WHERE claimed_until IS NOT NULL")
