"""`kind: s3`: gets, puts, lists, copies, deletes and presigns objects (docs/tools/s3.md).

`s3_bodies` reads and writes objects of any size in constant memory.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from typing import Any, Final, NamedTuple

from botocore.exceptions import ClientError

from noetl_core.aws.clients import code_of
from noetl_core.engine.outcome import Outcome
from noetl_core.expr import Secret
from noetl_core.tools.actions import action_of, choice, flag, option, optional_text, seconds, text
from noetl_core.tools.aws import rights, s3_bodies
from noetl_core.tools.aws.clients import client
from noetl_core.tools.aws.errors import errors_of
from noetl_core.tools.aws.globs import literal_prefix, matcher
from noetl_core.tools.aws.rights import BUCKETS
from noetl_core.tools.base import BadInput, ToolCall
from noetl_core.tools.rows import bodies
from noetl_core.tools.stopping import stopper
from noetl_core.values.instants import in_microseconds, to_rfc3339

WRITTEN_BY: Final = "noetl-task-run"
"""The metadata with the task that wrote an object, by which a repeated write is recognised when its answer was lost."""
_HEADER_NAME: Final = re.compile(r"[A-Za-z0-9_.-]{1,200}")
ONE_COPY: Final = 5 * 1024**3
"""A larger object is copied in parts."""
DELETED_AT_ONCE: Final = 1000
_UNMODIFIED: Final = frozenset({"304", "NotModified"})
_FAILED_CONDITION: Final = frozenset({"PreconditionFailed", "412"})


class Place(NamedTuple):
    """An object, or the target of a list."""

    bucket: str
    key: str

    @property
    def uri(self) -> str:
        return f"s3://{self.bucket}/{self.key}"

    @property
    def request(self) -> dict[str, str]:
        return {"Bucket": self.bucket, "Key": self.key}


class S3Tool:
    """Inputs `action`, `bucket` and `key`, or `uri`, and those of each action (`dsl.fields.kinds.aws`)."""

    kind = "s3"
    inline = False

    def run(self, call: ToolCall) -> Outcome:
        return Outcome.ok(_ACTIONS[action_of(call)](call))


def _get(call: ToolCall) -> dict[str, Any]:
    place, form = _place(call), choice(call, "format")
    rights.check_reading(*place)
    request = _with(call, place.request, version_id="VersionId", if_match="IfMatch", if_none_match="IfNoneMatch")
    try:
        with errors_of(call.kind, BUCKETS, place.bucket, passing=_UNMODIFIED):
            answer = _client(call).get_object(**request)
    except ClientError:
        return {"bucket": place.bucket, "key": place.key, "uri": place.uri, "not_modified": True, "data": None}
    with errors_of(call.kind, BUCKETS, place.bucket):
        data = s3_bodies.read(call, place.key, form, answer)
    return {**_facts(place, answer), "metadata": _metadata_of(answer), "data": data}


def _put(call: ToolCall) -> dict[str, Any]:
    place = _place(call)
    rights.check(BUCKETS, place.bucket)
    body = bodies.body_of(call, place.key, choice(call, "format"))
    request = {**place.request, "Metadata": {**_metadata(call), WRITTEN_BY: call.task_run_id}}
    request |= {"ContentType": body.content_type, **_content_type(call)}
    conditions = _with(call, {}, if_match="IfMatch", if_none_match="IfNoneMatch")
    s3 = _client(call)
    try:
        with errors_of(call.kind, BUCKETS, place.bucket, passing=_FAILED_CONDITION):
            answer = s3_bodies.write(s3, request, conditions, body, stopper(call))
    except ClientError as error:
        mine = _written_before(call, s3, place)
        if mine is None:
            with errors_of(call.kind, BUCKETS, place.bucket):
                raise error from None
        return {**_facts(place, mine), "size": body.size}
    return {**_facts(place, answer), "size": body.size}


def _written_before(call: ToolCall, s3: Any, place: Place) -> Mapping[str, Any] | None:
    """Return the head of the object if an earlier attempt of this task wrote it and the answer was lost."""
    with errors_of(call.kind, BUCKETS, place.bucket):
        try:
            head: Mapping[str, Any] = s3.head_object(**place.request)
        except ClientError as error:
            if code_of(error) in ("404", "NoSuchKey"):
                return None
            raise
    return head if call.task_run_id and head.get("Metadata", {}).get(WRITTEN_BY) == call.task_run_id else None


def _list(call: ToolCall) -> dict[str, Any]:
    bucket, pattern = _bucket_and_pattern(call)
    rights.check(BUCKETS, bucket)
    most = option(call, "max_objects")
    prefix = pattern if pattern is None or call.inputs.get("prefix") is not None else literal_prefix(pattern)
    fits = (lambda key: True) if prefix == pattern and call.inputs.get("prefix") is not None else matcher(pattern or "**")
    objects: list[dict[str, Any]] = []
    with errors_of(call.kind, BUCKETS, bucket):
        for found in _listed(call, bucket, prefix or ""):
            if not fits(found["Key"]):
                continue
            if len(objects) == most:
                raise BadInput(
                    f"more than {most} objects of {bucket} fit: raise `spec.max_objects`, or narrow the prefix or the pattern"
                )
            objects.append({"key": found["Key"], "uri": f"s3://{bucket}/{found['Key']}", "size": found["Size"],
                            "etag": _etag(found), "last_modified": _at(found["LastModified"])})  # fmt: skip
    return {"bucket": bucket, "count": len(objects), "bytes": sum(one["size"] for one in objects), "objects": objects}


def _listed(call: ToolCall, bucket: str, prefix: str) -> Iterator[Mapping[str, Any]]:
    stop = stopper(call)
    for page in _client(call).get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix):
        stop()
        yield from page.get("Contents", ())


def _copy(call: ToolCall) -> dict[str, Any]:
    place, (source, version) = _place(call), _source(call)
    rights.check_reading(*source)
    rights.check(BUCKETS, place.bucket)
    s3 = _client(call)
    where = {**source.request, **({"VersionId": version} if version else {})}
    changed: dict[str, Any] = {}
    if call.inputs.get("metadata") is not None or call.inputs.get("content_type") is not None:
        changed = {"MetadataDirective": "REPLACE", "Metadata": _metadata(call)}
        changed |= _content_type(call)
    with errors_of(call.kind, BUCKETS, source.bucket):
        size = int(s3.head_object(**where)["ContentLength"])
    if size > ONE_COPY and call.inputs.get("if_none_match") is not None:
        raise BadInput("`if_none_match` is for objects of up to 5 GB: S3 copies larger ones in parts")
    with errors_of(call.kind, BUCKETS, place.bucket):
        if size <= ONE_COPY:
            conditions = _with(call, {}, if_none_match="IfNoneMatch")
            answer = s3.copy_object(**place.request, CopySource=where, **changed, **conditions)
            facts = {**answer.get("CopyObjectResult", {}), "VersionId": answer.get("VersionId")}
        else:
            from s3transfer.manager import TransferManager  # 30 ms: only objects of more than one part need it

            with TransferManager(s3) as transfers:
                transfers.copy(where, place.bucket, place.key, changed).result()
            facts = s3.head_object(**place.request)
    return {**_facts(place, facts), "size": size, "source": source.uri}


def _delete(call: ToolCall) -> dict[str, Any]:
    bucket, keys = _keys(call)
    rights.check(BUCKETS, bucket)
    version = optional_text(call, "version_id")
    if version is not None and len(keys) != 1:
        raise BadInput("`version_id` needs one `key`")
    objects = [{"Key": key, **({"VersionId": version} if version else {})} for key in keys]
    with errors_of(call.kind, BUCKETS, bucket):
        for start in range(0, len(objects), DELETED_AT_ONCE):
            part = {"Objects": objects[start : start + DELETED_AT_ONCE], "Quiet": True}
            refused = _client(call).delete_objects(Bucket=bucket, Delete=part).get("Errors", [])
            if refused:  # an error of one key is handled like an error of the request
                code, message, key = (refused[0].get(name, "") for name in ("Code", "Message", "Key"))
                raise ClientError({"Error": {"Code": code, "Message": message}}, f"DeleteObjects: {key}")
    return {"bucket": bucket, "deleted": len(keys)}


def _presign(call: ToolCall) -> dict[str, Any]:
    place, method = _place(call), choice(call, "method")
    (rights.check_reading(*place) if method == "get" else rights.check(BUCKETS, place.bucket))
    lasts = int(seconds(call, "expires") or 0)
    request = _with(call, place.request, version_id="VersionId")
    if method == "put":
        request |= _content_type(call)
    with errors_of(call.kind, BUCKETS, place.bucket):
        url = _client(call).generate_presigned_url(f"{method}_object", Params=request, ExpiresIn=lasts)
    return {"bucket": place.bucket, "key": place.key, "method": method.upper(), "expires_s": lasts,
            "url": Secret(url) if flag(call, "secret") else url}  # fmt: skip


_ACTIONS: Final[dict[str, Callable[[ToolCall], dict[str, Any]]]] = {
    "get": _get, "put": _put, "list": _list, "copy": _copy, "delete": _delete, "presign": _presign,
}  # fmt: skip


def _client(call: ToolCall) -> Any:
    return client("s3", optional_text(call, "region"))


def _place(call: ToolCall) -> Place:
    """Return the object that the task concerns. Raises `BadInput`."""
    if call.inputs.get("uri") is not None:
        return parsed(text(call, "uri"), "uri")
    return _checked(Place(text(call, "bucket"), text(call, "key")), "key")


def parsed(uri: str, name: str) -> Place:
    """Return the bucket and key of `s3://bucket/key`. Raises `BadInput`."""
    scheme, _, rest = uri.partition("://")
    bucket, _, key = rest.partition("/")
    if scheme != "s3" or not bucket or not key:
        raise BadInput(f"`{name}` must be s3://bucket/key, not {uri[:80]!r}")
    return _checked(Place(bucket, key), name)


def _checked(place: Place, name: str) -> Place:
    if len(place.key.encode()) > 1024:
        raise BadInput(f"the key in `{name}` has more than 1,024 bytes")
    return place


def _bucket_and_pattern(call: ToolCall) -> tuple[str, str | None]:
    """Return the bucket to list, and which keys: a prefix, a pattern, or None for all."""
    pattern = optional_text(call, "prefix") or optional_text(call, "glob")
    if call.inputs.get("uri") is None:
        return text(call, "bucket"), pattern
    scheme, _, rest = text(call, "uri").partition("://")
    bucket, _, key = rest.partition("/")
    if scheme != "s3" or not bucket or (key and pattern):
        raise BadInput("`uri` of a list must be s3://bucket, or s3://bucket/pattern without `prefix` and `glob`")
    return bucket, pattern or (key + "**" if key.endswith("/") else key) or None


def _source(call: ToolCall) -> tuple[Place, str | None]:
    """Return the object to copy, and its version."""
    source = call.inputs.get("source")
    if isinstance(source, str):
        return parsed(source, "source"), None
    if not isinstance(source, Mapping) or not {"bucket", "key"} <= set(source) <= {"bucket", "key", "version_id"}:
        raise BadInput("`source` must be s3://bucket/key, or a mapping {bucket, key, version_id}")
    return Place(str(source["bucket"]), str(source["key"])), source.get("version_id") or None


def _keys(call: ToolCall) -> tuple[str, list[str]]:
    """Return the bucket and the keys to delete, each once."""
    keys = call.inputs.get("keys")
    if keys is not None and (not isinstance(keys, list) or not all(isinstance(key, str) and key for key in keys)):
        raise BadInput("`keys` must be a list of keys")
    if call.inputs.get("uri") is not None:
        place = _place(call)
        return place.bucket, list(dict.fromkeys([place.key, *(keys or ())]))
    one = optional_text(call, "key")
    return text(call, "bucket"), list(dict.fromkeys([*([one] if one else []), *(keys or ())]))


def _with(call: ToolCall, request: Mapping[str, Any], **names: str) -> dict[str, Any]:
    """Return the request with the inputs that are given, under the service's names."""
    found = {theirs: optional_text(call, ours) for ours, theirs in names.items()}
    return {**request, **{name: value for name, value in found.items() if value is not None}}


