"""Defines the target of a transfer, and its progress."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from noetl_core.tools.rows.sources import Row
from noetl_core.values.frozen import frozen

BOOKMARKS = "noetl_transfers"
"""The table in the target that records the progress of each transfer."""


@frozen
class Progress:
    """The progress of a transfer: the rows and chunks that are permanently in the target. `source` identifies the transferred
    data, so that other data is not taken for the rest of it."""

    chunks: int = 0
    rows_read: int = 0
    rows_written: int = 0
    done: bool = False
    source: str = ""

    def after(self, read: int, written: int) -> Progress:
        return Progress(self.chunks + 1, self.rows_read + read, self.rows_written + written, False, self.source)

    def ended(self) -> Progress:
        return Progress(self.chunks, self.rows_read, self.rows_written, True, self.source)


class Overtaken(Exception):
    """Somebody else has carried on the same transfer. The caller reads the progress again."""


class Target(Protocol):
    """Takes chunks. Each of its methods has its complete effect, or none."""

    def progress(self) -> Progress:
        """Return how far the transfer is."""
        ...

    def write(self, rows: Sequence[Row], before: Progress) -> Progress:
        """Take the next chunk, and note it. Raises `Overtaken` unless the transfer is as far as `before`."""
        ...

    def finish(self, before: Progress) -> Progress:
        """Note that nothing follows. Raises `Overtaken`."""
        ...

    def facts(self, progress: Progress) -> Mapping[str, Any]:
        """Return the fields of the result about the target."""
        ...

    def close(self) -> None:
        """Release its connections and files."""
        ...
