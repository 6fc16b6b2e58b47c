"""Restricts Postgres connections: only to addresses that the deployment allows, exactly those that were checked, and with TLS
beyond this machine.

The policy is that of the http tool (`tools.network.addresses`). libpq gets each address in `hostaddr`, so a name that changes
its address between check and connection has no effect; `host` stays for the certificate. Unix sockets count as loopback of this
machine.
"""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Mapping
from typing import Final

from noetl_core.tools.base import BadInput
from noetl_core.tools.network.addresses import AddressPolicy, resolve

PORT: Final = "5432"
LOOPBACK: Final = ipaddress.ip_address("127.0.0.1")
TLS: Final = "require"
"""Encrypted, without verifying the server; `sslmode: verify-full` does that, too."""


def pin_addresses(where: Mapping[str, str], policy: AddressPolicy) -> dict[str, str]:
    """Return libpq's parameters for `where`, with every address in them checked. Raises `AddressRefused`, `OSError`,
    `BadInput`."""
    hosts = (where.get("host") or os.environ.get("PGHOST", "")).split(",")
    numbers = where.get("hostaddr", "").split(",")
    ports = (where.get("port") or PORT).split(",")
    size = max(len(hosts), len(numbers))
    hosts, numbers, ports = (_as_many(values, size) for values in (hosts, numbers, ports))
    entries: list[tuple[str, str, str]] = []
    for host, number, port in zip(hosts, numbers, ports, strict=True):
        if not port.isdecimal() or not 0 < int(port) < 65536:
            raise BadInput(f"invalid port {port[:20]!r}")
        if not number and (not host or host.startswith(("/", "@"))):
            policy.check(LOOPBACK, int(port))
            entries.append((host, "", port))
        else:
            entries += [(host or number, address, port) for address in resolve(number or host, int(port), policy)]
    out = {**where, "host": _joined(entries, 0), "hostaddr": _joined(entries, 1), "port": _joined(entries, 2)}
    if "sslmode" not in where and not all(_is_here(address) for _, address, _ in entries):
        out["sslmode"] = TLS
    return out


def _as_many(values: list[str], size: int) -> list[str]:
    """Return one of `values` for each host: a single value is for all hosts."""
    values = [value.strip() for value in values]
    if len(values) not in (1, size):
        raise BadInput("`host`, `hostaddr` and `port` must have one value for each host, or a single value")
    return values if len(values) == size else values * size


def _joined(entries: list[tuple[str, str, str]], part: int) -> str:
    return ",".join(entry[part] for entry in entries)


def _is_here(address: str) -> bool:
    return not address or ipaddress.ip_address(address.partition("%")[0]).is_loopback
