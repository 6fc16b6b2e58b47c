"""Names looked up for coroutines: on a thread of their own, once for all who ask for the same name at the same time."""

from __future__ import annotations

import ipaddress
import threading
from dataclasses import dataclass, field

import httpx

from noetl_core.tools.event_loop import EventLoop, Signal
from noetl_core.tools.net import AddressPolicy, resolve


@dataclass(slots=True, eq=False)
class _Lookup:
    """A lookup on its way, and who waits for it."""

    waiting: list[Signal] = field(default_factory=list)
    addresses: list[str] = field(default_factory=list)
    error: Exception | None = None


class Lookups:
    """Addresses of hosts that `policy` allows. Thread-safe."""

    def __init__(self, policy: AddressPolicy) -> None:
        self._policy = policy
        self._lookups: dict[tuple[str, int], _Lookup] = {}
        self._lock = threading.Lock()

    async def addresses(self, loop: EventLoop, host: str, port: int, until: float) -> list[str]:
        """Return the addresses of `host`, all of them allowed: the caller connects to one of these. Raises `AddressRefused`,
        `httpx.ConnectError`, `httpx.ConnectTimeout`."""
        if _is_address(host):
            return self._resolved(host, port)
        signal = Signal(loop)
        with self._lock:
            lookup = self._lookups.get((host, port))
            if lookup is None:
                lookup = _Lookup()
                threading.Thread(target=self._look_up, args=(host, port, lookup), name="lookup", daemon=True).start()
                self._lookups[host, port] = lookup  # of a thread that has started, and waits for the lock when it has the answer
            lookup.waiting.append(signal)
        if not await signal.wait(until):
            raise httpx.ConnectTimeout("timed out")
        if lookup.error is not None:
            raise lookup.error
        return lookup.addresses

    def _look_up(self, host: str, port: int, lookup: _Lookup) -> None:
        try:
            lookup.addresses = self._resolved(host, port)
        except Exception as error:  # raised by those who wait
            lookup.error = error
        with self._lock:
            del self._lookups[host, port]
        for signal in lookup.waiting:
            signal.set()

    def _resolved(self, host: str, port: int) -> list[str]:
        try:
            return resolve(host, port, self._policy)
        except (OSError, UnicodeError) as error:
            raise httpx.ConnectError(f"{host} cannot be resolved: {error}") from error


def _is_address(host: str) -> bool:
    """Return whether `host` is an address, which needs no lookup."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
