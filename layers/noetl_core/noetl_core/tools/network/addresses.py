"""Decides which addresses a task may reach (docs/access.md). It checks the address to connect to, however it was written.

* Never: link-local (where clouds have their metadata services), other metadata addresses, unspecified addresses (they reach this
  machine), the Lambda runtime API on any address of this machine, multicast and reserved ranges.
* Only where the deployment allows it (`NOETL_HTTP_ALLOW_PRIVATE`): loopback and private ranges. `1` allows all of them, a
  comma-separated list of networks (`10.0.0.0/8,fd12::/16`) allows those.

IPv4 inside IPv6 (mapped, NAT64, 6to4, Teredo) is judged as the IPv4 address that it reaches.
"""

from __future__ import annotations

import ipaddress
import os
import socket
from typing import Final
from urllib.parse import urlsplit

from noetl_core.tools.base import BadInput
from noetl_core.tools.sandbox.addresses import Addresses, is_own, rule
from noetl_core.values.frozen import frozen

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network

_NEVER: Final = tuple(
    ipaddress.ip_network(n)
    for n in (
        "169.254.0.0/16",
        "fe80::/10",
        "fd00:ec2::/32",
        "100.100.100.200/32",
        "168.63.129.16/32",
        "192.0.0.192/32",
        "fec0::/10",
    )
)
"""Link-local, and the metadata services of AWS (IPv6), Alibaba, Azure and Oracle that live elsewhere."""
_UNSPECIFIED: Final = (ipaddress.ip_network("0.0.0.0/8"), ipaddress.ip_network("::/128"))
NAT64: Final = ipaddress.IPv6Network("64:ff9b::/96")
"""Addresses that embed an IPv4 address."""
_RESERVED: Final = ("224.0.0.0/3", "::/3", "4000::/2", "8000::/2", "c000::/3", "e000::/4", "f000::/5", "f800::/6", "fe00::/7")
"""Multicast and reserved ranges."""
TUNNELS: Final = ("2002::/16", "2001::/32")
"""6to4 and Teredo, which carry IPv4 addresses. Hardly anything is left there."""
_PRIVATE: Final = (
    "10.0.0.0/8", "100.64.0.0/10", "172.16.0.0/12", "192.0.0.0/24", "192.0.2.0/24", "192.168.0.0/16", "198.18.0.0/15",
    "198.51.100.0/24", "203.0.113.0/24", "fc00::/7", "2001::/23", "2001:db8::/32", "3fff::/20",
)  # fmt: skip
"""Ranges that are not global, apart from loopback (registries of IANA)."""
_COMPATIBLE: Final = ipaddress.IPv6Network("::/96")


def platform_endpoints() -> frozenset[tuple[str, int]]:
    """Return host and port of services of the platform for this process only: the Lambda runtime API, container credentials."""
    endpoints = set()
    for name in ("AWS_LAMBDA_RUNTIME_API", "AWS_CONTAINER_CREDENTIALS_FULL_URI"):
        value = os.environ.get(name)
        if not value:
            continue
        parts = urlsplit(value if "//" in value else f"//{value}")
        if parts.hostname:
            endpoints.add((parts.hostname, parts.port or 80))
    return frozenset(endpoints)


class AddressRefused(Exception):
    """The address is not allowed. Who acts: the author (another address) or the operator (`NOETL_HTTP_ALLOW_PRIVATE`)."""


