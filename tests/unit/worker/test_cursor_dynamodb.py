"""Cursor loops over items of a DynamoDB table (moto): claimed by conditional updates, found again by the same query."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest
from botocore.exceptions import ClientError

from noetl_core.aws_clients import client
from noetl_core.engine.outcome import Outcome
from noetl_core.tools.aws import rights
from noetl_core.tools.base import ToolCall
from noetl_core.tools.cursors import dynamodb
from noetl_core.tools.cursors.dynamodb import DynamoDBCalls
from tests.sim.ports import Crash
from tests.unit.tools.aws_playbooks import mocked

from .claiming import ClaimingRun, dying_at
from .one_run import Script, echo, fail_at, task

BEST_EFFORT = {"failure": {"mode": "best_effort"}}
OPEN: dict[str, Any] = {"where": "todo = :t", "values": {"t": "yes"}, "index": "open"}
SOURCES: dict[str, dict[str, Any]] = {
    "a query of a sparse index": {**OPEN, "done": {"todo": None, "state": "done"}},
    "a scan of a sparse index": {"index": "open", "done": {"todo": None, "state": "done"}},
    "a query of a table": {
        "where": "pk = :p",
        "filter": "(#s = :r)",
        "names": {"s": "state"},
        "values": {"p": "a", "r": "ready"},
        "done": {"state": "done"},
    },
    "a claim that changes": {
        "where": "pk = :p",
        "filter": "#s = :r",
        "names": {"#s": "state"},
        "values": {":p": "a", ":r": "ready"},
        "set": {"state": "running"},
        "done": {"state": "done"},
    },
    "items that are deleted": {**OPEN, "done": "delete"},
}


@pytest.fixture(autouse=True)
def table(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.delenv(rights.OWN, raising=False)
    monkeypatch.setattr(dynamodb, "AT_ONCE", 1)  # moto looks and writes in two steps
    with mocked():
        make("items")
        fill("items")
        yield


def make(name: str, projection: Any = None) -> None:
    def keys(*names: str) -> Any:
        return [{"AttributeName": n, "KeyType": kind} for n, kind in zip(names, ("HASH", "RANGE"), strict=True)]

    client("dynamodb").create_table(
        TableName=name,
        BillingMode="PAY_PER_REQUEST",
        AttributeDefinitions=[{"AttributeName": n, "AttributeType": t} for n, t in {"pk": "S", "n": "N", "todo": "S"}.items()],
        KeySchema=keys("pk", "n"),
        GlobalSecondaryIndexes=[
            {"IndexName": "open", "KeySchema": keys("todo", "n"), "Projection": projection or {"ProjectionType": "ALL"}}
        ],
    )


def fill(name: str, count: int = 7) -> None:
    for n in range(1, count + 1):
        item = {"pk": {"S": "a"}, "n": {"N": str(n)}, "todo": {"S": "yes"}, "state": {"S": "ready"}}
        client("dynamodb").put_item(TableName=name, Item=item)


def claiming(
    script: Script = echo,
    *,
    run_id: str = "r1",
    mode: str = "parallel",
    policy: Any = None,
    frame: int = 3,
    tool: DynamoDBCalls | None = None,
    **cursor: Any,
) -> ClaimingRun:
    said = {**SOURCES["a query of a sparse index"], **cursor}
    step = {
        "loop": {
            "cursor": {"kind": "dynamodb", "table": "items", **{k: v for k, v in said.items() if v != "none"}},
            "iterator": "item",
            "spec": {"mode": mode, "frame": frame, "policy": dict(policy or {})},
        },
        "tool": task("a", result="{{ iter.item.n }}"),
    }
    return ClaimingRun(step, script, run_id=run_id, tool=tool or DynamoDBCalls())


def items(name: str = "items") -> dict[int, Any]:
    found = client("dynamodb").scan(TableName=name, ConsistentRead=True)["Items"]
    return {int(item["n"]["N"]): item for item in sorted(found, key=lambda item: int(item["n"]["N"]))}


def states(name: str = "items") -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for n, item in items(name).items():
        found.setdefault(item["state"]["S"], []).append(n)
    return found


def claims(name: str = "items") -> int:
    """Items that are claimed."""
    return sum(float(item.get("claimed_until", {}).get("N", 0)) > time.time() for item in items(name).values())


def write(n: int, **attributes: Any) -> None:
    changes = {name: {"Value": value, "Action": "PUT"} for name, value in attributes.items()}
    client("dynamodb").update_item(TableName="items", Key={"pk": {"S": "a"}, "n": {"N": str(n)}}, AttributeUpdates=changes)


def expire() -> None:
    for n, item in items().items():
        if "claimed_until" in item:
            write(n, claimed_until={"N": str(int(time.time()) - 1)})


class Requests:
    """Sees each request to DynamoDB that a cursor makes, before it is sent and after it was answered."""

    def __init__(self, before: Callable[[str], None] = lambda _: None, after: Callable[[str], None] = lambda _: None) -> None:
        self._hooks = {"before-parameter-build.dynamodb": before, "after-call.dynamodb": after}
        self._inside = False
        self._handlers = {event: self._handler(hook) for event, hook in self._hooks.items()}

    def _handler(self, hook: Callable[[str], None]) -> Any:
        def handler(model: Any, **_: Any) -> None:
            if self._inside:
                return  # what the hook itself asks
            self._inside = True
            try:
                hook(model.name)
            finally:
                self._inside = False

        return handler

    def __enter__(self) -> Requests:
        for event, handler in self._handlers.items():
            client("dynamodb").meta.events.register(event, handler)
        return self

    def __exit__(self, *_: object) -> None:
        for event, handler in self._handlers.items():
            client("dynamodb").meta.events.unregister(event, handler)


# --- frames -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("source", SOURCES)
def test_items_are_claimed_frame_by_frame_until_there_are_none(source: str) -> None:
    nothing = dict.fromkeys(OPEN, "none")
    run = claiming(**{**nothing, **SOURCES[source]})
    run.handle()
    assert run.last.data["succeeded"] == 7 and sorted(run.last.data["result"]) == [1, 2, 3, 4, 5, 6, 7]
    assert [len(f["keys"]) for f in run.named("LoopFrameClaimed")] == [3, 3, 1, 0]
    assert run.asked == ["claim", "settle", "claim", "settle", "claim", "settle", "claim"]
    assert states() == ({} if source == "items that are deleted" else {"done": [1, 2, 3, 4, 5, 6, 7]}) and claims() == 0


def test_what_an_element_and_its_key_are() -> None:
    run = claiming(set={"state": "running"})
    run.handle()
    frame = run.named("LoopFrameClaimed")[0]
    assert frame["rows"][0] == {"pk": "a", "n": 1, "todo": "yes", "state": "running"}
    assert frame["keys"] == ['["a", "1"]', '["a", "2"]', '["a", "3"]'] and json.loads(frame["key_type"]) == [
        ["pk", "S"],
        ["n", "N"],
    ]


@pytest.mark.parametrize(("type_", "value"), [("N", "12345678901234567890123456789.5"), ("B", b"\x00\xff"), ("S", 'a"ü')])
def test_keys_of_any_type(type_: str, value: Any) -> None:
    client("dynamodb").create_table(
        TableName="others",
        BillingMode="PAY_PER_REQUEST",
        AttributeDefinitions=[{"AttributeName": "the key", "AttributeType": type_}],
        KeySchema=[{"AttributeName": "the key", "KeyType": "HASH"}],
    )
    client("dynamodb").put_item(
        TableName="others",
        Item={"the key": {type_: value}, "n": {"N": "1"}, "state": {"S": "ready"}, "claimed_until": {"NULL": True}},
    )
    source: dict[str, Any] = {"table": "others", "index": "none", "where": "none", "filter": "#s = :r", "names": {"s": "state"}}
    run = claiming(dying_at(1), **source, values={"r": "ready"}, done={"state": "done"})
    assert run.to_the_end() == 1 and "renew" in run.asked
    assert run.last.data["succeeded"] == 1 and states("others") == {"done": [1]}


# --- workers that die -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("source", ["a query of a sparse index", "a claim that changes"])
def test_wherever_a_worker_dies_each_item_is_done_and_none_is_claimed_twice(source: str, after: bool) -> None:
    """Every port call of the run, the source's among them, is one at which the worker dies once."""
    point = 0
    while True:
        point += 1
        client("dynamodb").delete_table(TableName="items")
        make("items")
        fill("items")
        run = claiming(run_id=f"r{point}", **{**dict.fromkeys(OPEN, "none"), **SOURCES[source]})
        run.faults.crash_at, run.faults.crash_after = point, after
        died = run.to_the_end()
        whole(run, str(point))
        if not died:
            break
    assert point > 15


