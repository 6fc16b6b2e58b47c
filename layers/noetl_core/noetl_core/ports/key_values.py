"""Values that tasks keep beyond their execution."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from noetl_core.ports.errors import PortError, TooLarge


@dataclass(frozen=True, slots=True)
class Entry:
    """A value that tasks keep under a key of a bucket. `revision` is another one for every write; `expires_at` (seconds) is 0
    where it does not expire."""

    key: str
    value: str
    revision: str
    expires_at: int = 0


class OtherRevision(PortError):
    """The entry is not what its writer expects: `revision` is the one it has, None where there is none. The author acts."""

    def __init__(self, revision: str | None) -> None:
        super().__init__("there is no such entry" if revision is None else f"its revision is {revision}")
        self.revision = revision


MAX_ENTRY: Final = 380 * 1024
"""Bytes of an entry's value and key: what an item of DynamoDB takes."""
MOST_LISTED: Final = 16 * 1024 * 1024
"""Bytes of all entries that one list gives."""


def check_entry(entry: Entry) -> None:
    """Raise `TooLarge` for an entry that some store would refuse."""
    size = len(entry.value.encode()) + len(entry.key.encode())
    if size > MAX_ENTRY:
        raise TooLarge(f"a value has at most {MAX_ENTRY:,} bytes, this one has {size:,}: store it, and keep its reference")


def check_listed(entries: Sequence[Entry]) -> None:
    """Raise `TooLarge` for entries that are more than one list gives."""
    if sum(len(entry.value) for entry in entries) > MOST_LISTED:
        raise TooLarge(
            f"the values have more than {MOST_LISTED:,} bytes together: ask for fewer by `prefix`, or for each by its key"
        )


class KeyValues(Protocol):
    """Values that tasks of all playbooks share. Reads are strongly consistent; what has expired at `now` (seconds) is not there.

    A write gives the entry its revision. Writing again with the revision that an entry has already changes nothing, whatever it
    expects, so a write whose answer was lost can be repeated.
    """

    def get(self, bucket: str, key: str, now: int) -> Entry | None: ...

    def put(self, bucket: str, entry: Entry, now: int, expected: str | None = None) -> None:
        """Write an entry if its revision is `expected` (empty: if there is none; None: in any case). Raises `OtherRevision`,
        `TooLarge`."""
        ...

    def delete(self, bucket: str, key: str, now: int, expected: str | None = None) -> bool:
        """Delete an entry if its revision is `expected`; return whether there was one. Raises `OtherRevision`."""
        ...

    def list(self, bucket: str, prefix: str, now: int, limit: int) -> Sequence[Entry]:
        """Return the entries whose keys begin with `prefix`, by key, at most `limit`. Raises `TooLarge` where they are more than
        memory should hold."""
        ...
