"""The request body of an http task: bytes, or a stream that is opened again for every attempt."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator, Mapping
from io import RawIOBase
from typing import Any, Final, cast

import httpx

from noetl_core.ports import ResultStore, TooLarge
from noetl_core.tools.base import BadInput, ToolCall
from noetl_core.values.frozen import frozen
from noetl_core.values.result_streams import pieces

READ: Final = 4 * 1024 * 1024
"""Bytes of a stored object that are read at a time."""
FILE_KEYS: Final = frozenset({"content", "base64", "json", "filename", "content_type"})


@frozen
class Streamed:
    """A body of `size` bytes that `open` yields from the beginning. Reading it may block."""

    size: int
    open: Callable[[], Iterator[bytes]]


Content = bytes | Streamed


@frozen
class _Stored:
    """An object of the result store whose bytes are sent as they are."""

    results: ResultStore
    reference: Mapping[str, Any]

    @property
    def size(self) -> int:
        return int(self.reference["size"])


def content_of(call: ToolCall) -> tuple[Content | None, str | None]:
    """Return body and content type: `json` any value, `form` fields, `files` with or without them, `body` text as it is, a
    mapping or list as JSON, or a stored object as it is. Raises `BadInput`, port errors."""
    inputs = call.inputs
    if "json" in inputs:
        return _json(inputs["json"]), "application/json"
    if "files" in inputs:
        return _multipart(call, inputs["files"], mapping(inputs, "form"))
    if "form" in inputs:
        request = httpx.Request("POST", "http://form", data=_fields(mapping(inputs, "form")))
        return request.read(), "application/x-www-form-urlencoded"
    if inputs.get("body") is None:
        return None, None
    body = _raw(call, inputs["body"], "body")
    if isinstance(body, _Stored):
        stored = body
        return Streamed(stored.size, lambda: pieces(stored.results, stored.reference, READ)), _type_of(stored)
    if isinstance(body, bytes):
        return body, None
    if isinstance(body, str):
        return body.encode("utf-8"), None
    return _json(body), "application/json"


def mapping(inputs: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """Return an input that is a mapping, or nothing. Raises `BadInput`."""
    value = inputs.get(name) or {}
    if not isinstance(value, Mapping):
        raise BadInput(f"`{name}` must be a mapping, not {type(value).__name__}")
    return value


def spelled(value: Any) -> str:
    """Return a value as a URL or a form spells it."""
    return ("true" if value else "false") if isinstance(value, bool) else str(value)


def _fields(form: Mapping[str, Any]) -> dict[str, Any]:
    return {str(k): [spelled(x) for x in v] if isinstance(v, list) else spelled(v) for k, v in form.items()}


def _json(value: Any) -> bytes:
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
    except (TypeError, ValueError) as error:
        raise BadInput(f"the body cannot be written as JSON: {error}") from error


def _raw(call: ToolCall, value: Any, name: str) -> Any:
    """Return a value with its references loaded, or the stored object itself if it is binary or too large to load."""
    references = call.references
    if references is None or call.results is None:
        return value
    stored = _Stored(call.results, value) if references.owns(value) and "format" in value else None
    if stored is not None and value["format"] != "json":
        return stored
    try:
        return references.load(value, name)
    except TooLarge:
        if stored is None:
            raise
        return stored


def _type_of(stored: _Stored) -> str | None:
    types = {"json": "application/json", "jsonl": "application/x-ndjson", "csv": "text/csv", "text": "text/plain"}
    types["parquet"] = "application/vnd.apache.parquet"
    return types.get(str(stored.reference["format"]), "application/octet-stream")


# --- files --------------------------------------------------------------------------------------------------------------------


@frozen
class _File:
    """One file of a form."""

    name: str
    content: bytes | _Stored
    content_type: str | None

    def part(self) -> tuple[str, Any, str | None] | tuple[str, Any]:
        """Return the arguments for httpx."""
        content: Any = self.content if isinstance(self.content, bytes) else cast(Any, _ObjectFile(self.content))
        return (self.name, content) if self.content_type is None else (self.name, content, self.content_type)


class _ObjectFile(RawIOBase):
    """A stored object as a file, for reading."""

    def __init__(self, stored: _Stored) -> None:
        self._stored, self._at = stored, 0
        self._buffer, self._buffer_at = b"", 0

    def seek(self, offset: int, whence: int = 0) -> int:
        self._at = offset + (0, self._at, self._stored.size)[whence]
        return self._at

    def tell(self) -> int:
        return self._at

    def read(self, size: int = -1) -> bytes:
        """Return the next bytes, of the current piece or of the next one."""
        start = self._at - self._buffer_at
        if not 0 <= start < len(self._buffer):
            key, end = str(self._stored.reference["key"]), min(self._at + READ, self._stored.size)
            self._buffer, self._buffer_at = self._stored.results.get(key, self._at, end), self._at
            start = 0
        taken = self._buffer[start:] if size < 0 else self._buffer[start : start + size]
        self._at += len(taken)
        return taken


def _multipart(call: ToolCall, uploads: Any, form: Mapping[str, Any]) -> tuple[Streamed, str]:
    if not isinstance(uploads, Mapping) or not uploads:
        raise BadInput("`files` must be a mapping of field names to files")
    files = [(str(name), _file(call, str(name), one)) for name, several in uploads.items() for one in _each(several)]
    fields = _fields(form)

    def request(headers: Mapping[str, str] | None = None) -> httpx.Request:
        parts = [(name, file.part()) for name, file in files]
        return httpx.Request("POST", "http://form", data=fields, files=cast(Any, parts), headers=headers)

    first = request()
    content_type = first.headers["content-type"]

    def open_() -> Iterator[bytes]:
        yield from cast(httpx.SyncByteStream, request({"Content-Type": content_type}).stream)

    return Streamed(int(first.headers["content-length"]), open_), content_type


def _each(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _file(call: ToolCall, field: str, file: Any) -> _File:
    """Return a file: text, a stored object, or `{content | base64 | json, filename, content_type}`. Raises `BadInput`."""
    where = f"files.{field}"
    owned = call.references is not None and call.references.owns(file)
    entry: Mapping[str, Any] = file if isinstance(file, Mapping) and not owned else {"content": file}
    unknown = entry.keys() - FILE_KEYS
    if unknown or len(entry.keys() & {"content", "base64", "json"}) != 1:
        what = f"the unknown key {sorted(map(str, unknown))[0]!r}" if unknown else "not one of content, base64 and json"
        raise BadInput(f"`{where}` has {what}: text, a reference, or {{content | base64 | json, filename, content_type}}")
    content = _file_content(call, where, entry)
    name = entry.get("filename")
    if name is None:
        name = str(content.reference["key"]).rpartition("/")[2] if isinstance(content, _Stored) else field
    kind = entry.get("content_type") or (_type_of(content) if isinstance(content, _Stored) else None)
    if kind is None and "json" in entry:
        kind = "application/json"
    for key, value in (("filename", name), ("content_type", kind)):
        if value is not None and (not isinstance(value, str) or any(ord(c) < 0x20 or ord(c) == 0x7F for c in value)):
            raise BadInput(f"`{where}.{key}` must be text without line breaks")
    return _File(name, content, kind)


def _file_content(call: ToolCall, where: str, entry: Mapping[str, Any]) -> bytes | _Stored:
    if "json" in entry:
        return _json(entry["json"] if call.references is None else call.references.load(entry["json"], f"{where}.json"))
    if "base64" in entry:
        try:
            return base64.b64decode(str(entry["base64"]), validate=True)
        except ValueError as error:
            raise BadInput(f"`{where}.base64` is not base64: {error}") from error
    content = _raw(call, entry["content"], f"{where}.content")
    if isinstance(content, _Stored | bytes):
        return content
    return _json(content) if isinstance(content, Mapping | list) else spelled(content).encode()
