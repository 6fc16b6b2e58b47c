"""Requests that are sent without botocore's clients: they are signed as botocore signs them, their answers are those of botocore, and
what goes wrong is left to botocore."""

from __future__ import annotations

import json
import random
import socket
import ssl
import string
import threading
import zlib
from collections import deque
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.exceptions import (
    ClientError,
    ConnectionClosedError,
    EndpointConnectionError,
    ParamValidationError,
    ReadTimeoutError,
    SSLError,
)
from botocore.httpsession import create_urllib3_context
from hypothesis import given
from hypothesis import strategies as st

from noetl_core.aws import direct_requests, signed_requests
from noetl_core.aws.clients import client, requests_checked_by, session
from noetl_core.aws.signed_requests import Endpoint, endpoint
from noetl_core.ports import Deadline, OutOfTime
from tests.aws_calls import through_botocore
from tests.certificates import self_signed
from tests.contract.aws import REGION, environment, make_queue, make_table
from tests.mocked import mock_aws
from tests.servers import Handler, serving

KEY = {"pk": {"S": "p"}, "sk": {"S": "s"}}
OTHER_REGION = "eu-central-1"


class Table(Handler):
    """Answers with what `answers` has, then with an empty object. It keeps connections open, unless told to close them."""

    protocol_version = "HTTP/1.1"
    server: Served

    def handle(self) -> None:
        self.server.connections += 1
        super().handle()

    def do_POST(self) -> None:
        self.told()
        self.server.requests.append(dict(self.headers.items()))
        self.server.paths.append(self.path)
        answer = self.server.answers.popleft() if self.server.answers else (200, b"{}")
        if answer == "close":
            self.close_connection = True
            self.connection.shutdown(socket.SHUT_RDWR)
            return
        if self.server.together is not None:
            self.server.together.wait(10)
        if answer == "silence":
            self.server.ended.wait(10)
            self.close_connection = True
            return
        status, body = answer
        checksum, self.server.checksum = self.server.checksum or zlib.crc32(body), 0
        self.say(status, body, x_amz_crc32=str(checksum), **self.server.more)


class Served(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Table)
        self.answers: deque[Any] = deque()
        self.requests: list[dict[str, str]] = []
        self.paths: list[str] = []
        self.more: dict[str, str] = {}
        """Further headers of each answer."""
        self.ended = threading.Event()
        self.together: threading.Barrier | None = None
        self.connections = 0
        self.checksum = 0
        """The checksum of the next answer, in place of the correct one; 0 for none."""

    def by_botocore(self) -> list[bool]:
        """Return for each request whether botocore sent it."""
        return ["amz-sdk-invocation-id" in {name.lower() for name in request} for request in self.requests]


@pytest.fixture
def served() -> Iterator[Served]:
    with serving(Served()) as server, environment(AWS_ENDPOINT_URL=f"http://127.0.0.1:{server.server_port}"):
        yield server
        server.ended.set()


def refusal(code: str) -> bytes:
    return json.dumps({"__type": f"com.amazonaws.dynamodb.v20120810#{code}", "message": "no"}).encode()


