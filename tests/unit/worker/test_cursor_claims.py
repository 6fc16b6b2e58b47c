"""Cursor loops over a real PostgreSQL: claims that run out, are prolonged, and are given back."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

from noetl_core.engine.outcome import Outcome
from noetl_core.ports import Gate
from noetl_core.tools.base import ToolCall
from tests.sim.ports import SECOND, Crash

from .claimed_rows import TABLE, claiming, claims, db, expire, states, uri
from .cursor_runs import dying_at
from .one_run import echo, fail_at, on_error, otherwise, playbook_of, task

__all__ = ["db", "uri"]


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


def test_the_successor_runs_rows_whose_expired_claim_nobody_took(uri: str, db: psycopg.Connection[Any]) -> None:
    run = claiming(uri, dying_at(2))
    with pytest.raises(Crash):
        run.handle()
    expire(db)
    run.wait(61)
    run.handle("takeover")
    assert run.last.data["result"] == [1, 2, 3, 4, 5, 6, 7]


def test_any_run_claims_orphaned_rows_after_their_claim_expires(uri: str, db: psycopg.Connection[Any]) -> None:
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


def test_a_cancelled_loop_releases_the_rows_it_did_not_finish(uri: str, db: psycopg.Connection[Any]) -> None:
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


def test_a_row_that_a_claim_changed_can_be_claimed_when_the_claim_has_run_out(uri: str, db: psycopg.Connection[Any]) -> None:
    cursor = {**TABLE, "set": {"state": "running"}}
    db.execute("UPDATE items SET state = 'running', claimed_by = 'x', claimed_until = now() - interval '1 s' WHERE id = 3")
    run = claiming(uri, cursor=cursor)
    run.handle()
    assert 3 in run.ran and states(db) == {"done": [1, 2, 3, 4, 5, 6, 7]}