def _metadata(call: ToolCall) -> dict[str, str]:
    metadata = call.inputs.get("metadata") or {}
    if not isinstance(metadata, Mapping) or not all(isinstance(value, str | int | float) for value in metadata.values()):
        raise BadInput("`metadata` must be a mapping of names to texts")
    for name in metadata:
        if not _HEADER_NAME.fullmatch(str(name)):
            raise BadInput(f"`metadata`: {str(name)[:60]!r} is not a name: letters, digits, - and _")
    return {str(name): _header(f"metadata.{name}", str(value)) for name, value in metadata.items()}


def _content_type(call: ToolCall) -> dict[str, str]:
    value = optional_text(call, "content_type")
    return {} if value is None else {"ContentType": _header("content_type", value)}


def _header(what: str, value: str) -> str:
    """Return text that can be sent in a header. Raises `BadInput`."""
    if not value.isascii() or any(character < " " or character == "\x7f" for character in value):
        hint = "write letters, digits and signs of ASCII in one line; encode other text (| urlencode)"
        raise BadInput(f"`{what}` is sent as an HTTP header, which cannot hold {value[:60]!r}: {hint}")
    return value


def _metadata_of(answer: Mapping[str, Any]) -> dict[str, str]:
    return {name: value for name, value in answer.get("Metadata", {}).items() if name != WRITTEN_BY}


def _facts(place: Place, answer: Mapping[str, Any]) -> dict[str, Any]:
    """Return the service's description of an object."""
    facts: dict[str, Any] = {"bucket": place.bucket, "key": place.key, "uri": place.uri, "etag": _etag(answer)}
    for theirs, ours in (("ContentLength", "size"), ("ContentType", "content_type"), ("VersionId", "version_id")):
        if answer.get(theirs) is not None:
            facts[ours] = answer[theirs]
    if answer.get("LastModified") is not None:
        facts["last_modified"] = _at(answer["LastModified"])
    return facts


def _at(instant: datetime) -> str:
    return to_rfc3339(in_microseconds(instant))


def _etag(answer: Mapping[str, Any]) -> str:
    return str(answer.get("ETag", "")).strip('"')
