"""The embedded stack listens for this machine alone."""

from __future__ import annotations

import ipaddress
import os
from pathlib import Path

import pytest

from noetl_infra.stack import Stack

LISTENING = "0A"


def sockets_of(group: int) -> set[str]:
    """Inodes of the sockets that the processes of a group hold."""
    found: set[str] = set()
    for process in Path("/proc").iterdir():
        if not process.name.isdecimal():
            continue
        try:
            if os.getpgid(int(process.name)) != group:
                continue
            for handle in (process / "fd").iterdir():
                found.add(os.readlink(handle).removeprefix("socket:[").removesuffix("]"))
        except OSError:  # it has ended meanwhile
            continue
    return found


def listening() -> list[tuple[ipaddress.IPv4Address | ipaddress.IPv6Address, int, str]]:
    """Address, port and inode of every socket on which this machine is listened at."""
    rows = []
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == LISTENING:
                address, port = fields[1].split(":")
                words = [bytes.fromhex(address[n : n + 8])[::-1] for n in range(0, len(address), 8)]
                rows.append((ipaddress.ip_address(b"".join(words)), int(port, 16), fields[9]))
    return rows


def test_every_port_of_the_embedded_stack_is_on_loopback(stack: Stack) -> None:
    if stack.pid is None:
        pytest.skip("somebody else runs this endpoint")
    held = sockets_of(os.getpgid(stack.pid))
    ours = [(address, port) for address, port, inode in listening() if inode in held]
    assert int(stack.endpoint.rsplit(":", 1)[1]) in {port for _, port in ours}
    assert [f"{address}:{port}" for address, port in ours if not address.is_loopback] == []
