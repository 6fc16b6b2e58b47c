"""`kind: dynamodb` as playbooks use it, over a mocked DynamoDB."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from noetl_core.engine.outcome import Outcome
from noetl_core.tools.aws import dynamodb
from noetl_core.tools.aws.attributes import read, written
from noetl_core.tools.aws.dynamodb import DynamoDBTool
from noetl_core.tools.base import BadInput, ToolCall
from noetl_core.tools.invoke import invoke
from tests.unit.docs.demo_aws import make_items
from tests.unit.tools.aws_playbooks import Ran, mocked

KEY = {"pk": "a", "sk": "1"}


@pytest.fixture(autouse=True)
def table() -> Iterator[None]:
    with mocked():
        make_items("stock")
        yield


def call(**inputs: Any) -> Outcome:
    return invoke(DynamoDBTool(), ToolCall("dynamodb", {"table": "stock", **inputs}))


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    "value", [None, True, 0, -5, 12345678901234567890, 1.5, 0.1, "", "ü", [], [1, [None]], {}, {"a": {"b": [False]}}]
)
def test_a_value_comes_back_as_it_was(value: Any) -> None:
    assert read(written(value, "x")) == value
    got = Ran(
        {"kind": "dynamodb", "action": "put", "table": "stock", "item": {**KEY, "v": value}},
        {"kind": "dynamodb", "table": "stock", "key": KEY},
    ).result
    assert (got["found"], got["item"]) == (True, {**KEY, "v": value})


@pytest.mark.parametrize("value", [float("nan"), float("inf"), {1, 2}])
def test_values_that_dynamodb_cannot_store_are_refused(value: Any) -> None:
    with pytest.raises(BadInput):
        written(value, "x")


def test_sets_and_bytes_of_others_are_read() -> None:
    assert read({"SS": ["b", "a"]}) == ["a", "b"]
    assert read({"NS": ["2", "1.5"]}) == [1.5, 2]
    assert read({"B": b"\x00"}) == "AA=="


def test_a_condition_that_does_not_hold_gives_the_item_that_is_there() -> None:
    call(action="put", item={**KEY, "n": 1})
    error = call(action="put", item={**KEY, "n": 2}, condition="attribute_not_exists(pk)").as_dict()["error"]
    assert (error["kind"], error["code"], error["retryable"]) == ("client_error", "ConditionalCheckFailedException", False)
    assert error["details"] == {"item": {**KEY, "n": 1}}
    refused = call(action="update", key=KEY, update="SET n = :m", condition="n > :m", values={"m": 5}).as_dict()["error"]
    assert refused["code"] == "ConditionalCheckFailedException"
    assert call(action="delete", key=KEY, condition="n = :m", values={"m": 5}).as_dict()["error"]["kind"] == "client_error"


def test_repeating_a_conditional_put_with_a_lost_answer_succeeds() -> None:
    inputs = {"action": "put", "item": {**KEY, "n": 1}, "condition": "attribute_not_exists(pk)"}
    assert call(**inputs).result["item"] == call(**inputs).result["item"] == {**KEY, "n": 1}


def test_an_item_is_updated_and_deleted() -> None:
    call(action="put", item={**KEY, "n": 1, "status": "new"})
    updated = call(
        action="update", key=KEY, update="SET #s = :s ADD n :one", names={"s": "status"}, values={"s": "old", ":one": 1}
    )
    assert updated.result == {"item": {**KEY, "n": 2, "status": "old"}}
    assert call(action="delete", key=KEY).result == {"deleted": True, "old": {**KEY, "n": 2, "status": "old"}}
    assert call(action="delete", key=KEY).result == {"deleted": False, "old": None}
    assert call(key=KEY).result == {"found": False, "item": None}


@pytest.mark.parametrize(
    ("more", "found"),
    [
        ({}, ["1", "2", "3"]),
        ({"descending": True, "limit": 2}, ["3", "2"]),
        ({"filter": "n > :least", "values": {"pk": "a", "least": 1}}, ["2", "3"]),
        ({"where": "pk = :pk AND sk >= :from", "values": {"pk": "a", "from": "2"}}, ["2", "3"]),
    ],
)
def test_a_partition_is_queried(more: dict[str, Any], found: list[str]) -> None:
    for n in (1, 2, 3):
        call(action="put", item={"pk": "a", "sk": str(n), "n": n})
    result = call(**{"action": "query", "where": "pk = :pk", "values": {"pk": "a"}, **more}).result
    assert ([item["sk"] for item in result["items"]], result["count"]) == (found, len(found))


def test_a_query_is_stopped_before_it_fills_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """With pages of 1 MB, what is held is never more than the limit and a page."""
    pages: list[int] = []

    class Endless:
        def get_paginator(self, _name: str) -> Endless:
            return self

        def paginate(self, **_: Any) -> Iterator[Any]:
            while True:
                pages.append(1)
                yield {"Items": [{"pk": {"S": "a"}, "text": {"S": "ü" * 350_000}}]}

    monkeypatch.setattr(dynamodb, "client", lambda *_: Endless())
    asked = {"table": "stock", "action": "query", "where": "pk = :pk", "values": {"pk": "a"}}
    refused = invoke(DynamoDBTool(), ToolCall("dynamodb", asked)).error
    assert refused is not None and (refused.kind, refused.retryable) == ("limit", False) and "max_bytes" in refused.message
    assert len(pages) == 24  # 16 MiB in items of 700 KB as UTF-8
    taken = invoke(DynamoDBTool(), ToolCall("dynamodb", asked, spec={"max_bytes": 1_000_000}))
    assert taken.error is not None and "1000000 bytes" in taken.error.message
    assert invoke(DynamoDBTool(), ToolCall("dynamodb", {**asked, "limit": 2})).result["count"] == 2


def test_a_query_is_never_cut() -> None:
    for n in range(4):
        call(action="put", item={"pk": "a", "sk": str(n)})
    task = {
        "kind": "dynamodb",
        "action": "query",
        "table": "stock",
        "where": "pk = :p",
        "values": {"p": "a"},
        "spec": {"max_items": 3},
    }
    assert Ran(task).error["kind"] == "limit"


@pytest.mark.parametrize(
    ("inputs", "kind"),
    [
        ({"table": "none", "key": KEY}, "not_found"),
        ({"table": "arn:aws:dynamodb:us-east-1:1:table/stock", "key": KEY}, "schema"),
        ({"key": {}}, "schema"),
        ({"key": {"pk": "a"}}, "client_error"),
        ({"action": "query", "where": "nonsense", "values": {"a": 1}}, "client_error"),
        ({"key": KEY, "consistent": "yes"}, "schema"),
    ],
)
def test_failed_requests_have_their_error_kinds(inputs: dict[str, Any], kind: str) -> None:
    assert call(**inputs).as_dict()["error"]["kind"] == kind
