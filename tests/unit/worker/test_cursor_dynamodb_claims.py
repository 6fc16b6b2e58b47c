"""Cursor loops over items of a DynamoDB table (moto): workers that die, indexes that lag, other executions, claims that run out."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from noetl_core.aws.clients import client
from noetl_core.engine.outcome import Outcome
from noetl_core.tools.base import ToolCall
from noetl_core.tools.cursors.dynamodb import DynamoDBCalls
from tests.properties import CRASHES_IN, some
from tests.sim.ports import Crash

from .claimed_items import (
    OPEN,
    SOURCES,
    Requests,
    claiming,
    claims,
    expire,
    fill,
    items,
    make,
    states,
    table,
    whole,
    write,
)
from .cursor_runs import ClaimingRun, dying_at, overtaken_before_its_claim
from .one_run import echo

__all__ = ["table"]


@pytest.mark.one_in(2)
@pytest.mark.sized
@pytest.mark.parametrize(
    ("source", "after"),
    some([(s, a) for a in (False, True) for s in ("a query of a sparse index", "a claim that changes")], 3),
)
def test_wherever_a_worker_dies_each_item_is_done_and_none_is_claimed_twice(source: str, after: bool) -> None:
    """At port calls of the run, the source's among them, the worker dies once."""
    point = CRASHES_IN // 2 if after else 1
    while True:
        client("dynamodb").delete_table(TableName="items")
        make("items")
        fill("items")
        run = claiming(run_id=f"r{point}", **{**dict.fromkeys(OPEN, "none"), **SOURCES[source]})
        run.faults.crash_at, run.faults.crash_after = point, after
        died = run.to_the_end()
        whole(run, str(point))
        if not died:
            break
        point += CRASHES_IN
    assert point > 15


@pytest.mark.nightly
@pytest.mark.parametrize("after", [False, True])
def test_a_worker_may_die_at_each_request_to_dynamodb(after: bool) -> None:
    """In the middle of a claim, and of settling: the successor gets the items that the claim has, and settles the rest."""
    point = 0
    while True:
        point += 1
        client("dynamodb").delete_table(TableName="items")
        make("items")
        fill("items")
        run = claiming(run_id=f"r{point}")
        left = [point]

        def die(_: str, left: list[int] = left) -> None:
            left[0] -= 1
            if not left[0]:
                raise Crash

        with Requests(after=die) if after else Requests(before=die):
            died = run.to_the_end()
        whole(run, str(point))
        if not died:
            break
    assert point > 20


def test_a_worker_that_lost_its_run_and_claims_late_gets_the_items_of_its_successor() -> None:
    run = claiming()
    overtaken_before_its_claim(run)
    whole(run, "late")


def test_a_claim_that_has_items_takes_no_others() -> None:
    """Its worker died with one of three: the frame is that one, and the rest are the next frame's."""
    write(5, claimed_by={"S": "7/r1/0"}, claimed_until={"N": str(int(time.time()) + 600)})
    run = claiming()
    run.handle()
    assert [len(f["keys"]) for f in run.named("LoopFrameClaimed")] == [1, 3, 3, 0] and run.ran[0] == 5


class Lagging(DynamoDBCalls):
    """Its index shows what it once had: `stale` changes what a page has."""

    def __init__(self, stale: Callable[[list[Any]], list[Any]]) -> None:
        super().__init__()
        self._stale = stale

    def run(self, call: ToolCall) -> Outcome:
        def lag(parsed: Mapping[str, Any], **_: Any) -> None:
            parsed["Items"][:] = self._stale(list(parsed["Items"]))

        events = client("dynamodb").meta.events
        events.register("after-call.dynamodb.Query", lag)
        try:
            return super().run(call)
        finally:
            events.unregister("after-call.dynamodb.Query", lag)


@pytest.mark.nightly
def test_items_that_are_done_and_that_the_index_still_shows_are_not_claimed() -> None:
    seen: list[Any] = []

    def stale(found: list[Any]) -> list[Any]:
        seen.extend(item for item in found if item not in seen)
        return list(seen)

    run = claiming(tool=Lagging(stale))
    run.handle()
    whole(run, "stale")


