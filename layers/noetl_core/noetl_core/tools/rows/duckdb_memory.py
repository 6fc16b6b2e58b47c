"""Computes DuckDB's memory limit: less than the memory of its function, because Lambda ends a function that uses more."""

from __future__ import annotations

import os
import re
from typing import Final

from noetl_core.tools.base import BadInput

FUNCTION: Final = "AWS_LAMBDA_FUNCTION_MEMORY_SIZE"
"""The environment variable with the memory of a function, in MiB."""
SHARE: Final = 3 / 4
"""The part of it that is DuckDB's at most; the rest is for the worker and its answers."""

_LIMIT: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*(KB|MB|GB|KiB|MiB|GiB)")
_UNITS: Final = {"KB": 1000, "MB": 1000**2, "GB": 1000**3, "KiB": 1024, "MiB": 1024**2, "GiB": 1024**3}


def memory_limit(usual: str, setting: str | None = None) -> str:
    """Return DuckDB's memory limit: the author's, otherwise `usual`, or less in a function with less memory.

    Raises `BadInput` if the author wants something else than a size, or more than the function has room for.
    """
    found = _LIMIT.fullmatch(usual if setting is None else setting)
    if found is None:
        raise BadInput(f"`spec.memory_limit` {str(setting)[:20]!r} must be like 512MB or 2GB")
    function_mib = os.environ.get(FUNCTION)
    room_mib = int(int(function_mib) * SHARE) if function_mib else None
    if room_mib is None or float(found[1]) * _UNITS[found[2]] <= room_mib * _UNITS["MiB"]:
        return found[0]
    if setting is not None:
        raise BadInput(
            f"`spec.memory_limit` is {setting}, and a worker with {function_mib} MiB leaves DuckDB {room_mib}MiB: ask for less"
            " (what does not fit is spilled to the disk), or raise the stack's parameter WorkerMemory"
        )
    return f"{room_mib}MiB"
