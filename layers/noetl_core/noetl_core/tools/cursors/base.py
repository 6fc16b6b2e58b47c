"""The port of a cursor's source, and the values that it takes and gives."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Final, Protocol, cast

Inputs = Mapping[str, Any]
"""Inputs of one call of the source's tool kind."""


@dataclass(frozen=True, slots=True)
class ClaimIds:
    """What a frame writes at its source. `claim` is derived from the run and the frame, so that claiming twice claims once;
    `failed` marks rows that failed in this run, so that it does not claim them again."""

    claim: str
    failed: str


@dataclass(frozen=True, slots=True)
class Row:
    """One claimed row. `handle` is what the source needs to settle it, beside its key."""

    key: str
    value: Any
    handle: str | None = None


@dataclass(frozen=True, slots=True)
class Claimed:
    """What a claim returned. `key_type` is how the source types the keys, where it must be told that again."""

    rows: Sequence[Row]
    key_type: str | None = None


@dataclass(frozen=True, slots=True)
class Settlement:
    """The rows of a frame that are finished: those that ended well, those that failed, and those that go back because they never
    ran."""

    done: Sequence[Row] = ()
    failed: Sequence[Row] = ()
    released: Sequence[Row] = ()

    def __bool__(self) -> bool:
        return bool(self.done or self.failed or self.released)


class Source(Protocol):
    """Rows that are claimed. Its methods give inputs for calls of tool kind `kind`, and raise `BadInput` for the author."""

    kind: str
    fills: bool
    """Whether a claim that returns fewer rows than it was asked for found no more. Otherwise the claim is repeated until the
    frame is full."""

    def claim(self, ids: ClaimIds, limit: int, lease_s: float) -> Inputs:
        """Claim at most `limit` rows. A claim that was carried out already returns the rows that it has."""
        ...

    def claimed(self, result: Any) -> Claimed:
        """Read the result of `claim`."""
        ...

    def renew(self, ids: ClaimIds, rows: Sequence[Row], key_type: str | None, lease_s: float) -> Sequence[Inputs]:
        """Prolong the claim of rows; nothing, where that is not possible: then they count as held."""
        ...

    def held(self, result: Any, rows: Sequence[Row]) -> Collection[str]:
        """Read the result of one call of `renew`: the keys that are still claimed."""
        ...

    def settle(self, ids: ClaimIds, settlement: Settlement, key_type: str | None) -> Sequence[Inputs]:
        """Say at the source what became of rows. Doing so twice does it once."""
        ...


SOURCES: Final = {
    "postgres": "noetl_core.tools.cursors.postgres:PostgresCursor",
    "sqs": "noetl_core.tools.cursors.sqs:SqsCursor",
    "dynamodb": "noetl_core.tools.cursors.dynamodb:DynamoDBCursor",
}


def source_of(kind: str, fields: Mapping[str, Any]) -> Source:
    """Return the source of a kind with the cursor's rendered fields. Raises `BadInput`."""
    module, _, name = SOURCES[kind].partition(":")
    return cast(Source, getattr(import_module(module), name)(fields))