@pytest.mark.parametrize(
    ("service", "headers", "path"),
    [
        ("dynamodb", {"x-amz-target": "DynamoDB_20120810.PutItem", "content-type": "application/x-amz-json-1.0"}, "/"),
        ("sqs", {"x-amz-target": "AmazonSQS.SendMessageBatch", "content-type": "application/x-amz-json-1.0"}, "/"),
        ("lambda", {}, "/2015-03-31/functions/noetl-Ask%3Alive/invocations"),
    ],
    ids=["dynamodb", "sqs", "lambda"],
)
@given(st.binary(max_size=200), st.sampled_from(["", "token/+="]))
def test_a_signature_is_the_one_that_botocore_makes(
    service: str, headers: dict[str, str], path: str, body: bytes, token: str
) -> None:
    random_secret = "".join(random.choices(string.ascii_letters + string.digits + "/+", k=40))
    with environment(AWS_SECRET_ACCESS_KEY=random_secret, AWS_SESSION_TOKEN=token, AWS_DEFAULT_REGION=OTHER_REGION):
        botocores = client(service)
        ours = Endpoint(botocores).signed(body, headers, path)
        request = AWSRequest("POST", botocores.meta.endpoint_url + path, headers=dict(headers), data=body)
        credentials: Any = session().get_credentials()
        signer = SigV4Auth(credentials, service, OTHER_REGION)
        request.context["timestamp"] = ours["x-amz-date"]
        for name in ("x-amz-date", "x-amz-security-token"):
            if name in ours:
                request.headers[name] = ours[name]
        signature = signer.signature(signer.string_to_sign(request, signer.canonical_request(request)), request)
        names = signer.signed_headers(signer.headers_to_sign(request))
    assert ours["authorization"].endswith(f"SignedHeaders={names}, Signature={signature}")
    assert ("x-amz-security-token" in ours) == bool(token)


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


class TestConnections:
    def test_requests_follow_each_other_on_one_connection(self, served: Served) -> None:
        for _ in range(5):
            assert direct_requests.get_item(TableName="t", Key=KEY) == {}
        assert served.by_botocore() == [False] * 5
        assert served.connections == 1

    def test_an_idle_connection_that_the_service_has_closed_is_replaced(self, served: Served) -> None:
        served.answers.append((200, b"{}"))
        direct_requests.get_item(TableName="t", Key=KEY)
        idle = endpoint(client("dynamodb")).idle
        idle[0][0].sock.shutdown(socket.SHUT_RD)  # reading it is at its end, as after the other side's
        direct_requests.get_item(TableName="t", Key=KEY)
        assert served.by_botocore() == [False] * 2
        assert served.connections == 2

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
    def test_what_goes_wrong_is_sent_again_by_botocore(self, served: Served, answer: Any) -> None:
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

    def test_one_dead_connection_ends_all(self, served: Served) -> None:
        """They go dead together, when a function was frozen: waiting for each would take longer than a lease."""
        there = endpoint(client("dynamodb"))
        with ThreadPoolExecutor(4) as threads:
            served.together = threading.Barrier(4)
            list(threads.map(lambda _: direct_requests.get_item(TableName="t", Key=KEY), range(4)))
            served.together = None
        assert len(there.idle) == 4
        served.answers.append("close")
        direct_requests.get_item(TableName="t", Key=KEY)
        assert not there.idle

    def test_a_connection_that_was_idle_for_long_is_replaced(self, served: Served) -> None:
        direct_requests.get_item(TableName="t", Key=KEY)
        idle = endpoint(client("dynamodb")).idle
        idle[0] = (idle[0][0], idle[0][1] - signed_requests.IDLE_S)
        direct_requests.get_item(TableName="t", Key=KEY)
        assert served.by_botocore() == [False] * 2
        assert served.connections == 2

    def test_an_exemption_from_proxies_is_no_proxy(self, served: Served) -> None:
        with environment(NO_PROXY="localhost", AWS_ENDPOINT_URL=f"http://127.0.0.1:{served.server_port}"):
            direct_requests.get_item(TableName="t", Key=KEY)
        assert served.by_botocore() == [False]

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

    def test_behind_a_proxy_all_requests_are_botocores(self, served: Served) -> None:
        with environment(HTTP_PROXY=f"http://127.0.0.1:{served.server_port}", AWS_ENDPOINT_URL="http://dynamodb.invalid"):
            assert not endpoint(client("dynamodb")).is_usable
            direct_requests.get_item(TableName="t", Key=KEY)
        assert served.by_botocore() == [True]

    @pytest.mark.parametrize("variables", [{"AWS_USE_FIPS_ENDPOINT": "true"}, {"AWS_ACCOUNT_ID_ENDPOINT_MODE": "required"}])
    def test_endpoints_that_only_botocore_finds_are_left_to_it(self, variables: dict[str, str]) -> None:
        with environment(**variables):
            assert not endpoint(client("dynamodb")).is_usable

    def test_the_trace_of_an_invocation_is_continued_as_by_botocore(self, served: Served) -> None:
        variables = {"AWS_LAMBDA_FUNCTION_NAME": "f", "_X_AMZN_TRACE_ID": "Root=1-5759e988-bd862e3fe1be46a994272793;Sampled=1"}
        with environment(AWS_ENDPOINT_URL=f"http://127.0.0.1:{served.server_port}", **variables):
            direct_requests.get_item(TableName="t", Key=KEY)
            with through_botocore():
                direct_requests.get_item(TableName="t", Key=KEY)
        sent = [{name.lower(): value for name, value in request.items()}.get("x-amzn-trace-id") for request in served.requests]
        assert sent == [variables["_X_AMZN_TRACE_ID"]] * 2

    def test_no_request_begins_after_its_deadline(self, served: Served) -> None:
        with requests_checked_by(Deadline.after(-1).check), pytest.raises(OutOfTime):
            direct_requests.get_item(TableName="t", Key=KEY)
        assert served.requests == []

    def test_other_credentials_are_used_at_once(self, served: Served) -> None:
        direct_requests.get_item(TableName="t", Key=KEY)
        with environment(AWS_ENDPOINT_URL=f"http://127.0.0.1:{served.server_port}", AWS_ACCESS_KEY_ID="other"):
            direct_requests.get_item(TableName="t", Key=KEY)
        used = [request["authorization"].split("Credential=")[1].split("/")[0] for request in served.requests]
        assert used == ["test", "other"]
        assert f"/{REGION}/dynamodb/aws4_request" in served.requests[0]["authorization"]


