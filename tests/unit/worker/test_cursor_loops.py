"""Cursor loops over a real PostgreSQL: frames, takeovers at every point, and what a source may be."""

from __future__ import annotations

import json
import threading
from itertools import count
from typing import Any

import psycopg
import pytest

from noetl_core.engine.outcome import Outcome
from noetl_core.tools.base import ToolCall
from noetl_core.worker.loops.frame_items import FrameItems
from tests.sim.ports import Crash

from .claimed_rows import TABLE, claiming, claims, db, states, uri
from .cursor_runs import dying_at, overtaken_before_its_claim
from .one_run import echo, fail_at

__all__ = ["db", "uri"]


@pytest.mark.parametrize("mode", ["sequential", "parallel", "cursor"])
def test_rows_are_claimed_frame_by_frame_until_there_are_none(mode: str, uri: str, db: psycopg.Connection[Any]) -> None:
    run = claiming(uri, mode=mode)
    assert run.handle().kind == "done"
    assert run.last.data == {"total": 7, "succeeded": 7, "failed": 0, "result": [1, 2, 3, 4, 5, 6, 7]}
    frames = run.named("LoopFrameClaimed")
    assert [(f["frame"], f["first"], f["keys"]) for f in frames] == [
        (0, 0, ["1", "2", "3"]),
        (1, 3, ["4", "5", "6"]),
        (2, 6, ["7"]),
        (3, 7, []),
    ]
    assert frames[0]["rows"][0] == {"id": 1, "state": "ready", "name": "row 1"}
    assert frames[0]["claim"] == "7/r1/0"
    assert run.asked == ["claim", "settle", "claim", "settle", "claim", "settle", "claim"]
    assert states(db) == {"done": [1, 2, 3, 4, 5, 6, 7]} and claims(db) == 0


def test_a_frame_is_committed_before_its_first_iteration_and_settled_after_its_last_is(
    uri: str, db: psycopg.Connection[Any]
) -> None:
    run = claiming(uri)
    at: list[tuple[str, int, int]] = []
    run.seen = lambda what: at.append((what, len(run.named("LoopFrameClaimed")), len(run.named("LoopIterationCompleted"))))
    inner = run.script

    def script(call: ToolCall) -> Outcome:
        frames = run.named("LoopFrameClaimed")
        assert str(call.inputs["result"]) in frames[-1]["keys"]
        return inner(call)

    run.script = script
    run.handle()
    assert at[:4] == [("claim", 0, 0), ("settle", 1, 3), ("claim", 1, 3), ("settle", 2, 6)]


def test_an_empty_table_is_a_loop_of_no_iterations(uri: str, db: psycopg.Connection[Any]) -> None:
    db.execute("DELETE FROM items")
    run = claiming(uri)
    run.handle()
    assert run.last.data == {"total": 0, "succeeded": 0, "failed": 0, "result": []}


def test_old_code_does_not_read_a_frame(uri: str, db: psycopg.Connection[Any]) -> None:
    run = claiming(uri)
    run.handle()
    assert {c.v for c in run.commits if any(e.name == "LoopFrameClaimed" for e in c.events)} == {3}


@pytest.mark.one_in(2)
@pytest.mark.parametrize("after", [False, True])
def test_wherever_a_worker_dies_each_row_is_done_and_none_is_claimed_twice(
    after: bool, uri: str, db: psycopg.Connection[Any]
) -> None:
    """Every port call of the run, the source's among them, is one at which the worker dies once."""
    point, points = 0, 0
    while True:
        point += 1
        db.execute("UPDATE items SET state = 'ready', claimed_by = NULL, claimed_until = NULL")
        run = claiming(uri, run_id=f"r{point}", policy={"failure": {"mode": "best_effort"}})
        run.faults.crash_at, run.faults.crash_after = point, after
        died = run.to_the_end()
        if not died:
            break
        points += 1
        frames = run.named("LoopFrameClaimed")
        claimed = [key for frame in frames for key in frame["keys"]]
        assert sorted(claimed) == ["1", "2", "3", "4", "5", "6", "7"], point
        assert run.last.data["succeeded"] == 7 and run.last.data["result"] == [1, 2, 3, 4, 5, 6, 7], point
        assert states(db) == {"done": [1, 2, 3, 4, 5, 6, 7]} and claims(db) == 0, point
        assert len({call.task_run_id for call in run.calls}) == 7
    assert points > 15


