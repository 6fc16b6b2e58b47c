"""Describes the counts of a loop in words, the same in every view."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def iterations(counts: Mapping[str, Any]) -> str:
    """Return `20/200, 1 failed`: the ended iterations of a loop, all of them, and the failed ones."""
    failed = f", {counts['failed']:,} failed" if counts["failed"] else ""
    return f"{counts['succeeded'] + counts['failed']:,}/{counts['total']:,}{failed}"
