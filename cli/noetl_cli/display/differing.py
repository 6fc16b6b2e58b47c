"""Prints how a commit would differ."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final

from noetl_cli.terminal import shortened

if TYPE_CHECKING:
    from noetl_core.api.shapes.views import EventChange

SHOWN: Final = 160
"""The most characters of a value that are shown."""


def differing(changes: Iterable[EventChange]) -> Iterator[str]:
    """Yield lines: an event in only one list with `-` (recorded) or `+` (decided), a differing field as
    `name: path: recorded -> decided`."""
    for change in changes:
        recorded, decided = (shortened(change[side], SHOWN) if side in change else "" for side in ("recorded", "decided"))
        if "path" in change:
            yield f"  {change['event']}: {change['path']}: {recorded} -> {decided}"
        else:
            yield f"{'-' if recorded else '+'} {change['event']} {recorded or decided}"
