"""The embedded stack's API under more requests than it can carry."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from noetl_infra.throttle import Throttled


class Emulator:
    """Holds every request until it is told to go on, and counts."""

    def __init__(self) -> None:
        self.over = asyncio.Event()
        self.at_work = self.most = 0

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self.at_work += 1
        self.most = max(self.most, self.at_work)
        try:
            await self.over.wait()
        finally:
            self.at_work -= 1
        await send({"type": "http.response.start", "status": 202, "headers": []})


async def receive() -> dict[str, Any]:
    return {}


async def request(app: Any, path: str = "/_aws/execute-api/a/v1/api/executions") -> list[dict[str, Any]]:
    sent: list[dict[str, Any]] = []

    async def send(message: Any) -> None:
        sent.append(message)

    await app({"type": "http", "path": path}, receive, send)
    return sent


def test_no_more_requests_than_the_machine_carries_are_at_work_at_once_and_all_are_served() -> None:
    async def crowd() -> None:
        emulator = Emulator()
        app = Throttled(emulator, at_once=3)
        requests = [asyncio.create_task(request(app)) for _ in range(50)]
        while emulator.at_work < 3:
            await asyncio.sleep(0)
        emulator.over.set()
        answers = await asyncio.gather(*requests)
        assert {sent[0]["status"] for sent in answers} == {202}
        assert emulator.most == 3

    asyncio.run(crowd())


def test_a_request_without_a_turn_gets_429_with_retry_after() -> None:
    async def crowd() -> None:
        emulator = Emulator()
        app = Throttled(emulator, at_once=1, wait_s=0.01)
        first = asyncio.create_task(request(app))
        while not emulator.at_work:
            await asyncio.sleep(0)
        start, body = await request(app)
        assert start["status"] == 429
        assert dict(start["headers"])[b"retry-after"] == b"1"
        assert json.loads(body["body"])["error"]["code"] == "throttled"
        emulator.over.set()
        assert (await first)[0]["status"] == 202
        assert (await request(app))[0]["status"] == 202, "a turn was not given back"

    asyncio.run(crowd())


def test_requests_from_functions_to_the_emulator_are_not_throttled() -> None:
    async def crowd() -> None:
        emulator = Emulator()
        app = Throttled(emulator, at_once=1, wait_s=0.01)
        tasks = [asyncio.create_task(request(app, path)) for path in ("/_aws/execute-api/a/v1/api", "/", "/queue", "/bucket/key")]
        while emulator.at_work < 4:
            await asyncio.sleep(0)
        emulator.over.set()
        await asyncio.gather(*tasks)

    asyncio.run(crowd())
