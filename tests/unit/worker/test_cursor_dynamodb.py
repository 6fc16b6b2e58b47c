"""Cursor loops over items of a DynamoDB table (moto): what is claimed, from which tables, and what is refused."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from noetl_core.aws.clients import client
from noetl_core.tools.aws import rights

from .claimed_items import (
    OPEN,
    SOURCES,
    Requests,
    claiming,
    claims,
    fill,
    make,
    states,
    table,
    write,
)
from .cursor_runs import ClaimingRun, dying_at

__all__ = ["table"]


@pytest.mark.one_in(3)
@pytest.mark.parametrize("source", SOURCES)
def test_items_are_claimed_frame_by_frame_until_there_are_none(source: str) -> None:
    nothing = dict.fromkeys(OPEN, "none")
    run = claiming(**{**nothing, **SOURCES[source]})
    run.handle()
    assert run.last.data["succeeded"] == 7 and sorted(run.last.data["result"]) == [1, 2, 3, 4, 5, 6, 7]
    assert [len(f["keys"]) for f in run.named("LoopFrameClaimed")] == [3, 3, 1, 0]
    assert run.asked == ["claim", "settle", "claim", "settle", "claim", "settle", "claim"]
    assert states() == ({} if source == "items that are deleted" else {"done": [1, 2, 3, 4, 5, 6, 7]}) and claims() == 0


def test_a_claimed_frame_has_whole_items_and_their_typed_keys() -> None:
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


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    ("changed", "kind", "words"),
    [
        ({"table": "nowhere"}, "not_found", "not found"),
        ({"table": "arn:aws:x"}, "schema", "not an ARN"),
        ({"index": "closed"}, "schema", "has no index closed (it has: open)"),
        ({"where": "todo ="}, "client_error", "KeyConditionExpression"),
        ({"done": {"state": "done"}}, "schema", "would be claimed again"),
        ({"done": {"pk": "b"}}, "schema", "belongs to the key"),
        ({"done": {"claimed_by": "b", "todo": None}}, "schema", "the cursor keeps the claim in it"),
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


def test_an_index_must_project_the_claim_attributes() -> None:
    make("narrow", {"ProjectionType": "KEYS_ONLY"})
    run = claiming(table="narrow")
    run.handle()
    assert "index open does not project claimed_by" in run.last.data["error"]["message"]
    make("enough", {"ProjectionType": "INCLUDE", "NonKeyAttributes": ["claimed_by", "claimed_until"]})
    fill("enough")
    run = claiming(table="enough", run_id="r2")
    run.handle()
    assert run.named("LoopFrameClaimed")[0]["rows"][0]["state"] == "ready", "an element is the whole item"


def test_a_table_not_granted_or_of_the_engine_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(rights.OWN, '{"tables": ["events"]}')
    for name, words in (("items", "ToolTables does not name table `items`"), ("events", "the engine's own")):
        refused = claiming(run_id=f"r {name}", table=name)
        refused.handle()
        assert refused.last.data["error"]["kind"] == "auth" and words in refused.last.data["error"]["message"]
    monkeypatch.setenv(rights.TABLES.variable, "items")
    allowed = claiming(run_id="r9")
    allowed.handle()
    assert allowed.last.data["succeeded"] == 7


@pytest.mark.nightly
def test_items_are_read_page_by_page_until_the_frame_is_full() -> None:
    """The items claimed by others come first in the index."""
    fill("items", 260)
    for n in range(1, 251):
        write(n, claimed_by={"S": "other"}, claimed_until={"N": str(int(time.time()) + 600)})
    run = claiming(frame=50)
    asked: list[str] = []
    with Requests(before=asked.append):
        run.handle()
    assert sorted(run.ran) == list(range(251, 261)) and asked.count("Query") > 4
