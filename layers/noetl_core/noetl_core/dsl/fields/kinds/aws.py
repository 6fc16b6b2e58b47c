"""The kinds for services of AWS: `s3`."""

from __future__ import annotations

from typing import Final

from noetl_core.dsl.fields.kind import BYTES, COUNT, FLAG, MAP, TEXT, Action, KindSpec, words
from noetl_core.dsl.fields.types import Anything, Choice, Duration, Field, also
from noetl_core.dsl.numbers import PRESIGNED

_BUCKET_AND_KEY: Final = (words("bucket uri"), words("key uri"))


def _action(names: str, default: str, doc: str) -> tuple[Field, ...]:
    """Return the field that says what to do, and its other spelling."""
    return also(Field("action", Choice(tuple(names.split()), template=True), doc, default=default), "operation")


KINDS: Final[dict[str, KindSpec]] = {
    "s3": KindSpec(
        (
            *_action("get put list copy delete presign", "get", "What to do with an object, or with those of a bucket."),
            Field("bucket", TEXT, "The name of the bucket."),
            Field("key", TEXT, "The key of the object."),
            Field("uri", TEXT, "Bucket and key in one: `s3://bucket/key`; of `list` a key with `*` is a pattern."),
            Field("data", Anything("any value"), "What `put` writes; a reference is copied as it is.", references=True),
            Field(
                "format",
                Choice(("auto", "json", "jsonl", "csv", "parquet", "text", "base64", "reference"), template=True),
                "How `get` reads the body and `put` writes the value. `auto` goes by the key's ending and the type.",
                default="auto",
            ),
            Field("content_type", TEXT, "The type that `put` gives the object.", otherwise="by the format"),
            Field("metadata", MAP, "Metadata of your own for the object, names and texts."),
            Field("version_id", TEXT, "The version of the object.", otherwise="the latest one"),
            Field("if_match", TEXT, "The etag that the object must have."),
            Field(
                "if_none_match",
                TEXT,
                "With `*`, `put` writes only a new object; with an etag, `get` reads only another one.",
            ),
            Field("prefix", TEXT, "How the keys begin that `list` gives."),
            Field(
                "glob", TEXT, "A pattern for the keys that `list` gives: `*` is text without `/`, `**` any text, `?` a character."
            ),
            Field("source", Anything("`s3://bucket/key`, or a mapping"), "What `copy` copies: also `{bucket, key, version_id}`."),
            Field("keys", Anything("a list"), "The keys that `delete` deletes, beside `key`."),
            Field(
                "method", Choice(("get", "put"), template=True), "What the address that `presign` makes is for.", default="get"
            ),
            Field("expires", Duration(PRESIGNED), "How long that address can be used.", default=3600),
            Field("region", TEXT, "The Region of the bucket.", otherwise="that of the stack, or of the profile"),
        ),
        (
            Field("max_value_bytes", BYTES, "Bytes that an object which is read as a value may have.", default=64 * 1024 * 1024),
            Field("max_bytes", BYTES, "Bytes that an object which is kept by reference may have.", default=20 * 1024**3),
            Field("max_objects", COUNT, "Objects that `list` may give; more is an error, never a silent cut.", default=10_000),
            Field("secret", FLAG, "false lets the log and every answer show the address that `presign` makes.", default=True),
        ),
        "../tools/s3.md",
        exclusive=(words("bucket uri"), words("key uri"), words("prefix glob"), words("action operation")),
        actions={
            "get": Action(_BUCKET_AND_KEY, words("format version_id if_match if_none_match region")),
            "put": Action((*_BUCKET_AND_KEY, words("data")), words("format content_type metadata if_match if_none_match region")),
            "list": Action((words("bucket uri"),), words("prefix glob region")),
            "copy": Action((*_BUCKET_AND_KEY, words("source")), words("content_type metadata if_none_match region")),
            "delete": Action((words("bucket uri"), words("key keys uri")), words("version_id region")),
            "presign": Action(_BUCKET_AND_KEY, words("method expires version_id content_type region")),
        },
    ),
}
