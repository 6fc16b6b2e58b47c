"""Writes an object of any size to S3 in constant memory: a small one by one request, otherwise in parts through s3transfer."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from hashlib import sha256
from queue import Full, Queue
from typing import IO, Any, Final, Self, cast

from botocore.exceptions import BotoCoreError, ClientError

from noetl_core.adapters.aws.clients import client, errors_of
from noetl_core.adapters.keys import check_key
from noetl_core.ports import Unavailable
from noetl_core.values.result_refs import unchecked_reference

PART: Final = 16 * 1024 * 1024
"""Bytes of a part. S3 takes 10,000 parts, 156 GB. Memory holds up to `WAITING` + `UPLOADING` parts."""
UPLOADING: Final = 2
WAITING: Final = 1


class S3ObjectWriter:
    """`ObjectWriter` over a bucket. Not thread-safe."""

    def __init__(self, bucket: str, key: str, content_type: str) -> None:
        check_key(key)
        self._bucket, self._key, self._content_type = bucket, key, content_type
        self._digest, self._size = sha256(), 0
        self._held = bytearray()
        self._parts: _Parts | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._parts is not None:
            self._parts.discard()
        self._held.clear()

    def write(self, data: bytes) -> None:
        self._digest.update(data)
        self._size += len(data)
        self._held += data
        while len(self._held) >= PART:
            if self._parts is None:
                self._parts = _Parts(self._bucket, self._key, self._content_type)
            self._parts.add(bytes(self._held[:PART]))
            del self._held[:PART]

    def finish(self) -> Mapping[str, Any]:
        rest = bytes(self._held)
        self._held.clear()
        if self._parts is None:
            with errors_of(f"put {self._key}"):
                client("s3").put_object(
                    Bucket=self._bucket,
                    Key=self._key,
                    Body=rest,
                    ContentType=self._content_type,
                    ChecksumAlgorithm="SHA256",
                )
        else:
            parts, self._parts = self._parts, None
            parts.finish(rest)
        return {**unchecked_reference(self._key, self._size), "checksum": f"sha256:{self._digest.hexdigest()}"}


class _Discarded(Exception):
    """Aborts an upload."""


class _Parts:
    """One upload in parts. s3transfer reads them from here, and aborts the upload when reading fails."""

    def __init__(self, bucket: str, key: str, content_type: str) -> None:
        from s3transfer import manager  # 30 ms: only objects of more than one part need it

        self._key = key
        self._pieces: Queue[bytes | Exception] = Queue(WAITING)
        self._rest = b""
        self._ended: Exception | None = None
        config = manager.TransferConfig(
            multipart_threshold=PART,
            multipart_chunksize=PART,
            max_request_concurrency=UPLOADING,
            max_in_memory_upload_chunks=UPLOADING,
        )
        self._manager = manager.TransferManager(client("s3"), config)
        self._upload = self._manager.upload(cast(IO[bytes], self), bucket, key, {"ContentType": content_type})  # it only reads

    def read(self, size: int = -1) -> bytes:
        """Return the next bytes, at most `size`; none at the end. s3transfer calls it, in a thread of its own."""
        while self._ended is None and (size < 0 or len(self._rest) < size):
            piece = self._pieces.get()
            if isinstance(piece, Exception):
                self._ended = piece
            else:
                self._rest += piece
        if self._ended is not None and not isinstance(self._ended, EOFError):
            raise self._ended
        taken, self._rest = (self._rest, b"") if size < 0 else (self._rest[:size], self._rest[size:])
        return taken

    def add(self, piece: bytes | Exception) -> None:
        """Enqueue the next piece, once there is room for it."""
        while not self._upload.done():
            with suppress(Full):
                self._pieces.put(piece, timeout=0.5)
                return
        self._end()  # the upload has failed: this raises the reason

    def finish(self, rest: bytes) -> None:
        """Upload the rest and complete the object."""
        if rest:
            self.add(rest)
        self.add(EOFError())
        self._end()

    def discard(self) -> None:
        """Abort; nothing is kept."""
        with suppress(_Discarded, Unavailable, ClientError, BotoCoreError):
            self.add(_Discarded())
            self._end()

    def _end(self) -> None:
        try:
            with errors_of(f"put {self._key}"):
                self._upload.result()
        finally:
            self._manager.shutdown()


__all__ = ["S3ObjectWriter"]
