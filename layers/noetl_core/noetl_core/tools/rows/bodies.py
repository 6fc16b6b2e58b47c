"""Bodies of objects that tools write and read, of any size in constant memory: a value in a format, or the object of a
reference."""

from __future__ import annotations

import csv
import io
import json
from base64 import b64decode, b64encode
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from noetl_core.engine.outcome import Outcome
from noetl_core.ports import ResultStore
from noetl_core.tools.base import BadInput, ToolCall, ToolFailed
from noetl_core.tools.rows.outlined import outlined
from noetl_core.tools.stopping import stopper
from noetl_core.tools.store import CONTENT_TYPES, encode
from noetl_core.values.frozen import frozen
from noetl_core.values.result_refs import MANIFEST, MARK
from noetl_core.values.result_streams import pieces
from noetl_core.values.strict_json import parsed

BINARY: Final = "application/octet-stream"
TEXT: Final = "text/plain; charset=utf-8"
_OF_ENDING: Final = {
    "json": "json", "jsonl": "jsonl", "ndjson": "jsonl", "csv": "csv", "tsv": "text", "parquet": "parquet", "txt": "text",
    "md": "text", "xml": "text", "html": "text", "yaml": "text", "yml": "text", "sql": "text", "log": "text",
}  # fmt: skip
_OF_TYPE: Final = {
    **{content: form for form, content in CONTENT_TYPES.items()},
    "application/jsonl": "jsonl",
    "application/xml": "text",
    "application/x-yaml": "text",
    "application/yaml": "text",
}
_JSON: Final = frozenset({"json", "jsonl"})


@frozen
class Body:
    """A body to write: its size, format, content type and bytes."""

    size: int
    form: str
    content_type: str
    pieces: Iterable[bytes]


def ending_form(name: str) -> str | None:
    """Return the format that the extension of a name states."""
    return _OF_ENDING.get(name.rpartition("/")[2].rpartition(".")[2].lower())


def form_of(name: str, content_type: str) -> str:
    """Return the format of an object by the extension of its name, otherwise by its content type."""
    media_type = content_type.partition(";")[0].strip().lower()
    known = ending_form(name) or _OF_TYPE.get(media_type)
    return known or ("text" if media_type.startswith("text/") else "json" if media_type.endswith("+json") else "binary")


def body_of(call: ToolCall, name: str, form: str) -> Body:
    """Return the body to write as `name`: the input `data` in format `form`. The object of a reference in that format is copied
    without being loaded, unless it contains references itself.

    Raises `BadInput`, `TooLarge`, `NotFound`.
    """
    data: Any = call.inputs.get("data")
    ending = ending_form(name)
    if call.references is not None and call.results is not None and call.references.owns(data):
        own = str(data.get("format") or "json")
        kept = form in ("auto", "reference", own) and (form != "auto" or own == (ending or own) or own not in CONTENT_TYPES)
        if kept and not (own in _JSON and _refers(call.results, data)):
            return Body(int(data["size"]), own, CONTENT_TYPES.get(own, BINARY), pieces(call.results, data))
    if call.references is not None:
        data = call.references.load(data, "data")
    own = form
    if form in ("auto", "reference"):
        form = own = ending or ("text" if isinstance(data, str) else "json")
        if isinstance(data, str) and form in ("csv", "jsonl"):
            form = "text"  # JSON lines are already text
    body, content_type = _encoded(data, form)
    return Body(len(body), "bytes" if form == "base64" else own, content_type, [body])


def _refers(results: ResultStore, reference: Mapping[str, Any]) -> bool:
    """Return whether a JSON object may contain references. It is then loaded as a value, because others cannot read them."""
    if reference.get("schema_hint") == MANIFEST:
        return True
    rest = b""
    for piece in pieces(results, reference):
        if MARK in rest + piece:
            return True
        rest = piece[-len(MARK) :]
    return False


def _encoded(data: Any, form: str) -> tuple[bytes, str]:
    try:
        if form == "base64":
            return b64decode(str(data), validate=True), BINARY
        if form == "text":
            return (data if isinstance(data, str) else json.dumps(data, ensure_ascii=False)).encode(), TEXT
        return encode(data, form), CONTENT_TYPES[form]
    except (TypeError, ValueError, RecursionError) as error:
        raise BadInput(f"`data` cannot be written as {form}: {error}") from error


def value_of(kind: str, body: bytes, form: str) -> Any:
    """Return the value of an object's body, for a task of `kind`. Raises `ToolFailed`."""
    if form in ("base64", "binary"):
        return b64encode(body).decode()
    try:
        text = body.decode("utf-8-sig")
        if form == "json":
            return parsed(body.removeprefix(b"\xef\xbb\xbf"))
        if form == "jsonl":
            return [parsed(line.encode()) for line in text.splitlines() if line.strip()]
        return list(csv.DictReader(io.StringIO(text, newline=""))) if form == "csv" else text
    except (ValueError, csv.Error) as error:
        why = "it is not UTF-8 text: `format: base64` gives its bytes" if isinstance(error, UnicodeDecodeError) else str(error)
        raise ToolFailed(Outcome.failed("parse", f"{kind}: the object does not read as {form}: {why}", retryable=False)) from None


def store(call: ToolCall, key: str, form: str, content_type: str, body: Iterable[bytes]) -> dict[str, Any]:
    """Write an object of the execution piece by piece, and return its reference, with its format.

    Raises `ToolFailed` if the call has to stop; nothing is stored then.
    """
    if call.results is None:
        raise ToolFailed(Outcome.failed("storage", f"{call.kind}: this worker has no result store", retryable=False))
    stop = stopper(call)
    with outlined(call.results.writer(key, content_type), call.results, form) as out:
        for piece in body:
            stop()
            out.write(piece)
        return {**out.finish(), "format": form}


def too_large(kind: str, message: str) -> ToolFailed:
    """Return the failure of a task that would read or write too much."""
    return ToolFailed(Outcome.failed("limit", f"{kind}: {message}", retryable=False))


def in_steps(body: Iterator[bytes], size: int) -> Iterator[bytes]:
    """Yield the same bytes in pieces of `size`; the last one may be shorter."""
    held = bytearray()
    for piece in body:
        held += piece
        while len(held) >= size:
            yield bytes(held[:size])
            del held[:size]
    if held:
        yield bytes(held)
