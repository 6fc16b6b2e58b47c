"""Names of processes: which process holds a run of a local store, and whether it is known to have ended.

A name consists of the process id, the start time of the process (ids are reused), and its place: the machine, its boot, its pid
namespace. Nothing is known about a process on another machine or in another container: its lease must expire.
"""

from __future__ import annotations

import getpass
import os
import re
import socket
from functools import cache
from hashlib import sha256
from pathlib import Path

from noetl_core.values.frozen import frozen

_NAME = re.compile(r"local-(\d+)(?:\.(\d*)@(\w*)\.(\w*)\.(\w*))?")
_PROC = Path("/proc")


@frozen
class Place:
    """The place of a process, as far as known: its machine, the boot of that machine, and the pid namespace."""

    machine: str
    boot: str
    pids: str


def user_name() -> str:
    """Return the name of the user of this machine; empty if unknown."""
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return ""


def name_of(pid: int | None = None) -> str:
    """Return the name of a process of this place (default: this process)."""
    pid = pid or os.getpid()
    here = _here()
    return f"local-{pid}.{start_of(pid) or ''}@{here.machine}.{here.boot}.{here.pids}"


def pid_of(name: str) -> int | None:
    """Return the process id in a name, if it is of this place."""
    found = _NAME.fullmatch(name)
    if found is None or Place(*found.group(3, 4, 5)) != _here():
        return None
    return int(found[1])


def has_ended(name: str) -> bool:
    """Return whether the process of that name is known to have ended; False if that is unknown."""
    found = _NAME.fullmatch(name)
    if found is None:
        return False
    began, machine, boot, pids = found.group(2, 3, 4, 5)
    here = _here()
    if began is not None and Place(machine, boot, pids) != here:
        return bool(boot) and machine == here.machine and boot != here.boot  # no process survives a reboot
    pid = int(found[1])
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return True
    except PermissionError:
        pass  # the process exists and belongs to another user
    now = start_of(pid)
    return now == "" or (bool(began) and now is not None and now != began)


@cache
def _here() -> Place:
    machine = socket.gethostname() + _text(Path("/etc/machine-id"))
    boot = _text(_PROC / "sys/kernel/random/boot_id").replace("-", "")
    try:
        pids = re.sub(r"\D", "", str((_PROC / "self/ns/pid").readlink()))
    except OSError:
        pids = ""
    return Place(sha256(machine.encode()).hexdigest()[:8], boot[:8], pids)


def start_of(pid: int) -> str | None:
    """Return the start time of a process in clock ticks since the boot; empty for a zombie, None if it cannot be read."""
    stat = _text(_PROC / str(pid) / "stat")
    if not stat:
        return None
    fields = stat.rsplit(")", 1)[1].split()
    return "" if fields[0] in "ZX" else fields[19]


def _text(file: Path) -> str:
    try:
        return file.read_text().strip()
    except OSError:
        return ""
