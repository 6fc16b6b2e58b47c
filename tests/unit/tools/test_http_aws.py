"""`auth` of type aws: requests with the signature of AWS, and as whom they are signed."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from noetl_core.aws.clients import forget_clients
from noetl_core.engine.outcome import Outcome
from noetl_core.tools.aws import rights
from noetl_core.tools.base import ToolCall
from noetl_core.tools.http.tool import HttpTool
from noetl_core.tools.invoke import invoke
from noetl_core.tools.network.addresses import AddressPolicy

from .conftest import Server, kind

OWN = {"access_key_id": "AKIDEXAMPLE", "secret_access_key": "s3cret-access-key-of-mine"}
Call = Callable[..., Outcome]


@pytest.fixture
def call(server: Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[Call]:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDOFTHEROLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "s3cret-of-the-role")
    monkeypatch.setenv("AWS_SESSION_TOKEN", "s3ssion-token-of-the-role")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-central-1")
    monkeypatch.setenv("AWS_ENDPOINT_URL", server.base)
    forget_clients()
    tool = HttpTool(AddressPolicy(allow_private=True))

    def call(path: str, auth: Any, **inputs: Any) -> Outcome:
        spec = inputs.pop("spec", {})
        base = inputs.pop("base", server.base)
        return invoke(tool, ToolCall("http", {"url": base + path, "auth": {"type": "aws", **auth}, **inputs}, spec, "1"))

    yield call
    tool.close()
    forget_clients()


def check(server: Server, number: int, secret: str, service: str, region: str, token: str | None = None) -> None:
    """Sign what arrived again, and compare."""
    method, path, headers, body = server.requests[number]
    authorization = headers["authorization"]
    assert f"/{region}/{service}/aws4_request" in authorization
    access = authorization.split("Credential=")[1].split("/")[0]
    names = authorization.split("SignedHeaders=")[1].split(",")[0].split(";")
    kept = {name: headers[name] for name in names if name not in ("x-amz-date", "x-amz-security-token")}
    request = AWSRequest(method=method, url=server.base + path, headers=kept, data=body)
    signer = SigV4Auth(Credentials(access, secret, token), service, region)
    request.context["timestamp"] = headers["x-amz-date"]
    request.headers["X-Amz-Date"] = headers["x-amz-date"]
    if token:
        request.headers["X-Amz-Security-Token"] = token
    canonical = signer.canonical_request(request)
    assert hashlib.sha256(body).hexdigest() in canonical
    assert authorization.endswith("Signature=" + signer.signature(signer.string_to_sign(request, canonical), request))


def test_a_request_is_signed_with_the_keys_of_a_credential(call: Call, server: Server) -> None:
    auth = {**OWN, "service": "es", "region": "us-west-2", "session_token": "s3ssion-token-of-mine"}
    outcome = call("/echo", auth, method="POST", json={"a": [1]}, params={"b": "x y", "a": "ü"})
    assert outcome.status == "ok", outcome.error
    check(server, 0, OWN["secret_access_key"], "es", "us-west-2", "s3ssion-token-of-mine")
    assert "s3cret" not in json.dumps(outcome.as_dict()) and "s3ssion" not in json.dumps(outcome.as_dict())


def test_locally_the_profile_of_the_caller_signs(call: Call, server: Server) -> None:
    assert call("/_aws/execute-api/abc123/dev/orders", {}).status == "ok"
    check(server, 0, "s3cret-of-the-role", "execute-api", "eu-central-1", "s3ssion-token-of-the-role")


@pytest.mark.parametrize(
    ("path", "auth", "message"),
    [
        ("/_aws/execute-api/other1/dev", {}, "parameter ToolApis does not name API `other1` (it names: abc*)"),
        ("/_aws/execute-api/abcown/dev", {}, "the engine's own"),
        ("/echo", {"service": "dynamodb"}, "APIs of API Gateway only: write a `credential`"),
        ("/echo", {"service": "execute-api"}, "APIs of API Gateway only: write a `credential`"),
    ],
)
def test_on_a_stack_the_role_signs_for_the_apis_that_a_parameter_names(
    call: Call, server: Server, monkeypatch: pytest.MonkeyPatch, path: str, auth: Any, message: str
) -> None:
    monkeypatch.setenv(rights.OWN, json.dumps({"apis": ["abcown"]}))
    monkeypatch.setenv(rights.APIS.variable, "abc*")
    assert call("/_aws/execute-api/abc123/dev", {}).status == "ok"
    outcome = call(path, auth)
    assert kind(outcome) == "auth" and outcome.error is not None and message in outcome.error.message
    assert len(server.requests) == 1


def test_the_role_signs_for_no_other_host(call: Call, server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(rights.OWN, "{}")
    monkeypatch.setenv(rights.APIS.variable, "*")
    for base in (server.base.replace("127.0.0.1", "localhost"), "http://abc.execute-api.eu-central-1.amazonaws.com.example.org"):
        assert kind(call("/_aws/execute-api/abc123/dev", {"service": "execute-api"}, base=base)) == "auth"
    assert not server.requests


def test_a_redirect_within_the_origin_is_signed_anew_and_to_another_not_at_all(call: Call, server: Server) -> None:
    auth = {**OWN, "service": "es", "region": "us-west-2"}
    call("/redirect?to=/echo", auth)
    check(server, 1, OWN["secret_access_key"], "es", "us-west-2")
    call("/redirect?to=" + server.base.replace("127.0.0.1", "localhost") + "/echo", auth)
    assert not {name for name in server.requests[3][2] if name.startswith("x-amz") or name == "authorization"}


@pytest.mark.parametrize(
    ("auth", "inputs", "message"),
    [
        ({}, {}, "needs `service`"),
        ({"access_key_id": "A", "service": "es"}, {}, "both `access_key_id` and `secret_access_key`"),
        (OWN, {"headers": {"Host": "x"}}, "leave them out"),
        (OWN, {"method": "POST", "files": {"a": "b"}}, "signs the whole body"),
    ],
)
def test_a_request_that_cannot_be_signed_fails_with_the_reason(
    call: Call, server: Server, auth: Any, inputs: Any, message: str
) -> None:
    outcome = call("/echo", auth, **inputs)
    assert kind(outcome) == "schema" and outcome.error is not None and message in outcome.error.message
    assert not server.requests
