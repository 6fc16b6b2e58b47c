"""The embedded stack serves programs of this machine, not pages that a browser on it happens to show."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from noetl_infra.guard import Guarded, refusal

OWN = {"host": "127.0.0.1:4566"}


@pytest.mark.parametrize(
    "headers",
    [
        OWN,
        {"host": "localhost:4566"},
        {"host": "[::1]:4566"},
        {"host": "10.88.0.1:4566"},  # a container, by way of a forwarder on this machine
        {"host": "bucket.s3.localhost:4566"},
        {**OWN, "origin": "http://127.0.0.1:4566"},
        {**OWN, "origin": "http://localhost:7777", "sec-fetch-site": "same-site"},
        {**OWN, "sec-fetch-site": "none"},
        {**OWN, "content-type": "text/plain"},
    ],
    ids=str,
)
def test_programs_and_pages_of_this_machine_pass(headers: dict[str, str]) -> None:
    assert refusal(headers) == ""


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"host": ""},
        {"host": "evil.example"},
        {"host": "evil.example:4566"},
        {"host": "127.0.0.1.evil.example:4566"},
        {"host": "localhost.evil.example"},
        {"host": "10.0.0.5:4566", "origin": "http://10.0.0.5:4566"},
        {"host": "evil.example#@127.0.0.1"},
        {"host": "[::1"},
        {**OWN, "origin": "https://evil.example"},
        {**OWN, "origin": "null"},
        {**OWN, "origin": ""},
        {**OWN, "origin": "http://127.0.0.1.evil.example"},
        {**OWN, "sec-fetch-site": "cross-site"},
        {**OWN, "sec-fetch-site": "cross-site", "origin": "http://127.0.0.1:4566"},
    ],
    ids=str,
)
def test_foreign_hosts_and_pages_are_refused(headers: dict[str, str]) -> None:
    assert refusal(headers)


def test_a_configured_host_name_counts_as_this_machine() -> None:
    assert refusal({"host": "devbox:4566"}, frozenset({"devbox"})) == ""


def exchanged(headers: dict[str, str], kind: str = "http") -> tuple[list[str], list[dict[str, Any]]]:
    """Return the requests that the application behind the guard received, and the messages that were sent."""
    seen: list[str] = []
    sent: list[dict[str, Any]] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        seen.append(scope["type"])

    async def receive() -> dict[str, Any]:
        return {}

    async def send(message: Any) -> None:
        sent.append(message)

    pairs = [(k.encode(), v.encode()) for k, v in headers.items()]
    asyncio.run(Guarded(app)({"type": kind, "headers": pairs}, receive, send))
    return seen, sent


def test_a_refused_request_does_not_reach_the_stack_and_gets_the_reason() -> None:
    seen, sent = exchanged({"Host": "127.0.0.1:4566", "Origin": "https://evil.example", "Content-Type": "text/plain"})
    assert seen == []
    assert sent[0]["status"] == 403
    assert "evil.example" in json.loads(sent[1]["body"])["error"]["message"]
    assert exchanged({"Host": "evil.example"}, "websocket")[1] == [{"type": "websocket.close", "code": 1008}]
    assert exchanged(OWN) == (["http"], [])
    assert exchanged({}, "lifespan") == (["lifespan"], [])
