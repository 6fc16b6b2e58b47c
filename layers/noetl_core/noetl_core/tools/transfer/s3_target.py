"""Objects below a prefix of S3 as the target of a transfer: one for each chunk. Its progress is an object of the execution."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, Final

from noetl_core.ports import NotFound, ResultStore
from noetl_core.tools.aws import rights
from noetl_core.tools.aws.clients import client
from noetl_core.tools.aws.errors import errors_of
from noetl_core.tools.aws.rights import BUCKETS
from noetl_core.tools.aws.s3 import DELETED_AT_ONCE
from noetl_core.tools.base import BadInput, ToolCall
from noetl_core.tools.postgres.copy import Load
from noetl_core.tools.rows.sources import Row
from noetl_core.tools.store import CONTENT_TYPES, encode
from noetl_core.tools.transfer.staged import Staged
from noetl_core.tools.transfer.target import Progress
from noetl_core.tools.transfer.typed import columns_of, parquet

FORMATS: Final = ("jsonl", "csv", "parquet")


class S3Target:
    """Writes `<prefix>part-00000.<format>`, ...; with `append` the names begin with the task run's."""

    def __init__(self, uri: str, form: str, load: Load, call: ToolCall, staged: Staged, results: ResultStore) -> None:
        self._bucket, self._prefix = split(uri)
        if self._prefix and not self._prefix.endswith("/"):
            raise BadInput("`target.uri` must end with /: each chunk is an object below it")
        if load.mode == "replace" and not self._prefix:
            raise BadInput("`mode: replace` empties a folder: `target.uri` must name one, such as s3://bucket/path/")
        if load.mode == "upsert":
            raise BadInput("`mode: upsert` is for tables: objects have no keys")
        rights.check(BUCKETS, self._bucket)
        self._form, self._load, self._call, self._staged, self._results = form, load, call, staged, results
        self._note = f"{call.execution_id}/transfer/{call.task_run_id}-progress.json"

    def progress(self) -> Progress:
        try:
            return Progress(**json.loads(self._results.get(self._note)))
        except NotFound:
            return Progress(source=self._staged.identity)

    def write(self, rows: Sequence[Row], before: Progress) -> Progress:
        body = self._body(rows)
        with errors_of("transfer", BUCKETS, self._bucket):
            client("s3").put_object(
                Bucket=self._bucket,
                Key=self._key(before.chunks),
                Body=body,
                ContentType=CONTENT_TYPES[self._form],
            )
        return self._noted(before.after(len(rows), len(rows)))

    def finish(self, before: Progress) -> Progress:
        if self._load.mode == "replace":
            self._delete_others(before.chunks)
        return self._noted(before.ended())

    def facts(self, progress: Progress) -> Mapping[str, Any]:
        return {"uri": f"s3://{self._bucket}/{self._prefix}", "objects": progress.chunks}

    def close(self) -> None:
        """Do nothing: the target holds no resources."""

    def _body(self, rows: Sequence[Row]) -> bytes:
        pairs, types = self._load.columns, self._staged.types
        if types:
            pairs = columns_of(types, pairs)
            if self._form == "parquet":
                return parquet(rows, pairs, types)
        chosen = rows if pairs is None else [{column: row.get(source) for column, source in pairs.items()} for row in rows]
        return encode(chosen, self._form)

    def _key(self, chunk: int) -> str:
        name = "part" if self._load.mode == "replace" else self._call.task_run_id
        return f"{self._prefix}{name}-{chunk:05}.{self._form}"

    def _noted(self, progress: Progress) -> Progress:
        self._results.put(self._note, json.dumps(asdict(progress)).encode())
        return progress

    def _delete_others(self, chunks: int) -> None:
        mine = {self._key(n) for n in range(chunks)}
        with errors_of("transfer", BUCKETS, self._bucket):
            pages = client("s3").get_paginator("list_objects_v2").paginate(Bucket=self._bucket, Prefix=self._prefix)
            others = [one["Key"] for page in pages for one in page.get("Contents", ()) if one["Key"] not in mine]
            for first in range(0, len(others), DELETED_AT_ONCE):
                listed = [{"Key": key} for key in others[first : first + DELETED_AT_ONCE]]
                client("s3").delete_objects(Bucket=self._bucket, Delete={"Objects": listed, "Quiet": True})


def split(uri: Any) -> tuple[str, str]:
    """Return bucket and key of `s3://bucket/key`. Raises `BadInput`."""
    bucket, _, key = str(uri).removeprefix("s3://").partition("/")
    if not isinstance(uri, str) or not uri.startswith("s3://") or not bucket:
        raise BadInput(f"{str(uri)[:80]!r} must be like s3://bucket/path/")
    return bucket, key
