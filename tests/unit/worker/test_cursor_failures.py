"""Cursor loops over a real PostgreSQL: rows that fail, loops that fail, and redrives."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

from noetl_core.ports import Unavailable

from .claimed_rows import BEST_EFFORT, TABLE, claiming, claims, db, redriven, states, uri
from .one_run import fail_at, otherwise, playbook_of, task

__all__ = ["db", "uri"]


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


def test_a_failed_loop_releases_rows_that_it_did_not_run(uri: str, db: psycopg.Connection[Any]) -> None:
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
        ({"table": "items; DROP TABLE items"}, "schema", "is not the name of a table"),
        ({"key": "id) --"}, "schema", "is not the name of a column"),
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
