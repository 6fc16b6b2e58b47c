"""Results in S3, under `<execution_id>/`."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping
from hashlib import sha256
from typing import Any

from botocore.exceptions import ClientError

from noetl_core.adapters.aws.clients import client, code_of, errors_of
from noetl_core.adapters.aws.object_writer import S3ObjectWriter
from noetl_core.adapters.keys import check_key
from noetl_core.ports import NotFound, ObjectWriter
from noetl_core.values.result_refs import unchecked_reference


class S3ResultStore:
    """`ResultStore` in a bucket; the checksum travels with the object."""

    def __init__(self, bucket: str) -> None:
        self._bucket = bucket

    def put(self, key: str, body: bytes, content_type: str = "application/json") -> Mapping[str, Any]:
        check_key(key)
        digest = sha256(body)
        with errors_of(f"put {key}"):
            client("s3").put_object(
                Bucket=self._bucket,
                Key=key,
                Body=body,
                ContentType=content_type,
                ChecksumSHA256=b64encode(digest.digest()).decode(),
            )
        return {**unchecked_reference(key, len(body)), "checksum": f"sha256:{digest.hexdigest()}"}

    def get(self, key: str, start: int | None = None, end: int | None = None) -> bytes:
        first = start or 0
        if end is not None and end <= first:
            return b""  # S3 cannot express an empty range
        options = {} if start is None and end is None else {"Range": f"bytes={first}-{'' if end is None else end - 1}"}
        try:
            with errors_of(f"get {key}"):
                body: bytes = client("s3").get_object(Bucket=self._bucket, Key=key, **options)["Body"].read()
        except ClientError as error:
            if code_of(error) == "NoSuchKey":
                raise NotFound(f"no object {key}") from error
            if code_of(error) == "InvalidRange":
                return b""  # it begins after the end
            raise
        return body

    def url(self, key: str) -> str:
        return f"s3://{self._bucket}/{key}"

    def writer(self, key: str, content_type: str = "application/json") -> ObjectWriter:
        return S3ObjectWriter(self._bucket, key, content_type)