def test_a_worker_that_lost_its_run_and_claims_late_gets_the_rows_of_its_successor(uri: str, db: psycopg.Connection[Any]) -> None:
    """It was frozen before its claim, and thaws after another worker has claimed the same frame: no row is claimed for nobody."""
    run = claiming(uri)
    overtaken_before_its_claim(run)
    assert [f["keys"] for f in run.named("LoopFrameClaimed")] == [["1", "2", "3"], ["4", "5", "6"], ["7"], []]
    assert states(db) == {"done": [1, 2, 3, 4, 5, 6, 7]}


def test_the_limit_of_frames_holds(uri: str, db: psycopg.Connection[Any]) -> None:
    run = claiming(uri, root={"executor": {"spec": {"policy": {"limits": {"max_frames": 2}}}}})
    run.handle()
    error = run.last.data["error"]
    assert error["kind"] == "limit" and "max_frames" in error["message"]
    assert states(db) == {"done": [1, 2, 3, 4, 5, 6], "ready": [7]} and claims(db) == 0


def test_rows_that_are_done_may_be_deleted_and_come_in_an_order(uri: str, db: psycopg.Connection[Any]) -> None:
    cursor = {**TABLE, "table": "public.items", "order": "name DESC, id", "done": "delete", "set": {"state": "running"}}
    run = claiming(uri, cursor=cursor)
    run.handle()
    assert run.last.data["result"] == [7, 6, 5, 4, 3, 2, 1]
    assert run.named("LoopFrameClaimed")[0]["rows"][0]["state"] == "running"
    assert states(db) == {}


KEYS = {
    "uuid": "gen_random_uuid()",
    "text": "'k %(x)s ''' || n",
    "bigint": "n * 10000000000",
    "timestamptz": "now() + n * interval '1 us'",
    "numeric": "n + 0.5",
}


@pytest.mark.parametrize("key", KEYS)
def test_keys_of_any_type(key: str, uri: str, db: psycopg.Connection[Any]) -> None:
    db.execute("DROP TABLE IF EXISTS others")
    columns = "id int, state text DEFAULT '50% ready', by text, until timestamptz"
    db.execute(f'CREATE TABLE others ("Key" {key} PRIMARY KEY, {columns})'.encode())
    db.execute(f'INSERT INTO others ("Key", id) SELECT {KEYS[key]}, n FROM generate_series(1, 5) AS n'.encode())
    cursor = {
        "kind": "postgres",
        "auth": "pg",
        "table": "others",
        "key": '"Key"',
        "where": "others.state LIKE '50%'",
        "done": {"state": "done"},
        "claimed_by": "by",
        "claimed_until": "until",
    }
    run = claiming(uri, dying_at(3), cursor)
    assert run.to_the_end() == 1
    assert set(run.ran) == {1, 2, 3, 4, 5} and "renew" in run.asked
    assert db.execute("SELECT count(*) FROM others WHERE state = 'done'").fetchone() == (5,)


def test_names_with_percent_signs(uri: str, db: psycopg.Connection[Any]) -> None:
    db.execute('DROP TABLE IF EXISTS "50%"')
    columns = '"%s" int PRIMARY KEY, id int, "%(a" text, "by%" text, "until%(limit)s" timestamptz'
    db.execute(f'CREATE TABLE "50%" ({columns})'.encode())
    db.execute(b'INSERT INTO "50%" SELECT n, n FROM generate_series(1, 5) AS n')
    cursor = {
        "kind": "postgres",
        "auth": "pg",
        "table": '"50%"',
        "key": '"%s"',
        "done": {'"%(a"': "100%"},
        "claimed_by": '"by%"',
        "claimed_until": '"until%(limit)s"',
        "set": {'"%(a"': "99%"},
        "where": '"%%(a" IS NULL',
    }
    run = claiming(uri, dying_at(3), cursor)
    assert run.to_the_end() == 1
    assert set(run.ran) == {1, 2, 3, 4, 5} and "renew" in run.asked
    assert db.execute('SELECT count(*) FROM "50%" WHERE "%(a" = \'100%\'').fetchone() == (5,)


OWN: dict[str, Any] = {
    "kind": "postgres",
    "auth": "pg",
    "claim": """
        UPDATE items SET state = 'running', claimed_by = %(claim_id)s
        WHERE id IN (SELECT id FROM items WHERE claimed_by = %(claim_id)s AND state = 'running'
                     UNION SELECT id FROM (SELECT id FROM items WHERE state = %(state)s
                                           ORDER BY id LIMIT %(limit)s FOR UPDATE SKIP LOCKED) AS free)
        RETURNING *""",
    "done": "UPDATE items SET state = 'done' WHERE id = ANY(%(keys)s::int[]) AND claimed_by = %(claim_id)s",
    "failed": "UPDATE items SET state = 'bad' WHERE id = ANY(%(keys)s::int[])",
    "release": "UPDATE items SET state = 'ready', claimed_by = NULL WHERE id = ANY(%(keys)s::int[])",
    "params": {"state": "ready"},
}