class TestInvoke:
    """An invocation is sent once, whatever happens: a second one could run the function again."""

    def test_an_answer(self, served: Served) -> None:
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


class TestTls:
    @pytest.fixture
    def certificate(self, tmp_path: Path) -> Path:
        return self_signed(tmp_path)

    @pytest.fixture
    def secure(self, certificate: Path) -> Iterator[Served]:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        server = Served()
        server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
        with serving(server):
            yield server

    def test_the_certificates_that_botocore_trusts_are_trusted(self, secure: Served, certificate: Path) -> None:
        url = f"https://127.0.0.1:{secure.server_port}"
        with environment(AWS_ENDPOINT_URL=url, AWS_CA_BUNDLE=str(certificate)):
            direct_requests.get_item(TableName="t", Key=KEY)
        assert secure.by_botocore() == [False]

    def test_certificates_are_checked_as_by_botocore(self, certificate: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Python 3.13 adds two flags to a default context."""
        made = ssl.create_default_context()
        made.verify_flags |= ssl.VERIFY_X509_STRICT | ssl.VERIFY_X509_PARTIAL_CHAIN
        monkeypatch.setattr(ssl, "create_default_context", lambda **_: made)
        with environment(AWS_ENDPOINT_URL="https://127.0.0.1:9", AWS_CA_BUNDLE=str(certificate)):
            endpoint(client("dynamodb"))
        assert made.verify_flags == create_urllib3_context().verify_flags

    def test_certificates_that_do_not_read_are_left_to_botocore(
        self, secure: Served, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        url = f"https://127.0.0.1:{secure.server_port}"
        with environment(AWS_ENDPOINT_URL=url, AWS_CA_BUNDLE=str(tmp_path / "missing.pem")), pytest.raises(OSError):
            direct_requests.get_item(TableName="t", Key=KEY)
        assert "left to botocore" in caplog.text

    def test_a_certificate_that_botocore_does_not_trust_is_not_trusted(
        self, secure: Served, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for name in ("AWS_CA_BUNDLE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"):
            monkeypatch.delenv(name, raising=False)
        with environment(AWS_ENDPOINT_URL=f"https://127.0.0.1:{secure.server_port}"), pytest.raises(SSLError):
            direct_requests.get_item(TableName="t", Key=KEY)
        assert secure.requests == []
