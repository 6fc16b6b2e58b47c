"""Processor time of this process and its descendants."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

MIB_PER_CPU = 1769
"""A function with this much memory has one vCPU (Lambda's documentation, "Configure function memory")."""


def processors() -> float:
    """Return how many processors this process may use."""
    memory = os.environ.get("AWS_LAMBDA_FUNCTION_MEMORY_SIZE", "")
    there = float(os.cpu_count() or 1)
    return min(there, int(memory) / MIB_PER_CPU) if memory.isdigit() else there


def processor_seconds() -> float:
    """Return the seconds of processor time of this process and its descendants, including ended ones. Without `/proc`, of this
    process alone."""
    ticks, parents = {}, {}
    for entry in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError, ValueError, IndexError):
            fields = entry.read_text().rpartition(")")[2].split()
            pid = int(entry.parent.name)
            parents[pid], ticks[pid] = int(fields[1]), sum(map(int, fields[11:15]))
    own = os.getpid()
    if own not in ticks:
        return sum(os.times()[:4])
    family = {own}
    while more := {pid for pid, parent in parents.items() if parent in family} - family:
        family |= more
    return sum(ticks[pid] for pid in family) / os.sysconf("SC_CLK_TCK")
