"""The server of the embedded stack writes the head and the body of an answer together."""

from __future__ import annotations

import asyncio
from typing import Any

from noetl_infra.server import SMALL, OneWrite


class Transport:
    """Notes what it is told."""

    def __init__(self) -> None:
        self.told: list[Any] = []

    def write(self, data: bytes) -> None:
        self.told.append(data)

    def close(self) -> None:
        self.told.append("close")

    def is_closing(self) -> bool:
        return "close" in self.told


def test_writes_in_one_round_of_the_loop_become_one_write() -> None:
    under = Transport()

    async def answer() -> None:
        transport = OneWrite(under)
        transport.write(b"head ")
        transport.write(b"body")
        assert under.told == []
        await asyncio.sleep(0)
        transport.write(b"next")
        transport.close()
        assert transport.is_closing()
        await asyncio.sleep(0)

    asyncio.run(answer())
    assert under.told == [b"head body", b"next", "close"], "in order, and nothing twice"


def test_a_large_part_is_passed_on_at_once_and_in_order() -> None:
    """Otherwise a long answer would be held here, and its sender would not be told to wait."""
    under = Transport()
    large = b"x" * SMALL

    async def answer() -> None:
        transport = OneWrite(under)
        transport.write(b"head")
        transport.write(large)
        assert under.told == [b"head", large]
        transport.write(b"end")
        await asyncio.sleep(0)

    asyncio.run(answer())
    assert under.told == [b"head", large, b"end"]
