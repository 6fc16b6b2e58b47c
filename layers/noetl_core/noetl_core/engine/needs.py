"""Defines the needs of a decision: values that are stored elsewhere. The caller loads them and decides again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from noetl_core.values.frozen import frozen
from noetl_core.values.outlines import Span

BoundaryNeed = tuple[Literal["boundary", "writes"], str, int]
"""`("boundary", run_id, seq)`: the data of that commit's last event; `("writes", run_id, seq)`: only its `ctx_writes`, which
are small."""
PartNeed = tuple[Literal["part"], str, Span]
"""Some items of a large value: the key of its object, and where in it they are."""
Need = BoundaryNeed | PartNeed | tuple[Literal["object"], str] | tuple[Literal["outline"], str, str, str]
"""A value that a decision reads; `("object", key)`: the value behind a reference; `("outline", key, outline, checksum)`: the
places of its parts."""
AskedNeed = (
    BoundaryNeed
    | PartNeed
    | tuple[Literal["object"], str, Mapping[str, Any]]
    | tuple[Literal["outline"], str, str, str, Mapping[str, Any]]
)
"""A requested need: the same with the reference, where it is one."""


def without_reference(need: AskedNeed) -> Need:
    """Return the need without the reference."""
    if need[0] == "object":
        return need[0], need[1]
    if need[0] == "outline":
        return need[0], need[1], need[2], need[3]
    return need


class NeedValues(Exception):
    """The decision needs values that it did not receive. `control.core` loads them and decides again. `objects` are those that
    the decision would store itself: the requested values may be inside them."""

    def __init__(self, needs: Sequence[AskedNeed], objects: Sequence[tuple[str, bytes]] = ()) -> None:
        super().__init__(str(needs[0]))
        self.needs = tuple(needs)
        self.objects = tuple(objects)


@frozen
class TooMuch:
    """Stands for a value that is too large for a decision (`size` bytes). Reading it fails with `kind: limit`."""

    size: int


@frozen
class Unreadable:
    """Replaces a value that does not exist or is not data. Reading it fails with `kind: template`."""

    reason: str
