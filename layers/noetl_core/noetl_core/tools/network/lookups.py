"""Name lookups for coroutines. Each runs on a thread of its own and is shared by all that request the same name meanwhile."""

from __future__ import annotations

import asyncio
import socket
import threading
from contextlib import suppress
from typing import Final

from aiohttp.abc import AbstractResolver, ResolveResult

from noetl_core.tools.network.addresses import AddressPolicy, resolve

_Found = list[str] | Exception


class Resolver(AbstractResolver):
    """Resolves hosts for aiohttp to the addresses that `policy` allows. It belongs to one asyncio loop, and caches nothing.

    It does not use asyncio's thread pool, because a lookup that hangs would block others, and the end of the process.
    """

    def __init__(self, policy: AddressPolicy) -> None:
        self._policy: Final = policy
        self._lookups: dict[tuple[str, int], asyncio.Future[_Found]] = {}

    async def resolve(self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET) -> list[ResolveResult]:
        """Return the addresses of `host`, of every family. Raises `AddressRefused`, `OSError`."""
        return [
            ResolveResult(hostname=host, host=address, port=port, family=_family(address), proto=0, flags=0)
            for address in await self.addresses(host, port)
        ]

    async def addresses(self, host: str, port: int) -> list[str]:
        """Return the addresses of `host`. Raises `AddressRefused`, `OSError`."""
        lookup = self._lookups.get((host, port))
        if lookup is None:
            lookup = self._lookups[host, port] = asyncio.get_running_loop().create_future()
            threading.Thread(target=self._look_up, args=(host, port, lookup), name="lookup", daemon=True).start()
        found = await asyncio.shield(lookup)
        if isinstance(found, Exception):
            raise found
        return found

    async def close(self) -> None:
        """Do nothing: lookups end by themselves."""

    def _look_up(self, host: str, port: int, lookup: asyncio.Future[_Found]) -> None:
        found: _Found
        try:
            found = resolve(host, port, self._policy)
        except UnicodeError as error:
            found = OSError(str(error))
        except Exception as error:  # raised by the waiting callers
            found = error

        def tell() -> None:
            del self._lookups[host, port]
            lookup.set_result(found)

        with suppress(RuntimeError):  # the loop is closed: nobody waits
            lookup.get_loop().call_soon_threadsafe(tell)


def _family(address: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in address else socket.AF_INET
