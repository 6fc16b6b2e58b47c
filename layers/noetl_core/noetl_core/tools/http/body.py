"""The body of a response, with limits: bytes are counted after decompression, and a body that claims to be JSON must be JSON."""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Iterator, Mapping
from typing import Any, Final

from noetl_core.tools.http.client import Response

STEP: Final = 1 << 20
EXCERPT_BYTES: Final = 2_000
REASON_KEYS: Final = ("error_description", "error", "message", "detail", "title", "reason")
"""Keys under which JSON bodies have the reason of an error."""
REASON_DEPTH, REASON_CHARS = 2, 200
MEMBER: Final = b"\x1f"
"""The first byte of a member of a gzip file. A file may have any number of members (RFC 1952)."""
_TEXT: Final = frozenset({"", "application/xml", "application/x-ndjson", "application/javascript"})


class BodyTooLarge(Exception):
    """The body is larger than the task may read."""


class BodyUnreadable(Exception):
    """The body does not match the response's headers."""


async def read_body(response: Response, limit: int) -> bytes:
    """Return the decompressed body of a response. Raises `BodyTooLarge` as early as possible, and `BodyUnreadable`."""
    announced = response.headers.get("content-length", "")
    if announced.isdigit() and int(announced) > limit:
        raise BodyTooLarge(f"the body is {announced} bytes, over the limit of {limit}")
    body, decoder = bytearray(), decoder_of(response.headers)
    while raw := await response.piece():
        for piece in decoder.pieces(raw):
            body += piece
            if len(body) > limit:
                raise BodyTooLarge(f"the body is over the limit of {limit} bytes")
    return bytes(body + decoder.end())


async def read_beginning(response: Response, size: int) -> bytes:
    """Return the first bytes of the decompressed body, however long it is. Raises `BodyUnreadable`."""
    body, decoder = bytearray(), decoder_of(response.headers)
    while raw := await response.piece():
        for piece in decoder.pieces(raw):
            body += piece
            if len(body) >= size:
                return bytes(body[:size])
    return bytes(body + decoder.end())


class Decoder:
    """Passes a body through unchanged."""

    def pieces(self, raw: bytes) -> Iterator[bytes]:
        """Yield the next part of the body in pieces of limited size. Raises `BodyUnreadable`."""
        yield raw

    def end(self) -> bytes:
        """Return the remaining data after the last piece. Raises `BodyUnreadable`."""
        return b""


class Decompressor(Decoder):
    """Decompresses a body."""

    def __init__(self, encoding: str) -> None:
        self._encoding = encoding
        self._unpack = zlib.decompressobj(zlib.MAX_WBITS | 32) if encoding != "deflate" else None

    def pieces(self, raw: bytes) -> Iterator[bytes]:
        if self._unpack is None:  # "deflate" is zlib by the book and bare deflate by some servers
            self._unpack = zlib.decompressobj() if raw[0] & 0x0F == 8 else zlib.decompressobj(-zlib.MAX_WBITS)
        try:
            while raw:
                if self._unpack.eof:
                    if self._encoding == "deflate" or not raw.startswith(MEMBER):
                        return  # padding
                    self._unpack = zlib.decompressobj(zlib.MAX_WBITS | 32)
                yield self._unpack.decompress(raw, STEP)
                raw = self._unpack.unused_data if self._unpack.eof else self._unpack.unconsumed_tail
        except zlib.error as error:
            raise self._unreadable(error) from error

    def end(self) -> bytes:
        if self._unpack is None:
            return b""
        try:
            rest = self._unpack.flush()
        except zlib.error as error:
            raise self._unreadable(error) from error
        if not self._unpack.eof:
            raise BodyUnreadable("the compressed body ends too early")
        return rest

    def _unreadable(self, error: zlib.error) -> BodyUnreadable:
        return BodyUnreadable(f"the body is not valid {self._encoding}: {error}")


def decoder_of(headers: Mapping[str, str]) -> Decoder:
    """Return the decoder for a body with these `headers`. Raises `BodyUnreadable`."""
    encoding = headers.get("content-encoding", "").strip().lower()
    if encoding in ("", "identity"):
        return Decoder()
    if encoding not in ("gzip", "x-gzip", "deflate"):
        raise BodyUnreadable(f"the body is encoded as {encoding[:40]!r}, not as gzip or deflate")
    return Decompressor(encoding)


def parse_body(body: bytes, content_type: str, form: str) -> Any:
    """Return `data` of the result. `form`: auto (by content type), json, text, or base64.

    Auto: JSON becomes its value, text a string, other bytes `{base64: ...}`, an empty body null. Raises `BodyUnreadable`.
    """
    kind, _, parameters = content_type.lower().partition(";")
    kind = kind.strip()
    if form == "base64":
        return base64.b64encode(body).decode()
    if form == "json" or (form == "auto" and (kind == "application/json" or kind.endswith("+json"))):
        return _json(body)
    charset = parameters.partition("charset=")[2].split(";")[0].strip(" \"'") or "utf-8"
    if form == "text":
        return _decode(body, charset, "replace")
    if not body:
        return None
    if kind.startswith("text/") or kind in _TEXT or kind.endswith("+xml"):
        try:
            return _decode(body, charset, "strict" if kind == "" else "replace")
        except UnicodeDecodeError:
            pass  # untyped bytes that are not text
    return {"base64": base64.b64encode(body).decode()}


def _decode(body: bytes, charset: str, errors: str) -> str:
    try:
        return body.decode(charset, errors)
    except LookupError:
        return body.decode("utf-8", errors)


def _json(body: bytes) -> Any:
    if not body.strip():
        return None
    try:
        value = json.loads(body, parse_constant=_no_constant)
        if b"\\ud" in body or b"\\uD" in body:
            json.dumps(value, ensure_ascii=False).encode()  # text with half a surrogate pair cannot be stored
        return value
    except (ValueError, RecursionError) as error:
        raise BodyUnreadable(f"the body is not valid JSON: {error}") from error


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a JSON number")


def excerpt(body: bytes) -> str:
    """Return the beginning of an error's body, for people."""
    text = body[:EXCERPT_BYTES].decode("utf-8", "replace")
    return text + ("..." if len(body) > EXCERPT_BYTES else "")


def reason_in(text: str) -> str:
    """Return the reason that a JSON body gives for an error, such as `expired` of `{"error": {"message": "expired"}}`; empty
    without one."""
    try:
        found: Any = json.loads(text)
    except (ValueError, RecursionError):
        return ""
    for _ in range(REASON_DEPTH):
        if not isinstance(found, dict):
            break
        found = next((found[key] for key in REASON_KEYS if isinstance(found.get(key), str | dict) and found[key]), None)
    words = " ".join(found.split()) if isinstance(found, str) else ""
    return words if len(words) <= REASON_CHARS else words[: REASON_CHARS - 1] + "…"
