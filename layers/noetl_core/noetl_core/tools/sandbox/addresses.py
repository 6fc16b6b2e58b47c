"""Rules for the addresses that a task may reach, which the worker derives from its policy (`tools.network.addresses`). Standard
library only.

The first rule whose network has the address, and whose port (if it has one) is the port, decides. The broker of a task's sockets
applies the rules, and the audit hook does so before, to explain.
"""

from __future__ import annotations

import contextlib
import ipaddress
import socket
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, Final, Literal

Verdict = Literal["allow", "refuse", "public", "embedded"]
"""`public` allows the address unless it is this machine's own; `embedded` judges the IPv4 address in its last four bytes."""
Address = ipaddress.IPv4Address | ipaddress.IPv6Address
DNS_PORT: Final = 53
NAME_SERVERS: Final = "/etc/resolv.conf"

REASONS: Final = {
    "link_local": "link-local and metadata addresses are out of bounds",
    "unspecified": "the unspecified address is out of bounds",
    "reserved": "multicast and reserved addresses are out of bounds",
    "platform": "the platform's own endpoint is out of bounds",
    "private": "private addresses are out of bounds unless NOETL_HTTP_ALLOW_PRIVATE allows them",
    "own": "this machine is out of bounds unless NOETL_HTTP_ALLOW_PRIVATE allows its addresses",
}
"""Reasons of rules that refuse, for people."""


Rule = tuple[str, Verdict, str, int | None]
"""A network, the treatment of its addresses, a key of `REASONS` if they are refused, and the port, if the rule is for one
only."""


def rule(network: str, verdict: Verdict, reason: str = "", port: int | None = None) -> Rule:
    """Return a rule."""
    return network, verdict, reason, port


class Addresses:
    """The rules of a deployment. Without rules, no address is refused."""

    def __init__(self, rules: Iterable[Rule] = (), own_ports: Iterable[int] = (), *, own: bool = False) -> None:
        """`own_ports` are ports of the platform, refused on every address of this machine; with `own`, public addresses of this
        machine are allowed."""
        self.rules, self.own_ports, self.own = tuple(rules), tuple(own_ports), own

    @classmethod
    def from_plain(cls, value: Mapping[str, Any]) -> Addresses:
        """Return the rules from JSON."""
        return cls((rule(*plain) for plain in value["rules"]), value["own_ports"], own=value["own"])

    def as_plain(self) -> dict[str, Any]:
        """Return the rules as JSON."""
        return {"rules": [list(each) for each in self.rules], "own_ports": list(self.own_ports), "own": self.own}

    def with_name_servers(self, path: str = NAME_SERVERS) -> Addresses:
        """Allow the DNS port of this machine's name servers, which often have private or link-local addresses."""
        found = []
        with contextlib.suppress(OSError), open(path, encoding="utf-8", errors="replace") as file:
            for line in file:
                match line.split():
                    case ["nameserver", host, *_]:
                        with contextlib.suppress(ValueError):
                            found.append(str(ipaddress.ip_address(host.partition("%")[0])))
        return Addresses([*(rule(host, "allow", port=DNS_PORT) for host in found), *self.rules], self.own_ports, own=self.own)

    def why_refused(self, host: str, port: int) -> str | None:
        """Return why a connection to `host` (an address or a name) is refused. None if it is allowed, and for names except
        `localhost`, which are judged when their address is known."""
        address = parsed("127.0.0.1" if host.lower() == "localhost" else host)
        reason = self.reason(address, port)
        return None if reason is None else f"{REASONS[reason]} ({host}:{port})"

    def reason(self, address: Address | None, port: int) -> str | None:
        """Return the key of the reason why an address is refused; None if it is allowed."""
        if port in self.own_ports and (address is None or is_own(address)):
            return "platform"
        if address is None:
            return None
        verdict, reason = self._first(address, port)
        if verdict == "embedded":
            return self.reason(ipaddress.IPv4Address(int(address) & 0xFFFFFFFF), port)
        if verdict == "refuse":
            return reason
        return "own" if verdict == "public" and not self.own and is_own(address) else None

    def _first(self, address: Address, port: int) -> tuple[Verdict, str]:
        for text, verdict, reason, only in self.rules:
            network = _network(text)
            if only in (None, port) and network.version == address.version and address in network:
                return verdict, reason
        return "allow", ""


def is_own(address: Address) -> bool:
    """Return whether a connection to `address` ends at this machine: a socket can be bound only to the machine's own
    addresses."""
    if address.is_loopback or address.is_unspecified:
        return True
    with socket.socket(socket.AF_INET if address.version == 4 else socket.AF_INET6) as probe:
        try:
            probe.bind((str(address), 0))
        except OSError:
            return False
    return True


def parsed(host: str) -> Address | None:
    """Return the address that a text is, in any spelling, an IPv4 address where it is mapped; None for a name."""
    try:
        found = ipaddress.ip_address(socket.inet_ntoa(socket.inet_aton(host)) if ":" not in host else host.partition("%")[0])
    except (OSError, ValueError):
        return None
    mapped = getattr(found, "ipv4_mapped", None)
    return found if mapped is None else mapped


@lru_cache(maxsize=1024)
def _network(text: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network:
    return ipaddress.ip_network(text)
