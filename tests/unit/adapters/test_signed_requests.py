"""Requests are signed as botocore signs them, over connections of their own, with the certificates that botocore trusts."""

from __future__ import annotations

import random
import socket
import ssl
import string
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.exceptions import (
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
from tests.contract.aws import REGION, environment
from tests.servers import serving
from tests.unit.adapters.scripted_service import KEY, Served, served

__all__ = ["served"]


OTHER_REGION = "eu-central-1"


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