def test_items_of_a_dead_worker_that_the_index_does_not_show_come_back_when_their_lease_ends() -> None:
    hidden = {1, 2}
    run = claiming(tool=Lagging(lambda found: [item for item in found if int(item["n"]["N"]) not in hidden]))
    for n in hidden:
        write(n, claimed_by={"S": "7/r1/0"}, claimed_until={"N": str(int(time.time()) + 600)})
    run.handle()
    assert sorted(run.ran) == [3, 4, 5, 6, 7] and claims() == 2
    expire()
    other = claiming(run_id="r2")
    other.handle()
    assert sorted(other.ran) == [1, 2]


@pytest.mark.nightly
def test_two_executions_claim_between_each_others_requests() -> None:
    """The other one runs to its end between the query and the first write of the first; then it is the other way round."""
    for n in range(1, 6):
        other = claiming(run_id=f"o{n}")
        fill("items", 20)
        run = claiming(run_id=f"r{n}")
        left = [n]

        def between(name: str, left: list[int] = left, other: ClaimingRun = other) -> None:
            left[0] -= name == "UpdateItem"
            if left[0] == 0:
                left[0] = -1
                other.handle()

        with Requests(before=between):
            run.handle()
        assert sorted(run.ran + other.ran) == list(range(1, 21)) and other.ran
        assert run.last.data["succeeded"] + other.last.data["succeeded"] == 20 and claims() == 0


@pytest.mark.nightly
def test_items_that_others_claimed_after_the_claim_ran_out_are_left_to_them() -> None:
    run = claiming(dying_at(2))
    with pytest.raises(Crash):
        run.handle()
    expire()
    other = claiming(run_id="r2")
    other.handle()
    assert other.last.data["succeeded"] == 7
    before = len(run.calls)
    run.wait(61)
    run.handle("takeover")
    assert len(run.calls) == before and [d["error"]["kind"] for d in run.named("LoopIterationCompleted")] == ["lost"] * 3
    assert (run.last.data["failed"], "error" in run.last.data) == (3, False)


def test_the_successor_runs_items_whose_expired_claim_nobody_took() -> None:
    run = claiming(dying_at(2))
    with pytest.raises(Crash):
        run.handle()
    expire()
    run.wait(61)
    run.handle("takeover")
    whole(run, "expired")


def test_an_item_that_a_claim_changed_is_claimed_when_the_claim_has_run_out() -> None:
    write(3, state={"S": "running"}, claimed_by={"S": "x"}, claimed_until={"N": "1"})
    source = {**dict.fromkeys(OPEN, "none"), **SOURCES["a claim that changes"]}
    run = claiming(**source)
    run.handle()
    assert 3 in run.ran and states() == {"done": [1, 2, 3, 4, 5, 6, 7]}


@pytest.mark.nightly
def test_items_that_are_removed_meanwhile_are_lost_and_do_not_come_back() -> None:
    def remove(*numbers: int) -> None:
        for n in numbers:
            client("dynamodb").delete_item(TableName="items", Key={"pk": {"S": "a"}, "n": {"N": str(n)}})

    run = claiming(dying_at(2))
    with pytest.raises(Crash):
        run.handle()
    remove(1, 2, 3)
    run.wait(61)
    run.handle("takeover")
    assert (run.last.data["failed"], run.last.data["succeeded"]) == (3, 4) and states() == {"done": [4, 5, 6, 7]}
    fill("items", 2)

    def removing(call: ToolCall) -> Outcome:
        remove(1)
        return echo(call)

    late = claiming(removing, run_id="r2")
    late.handle()
    assert late.last.data["succeeded"] == 2 and 1 not in items(), "no write makes it again"


def test_a_worker_prolongs_its_claims_while_items_run() -> None:
    run = claiming(mode="sequential", lease_s=30)
    untils: list[float] = []

    def slow(call: ToolCall) -> Outcome:
        run.wait(11)
        untils.append(max(float(item.get("claimed_until", {}).get("N", 0)) for item in items().values()))
        return echo(call)

    run.script = slow
    run.handle()
    assert run.asked.count("renew") >= 4 and run.last.data["succeeded"] == 7 and untils
