"""Frequent requests without botocore's clients: their answers are those of botocore, and what goes wrong is left to botocore."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from botocore.exceptions import (
    ClientError,
    ConnectionClosedError,
    EndpointConnectionError,
    ParamValidationError,
    ReadTimeoutError,
)

from noetl_core.aws import direct_requests, signed_requests
from noetl_core.aws.clients import client
from noetl_core.aws.signed_requests import endpoint
from tests.aws_calls import through_botocore
from tests.contract.aws import environment, make_queue, make_table
from tests.fast_moto import mock_aws
from tests.unit.adapters.scripted_service import KEY, Served, refusal, served

__all__ = ["served"]


class TestAnswers:
    @pytest.fixture(autouse=True)
    def aws(self) -> Iterator[None]:
        with mock_aws(), environment():
            yield

    def test_an_item_of_all_types_is_as_botocore_gives_it(self) -> None:
        item = {
            **KEY,
            "text": {"S": "\u00e9\U0001f600"},
            "number": {"N": "12.5"},
            "bytes": {"B": b"\x00\xff"},
            "flag": {"BOOL": True},
            "nothing": {"NULL": True},
            "texts": {"SS": ["a", "b"]},
            "many": {"BS": [b"\x01", b"\x02"]},
            "list": {"L": [{"B": b"\x03"}, {"M": {"deep": {"B": b"\x04"}, "flat": {"S": "x"}}}]},
            "map": {"M": {"bytes": {"B": b"\x05"}, "list": {"L": [{"N": "1"}]}}},
        }
        name = make_table("EventsTable")
        condition = {"KeyConditionExpression": "pk = :p", "ExpressionAttributeValues": {":p": {"S": "p"}}}
        assert "Attributes" not in direct_requests.put_item(TableName=name, Item=item)
        before = direct_requests.put_item(TableName=name, Item=item, ReturnValues="ALL_OLD")["Attributes"]
        found = direct_requests.get_item(TableName=name, Key=KEY)["Item"]
        (listed,) = direct_requests.query(TableName=name, **condition)["Items"]
        with through_botocore():
            assert direct_requests.get_item(TableName=name, Key=KEY)["Item"] == item
        deleted = direct_requests.delete_item(TableName=name, Key=KEY, ReturnValues="ALL_OLD")["Attributes"]
        assert before == found == listed == deleted == item
        assert "Item" not in direct_requests.get_item(TableName=name, Key=KEY)

    def test_an_item_that_is_not_there_and_pages(self) -> None:
        name = make_table("EventsTable")
        assert "Item" not in direct_requests.get_item(TableName=name, Key=KEY)
        for n in range(3):
            direct_requests.put_item(TableName=name, Item={"pk": {"S": "p"}, "sk": {"S": str(n)}})
        request: dict[str, Any] = {
            "TableName": name,
            "KeyConditionExpression": "pk = :p",
            "ExpressionAttributeValues": {":p": {"S": "p"}},
            "Limit": 2,
        }
        first = direct_requests.query(**request)
        second = direct_requests.query(**request, ExclusiveStartKey=first["LastEvaluatedKey"])
        assert [item["sk"]["S"] for page in (first, second) for item in page["Items"]] == ["0", "1", "2"]

    def test_a_failed_condition_is_botocores_error_with_the_item_and_one_request(self) -> None:
        name = make_table("EventsTable")
        direct_requests.put_item(TableName=name, Item={**KEY, "body": {"B": b"\x07"}})
        request = {
            "TableName": name,
            "Item": KEY,
            "ConditionExpression": "attribute_not_exists(pk)",
            "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
        }
        with pytest.raises(ClientError) as ours:
            direct_requests.put_item(**request)
        with through_botocore(), pytest.raises(ClientError) as botocores:
            direct_requests.put_item(**request)
        assert ours.value.response["Error"]["Code"] == botocores.value.response["Error"]["Code"]
        assert ours.value.response["ResponseMetadata"]["HTTPStatusCode"] == 400
        found: Any = [error.value.response.get("Item") for error in (ours, botocores)]
        assert found == [{**KEY, "body": {"B": b"\x07"}}] * 2
        assert str(ours.value) == str(botocores.value)

    def test_messages_are_sent_as_by_botocore(self) -> None:
        url = make_queue("CommandQueue")
        entries = [{"Id": str(n), "MessageBody": text} for n, text in enumerate(("a", '{"b": "\u00e9"}'))]
        sent = direct_requests.send_message_batch(QueueUrl=url, Entries=entries)
        assert [each["Id"] for each in sent["Successful"]] == ["0", "1"]
        got = client("sqs").receive_message(QueueUrl=url, MaxNumberOfMessages=10)["Messages"]
        assert sorted(each["Body"] for each in got) == sorted(each["MessageBody"] for each in entries)


class TestFailures:
    @pytest.mark.parametrize(
        "answer",
        [
            "close",
            (500, refusal("InternalServerError")),
            (400, refusal("ThrottlingException")),
            (503, b"<html>busy</html>"),
            (200, b"[]"),
            (200, b'{"Item": {"pk": {"B": "?"}}}'),
        ],
        ids=["closed", "failed", "throttled", "no_json", "no_mapping", "no_base64"],
    )
    def test_a_failed_direct_request_is_sent_again_by_botocore(self, served: Served, answer: Any) -> None:
        served.answers.append(answer)
        assert "Item" not in direct_requests.get_item(TableName="t", Key=KEY)
        assert served.by_botocore() == [False, True]

    def test_after_a_failure_botocore_sends_for_a_while(self, served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
        """Its backoff and its quota of retries count, and throttled requests are not sent twice."""
        monkeypatch.setattr(signed_requests, "LEFT_S", 1_000.0)
        there = endpoint(client("dynamodb"))
        served.answers.append((400, refusal("ThrottlingException")))
        for _ in range(3):
            direct_requests.get_item(TableName="t", Key=KEY)
        assert served.by_botocore() == [False, True, True, True]
        there.left_until = 0.0
        direct_requests.get_item(TableName="t", Key=KEY)
        assert served.by_botocore()[4:] == [False]

    def test_a_mistake_in_an_argument_is_botocores_error(self, served: Served) -> None:
        with pytest.raises(ParamValidationError):
            direct_requests.get_item(TableName="t", Key={"pk": {"SS": {"a"}}, "sk": object()})
        assert served.requests == []

    def test_an_answer_with_another_checksum_is_not_believed(self, served: Served) -> None:
        served.checksum = 7
        served.answers.append((200, b'{"Item": {"pk": {"S": "spoiled"}}}'))
        assert "Item" not in direct_requests.get_item(TableName="t", Key=KEY)
        assert served.by_botocore() == [False, True]

    def test_a_refusal_is_botocores_error(self, served: Served) -> None:
        served.answers.extend([(400, refusal("AccessDeniedException"))] * 2)
        with pytest.raises(ClientError, match="AccessDenied"):
            direct_requests.get_item(TableName="t", Key=KEY)
        assert served.by_botocore() == [False, True]


class TestInvoke:
    """An invocation is sent once, whatever happens: a second one could run the function again."""

    def test_an_invocation_returns_its_answer(self, served: Served) -> None:
        served.answers.append((200, b'{"v": 1}'))
        assert direct_requests.invoke("noetl-Ask:live", b"{}", 5) == (b'{"v": 1}', False)
        assert served.paths == ["/2015-03-31/functions/noetl-Ask%3Alive/invocations"]
        assert served.by_botocore() == [False]

    def test_an_error_of_the_function(self, served: Served) -> None:
        served.more["X_Amz_Function_Error"] = "Unhandled"
        served.answers.append((200, b'{"errorType": "KeyError"}'))
        assert direct_requests.invoke("f", b"{}", 5) == (b'{"errorType": "KeyError"}', True)

    @pytest.mark.parametrize(("status", "code"), [(429, "TooManyRequestsException"), (403, "AccessDeniedException")])
    def test_a_refusal_is_not_repeated(self, served: Served, status: int, code: str) -> None:
        served.more["x_amzn_ErrorType"] = f"{code}:http://internal.amazon.com/"
        served.answers.append((status, b'{"Message": "no"}'))
        with pytest.raises(ClientError, match=code) as refused:
            direct_requests.invoke("f", b"{}", 5)
        assert refused.value.response["Error"]["Code"] == code
        assert len(served.requests) == 1

    def test_a_broken_connection_is_not_repeated(self, served: Served) -> None:
        served.answers.append("close")
        with pytest.raises(ConnectionClosedError):
            direct_requests.invoke("f", b"{}", 5)
        assert len(served.requests) == 1

    def test_a_late_answer_is_not_awaited(self, served: Served) -> None:
        served.answers.append("silence")
        with pytest.raises(ReadTimeoutError):
            direct_requests.invoke("f", b"{}", 1)
        assert len(served.requests) == 1

    def test_without_a_connection_nothing_was_sent(self) -> None:
        with environment(AWS_ENDPOINT_URL="http://127.0.0.1:9"):
            with pytest.raises(EndpointConnectionError):
                direct_requests.invoke("f", b"{}", 5)
            assert not endpoint(client("lambda", answer_s=5)).is_usable

    def test_while_botocore_sends_an_invocation_is_sent_once(self, served: Served) -> None:
        endpoint(client("lambda", answer_s=1)).leave()
        served.answers.append("silence")
        with pytest.raises(ReadTimeoutError):
            direct_requests.invoke("f", b"{}", 1)
        assert served.by_botocore() == [True]
