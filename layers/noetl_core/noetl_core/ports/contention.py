"""Changes of items that others change too: read, change, write; again when another writer was first."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

from noetl_core.ports.errors import Conflict, Unavailable
from noetl_core.ports.key_values import OtherRevision

MAX_ATTEMPTS: Final = 100
"""Attempts to write an item that others write too, before the caller tries again later. One of several writers succeeds each
time, so that this many fail only among a hundred writers."""

T = TypeVar("T")


def retry_conflicts(attempt: Callable[[], T | None], what: str) -> T:
    """Return the first result of `attempt` that is not None.

    `attempt` reads the item, changes it and writes it. It returns None, or raises `Conflict` or `OtherRevision`, when another
    writer was first; then it is called again at once. Raises `Unavailable` after `MAX_ATTEMPTS`; `what` names the item there.
    """
    for _ in range(MAX_ATTEMPTS):
        try:
            result = attempt()
        except (Conflict, OtherRevision):
            continue
        if result is not None:
            return result
    raise Unavailable(f"{what} is contended: {MAX_ATTEMPTS} tries were not enough")
