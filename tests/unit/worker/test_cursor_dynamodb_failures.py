"""Cursor loops over items of a DynamoDB table (moto): items that fail, redrives, and a table that throttles."""

from __future__ import annotations

from typing import Any

import pytest
from botocore.exceptions import ClientError

from .claimed_items import (
    BEST_EFFORT,
    Requests,
    claiming,
    claims,
    fill,
    items,
    redriven,
    states,
    table,
    whole,
)
from .one_run import fail_at

__all__ = ["table"]


def test_a_failed_item_goes_back_to_others_and_is_not_claimed_again() -> None:
    run = claiming(fail_at(2, 5), policy=BEST_EFFORT)
    run.handle()
    assert (run.last.data["succeeded"], run.last.data["failed"]) == (5, 2) and sorted(run.ran) == [1, 2, 3, 4, 5, 6, 7]
    assert states() == {"done": [1, 3, 4, 6, 7], "ready": [2, 5]} and claims() == 0
    other = claiming(run_id="r2")
    other.handle()
    assert sorted(other.ran) == [2, 5]


def test_a_failed_item_may_be_marked_or_deleted() -> None:
    run = claiming(fail_at(2), failed={"state": "bad", "todo": None}, policy=BEST_EFFORT)
    run.handle()
    assert states() == {"bad": [2], "done": [1, 3, 4, 5, 6, 7]}
    fill("items")
    again = claiming(fail_at(2), run_id="r2", failed="delete", policy=BEST_EFFORT)
    again.handle()
    assert 2 not in items() and len(items()) == 6


def test_a_failed_item_that_stays_in_the_query_is_not_run_again_here() -> None:
    run = claiming(fail_at(2), failed={"state": "bad"}, policy=BEST_EFFORT)
    run.handle()
    assert run.ran.count(2) == 1 and run.asked[-1] == "claim" and states()["bad"] == [2]


def test_a_failing_loop_releases_the_items_that_it_did_not_run() -> None:
    run = claiming(fail_at(4), mode="sequential", set={"state": "running"})
    run.handle()
    assert (run.last.data["succeeded"], run.last.data["failed"]) == (3, 1) and claims() == 0
    other = claiming(run_id="r2", set={"state": "running"})
    other.handle()
    assert sorted(other.ran) == [4, 5, 6, 7] and states() == {"done": [1, 2, 3, 4, 5, 6, 7]}


@pytest.mark.one_in(2)
@pytest.mark.parametrize("failed", ["none", {"state": "bad", "todo": None}])
def test_a_redrive_runs_failed_items_that_nobody_else_has(failed: Any) -> None:
    run = claiming(fail_at(2), failed=failed, policy=BEST_EFFORT)
    run.handle()
    again = redriven(run)
    assert again.ran == [2] and sorted(again.last.data["result"]) == [1, 2, 3, 4, 5, 6, 7]
    assert states() == {"done": [1, 2, 3, 4, 5, 6, 7]}


def test_a_redrive_skips_failed_items_that_others_have_done() -> None:
    run = claiming(fail_at(2, 5), policy=BEST_EFFORT)
    run.handle()
    claiming(run_id="r2").handle()
    again = redriven(run)
    assert again.ran == [] and states() == {"done": [1, 2, 3, 4, 5, 6, 7]}


def test_a_throttling_table_is_retried_and_no_claim_is_orphaned() -> None:
    error: Any = {"Error": {"Code": "ProvisionedThroughputExceededException", "Message": "slower"}}
    left = {"UpdateItem": 2, "Query": 1}

    def throttle(name: str) -> None:
        """The first item of a frame is written, the second is not, as when a partition is hot."""
        if left.get(name) is not None:
            left[name] -= 1
            if left[name] == 0:
                raise ClientError(error, name)

    run = claiming()
    with Requests(before=throttle):
        run.handle()
    assert left["UpdateItem"] < 0
    whole(run, "throttled")
