"""Values that tasks keep beyond their execution."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol

from noetl_core.ports.errors import PortError, TooLarge
from noetl_core.values.frozen import frozen


@frozen
class Entry:
    """A value under a key of a bucket. Every write has a new `revision`; `expires_at` (seconds) is 0 if it does not expire."""

    key: str
    value: str
    revision: str
    expires_at: int = 0


class OtherRevision(PortError):
    """The entry does not have the expected revision: `revision` is the stored one, None if there is no entry. Who acts: the
    author."""

    def __init__(self, revision: str | None) -> None:
        super().__init__("there is no such entry" if revision is None else f"its revision is {revision}")
        self.revision = revision


MAX_ENTRY: Final = 380 * 1024
"""Maximum bytes of an entry's value and key together, which a DynamoDB item can hold."""
MOST_LISTED: Final = 16 * 1024 * 1024
"""The most bytes of all entries of one list."""


def check_entry(entry: Entry) -> None:
    """Raise `TooLarge` for an entry that some store would refuse."""
    size = len(entry.value.encode()) + len(entry.key.encode())
    if size > MAX_ENTRY:
        raise TooLarge(f"a value has at most {MAX_ENTRY:,} bytes, this one has {size:,}: store it, and keep its reference")


def check_listed(entries: Sequence[Entry]) -> None:
    """Raise `TooLarge` for more entries than one list may return."""
    if sum(len(entry.value) for entry in entries) > MOST_LISTED:
        raise TooLarge(
            f"the values have more than {MOST_LISTED:,} bytes together: list fewer with `prefix`, or read each by its key"
        )


class KeyValues(Protocol):
    """Values that tasks of all playbooks share. Reads are strongly consistent, and ignore entries that have expired at `now`
    (seconds).

    The writer chooses the revision. Writing again with the stored revision changes nothing, whatever is expected, so that a write
    whose answer was lost can be repeated.
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
        """Return at most `limit` entries whose keys begin with `prefix`, by key. Raises `TooLarge` if they are too many for
        memory."""
        ...
