"""The port of a cursor's source, and the values of its methods."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from importlib import import_module
from typing import Any, Final, Protocol, cast

from noetl_core.values.frozen import frozen

Inputs = Mapping[str, Any]
"""Inputs of one call of the source's tool kind."""


@frozen
class ClaimIds:
    """The ids that a frame writes at its source. `claim` is derived from the run and the frame, so that a repeated claim claims
    once; `failed` marks rows that failed in this run, so that the run does not claim them again."""

    claim: str
    failed: str


@frozen
class Row:
    """One claimed row. `handle` identifies it to the source when it is settled, in addition to its key."""

    key: str
    value: Any
    handle: str | None = None


@frozen
class Claimed:
    """The rows of a claim. `key_type` is the type of the keys, if the source needs it later."""

    rows: Sequence[Row]
    key_type: str | None = None


@frozen
class Settlement:
    """The finished rows of a frame: successful ones, failed ones, and those that are released because they never ran."""

    done: Sequence[Row] = ()
    failed: Sequence[Row] = ()
    released: Sequence[Row] = ()

    def __bool__(self) -> bool:
        return bool(self.done or self.failed or self.released)


class Source(Protocol):
    """A source of claimed rows. Its methods return inputs for calls of tool kind `kind`, and raise `BadInput` for the author."""

    kind: str
    fills: bool
    """If true, a claim with fewer rows than requested means that there are no more. Otherwise the claim is repeated until the
    frame is full."""

    def claim(self, ids: ClaimIds, limit: int, lease_s: float) -> Inputs:
        """Claim at most `limit` rows. A repeated claim returns the rows that it already has."""
        ...

    def claimed(self, result: Any) -> Claimed:
        """Read the result of `claim`."""
        ...

    def renew(self, ids: ClaimIds, rows: Sequence[Row], key_type: str | None, lease_s: float) -> Sequence[Inputs]:
        """Renew the claim of rows; empty if the source cannot renew: the rows then count as held."""
        ...

    def held(self, result: Any, rows: Sequence[Row]) -> Collection[str]:
        """Read the result of one call of `renew`: the keys that are still claimed."""
        ...

    def settle(self, ids: ClaimIds, settlement: Settlement, key_type: str | None) -> Sequence[Inputs]:
        """Settle rows at the source. Idempotent."""
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
