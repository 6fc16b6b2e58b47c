"""The bodies of objects: read as a value or kept by reference, written from a value or copied from what a reference names.

Neither holds more than `PART` bytes of a body whose size is not known to be small.
"""

from __future__ import annotations

import csv
import io
import json
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Final

from noetl_core.engine.outcome import Outcome
from noetl_core.result_streams import pieces
from noetl_core.strict_json import parsed
from noetl_core.tools.actions import option
from noetl_core.tools.aws.stopping import stopper
from noetl_core.tools.base import BadInput, ToolCall, ToolFailed
from noetl_core.tools.store import CONTENT_TYPES, encode

PART: Final = 16 * 1024 * 1024
"""Bytes of a part: S3 takes 10,000 of them, 156 GB."""
PIECE: Final = 1024 * 1024
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
_BY_REFERENCE: Final = frozenset({"csv", "parquet", "binary"})
"""What `auto` keeps by reference: rows for DuckDB, and what is no text."""
_BINARY: Final = "application/octet-stream"


@dataclass(frozen=True, slots=True)
class Body:
    """What is to be written: its size, its type, its bytes."""

    size: int
    content_type: str
    pieces: Iterable[bytes]


# --- reading ------------------------------------------------------------------------------------------------------------


def read(call: ToolCall, key: str, form: str, answer: Mapping[str, Any]) -> Any:
    """Return the body of the object `key` that `answer` brings, as a value or as a reference. Raises `BadInput`, `ToolFailed`."""
    size = int(answer.get("ContentLength", 0))
    found = form_of(key, str(answer.get("ContentType", "")))
    if form == "parquet":
        raise BadInput("a Parquet file is read by duckdb: `format: reference`, and its `sources`")
    if form == "reference" or (
        form == "auto" and (found in _BY_REFERENCE or (found != "text" and size > option(call, "max_value_bytes")))
    ):
        return _kept(call, found, size, answer)
    limit = option(call, "max_value_bytes")
    if size > limit:
        raise _too_large(
            f"the object has {size} bytes, `spec.max_value_bytes` is {limit}: `format: reference` keeps it by reference"
        )
    return _value(answer["Body"].read(), found if form == "auto" else form)


def form_of(key: str, content_type: str) -> str:
    """Return what an object is: by the ending of its key, else by its type."""
    ending = key.rpartition("/")[2].rpartition(".")[2].lower()
    said = content_type.partition(";")[0].strip().lower()
    known = _OF_ENDING.get(ending) or _OF_TYPE.get(said)
    return known or ("text" if said.startswith("text/") else "json" if said.endswith("+json") else "binary")


def _kept(call: ToolCall, form: str, size: int, answer: Mapping[str, Any]) -> dict[str, Any]:
    """Copy the body among the results of the execution and return its reference. The key says which task and which content, so a
    repeated task writes the same object, and a worker that was overtaken none that its successor's reference names."""
    if call.results is None:
        raise ToolFailed(Outcome.failed("storage", "s3: this worker has no result store", retryable=False))
    limit = option(call, "max_bytes")
    if size > limit:
        raise _too_large(f"the object has {size} bytes, `spec.max_bytes` is {limit}")
    mark = sha256(str(answer.get("ETag", "")).encode()).hexdigest()[:16]
    name = f"{call.execution_id}/s3/{call.task_run_id}-{mark}"
    with call.results.writer(name, str(answer.get("ContentType") or _BINARY)) as writer:
        stop = stopper(call)
        for piece in answer["Body"].iter_chunks(PIECE):
            stop()
            writer.write(piece)
        reference = dict(writer.finish())
    return {**reference, "format": form, "schema_hint": {"type": form, "size": size}}


def _value(body: bytes, form: str) -> Any:
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
        why = "it is no UTF-8 text: `format: base64` gives its bytes" if isinstance(error, UnicodeDecodeError) else str(error)
        raise ToolFailed(Outcome.failed("parse", f"s3: the object does not read as {form}: {why}", retryable=False)) from None


def _too_large(message: str) -> ToolFailed:
    return ToolFailed(Outcome.failed("limit", f"s3: {message}", retryable=False))


# --- writing ------------------------------------------------------------------------------------------------------------


def written(call: ToolCall, key: str, form: str) -> Body:
    """Return what `put` writes: `data` in the format that is asked for. Raises `BadInput`, `TooLarge`, `NotFound`."""
    data: Any = call.inputs.get("data")
    ending = _OF_ENDING.get(key.rpartition("/")[2].rpartition(".")[2].lower())
    if call.references is not None and call.results is not None and call.references.owns(data):
        own = str(data.get("format") or "json")
        if form in ("auto", "reference", own) and (form != "auto" or own == (ending or own) or own not in CONTENT_TYPES):
            return Body(int(data["size"]), CONTENT_TYPES.get(own, _BINARY), pieces(call.results, data))
    if call.references is not None:
        data = call.references.load(data, "data")
    if form in ("auto", "reference"):
        form = ("text" if ending in (None, "csv", "jsonl", "text") else ending) if isinstance(data, str) else ending or "json"
    body, content_type = _encoded(data, form)
    return Body(len(body), content_type, [body])


def _encoded(data: Any, form: str) -> tuple[bytes, str]:
    try:
        if form == "base64":
            return b64decode(str(data), validate=True), _BINARY
        if form == "text":
            return (data if isinstance(data, str) else json.dumps(data, ensure_ascii=False)).encode(), "text/plain; charset=utf-8"
        return encode(data, form), CONTENT_TYPES[form]
    except (TypeError, ValueError, RecursionError) as error:
        raise BadInput(f"`data` cannot be written as {form}: {error}") from error


def write(
    s3: Any, request: Mapping[str, Any], conditions: Mapping[str, str], body: Body, stop: Callable[[], None]
) -> Mapping[str, Any]:
    """Write an object under conditions: by one request if it is small, else part by part. Nothing is there unless all is. Raises
    botocore's errors, and what `stop` raises, which is called between the parts."""
    parts = _parts(body.pieces)
    first = next(parts, b"")
    following = next(parts, None)
    if following is None:
        answer: Mapping[str, Any] = s3.put_object(**request, **conditions, Body=first)
        return answer
    where = {"Bucket": request["Bucket"], "Key": request["Key"]}
    upload = {**where, "UploadId": s3.create_multipart_upload(**request)["UploadId"]}
    try:
        done = []
        for number, part in enumerate(_chained(first, following, parts), 1):
            stop()
            told = s3.upload_part(**upload, PartNumber=number, Body=part)
            done.append({"PartNumber": number, "ETag": told["ETag"]})
        finished: Mapping[str, Any] = s3.complete_multipart_upload(**upload, MultipartUpload={"Parts": done}, **conditions)
    except BaseException:
        s3.abort_multipart_upload(**upload)
        raise
    return finished


def _chained(first: bytes, second: bytes, rest: Iterator[bytes]) -> Iterator[bytes]:
    yield first
    yield second
    yield from rest


def _parts(pieces: Iterable[bytes]) -> Iterator[bytes]:
    held = bytearray()
    for piece in pieces:
        held += piece
        while len(held) >= PART:
            yield bytes(held[:PART])
            del held[:PART]
    if held:
        yield bytes(held)
