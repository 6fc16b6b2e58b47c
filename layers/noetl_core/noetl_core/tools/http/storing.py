"""Stores the body of a response as it arrives, of any size in constant memory."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from concurrent.futures import Future
from typing import Any, Final, cast
from urllib.parse import urlsplit

from noetl_core.ports import ObjectWriter, ResultStore
from noetl_core.tools.calls.blocking import begin, wait_for
from noetl_core.tools.calls.event_loop import EventLoop
from noetl_core.tools.http.body import BodyTooLarge, decoder_of
from noetl_core.tools.http.client import Response
from noetl_core.tools.rows.outlined import outlined
from noetl_core.values.frozen import frozen

AT_ONCE: Final = 4
"""Bodies that one run stores concurrently. Each takes up to 64 MB of memory on its way to S3."""
PIECE: Final = 1 << 20
_BY_TYPE: Final = {
    "application/json": "json",
    "application/x-ndjson": "jsonl",
    "application/ndjson": "jsonl",
    "application/jsonl": "jsonl",
    "application/x-jsonlines": "jsonl",
    "application/jsonlines": "jsonl",
    "text/csv": "csv",
    "application/csv": "csv",
    "application/vnd.apache.parquet": "parquet",
    "application/x-parquet": "parquet",
    "application/parquet": "parquet",
}
_BY_SUFFIX: Final = {"json": "json", "jsonl": "jsonl", "ndjson": "jsonl", "csv": "csv", "parquet": "parquet", "txt": "text"}
_TYPES: Final = {
    "json": "application/json",
    "jsonl": "application/x-ndjson",
    "csv": "text/csv",
    "parquet": "application/vnd.apache.parquet",
    "text": "text/plain",
    "bytes": "application/octet-stream",
}


@frozen
class Target:
    """The place in which a body is stored: `key` and a suffix for its format."""

    results: ResultStore
    key: str
    form: str | None
    """The format; None: that of the response."""
    loop: EventLoop


class _Places:
    """Limits how many bodies are stored concurrently on one event loop."""

    def __init__(self) -> None:
        self.free = asyncio.Semaphore(AT_ONCE)

    async def close(self) -> None:
        """Do nothing: nothing is open."""


def format_of(headers: Mapping[str, str], path: str) -> str:
    """Return the format of a body by its content type, or by the requested name if the type is generic."""
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    found = _BY_TYPE.get(kind) or ("json" if kind.endswith("+json") else None)
    if found is None and kind in ("", "application/octet-stream", "binary/octet-stream", "text/plain"):
        found = _BY_SUFFIX.get(path.rpartition("/")[2].rpartition(".")[2].lower())
    return found or ("text" if kind.startswith("text/") else "bytes")


async def store_body(response: Response, target: Target, limit: int) -> dict[str, Any]:
    """Store the decompressed body and return its reference. Raises `BodyTooLarge`, `BodyUnreadable`, port errors; nothing is
    stored then."""
    announced = response.headers.get("content-length", "")
    if announced.isdigit() and int(announced) > limit:
        raise BodyTooLarge(f"the body is {announced} bytes, over the limit of {limit}")
    form = target.form or format_of(response.headers, urlsplit(str(response.request.url)).path)
    places = cast(_Places, target.loop.kept(store_body, _Places))
    async with places.free:
        out = _Out(target.results, f"{target.key}.{form}", form)
        try:
            return {**await out.written(response, limit), "format": form}
        finally:
            out.close()


class _Out:
    """One object that is written on threads, a step at a time."""

    def __init__(self, results: ResultStore, key: str, form: str) -> None:
        self._results, self._key, self._form = results, key, form
        self._out: ObjectWriter | None = None
        self._step: Future[Any] | None = None

    async def written(self, response: Response, limit: int) -> Mapping[str, Any]:
        decoder, size, held = decoder_of(response.headers), 0, bytearray()
        while raw := await response.piece():
            for piece in decoder.pieces(raw):
                size += len(piece)
                if size > limit:
                    raise BodyTooLarge(f"the body is over the limit of {limit} bytes")
                held += piece
                if len(held) >= PIECE:
                    await self._write(bytes(held))
                    held.clear()
        held += decoder.end()
        await self._write(bytes(held))
        reference: Mapping[str, Any] = await self._do(self._finish)
        return reference

    def close(self) -> None:
        """Discard unfinished parts, once the current write has ended."""
        if self._step is not None:
            self._step.add_done_callback(lambda _: begin(self._discard))

    async def _write(self, piece: bytes) -> None:
        await self._do(lambda: self._entered().write(piece))

    async def _do(self, step: Any) -> Any:
        self._step = begin(step)
        return await wait_for(self._step)

    def _entered(self) -> ObjectWriter:
        if self._out is None:
            out = self._results.writer(self._key, _TYPES[self._form])
            self._out = outlined(out, self._results, self._form).__enter__()
        return self._out

    def _finish(self) -> Mapping[str, Any]:
        reference = self._entered().finish()
        self._discard()
        return reference

    def _discard(self) -> None:
        out, self._out = self._out, None
        if out is not None:
            out.__exit__(None, None, None)
