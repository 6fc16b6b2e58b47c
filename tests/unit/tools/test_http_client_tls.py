"""The HTTP client and TLS: whom it trusts."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest

from noetl_core.tools.http.tool import HttpTool
from tests.certificates import self_signed
from tests.servers import serving

from .conftest import kind
from .connections import Server, calls, kinds, tool

__all__ = ["tool"]


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate for 127.0.0.1 that signs itself, with its key."""
    return self_signed(tmp_path_factory.mktemp("tls"))


@pytest.fixture
def secure(certificate: Path) -> Iterator[Server]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    server = Server()
    server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    with serving(server) as server:
        yield server
        server.barrier.abort()


def test_an_unverifiable_server_gets_no_request_unless_verification_is_off(secure: Server, tool: HttpTool) -> None:
    url = f"https://127.0.0.1:{secure.server_port}/"
    refused = calls(tool, url)[0]
    assert kind(refused) == "connection" and refused.error is not None and "CERTIFICATE_VERIFY_FAILED" in refused.error.message
    assert not secure.paths
    secure.together(20)
    assert kinds(calls(tool, *[url] * 20, verify=False)) == {"ok": 20}
    assert kinds(calls(tool, url)) == {"connection": 1}, "a connection that was not verified serves nobody who wants it verified"


def test_a_trusted_certificate_is_verified_and_large_answers_arrive_whole(
    secure: Server, tool: HttpTool, certificate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    url = f"https://127.0.0.1:{secure.server_port}/large"
    for _ in range(2):
        outcomes = calls(tool, *[url] * 5, ok_statuses=[500], response="text")
        assert [len(outcome.result["data"]) for outcome in outcomes] == [100_000] * 5


def test_a_server_that_does_not_shake_hands_is_a_timeout(tool: HttpTool) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        outcome = calls(tool, f"https://127.0.0.1:{silent.getsockname()[1]}/", timeout={"connect": 0.1})[0]
    assert kind(outcome) == "timeout" and outcome.error is not None and outcome.error.code == "ConnectTimeout"
