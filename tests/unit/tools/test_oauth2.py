"""OAuth 2.0: one token request for many calls, renewed in time, and in no answer."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from noetl_core.engine.outcome import Outcome
from noetl_core.expr import Secret
from noetl_core.tools.base import ToolCall
from noetl_core.tools.http.access_tokens import REFUSED_S, Tokens
from noetl_core.tools.http.execution_tokens import ExecutionTokens
from noetl_core.tools.http.tool import HttpTool
from noetl_core.tools.invoke import invoke
from noetl_core.tools.network.addresses import AddressPolicy
from tests.oauth_server import CLIENT, OAuthServer
from tests.servers import serving

from .conftest import kind

LOCAL = AddressPolicy(allow_private=True)
SECOND = 1_000_000
Get = Callable[..., Outcome]
HIDDEN = ("client_secret", "password", "refresh_token")


class Hands:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.at = 1_800_000_000 * SECOND

    def __call__(self) -> int:
        return self.at

    def pass_(self, seconds: float) -> None:
        self.at += int(seconds * SECOND)


@pytest.fixture
def server() -> Iterator[OAuthServer]:
    with serving(OAuthServer()) as server:
        yield server


@pytest.fixture
def clock() -> Hands:
    return Hands()


@pytest.fixture
def get(server: OAuthServer, clock: Hands) -> Iterator[Get]:
    tool, tokens = HttpTool(LOCAL), Tokens(LOCAL, now=clock)

    def get(path: str = "/api", execution: str = "1", spec: Any = None, **auth: Any) -> Outcome:
        fields = {"type": "oauth2", "token_url": server.base + "/token", **CLIENT, **auth}
        inputs = {"url": server.base + path, "auth": {k: Secret(v) if k in HIDDEN else v for k, v in fields.items()}}
        call = ToolCall("http", inputs, spec or {}, execution, tokens=ExecutionTokens(lambda: tokens, execution, lambda: "root"))
        return invoke(tool, call)

    yield get
    tool.close()
    tokens.close()


def test_a_token_is_requested_and_sent(get: Get, server: OAuthServer) -> None:
    outcome = get(scopes=["a", "b"], audience="them")
    assert outcome.status == "ok", outcome.error
    assert server.token_requests == [
        {**CLIENT, "grant_type": "client_credentials", "scope": "a b", "audience": "them", "authorization": "", "method": "POST"}
    ]
    assert server.calls == [("/api", "Bearer acc3ss-t0ken-1-of-the-server")]


def test_neither_the_token_nor_the_secret_is_in_the_answer_that_echoes_them(get: Get, server: OAuthServer) -> None:
    text = json.dumps(get().as_dict())
    assert "acc3ss" not in text and "***" in text
    server.takes = False
    text = json.dumps(get().as_dict())
    assert "acc3ss" not in text and "is not valid" in text


def test_basic_client_auth_sends_the_client_credentials_in_the_header(get: Get, server: OAuthServer) -> None:
    assert get(client_auth="basic").status == "ok"
    request = server.token_requests[0]
    assert "client_secret" not in request and request["authorization"].startswith("Basic ")


@pytest.mark.parametrize(
    ("fields", "sent"),
    [
        pytest.param({"refresh_token": "r-1"}, {"grant_type": "refresh_token", "refresh_token": "r-1"}, id="refresh token"),
        pytest.param(
            {"username": "ada", "password": "lovelace"},
            {"grant_type": "password", "username": "ada", "password": "lovelace"},
            id="password",
        ),
        pytest.param({"data": {"resource": "x", **CLIENT}}, {"resource": "x"}, id="a form of the author's"),
        pytest.param({"json": {"kind": "x", **CLIENT}}, {"kind": "x"}, id="JSON of the author's"),
    ],
)
def test_grants(get: Get, server: OAuthServer, fields: dict[str, Any], sent: dict[str, Any]) -> None:
    assert get(**fields).status == "ok"
    assert server.token_requests == [{**CLIENT, **sent, "authorization": "", "method": "POST"}]


@pytest.mark.nightly
def test_a_thousand_calls_of_many_threads_and_executions_make_one_token_request(server: OAuthServer) -> None:
    tool, tokens = HttpTool(LOCAL), Tokens(LOCAL)
    auth = {"type": "oauth2", "token_url": server.base + "/token", **CLIENT}
    failed: list[Outcome] = []

    def many(number: int) -> None:
        for one in range(50):
            own = ExecutionTokens(lambda: tokens, str(number), lambda: None)
            outcome = invoke(tool, ToolCall("http", {"url": f"{server.base}/api/{number}/{one}", "auth": auth}, tokens=own))
            if outcome.status != "ok":
                failed.append(outcome)

    threads = [threading.Thread(target=many, args=(number,)) for number in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    tool.close()
    tokens.close()
    assert not failed
    assert (len(server.token_requests), len(server.calls)) == (1, 1000)


def test_a_token_is_renewed_before_it_ends(get: Get, server: OAuthServer, clock: Hands) -> None:
    get()
    clock.pass_(3600 - 61)
    get()
    assert len(server.token_requests) == 1
    clock.pass_(2)
    assert get().status == "ok"
    assert len(server.token_requests) == 2


def test_a_token_that_cannot_be_renewed_in_time_serves_until_it_ends(get: Get, server: OAuthServer, clock: Hands) -> None:
    get()
    server.refuse = (503, {})
    clock.pass_(3600 - 30)
    assert get().status == "ok"
    clock.pass_(31)
    outcome = get()
    assert kind(outcome) == "server_error" and outcome.error is not None
    assert outcome.error.message.startswith("no access token: POST http://127.0.0.1")


def test_a_token_that_is_refused_is_renewed_once(get: Get, server: OAuthServer) -> None:
    get()
    server.revoke()
    assert get().status == "ok"
    assert (len(server.token_requests), len(server.calls)) == (2, 3)
    server.takes = False
    assert kind(get()) == "auth"
    assert (len(server.token_requests), len(server.calls)) == (3, 5)
    assert kind(get()) == "auth"  # the newest was never taken: another one would not help
    assert (len(server.token_requests), len(server.calls)) == (3, 6)


def test_a_new_token_that_is_refused_is_an_error_and_no_reason_for_another(get: Get, server: OAuthServer) -> None:
    server.takes = False
    assert kind(get()) == "auth"
    assert (len(server.token_requests), len(server.calls)) == (1, 1)


def test_the_newest_refresh_token_is_used(get: Get, server: OAuthServer, clock: Hands) -> None:
    server.answer = {"refresh_token": "newer-refresh-token"}
    get(refresh_token="first-refresh-token")
    clock.pass_(3600)
    get(refresh_token="first-refresh-token")
    assert [r["refresh_token"] for r in server.token_requests] == ["first-refresh-token", "newer-refresh-token"]


@pytest.mark.parametrize(
    ("scope", "executions", "requests"), [("local", ["1", "1", "2"], 2), ("shared", ["1", "2"], 1), ("global", ["1", "2"], 1)]
)
def test_scopes(get: Get, server: OAuthServer, scope: str, executions: list[str], requests: int) -> None:
    for execution in executions:
        assert get(execution=execution, scope=scope).status == "ok"
    assert len(server.token_requests) == requests


def test_another_secret_has_another_token(get: Get, server: OAuthServer) -> None:
    get()
    outcome = get(client_secret="wr0ng-secret-word")
    assert kind(outcome) == "auth" and outcome.error is not None
    assert outcome.error.retryable is not True
    assert "HTTP 401 (invalid_client: *** is not the secret)" in outcome.error.message


def test_a_wrong_secret_is_not_sent_again_and_again(get: Get, server: OAuthServer, clock: Hands) -> None:
    for _ in range(5):
        assert kind(get(client_secret="wr0ng-secret-word")) == "auth"
    assert len(server.token_requests) == 1
    clock.pass_(REFUSED_S + 1)
    get(client_secret="wr0ng-secret-word")
    assert len(server.token_requests) == 2


@pytest.mark.parametrize(
    ("refuse", "expected"),
    [
        ((429, {}), "rate_limit"),
        ((500, {}), "server_error"),
        ((400, {"error": "invalid_scope"}), "auth"),
        ((200, {"x": 1}), "parse"),
    ],
)
def test_a_refused_token_request_fails_with_the_kind_of_its_error(
    get: Get, server: OAuthServer, refuse: tuple[int, Any], expected: str
) -> None:
    server.refuse = refuse
    outcome = get()
    assert kind(outcome) == expected and not server.calls


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"token_url": None}, "needs a `token_url`"),
        ({"client_id": None}, "needs `client_id` and `client_secret`"),
        ({"grant_type": "implicit"}, "`grant_type` 'implicit'"),
        ({"grant_type": "password"}, "needs `username`"),
        ({"client_auth": "magic"}, "body, basic"),
        ({"ttl": "soon"}, "ttl of `auth`"),
        ({"data": [1]}, "`data` of `auth` must be a mapping"),
    ],
)
def test_an_incomplete_or_invalid_grant_names_the_wrong_field(
    get: Get, server: OAuthServer, fields: dict[str, Any], message: str
) -> None:
    outcome = get(**fields)
    assert kind(outcome) == "schema" and outcome.error is not None and message in outcome.error.message
    assert not server.token_requests


def test_token_requests_pass_the_policy_of_addresses(get: Get, server: OAuthServer) -> None:
    outcome = get(token_url="http://169.254.169.254/token")
    assert kind(outcome) == "client_error" and outcome.error is not None and outcome.error.code == "address_refused"


def test_the_token_and_its_lifetime_are_read_from_configured_fields(get: Get, server: OAuthServer, clock: Hands) -> None:
    server.answer = {"expires_in": None, "data": {"jwt": "acc3ss-t0ken-1-of-the-server", "seconds": "100"}}
    assert get(token_field="data.jwt", expires_field="data.seconds").status == "ok"
    clock.pass_(89)
    get(token_field="data.jwt", expires_field="data.seconds")
    assert len(server.token_requests) == 1
    clock.pass_(2)
    get(token_field="data.jwt", expires_field="data.seconds")
    assert len(server.token_requests) == 2
