"""Objects of any size: results and uploads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, Self

from noetl_core.values.frozen import frozen


class ObjectWriter(Protocol):
    """Context manager that writes one object piece by piece, in constant memory. Nothing is stored before `finish`; an unfinished
    object is discarded when the block ends. Raises `Unavailable`."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...

    def write(self, data: bytes) -> None: ...

    def finish(self) -> Mapping[str, Any]:
        """Complete the object and return its reference, as `ResultStore.put` does."""
        ...


class ResultStore(Protocol):
    """Objects under `<execution_id>/...`: large results, collections, large commit bodies."""

    def put(self, key: str, body: bytes, content_type: str = "application/json") -> Mapping[str, Any]:
        """Store an object and return its reference `{kind, store, key, size, checksum}` (resolution 22). The same key with
        the same body changes nothing."""
        ...

    def get(self, key: str, start: int | None = None, end: int | None = None) -> bytes:
        """Return the object, or its bytes from `start` to `end` (exclusive). Raises `NotFound`."""
        ...

    def url(self, key: str) -> str:
        """Return the address at which a library such as DuckDB reads the object: `s3://bucket/key`, or a file path."""
        ...

    def writer(self, key: str, content_type: str = "application/json") -> ObjectWriter:
        """Return a writer for an object of any size; `values.result_streams.pieces` reads one."""
        ...


@frozen
class Upload:
    """One put into the inbox, as its notification describes it. `version_id` (or `sequencer`) distinguishes puts."""

    bucket: str
    key: str
    size: int = 0
    etag: str = ""
    version_id: str | None = None
    sequencer: str | None = None
    at: int = 0
    """The instant at which it was uploaded, as the notification reports it (microseconds)."""
    by: str = ""
    """The uploader, if the notification reports it."""

    @property
    def identity(self) -> str:
        """Return a value that is equal for every delivery of the same put and different for every other put."""
        mark = self.version_id if self.version_id not in (None, "", "null") else self.sequencer or self.etag
        return f"s3:{self.bucket}/{self.key}@{mark}"


class Inbox(Protocol):
    """The store of uploads. Raises `NotFound` for an object that no longer exists."""

    def read(self, upload: Upload) -> bytes:
        """Return the content of the object. The caller has checked its size."""
        ...

    def copy(self, upload: Upload, key: str) -> Mapping[str, Any]:
        """Copy this version of the object into the result store. Returns the reference `{kind, store, key, size}`."""
        ...

    def reject(self, upload: Upload, error: Mapping[str, Any]) -> None:
        """Move the object aside and store the reason beside it."""
        ...
