"""Reads stored objects of any size in constant memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from hashlib import sha256
from typing import Any, Final, Protocol

from noetl_core.values.result_refs import Altered

PIECE: Final = 8 * 1024 * 1024


class Objects(Protocol):
    """A readable store of objects: a `ResultStore`, or a part of one."""

    def get(self, key: str, start: int | None = None, end: int | None = None) -> bytes: ...


def pieces(results: Objects, reference: Mapping[str, Any], size: int = PIECE) -> Iterator[bytes]:
    """Yield the object behind `reference` in pieces of `size` bytes; the last one may be shorter.

    Raises `NotFound`, and after the last piece `Altered` if the checksum differs from the reference's.
    """
    key, checksum = str(reference["key"]), reference.get("checksum")
    digest, start = sha256(), 0
    while True:
        piece = results.get(key, start, start + size)
        digest.update(piece)
        if piece:
            yield piece
        start += len(piece)
        if len(piece) < size:
            break
    if checksum is not None and checksum != f"sha256:{digest.hexdigest()}":
        raise Altered(key)
