"""Reads bodies of S3 objects as a value or a reference, and writes them by one request or in parts.

At most `PART` bytes of a body are in memory, unless it is known to be small.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from hashlib import sha256
from typing import Any, Final

from noetl_core.tools.actions import option
from noetl_core.tools.base import BadInput, ToolCall
from noetl_core.tools.rows.bodies import BINARY, Body, form_of, in_steps, store, too_large, value_of

PART: Final = 16 * 1024 * 1024
"""Bytes of a part. S3 takes 10,000 parts, 156 GB."""
PIECE: Final = 1024 * 1024
_BY_REFERENCE: Final = frozenset({"csv", "parquet", "binary"})
"""Formats that `auto` returns as references: rows for DuckDB, and binary data."""


def read(call: ToolCall, key: str, form: str, answer: Mapping[str, Any]) -> Any:
    """Return the body of the object `key` in `answer`, as a value or as a reference. Raises `BadInput`, `ToolFailed`."""
    size = int(answer.get("ContentLength", 0))
    found = form_of(key, str(answer.get("ContentType", "")))
    if form == "parquet":
        raise BadInput("kind s3 does not read Parquet: write `format: reference`, and read the file with kind duckdb (`sources`)")
    if form == "reference" or (
        form == "auto" and (found in _BY_REFERENCE or (found != "text" and size > option(call, "max_value_bytes")))
    ):
        return _kept(call, found, size, answer)
    limit = option(call, "max_value_bytes")
    if size > limit:
        raise too_large(
            call.kind,
            f"the object has {size} bytes, `spec.max_value_bytes` is {limit}: `format: reference` keeps it by reference",
        )
    return value_of(call.kind, answer["Body"].read(), found if form == "auto" else form)


def _kept(call: ToolCall, form: str, size: int, answer: Mapping[str, Any]) -> dict[str, Any]:
    """Copy the body to the results of the execution and return its reference. The key is derived from the task and the content,
    so that a repeated task writes the same object, and an overtaken worker cannot overwrite the object of its successor."""
    limit = option(call, "max_bytes")
    if size > limit:
        raise too_large(call.kind, f"the object has {size} bytes, `spec.max_bytes` is {limit}")
    mark = sha256(str(answer.get("ETag", "")).encode()).hexdigest()[:16]
    name = f"{call.execution_id}/s3/{call.task_run_id}-{mark}"
    reference = store(call, name, form, str(answer.get("ContentType") or BINARY), answer["Body"].iter_chunks(PIECE))
    return {"schema_hint": {"type": form, "size": size}, **reference}


def write(
    s3: Any, request: Mapping[str, Any], conditions: Mapping[str, str], body: Body, stop: Callable[[], None]
) -> Mapping[str, Any]:
    """Write an object under conditions, by one request if it is small, otherwise in parts. Nothing is visible before everything
    is written. Raises botocore's errors, and those of `stop`, which is called between parts."""
    parts = in_steps(iter(body.pieces), PART)
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
            answer = s3.upload_part(**upload, PartNumber=number, Body=part)
            done.append({"PartNumber": number, "ETag": answer["ETag"]})
        finished: Mapping[str, Any] = s3.complete_multipart_upload(**upload, MultipartUpload={"Parts": done}, **conditions)
    except BaseException:
        s3.abort_multipart_upload(**upload)
        raise
    return finished


def _chained(first: bytes, second: bytes, rest: Iterator[bytes]) -> Iterator[bytes]:
    yield first
    yield second
    yield from rest
