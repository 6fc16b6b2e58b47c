"""Cursor loops in the worker, over a real PostgreSQL: frames, settling, takeovers at every point, and other executions beside it."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping
from typing import Any

import psycopg
import pytest

from noetl_core.engine.outcome import Outcome
from noetl_core.ports import Gate, Unavailable
from noetl_core.tools.base import ToolCall
from noetl_core.tools.net import AddressPolicy
from noetl_core.tools.postgres import PostgresTool
from noetl_core.worker.frame_items import FrameItems
from tests.databases import postgres
from tests.sim.ports import SECOND, Crash

from .claiming import ClaimingRun, dying_at
from .one_run import Script, echo, fail_at, on_error, otherwise, playbook_of, task

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
) -> ClaimingRun:
    """A run over the table, with the rows' ids as results."""
    spec = {"mode": mode, "frame": frame, "policy": dict(policy or {})}
    step = {
        "loop": {"cursor": dict(cursor or TABLE), "iterator": "row", "spec": spec},
        "tool": task("a", kind=kind, result="{{ iter.row.id }}"),
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


# --- frames -----------------------------------------------------------------------------------------------------------------


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


# --- workers that die -------------------------------------------------------------------------------------------------------


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
    stale: list[ClaimingRun] = []

    def seen(what: str) -> None:
        if not stale:
            stale.append(run)
            run.seen = lambda what: None
            run.wait(61)
            assert run.handle("takeover").kind == "done"

    run.seen = seen
    assert run.handle().kind == "dropped"
    assert [f["keys"] for f in run.named("LoopFrameClaimed")] == [["1", "2", "3"], ["4", "5", "6"], ["7"], []]
    assert states(db) == {"done": [1, 2, 3, 4, 5, 6, 7]}


# --- failures ---------------------------------------------------------------------------------------------------------------

BEST_EFFORT = {"failure": {"mode": "best_effort"}}


def test_a_failed_row_goes_back_to_others_and_is_not_claimed_again(uri: str, db: psycopg.Connection[Any]) -> None:
    run = claiming(uri, fail_at(2, 5), policy=BEST_EFFORT)
    run.handle()
    assert run.last.data == {"total": 7, "succeeded": 5, "failed": 2, "result": [1, None, 3, 4, None, 6, 7]}
    assert run.ran == [1, 2, 3, 4, 5, 6, 7]
    assert states(db) == {"done": [1, 3, 4, 6, 7], "ready": [2, 5]} and claims(db) == 0
    other = claiming(uri, run_id="r2")
    other.handle()
    assert other.last.data["result"] == [2, 5]
    assert states(db) == {"done": [1, 2, 3, 4, 5, 6, 7]}


def test_a_failed_row_may_be_marked(uri: str, db: psycopg.Connection[Any]) -> None:
    run = claiming(uri, fail_at(2), {**TABLE, "failed": {"state": "bad", "name": "it's 100 % bad"}}, policy=BEST_EFFORT)
    run.handle()
    assert states(db) == {"bad": [2], "done": [1, 3, 4, 5, 6, 7]}
    assert db.execute("SELECT name FROM items WHERE id = 2").fetchone() == ("it's 100 % bad",)


def test_a_loop_that_fails_gives_back_what_it_did_not_run(uri: str, db: psycopg.Connection[Any]) -> None:
    run = claiming(uri, fail_at(4), mode="sequential")
    run.handle()
    assert run.last.data["error"]["message"] == "no 4"
    assert (run.last.data["succeeded"], run.last.data["failed"], run.last.data["total"]) == (3, 1, 6)
    assert states(db) == {"done": [1, 2, 3], "ready": [4, 5, 6, 7]} and claims(db) == 0


def test_a_tolerated_share_is_one_of_the_rows_claimed_so_far(uri: str, db: psycopg.Connection[Any]) -> None:
    run = claiming(uri, fail_at(2, 5), policy={"failure": {"tolerated_percent": 34}})
    run.handle()
    assert "error" not in run.last.data and run.last.data["failed"] == 2


def test_a_break_of_the_loop_gives_back_the_rest(uri: str, db: psycopg.Connection[Any]) -> None:
    run = claiming(uri, mode="sequential")
    run.playbook = playbook_of(
        {
            "loop": {"cursor": TABLE, "iterator": "row", "spec": {"frame": 3}},
            "tool": task(
                "a",
                {"when": "{{ iter.row.id == 5 }}", "then": {"do": "break", "scope": "loop"}},
                otherwise(),
                result="{{ iter.row.id }}",
            ),
        }
    )
    run.handle()
    assert "error" not in run.last.data and run.last.data["result"] == [1, 2, 3, 4, 5, None]
    assert states(db) == {"done": [1, 2, 3, 4, 5], "ready": [6, 7]} and claims(db) == 0


@pytest.mark.parametrize(
    ("changed", "kind", "words"),
    [
        ({"table": "no_such_table"}, "schema", 'relation "no_such_table" does not exist'),
        ({"table": "items; DROP TABLE items"}, "schema", "is no name of a table"),
        ({"key": "id) --"}, "schema", "is no name of a column"),
        ({"where": "state ="}, "parse", "syntax error"),
        ({"auth": "nobody"}, "not_found", "nobody"),
        ({"where": "{{ nothing.there }}"}, "template", "nothing"),
        ({"lease_s": "{{ 1 }}"}, "schema", "lease_s of the loop must be a number between 5"),
    ],
)
def test_a_source_that_cannot_be_claimed_from_fails_the_loop(
    changed: Any, kind: str, words: str, uri: str, db: psycopg.Connection[Any]
) -> None:
    run = claiming(uri, cursor={**TABLE, **changed})
    run.handle()
    assert run.last.data["error"]["kind"] == kind and words in run.last.data["error"]["message"]
    assert states(db) == {"ready": [1, 2, 3, 4, 5, 6, 7]}


def test_a_source_that_fails_for_a_moment_is_asked_again(uri: str, db: psycopg.Connection[Any]) -> None:
    run = claiming(uri)
    left = [2]

    def answer(what: str) -> None:
        if what == "settle" and left[0]:
            left[0] -= 1
            raise Unavailable("away for a moment")

    run.seen = answer
    run.handle()
    assert run.last.data["succeeded"] == 7 and not left[0]


def test_rows_that_could_not_be_settled_fail_the_loop_and_are_recognised_by_a_redrive(
    uri: str, db: psycopg.Connection[Any]
) -> None:
    run = claiming(uri)

    def answer(what: str) -> None:
        if what == "settle":
            raise Unavailable("away for good")

    run.seen = answer
    run.handle()
    assert run.last.data["error"]["kind"] == "storage" and "could not settle rows" in run.last.data["error"]["message"]
    run.seen = lambda what: None
    again = redriven(run)
    assert again.last.data["result"] == [1, 2, 3, 4, 5, 6, 7]
    assert sorted(run.ran + again.ran) == [1, 2, 3, 4, 5, 6, 7], "no row is run again"
    assert states(db) == {"done": [1, 2, 3, 4, 5, 6, 7]}


def redriven(run: ClaimingRun, rerun: Any = None, script: Script = echo) -> ClaimingRun:
    again = ClaimingRun(run.step, script, root=run.root, credentials=run.credentials, run_id=run.run_id + "x", tool=TOOL)
    again.store, again.results, again.gates = run.store, run.results, run.gates
    again.handle(carried_over={"runs": [[run.run_id, rerun or {"failed": True}]]})
    return again


def test_a_redrive_runs_failed_rows_that_nobody_else_has(uri: str, db: psycopg.Connection[Any]) -> None:
    run = claiming(uri, fail_at(2, 5), policy=BEST_EFFORT)
    run.handle()
    other = claiming(uri, fail_at(2), run_id="r2", policy=BEST_EFFORT)
    other.handle()  # it does 5, and fails at 2 as well
    again = redriven(run)
    failed = [d for d in again.named("LoopIterationCompleted") if d["status"] == "error"]
    assert [d["error"]["kind"] for d in failed] == ["lost", "lost"]
    assert again.ran == [2], "it comes again as a row that others gave back"
    assert states(db) == {"done": [1, 2, 3, 4, 5, 6, 7]}


def test_a_redrive_takes_back_rows_that_it_marked_as_failed(uri: str, db: psycopg.Connection[Any]) -> None:
    run = claiming(uri, fail_at(2), {**TABLE, "failed": {"state": "bad"}}, policy=BEST_EFFORT)
    run.handle()
    again = redriven(run)
    assert again.ran == [2] and again.last.data["result"] == [1, 2, 3, 4, 5, 6, 7]
    assert states(db) == {"done": [1, 2, 3, 4, 5, 6, 7]}


# --- claims that end --------------------------------------------------------------------------------------------------------


def expire(db: psycopg.Connection[Any]) -> None:
    db.execute("UPDATE items SET claimed_until = now() - interval '1 s' WHERE claimed_until IS NOT NULL")


def test_rows_that_others_claimed_after_the_claim_ran_out_are_left_to_them(uri: str, db: psycopg.Connection[Any]) -> None:
    run = claiming(uri, dying_at(2))
    with pytest.raises(Crash):
        run.handle()
    expire(db)
    other = claiming(uri, run_id="r2")
    other.handle()
    assert other.last.data["succeeded"] == 7
    before = len(run.calls)
    run.wait(61)
    run.handle("takeover")
    assert len(run.calls) == before, "nothing is run twice"
    assert [d["error"]["kind"] for d in run.named("LoopIterationCompleted")] == ["lost"] * 3
    assert (run.last.data["failed"], "error" in run.last.data) == (3, False), "the loop does not fail for them"


def test_rows_whose_claim_ran_out_and_that_nobody_claimed_are_run_by_the_successor(uri: str, db: psycopg.Connection[Any]) -> None:
    run = claiming(uri, dying_at(2))
    with pytest.raises(Crash):
        run.handle()
    expire(db)
    run.wait(61)
    run.handle("takeover")
    assert run.last.data["result"] == [1, 2, 3, 4, 5, 6, 7]


def test_what_a_worker_claimed_for_nobody_is_claimed_by_anybody_when_the_claim_runs_out(
    uri: str, db: psycopg.Connection[Any]
) -> None:
    db.execute("UPDATE items SET claimed_by = '7/gone/0', claimed_until = now() + interval '1 hour' WHERE id IN (1, 2)")
    first = claiming(uri)
    first.handle()
    assert first.ran == [3, 4, 5, 6, 7]
    expire(db)
    second = claiming(uri, run_id="r2")
    second.handle()
    assert second.ran == [1, 2]


def test_a_worker_prolongs_its_claims_while_rows_run(uri: str, db: psycopg.Connection[Any]) -> None:
    run = claiming(uri, cursor={**TABLE, "lease_s": 30}, mode="sequential")

    def slow(call: ToolCall) -> Outcome:
        run.wait(11)
        return echo(call)

    run.script = slow
    run.handle()
    assert run.asked[:5] == ["claim", "renew", "renew", "settle", "claim"]
    assert run.last.data["succeeded"] == 7


def test_rows_found_lost_before_they_began_are_not_begun(uri: str, db: psycopg.Connection[Any]) -> None:
    run = claiming(uri, cursor={**TABLE, "lease_s": 30}, mode="sequential")
    other = claiming(uri, run_id="r2")

    def slow(call: ToolCall) -> Outcome:
        if call.inputs["result"] == 1:
            expire(db)
            other.handle()
        run.wait(11)
        return echo(call)

    run.script = slow
    run.handle()
    assert run.ran == [1, 2] and other.last.data["succeeded"] == 7, "the second had begun when it was found out"
    assert (run.last.data["succeeded"], run.last.data["failed"]) == (2, 1)


def test_a_suspension_prolongs_the_claims_past_its_end(uri: str, db: psycopg.Connection[Any]) -> None:
    run = claiming(uri)
    rules = [on_error("retry", attempts=2, delay=3600), otherwise()]
    block = {"cursor": {**TABLE, "lease_s": 30}, "iterator": "row", "spec": {"mode": "parallel", "frame": 3}}
    run.playbook = playbook_of({"loop": block, "tool": task("a", *rules, result="{{ iter.row.id }}")})
    run.script = lambda call: fail_at(2)(call) if call.attempt == 1 else echo(call)
    assert run.handle().kind == "suspended"
    (left,) = db.execute("SELECT claimed_until - now() > interval '59 min' FROM items WHERE id = 2").fetchone() or (0,)
    assert left is True
    run.wait(3600)
    run.resume({})
    assert run.last.data["result"] == [1, 2, 3, 4, 5, 6, 7]


# --- operators --------------------------------------------------------------------------------------------------------------


def test_a_pause_waits_for_the_rows_that_are_claimed(uri: str, db: psycopg.Connection[Any]) -> None:
    run = claiming(uri)

    def pausing(call: ToolCall) -> Outcome:
        if call.inputs["result"] == 2:
            run.gates.set_gate("7", Gate("pause"))
        run.wait(2)
        return echo(call)

    run.script = pausing
    assert run.handle().kind == "suspended"
    assert run.ran == [1, 2, 3] and claims(db) == 0
    assert [w["kind"] for w in run.last.data["waits"]] == ["pause"]
    run.gates.set_gate("7", Gate())
    run.script = echo
    run.resume({})
    assert run.last.data["result"] == [1, 2, 3, 4, 5, 6, 7]


def test_a_cancelled_loop_gives_back_what_it_did_not_end(uri: str, db: psycopg.Connection[Any]) -> None:
    run = claiming(uri, mode="sequential")

    def cancelling(call: ToolCall) -> Outcome:
        if call.inputs["result"] == 2:
            run.gates.set_gate("7", Gate("stop"))
        run.wait(2)
        return echo(call)

    run.script = cancelling
    run.handle()
    assert run.last.data["error"]["kind"] == "cancelled"
    finished = [int(run.named("LoopFrameClaimed")[0]["keys"][d["path"][0]]) for d in run.named("LoopIterationCompleted")]
    assert states(db) == {"done": finished, "ready": [n for n in range(1, 8) if n not in finished]} and claims(db) == 0


def test_an_invocation_that_ends_is_gone_on_with_in_the_middle_of_a_frame(uri: str, db: psycopg.Connection[Any]) -> None:
    run = claiming(uri, mode="sequential")

    def slow(call: ToolCall) -> Outcome:
        run.wait(40)
        return echo(call)

    run.script = slow
    mode = "first"
    while run.handle(mode, len(run.commits), deadline=run.clock.time + 100 * SECOND).kind != "done":
        assert len(run.calls) < 8
        mode = "resume"
    assert run.ran == [1, 2, 3, 4, 5, 6, 7] and run.last.data["succeeded"] == 7 and "StepSuspended" in run.names


def test_the_limit_of_frames_holds(uri: str, db: psycopg.Connection[Any]) -> None:
    run = claiming(uri, root={"executor": {"spec": {"policy": {"limits": {"max_frames": 2}}}}})
    run.handle()
    error = run.last.data["error"]
    assert error["kind"] == "limit" and "max_frames" in error["message"]
    assert states(db) == {"done": [1, 2, 3, 4, 5, 6], "ready": [7]} and claims(db) == 0


# --- tables and statements --------------------------------------------------------------------------------------------------


def test_rows_that_are_done_may_be_deleted_and_come_in_an_order(uri: str, db: psycopg.Connection[Any]) -> None:
    cursor = {**TABLE, "table": "public.items", "order": "name DESC, id", "done": "delete", "set": {"state": "running"}}
    run = claiming(uri, cursor=cursor)
    run.handle()
    assert run.last.data["result"] == [7, 6, 5, 4, 3, 2, 1]
    assert run.named("LoopFrameClaimed")[0]["rows"][0]["state"] == "running"
    assert states(db) == {}


def test_a_row_that_a_claim_changed_can_be_claimed_when_the_claim_has_run_out(uri: str, db: psycopg.Connection[Any]) -> None:
    cursor = {**TABLE, "set": {"state": "running"}}
    db.execute("UPDATE items SET state = 'running', claimed_by = 'x', claimed_until = now() - interval '1 s' WHERE id = 3")
    run = claiming(uri, cursor=cursor)
    run.handle()
    assert 3 in run.ran and states(db) == {"done": [1, 2, 3, 4, 5, 6, 7]}


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
    cursor = {"kind": "postgres", "auth": "pg", "claim": "UPDATE items SET state = 'running' RETURNING name"}
    run = claiming(uri, cursor=cursor)
    run.handle()
    assert run.last.data["error"]["kind"] == "schema" and "have no id" in run.last.data["error"]["message"]


# --- many -------------------------------------------------------------------------------------------------------------------


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
        rows.append(sum(0 if items._read is None else len(items._read[1]) for items in made))
        return echo(call)

    run.script = script
    run.handle()
    assert run.last.data["succeeded"] == 200 and max(rows) == 20
    assert all("result_ref" in json.dumps(f["rows"])[:40] for f in run.named("LoopFrameClaimed")[1:10])