def whole(run: ClaimingRun, why: str) -> None:
    claimed = [key for frame in run.named("LoopFrameClaimed") for key in frame["keys"]]
    assert len(claimed) == len(set(claimed)) == 7, why
    assert run.last.data["succeeded"] == 7 and sorted(run.last.data["result"]) == [1, 2, 3, 4, 5, 6, 7], why
    assert states() == {"done": [1, 2, 3, 4, 5, 6, 7]} and claims() == 0, why
    assert len({call.task_run_id for call in run.calls}) == 7, why


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
    stale: list[ClaimingRun] = []

    def seen(what: str) -> None:
        if not stale:
            stale.append(run)
            run.seen = lambda what: None
            run.wait(61)
            assert run.handle("takeover").kind == "done"

    run.seen = seen
    assert run.handle().kind == "dropped"
    whole(run, "late")


def test_a_claim_that_has_items_takes_no_others() -> None:
    """Its worker died with one of three: the frame is that one, and the rest are the next frame's."""
    write(5, claimed_by={"S": "7/r1/0"}, claimed_until={"N": str(int(time.time()) + 600)})
    run = claiming()
    run.handle()
    assert [len(f["keys"]) for f in run.named("LoopFrameClaimed")] == [1, 3, 3, 0] and run.ran[0] == 5


# --- an index that lags behind ------------------------------------------------------------------------------------------------


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


# --- others -------------------------------------------------------------------------------------------------------------------


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


