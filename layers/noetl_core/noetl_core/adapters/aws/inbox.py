"""The inbox bucket: the version of an object that was put is read or copied; refused uploads are moved under `rejected/`."""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from hashlib import sha256
from typing import Any

from botocore.exceptions import ClientError

from noetl_core.adapters.aws.clients import client, code_of, errors_of
from noetl_core.adapters.keys import MAX_KEY, check_key
from noetl_core.ports import Forbidden, NotFound, Upload
from noetl_core.values.result_refs import unchecked_reference

REJECTED, SUFFIX = "rejected/", ".error.json"
GONE = frozenset({"NoSuchKey", "NoSuchVersion", "404"})
PARTS_FROM = 1024 * 1024 * 1024
"""A larger object is copied in parts, concurrently (one request copies at most 5 GB). Its checksum is unknown, which does not
matter, because it is larger than any value that is loaded."""
PART = 128 * 1024 * 1024


class S3Inbox:
    """`Inbox` over S3; `results` names the bucket of the result store."""

    def __init__(self, results: str) -> None:
        self._results = results

    def read(self, upload: Upload) -> bytes:
        with _found(upload):
            body: bytes = client("s3").get_object(**_object(upload))["Body"].read()
        return body

    def copy(self, upload: Upload, key: str) -> Mapping[str, Any]:
        check_key(key)
        reference = unchecked_reference(key, upload.size)
        with _found(upload):
            if upload.size <= PARTS_FROM:
                reference["checksum"] = f"sha256:{self._copied(upload, key)}"
            else:
                from s3transfer import manager  # 30 ms: only uploads of more than one part need it

                parts = manager.TransferConfig(PARTS_FROM, multipart_chunksize=PART)
                with manager.TransferManager(client("s3"), parts) as transfers:
                    transfers.copy(_object(upload), self._results, key).result()
        return reference

    def _copied(self, upload: Upload, key: str) -> str:
        """Copy in one request; return the SHA-256 of the content, which S3 returns and not every emulator does."""
        copied = client("s3").copy_object(
            Bucket=self._results,
            Key=key,
            CopySource=_object(upload),
            TaggingDirective="REPLACE",
            ChecksumAlgorithm="SHA256",
        )
        checksum = copied.get("CopyObjectResult", {}).get("ChecksumSHA256")
        if checksum:
            return b64decode(checksum).hex()
        digest = sha256()
        for part in client("s3").get_object(Bucket=self._results, Key=key)["Body"].iter_chunks(PART):
            digest.update(part)
        return digest.hexdigest()

    def reject(self, upload: Upload, error: Mapping[str, Any]) -> None:
        aside = _rejected_key(upload.key)
        with errors_of(f"reject {upload.key}"):
            client("s3").put_object(
                Bucket=upload.bucket,
                Key=aside + SUFFIX,
                Body=json.dumps(error, ensure_ascii=False, indent=2).encode(),
                ContentType="application/json",
            )
        with _found(upload):
            if upload.size <= PARTS_FROM:
                client("s3").copy_object(Bucket=upload.bucket, Key=aside, CopySource=_object(upload), TaggingDirective="REPLACE")
                if client("s3").head_object(Bucket=upload.bucket, Key=upload.key).get("VersionId", "null") == (
                    upload.version_id or "null"
                ):  # a newer version is another upload
                    client("s3").delete_object(Bucket=upload.bucket, Key=upload.key)


def _rejected_key(key: str) -> str:
    fits = len((REJECTED + key + SUFFIX).encode()) <= MAX_KEY
    return REJECTED + (key if fits else sha256(key.encode()).hexdigest())


def _object(upload: Upload) -> dict[str, str]:
    version = {"VersionId": upload.version_id} if upload.version_id and upload.version_id != "null" else {}
    return {"Bucket": upload.bucket, "Key": upload.key, **version}


@contextmanager
def _found(upload: Upload) -> Iterator[None]:
    try:
        with errors_of(f"upload {upload.key}"):
            yield
    except ClientError as error:
        if code_of(error) in GONE:
            raise NotFound(f"{upload.key} is gone") from error
        if code_of(error) in ("AccessDenied", "403"):
            raise Forbidden(
                f"this stack may not read the bucket {upload.bucket}: add the bucket to the stack's parameter UploadBuckets"
            ) from error
        raise