def test_statements_of_the_author(uri: str, db: psycopg.Connection[Any]) -> None:
    run = claiming(uri, fail_at(4), OWN, mode="sequential")
    run.handle()
    assert run.last.data["error"]["message"] == "no 4"
    assert states(db) == {"bad": [4], "done": [1, 2, 3], "ready": [5, 6, 7]}


def test_a_claim_of_one_row_at_a_time_is_repeated_until_the_frame_is_full(uri: str, db: psycopg.Connection[Any]) -> None:
    claim = """
        UPDATE items SET state = 'running' WHERE id = (SELECT id FROM items WHERE state = 'ready' AND name LIKE 'row%'
        ORDER BY id FOR UPDATE SKIP LOCKED LIMIT 1) RETURNING id, name"""
    run = claiming(uri, cursor={"kind": "postgres", "auth": "pg", "claim": claim})
    run.handle()
    assert [f["keys"] for f in run.named("LoopFrameClaimed")] == [["1", "2", "3"], ["4", "5", "6"], ["7"], []]
    assert run.asked.count("settle") == 0, "nothing says what becomes of them"


def test_a_claim_without_the_key_says_so(uri: str, db: psycopg.Connection[Any]) -> None:
    cursor = {**OWN, "claim": "UPDATE items SET state = 'running' RETURNING name"}
    run = claiming(uri, cursor=cursor)
    run.handle()
    assert run.last.data["error"]["kind"] == "schema" and "have no id" in run.last.data["error"]["message"]


def test_rows_without_a_key_run_once_for_each_claim(uri: str, db: psycopg.Connection[Any]) -> None:
    """Equal rows are different ones, also in different claims, and after the death of a worker."""
    claim = """
        UPDATE items SET state = 'running' WHERE id IN (SELECT id FROM items WHERE state = 'ready' ORDER BY id LIMIT %(limit)s)
        RETURNING 'same' AS name"""
    calls = count(1)

    def script(call: ToolCall) -> Outcome:
        if next(calls) == 5:
            raise Crash
        return echo(call)

    cursor = {"kind": "postgres", "auth": "pg", "claim": claim}
    run = claiming(uri, script, cursor, mode="sequential", result="{{ iter.row.name }}")
    assert run.to_the_end() == 1
    keys = [key for frame in run.named("LoopFrameClaimed") for key in frame["keys"]]
    assert len(keys) == len(set(keys)) == 7
    assert run.last.data["result"] == ["same"] * 7


def test_many_executions_claim_from_one_table_and_each_row_is_run_once(uri: str, db: psycopg.Connection[Any]) -> None:
    db.execute("INSERT INTO items (id, name) SELECT n, 'row ' || n FROM generate_series(8, 400) AS n")
    runs = [claiming(uri, run_id=f"r{n}", frame=7) for n in range(4)]
    threads = [threading.Thread(target=run.handle) for run in runs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(row for run in runs for row in run.ran) == list(range(1, 401))
    assert sum(run.last.data["succeeded"] for run in runs) == 400
    assert len(states(db)["done"]) == 400


def test_frames_of_rows_are_not_kept_in_memory(uri: str, db: psycopg.Connection[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows of 2 KB: each frame is an object of its own, the log has references, and no more than one frame is held."""
    db.execute("INSERT INTO items (id, name) SELECT n, repeat('x', 2000) FROM generate_series(8, 200) AS n")
    run = claiming(uri, frame=20)
    rows: list[int] = []
    made: list[FrameItems] = []
    begin = FrameItems.__init__

    def noted(items: FrameItems, *args: Any, **more: Any) -> None:
        begin(items, *args, **more)
        made.append(items)

    monkeypatch.setattr(FrameItems, "__init__", noted)

    def script(call: ToolCall) -> Outcome:
        rows.append(sum(0 if items.read is None else len(items.read[1]) for items in made))
        return echo(call)

    run.script = script
    run.handle()
    assert run.last.data["succeeded"] == 200 and max(rows) == 20
    assert all("result_ref" in json.dumps(f["rows"])[:40] for f in run.named("LoopFrameClaimed")[1:10])