def test_items_whose_claim_ran_out_and_that_nobody_claimed_are_run_by_the_successor() -> None:
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


# --- failures -----------------------------------------------------------------------------------------------------------------


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


def test_a_loop_that_fails_gives_back_what_it_did_not_run() -> None:
    run = claiming(fail_at(4), mode="sequential", set={"state": "running"})
    run.handle()
    assert (run.last.data["succeeded"], run.last.data["failed"]) == (3, 1) and claims() == 0
    other = claiming(run_id="r2", set={"state": "running"})
    other.handle()
    assert sorted(other.ran) == [4, 5, 6, 7] and states() == {"done": [1, 2, 3, 4, 5, 6, 7]}


def redriven(run: ClaimingRun) -> ClaimingRun:
    again = ClaimingRun(run.step, echo, run_id=run.run_id + "x", tool=DynamoDBCalls())
    again.store, again.results, again.gates = run.store, run.results, run.gates
    again.handle(carried_over={"runs": [[run.run_id, {"failed": True}]]})
    return again


@pytest.mark.parametrize("failed", ["none", {"state": "bad", "todo": None}])
def test_a_redrive_runs_failed_items_that_nobody_else_has(failed: Any) -> None:
    run = claiming(fail_at(2), failed=failed, policy=BEST_EFFORT)
    run.handle()
    again = redriven(run)
    assert again.ran == [2] and sorted(again.last.data["result"]) == [1, 2, 3, 4, 5, 6, 7]
    assert states() == {"done": [1, 2, 3, 4, 5, 6, 7]}


def test_a_redrive_leaves_failed_items_to_others_that_did_them() -> None:
    run = claiming(fail_at(2, 5), policy=BEST_EFFORT)
    run.handle()
    claiming(run_id="r2").handle()
    again = redriven(run)
    assert again.ran == [] and states() == {"done": [1, 2, 3, 4, 5, 6, 7]}


def test_a_table_that_throttles_is_asked_again_and_nothing_is_claimed_for_nobody() -> None:
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


@pytest.mark.parametrize(
    ("changed", "kind", "words"),
    [
        ({"table": "nowhere"}, "not_found", "not found"),
        ({"table": "arn:aws:x"}, "schema", "no ARN"),
        ({"index": "closed"}, "schema", "has no index closed (it has: open)"),
        ({"where": "todo ="}, "client_error", "KeyConditionExpression"),
        ({"done": {"state": "done"}}, "schema", "would be claimed again"),
        ({"done": {"pk": "b"}}, "schema", "belongs to the key"),
        ({"done": {"claimed_by": "b", "todo": None}}, "schema", "that is for the claim"),
        ({"set": {"todo": "no"}}, "schema", "would no longer find items"),
        ({"claimed_until": "n"}, "schema", "cannot belong to a key"),
        ({"names": {"noetl_by": "x"}}, "schema", "does not begin with noetl_"),
    ],
)
def test_a_source_that_cannot_be_claimed_from_fails_the_loop(changed: Any, kind: str, words: str) -> None:
    run = claiming()
    run = ClaimingRun(
        {**run.step, "loop": {**run.step["loop"], "cursor": {**run.step["loop"]["cursor"], **changed}}}, tool=run.tool
    )
    run.handle()
    assert run.last.data["error"]["kind"] == kind and words in run.last.data["error"]["message"]
    assert states() == {"ready": [1, 2, 3, 4, 5, 6, 7]} and claims() == 0


def test_an_index_must_show_what_is_claimed() -> None:
    make("narrow", {"ProjectionType": "KEYS_ONLY"})
    run = claiming(table="narrow")
    run.handle()
    assert "index open does not project claimed_by" in run.last.data["error"]["message"]
    make("enough", {"ProjectionType": "INCLUDE", "NonKeyAttributes": ["claimed_by", "claimed_until"]})
    fill("enough")
    run = claiming(table="enough", run_id="r2")
    run.handle()
    assert run.named("LoopFrameClaimed")[0]["rows"][0]["state"] == "ready", "an element is the whole item"


def test_a_table_that_is_not_granted_or_is_the_engines_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(rights.OWN, '{"tables": ["events"]}')
    for name, words in (("items", "ToolTables does not name table `items`"), ("events", "the engine's own")):
        refused = claiming(run_id=f"r {name}", table=name)
        refused.handle()
        assert refused.last.data["error"]["kind"] == "auth" and words in refused.last.data["error"]["message"]
    monkeypatch.setenv(rights.TABLES.variable, "items")
    allowed = claiming(run_id="r9")
    allowed.handle()
    assert allowed.last.data["succeeded"] == 7


# --- many ---------------------------------------------------------------------------------------------------------------------


def test_items_are_looked_at_page_by_page() -> None:
    """Those that others have stand in front: pages are read until the frame is full."""
    fill("items", 260)
    for n in range(1, 251):
        write(n, claimed_by={"S": "other"}, claimed_until={"N": str(int(time.time()) + 600)})
    run = claiming(frame=50)
    asked: list[str] = []
    with Requests(before=asked.append):
        run.handle()
    assert sorted(run.ran) == list(range(251, 261)) and asked.count("Query") > 4
