"""Lists objects of S3 as sources: those that match a pattern, in the version that was listed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from botocore.session import Session

from noetl_core.aws.clients import CONFIGS
from noetl_core.engine.outcome import Outcome
from noetl_core.tools.aws import rights
from noetl_core.tools.aws.allowed_addresses import send_within
from noetl_core.tools.aws.clients import client
from noetl_core.tools.aws.errors import errors_of
from noetl_core.tools.aws.globs import literal_prefix, matcher
from noetl_core.tools.aws.rights import BUCKETS
from noetl_core.tools.base import BadInput, ToolFailed
from noetl_core.tools.network.addresses import AddressPolicy

SCHEME: Final = "s3://"
MOST: Final = 10_000
"""The most objects of one source."""
PIECE: Final = 1024 * 1024
_FIELDS: Final[Mapping[str, tuple[str, ...]]] = {
    "key": ("key_id", "access_key_id", "aws_access_key_id", "access_key"),
    "secret": ("secret", "secret_access_key", "aws_secret_access_key", "secret_key"),
    "token": ("session_token", "aws_session_token"),
    "region": ("region", "aws_region"),
    "endpoint": ("endpoint", "endpoint_url"),
}
"""Fields of a credential for S3, in the spellings of DuckDB, AWS and others."""


class Object(NamedTuple):
    """An object of S3 with its version's tag."""

    bucket: str
    key: str
    size: int
    etag: str


def is_uri(value: Any) -> bool:
    """Return whether `value` names objects of S3."""
    return isinstance(value, str) and value.startswith(SCHEME)


def listed(uri: str, kind: str, service: Any = None) -> list[Object]:
    """Return the objects of `uri`, whose key may be a pattern, by key. `service` is a client with credentials of its own.

    Raises `BadInput`, `Forbidden`, and `ToolFailed`, also if there are none.
    """
    bucket, _, pattern = uri.removeprefix(SCHEME).partition("/")
    if not bucket or not pattern:
        raise BadInput(f"{uri[:200]!r} must be like s3://bucket/path/*.parquet")
    prefix, fits = literal_prefix(pattern), matcher(pattern)
    if bucket in rights.own(BUCKETS) or service is None:
        rights.check_reading(bucket, prefix) if prefix == pattern else rights.check(BUCKETS, bucket)
    found: list[Object] = []
    with errors_of(kind, BUCKETS, bucket):
        s3 = service or client("s3")
        for page in s3.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix):
            fitting = (one for one in page.get("Contents", ()) if fits(one["Key"]) or one["Key"] == pattern)
            found.extend(Object(bucket, one["Key"], one["Size"], one["ETag"]) for one in fitting)
    if len(found) > MOST:
        raise BadInput(f"{len(found)} objects fit {uri[:200]!r}: one source may have at most {MOST}")
    if not found:
        raise ToolFailed(Outcome.failed("not_found", f"{kind}: no object fits {uri[:200]}", retryable=False))
    return found


def content(one: Object, kind: str, service: Any = None) -> Iterator[bytes]:
    """Yield an object in pieces. Raises `ToolFailed`, also if it was overwritten meanwhile."""
    with errors_of(kind, BUCKETS, one.bucket):
        answer: Mapping[str, Any] = (service or client("s3")).get_object(Bucket=one.bucket, Key=one.key, IfMatch=one.etag)
        yield from answer["Body"].iter_chunks(PIECE)


def service_with(fields: Mapping[str, Any], policy: AddressPolicy) -> Any:
    """Return a client of S3, or of a compatible service, with credentials of its own. If they name an endpoint, `policy` must
    allow its address, otherwise requests raise `AddressRefused`. Raises `BadInput`."""
    known = {name: next((str(fields[one]) for one in spelt if fields.get(one)), None) for name, spelt in _FIELDS.items()}
    if known["key"] is None or known["secret"] is None:
        raise BadInput("`auth` is the credential for objects in S3: key_id, secret and region (and endpoint, session_token)")
    endpoint = known["endpoint"]
    if endpoint is not None:
        endpoint = endpoint if "://" in endpoint else f"https://{endpoint}"
    made = Session().create_client(
        "s3",
        region_name=known["region"] or "us-east-1",
        endpoint_url=endpoint,
        aws_access_key_id=known["key"],
        aws_secret_access_key=known["secret"],
        aws_session_token=known["token"],
        config=CONFIGS["s3"],
    )
    if endpoint is not None:
        send_within(made, policy)
    return made