@frozen
class AddressPolicy:
    """Addresses allowed beyond public ones."""

    allow_private: bool = False
    allowed: tuple[Network, ...] = ()
    refused_endpoints: frozenset[tuple[str, int]] = frozenset()
    """Host and port pairs that are out of bounds although their address may not be."""

    @classmethod
    def from_environment(cls) -> AddressPolicy:
        """Return the policy of the deployment. Raises `BadInput` for an invalid setting."""
        setting = os.environ.get("NOETL_HTTP_ALLOW_PRIVATE", "").strip()
        try:
            listed = () if setting in ("", "0", "1") else setting.split(",")
            networks = tuple(ipaddress.ip_network(n.strip()) for n in listed if n.strip())
        except ValueError as error:
            raise BadInput(
                f"the environment variable NOETL_HTTP_ALLOW_PRIVATE is {setting!r} ({error}): "
                "write 1 (all private addresses), 0 (none), or networks with commas between them, such as 127.0.0.0/8,10.1.0.0/16"
            ) from error
        return cls(setting == "1", networks, platform_endpoints())

    def check(self, address: Address, port: int) -> None:
        """Raise `AddressRefused` unless a task may connect to `address`."""
        for reached in _reached(address):
            if any(reached in network for network in _NEVER if network.version == reached.version) or reached.is_link_local:
                raise AddressRefused(f"{address} is a link-local or metadata address: always refused")
            if any(reached in network for network in _UNSPECIFIED if network.version == reached.version):
                raise AddressRefused(f"{address} is an unspecified address: always refused")
            if self._is_the_platforms(reached, port):
                raise AddressRefused(f"{address}:{port} is the platform's own endpoint: always refused")
            if reached.is_multicast or (reached.is_reserved and not reached.is_loopback):
                raise AddressRefused(f"{address} is a multicast or reserved address: always refused")
            if not reached.is_global and not self.permits(reached):
                raise AddressRefused(f"{address} is a private address: refused unless NOETL_HTTP_ALLOW_PRIVATE allows it")

    def as_rules(self) -> Addresses:
        """Return the policy as rules for the sandbox. They refuse the addresses that `check` refuses, those of tunnels from IPv6
        to IPv4, and, unless all private addresses are allowed, public addresses of this machine."""
        endpoints = [(_literal(host), port) for host, port in sorted(self.refused_endpoints)]
        rules = [
            *(rule(str(address), "refuse", "platform", port) for address, port in endpoints if address is not None),
            *(rule(str(network), "refuse", "link_local") for network in _NEVER),
            *(rule(str(network), "refuse", "unspecified") for network in _UNSPECIFIED),
            rule(str(NAT64), "embedded"),
            rule("::1/128", "allow" if self.permits(ipaddress.IPv6Address("::1")) else "refuse", "own"),
            *(rule(network, "refuse", "reserved") for network in (*_RESERVED, *TUNNELS)),
            *(rule(str(network), "allow") for network in self.allowed),
            rule("127.0.0.0/8", "allow" if self.allow_private else "refuse", "own"),
            *(rule(network, "refuse", "private") for network in _PRIVATE if not self.allow_private),
            rule("0.0.0.0/0", "public"),
            rule("::/0", "public"),
        ]
        return Addresses(rules, sorted({port for _, port in self.refused_endpoints}), own=self.allow_private)

    def _is_the_platforms(self, address: Address, port: int) -> bool:
        """Return whether it is a refused endpoint, or its port on another address of this machine, because it may listen on
        all of them."""
        if (str(address), port) in self.refused_endpoints:
            return True
        return any(port == refused for _, refused in self.refused_endpoints) and is_own(address)

    def permits(self, address: Address) -> bool:
        """Return whether the operator allows this private address."""
        return self.allow_private or any(address in network for network in self.allowed if network.version == address.version)


def _literal(host: str) -> Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


def _reached(address: Address) -> list[Address]:
    """Return the addresses at which a connection to `address` may end."""
    if isinstance(address, ipaddress.IPv4Address):
        return [address]
    if address.ipv4_mapped is not None:
        return [address.ipv4_mapped]
    if address in NAT64:
        return [ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)]
    found: list[Address] = [address]
    if address.sixtofour is not None:
        found.append(address.sixtofour)
    if address.teredo is not None:
        found.extend(address.teredo)
    if address in _COMPATIBLE and int(address) > 1:
        found.append(ipaddress.IPv4Address(int(address)))
    return found


def resolve(host: str, port: int, policy: AddressPolicy) -> list[str]:
    """Return the addresses of `host`, all of them allowed. The caller connects to one of these only.

    Raises `AddressRefused` when any of them is not allowed (a name that mixes allowed and refused addresses is suspicious),
    and `OSError` when there are none.
    """
    if (host.lower(), port) in policy.refused_endpoints:
        raise AddressRefused(f"{host}:{port} is the platform's own endpoint: always refused")
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    texts = list(dict.fromkeys(str(entry[4][0]) for entry in found))
    for text in texts:
        policy.check(ipaddress.ip_address(text.partition("%")[0]), port)
    return texts
