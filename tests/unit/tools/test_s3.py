"""`kind: s3` as playbooks use it, over a mocked S3: reading and writing."""

from __future__ import annotations

import json
import tracemalloc
from base64 import b64encode
from collections.abc import Iterator
from typing import Any

import pytest

from noetl_core.adapters.aws.clients import client
from noetl_core.runtime.local import LocalWiring
from noetl_core.tools.aws import s3_bodies
from noetl_core.tools.base import ToolCall
from noetl_core.tools.rows import bodies
from noetl_core.tools.stopping import stopper
from tests.unit.tools.aws_playbooks import Ran
from tests.unit.tools.s3_objects import body, bucket, call, keys, put

__all__ = ["bucket"]


def test_a_reference_with_references_in_it_is_put_as_its_value(bucket: str) -> None:
    """The inner references mean nothing to readers of the object."""
    Ran(
        {"kind": "noop", "result": "{{ range(60000) | list }}"},
        {"kind": "noop", "result": {"deep": "{{ t0 }}", "pad": "{{ 'x' * 250000 }}"}},
        {"kind": "s3", "action": "put", "bucket": bucket, "key": "a.json", "data": "{{ t1 }}"},
    )
    assert json.loads(body(bucket, "a.json"))["deep"][-1] == 59999


def test_json_that_is_kept_by_reference_is_outlined(bucket: str) -> None:
    put(bucket, "a.json", json.dumps({"rows": [{"n": n, "name": "x" * 50} for n in range(20_000)]}, indent=1).encode())
    kept = Ran({"kind": "s3", "bucket": bucket, "key": "a.json", "format": "reference"}).result["data"]
    assert kept["outline"] and kept["schema_hint"] == {"type": "object", "keys": ["rows"]}
    read = Ran(
        {"kind": "s3", "bucket": bucket, "key": "a.json", "format": "reference"},
        {"kind": "noop", "result": "{{ [t0.data.rows[19999].n, t0.data.rows | length] }}"},
    )
    assert read.result == [19999, 20000]


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    ("key", "content", "more", "data"),
    [
        ("a.json", b'{"a": [1, null]}', {}, {"a": [1, None]}),
        ("a", b"[1]", {"ContentType": "application/json"}, [1]),
        ("a", b'{"a": 1}', {"ContentType": "application/vnd.x+json; charset=utf-8"}, {"a": 1}),
        ("a.jsonl", b'{"a": 1}\n\n{"a": 2}\n', {}, [{"a": 1}, {"a": 2}]),
        ("a.txt", "ä".encode(), {}, "ä"),
        ("a.txt", b"", {}, ""),
        ("a", b"x", {"ContentType": "text/css"}, "x"),
    ],
)
def test_an_object_is_read_by_its_extension_or_content_type(bucket: str, key: str, content: bytes, more: Any, data: Any) -> None:
    put(bucket, key, content, **more)
    result = Ran({"kind": "s3", "bucket": bucket, "key": key}).result
    assert (result["data"], result["size"], result["key"], result["uri"]) == (data, len(content), key, f"s3://{bucket}/{key}")


@pytest.mark.parametrize(
    ("form", "content", "data"),
    [
        ("csv", b"a,b\n1,x\n", [{"a": "1", "b": "x"}]),
        ("text", b"a,b\n", "a,b\n"),
        ("text", b"\xef\xbb\xbfa", "a"),
        ("base64", b"\x00\xff", b64encode(b"\x00\xff").decode()),
        ("json", b"1", 1),
    ],
)
def test_format_decides_how_an_object_is_read(bucket: str, form: str, content: bytes, data: Any) -> None:
    put(bucket, "a.csv", content)
    assert Ran({"kind": "s3", "uri": f"s3://{bucket}/a.csv", "format": form}).result["data"] == data


def test_a_csv_object_is_kept_by_reference_and_opened_by_duckdb(bucket: str) -> None:
    put(bucket, "rows.csv", b"n,s\n1,a\n2,b\n")
    count = {"kind": "duckdb", "sources": {"rows": "{{ t0.data }}"}, "command": "SELECT sum(n)::int AS n FROM rows"}
    assert Ran({"kind": "s3", "bucket": bucket, "key": "rows.csv"}, count).result["rows"] == [{"n": 3}]


def test_a_reference_to_json_reads_like_the_value(bucket: str) -> None:
    put(bucket, "a.json", json.dumps([{"n": n} for n in range(5)]).encode())
    get = {"kind": "s3", "bucket": bucket, "key": "a.json", "format": "reference"}
    code = {"kind": "python", "args": {"rows": "{{ t0.data }}"}, "code": "result = [len(rows), rows[4]['n']]"}
    assert Ran(get, code).result == [5, 4]


def test_json_beyond_the_limit_of_values_is_a_reference_of_the_same_meaning(bucket: str) -> None:
    put(bucket, "a.json", b'{"a": "' + b"x" * 100 + b'"}')
    get = {"kind": "s3", "bucket": bucket, "key": "a.json", "spec": {"max_value_bytes": 50}}
    assert Ran(get, {"kind": "noop", "result": "{{ t0.data.a | length }}"}).result == 100


def test_binary_is_a_reference_and_a_copy_of_it_is_the_same(bucket: str) -> None:
    content = bytes(range(256)) * 10
    put(bucket, "a.bin", content)
    copied = {"kind": "s3", "action": "put", "bucket": bucket, "key": "b.bin", "data": "{{ t0.data }}"}
    ran = Ran({"kind": "s3", "bucket": bucket, "key": "a.bin"}, copied)
    assert ran.result["size"] == len(content)
    assert body(bucket, "b.bin") == content


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    ("inputs", "kind", "code"),
    [
        ({"key": "missing"}, "not_found", "NoSuchKey"),
        ({"bucket": "no-such-bucket-here", "key": "a"}, "not_found", "NoSuchBucket"),
        ({"key": "a.txt", "if_match": "0"}, "client_error", "PreconditionFailed"),
        ({"key": "a.txt", "format": "json"}, "parse", None),
        ({"key": "b.bin", "format": "text"}, "parse", None),
        ({"key": "a.txt", "spec": {"max_value_bytes": 1}}, "limit", None),
        ({"key": "b.bin", "spec": {"max_bytes": 1}}, "limit", None),
        ({"key": "a.txt", "format": "parquet"}, "schema", None),
        ({"key": "{{ none }}"}, "schema", None),
        ({"key": "x" * 1025}, "schema", None),
    ],
    ids=lambda each: None if isinstance(each, dict) else each,
)
def test_an_unreadable_object_is_an_error_with_the_reason(
    bucket: str, inputs: dict[str, Any], kind: str, code: str | None
) -> None:
    put(bucket, "a.txt", b"not json")
    put(bucket, "b.bin", b"\xff\xfe\x00")
    error = Ran({"kind": "s3", "bucket": bucket, **inputs}).error
    assert error["kind"] == kind
    assert error.get("code") == code


def test_an_object_that_is_known_already_is_not_read_again(bucket: str) -> None:
    put(bucket, "a.txt", b"x")
    again = {"kind": "s3", "bucket": bucket, "key": "a.txt", "if_none_match": "{{ t0.etag }}"}
    result = Ran({"kind": "s3", "bucket": bucket, "key": "a.txt"}, again).result
    assert (result["not_modified"], result["data"]) == (True, None)


def test_a_version_of_an_object(bucket: str) -> None:
    client("s3").put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    put(bucket, "a.txt", b"1")
    first = client("s3").head_object(Bucket=bucket, Key="a.txt")["VersionId"]
    put(bucket, "a.txt", b"2")
    assert Ran({"kind": "s3", "bucket": bucket, "key": "a.txt", "version_id": first}).result["data"] == "1"


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    ("key", "more", "data", "content", "content_type"),
    [
        ("a.json", {}, {"a": [1]}, b'{"a":[1]}', "application/json"),
        ("a", {}, [1], b"[1]", "application/json"),
        ("a.csv", {}, [{"a": 1, "b": "x"}], b"a,b\n1,x\n", "text/csv"),
        ("a.jsonl", {}, [{"a": 1}], b'{"a":1}\n', "application/x-ndjson"),
        ("a", {"format": "jsonl"}, [1, 2], b"1\n2\n", "application/x-ndjson"),
        ("a.txt", {}, "ä", "ä".encode(), "text/plain; charset=utf-8"),
        ("a.csv", {}, "a,b\n", b"a,b\n", "text/plain; charset=utf-8"),
        ("a.json", {}, "text", b'"text"', "application/json"),
        ("a", {"format": "base64"}, b64encode(b"\x00\xff").decode(), b"\x00\xff", "application/octet-stream"),
        ("a", {"content_type": "text/x-mine"}, "x", b"x", "text/x-mine"),
        ("a.json", {}, None, b"null", "application/json"),
    ],
)
def test_a_value_is_written_as_its_key_says(
    bucket: str, key: str, more: Any, data: Any, content: bytes, content_type: str
) -> None:
    task = {"kind": "s3", "action": "put", "bucket": bucket, "key": key, "data": data, **more}
    result = Ran(task).result
    found = client("s3").get_object(Bucket=bucket, Key=key)
    assert (found["Body"].read(), found["ContentType"]) == (content, content_type)
    assert (result["size"], result["etag"]) == (len(content), found["ETag"].strip('"'))


@pytest.mark.parametrize(
    "bad", [{"metadata": {"a": "x\ny"}}, {"metadata": {"a": "ü"}}, {"metadata": {"a b": "x"}}, {"metadata": {"a\r\nX": "x"}}, {"content_type": "text/\nx"}]
)  # fmt: skip
def test_an_invalid_header_is_refused_before_any_request(bucket: str, bad: dict[str, Any]) -> None:
    refused = [
        Ran({"kind": "s3", "bucket": bucket, "key": "a", **more, **bad}).error
        for more in ({"action": "put", "data": 1}, {"action": "copy", "source": "s3://x/y"})
    ]
    assert [(error["kind"], error["retryable"]) for error in refused] == [("schema", False)] * 2
    assert all("header" in error["message"] or "is not a name" in error["message"] for error in refused)


def test_metadata_goes_with_the_object_and_comes_back(bucket: str) -> None:
    task = {
        "kind": "s3",
        "action": "put",
        "bucket": bucket,
        "key": "a",
        "data": "x",
        "metadata": {"run": "{{ execution_id }}", "n": 1},
    }
    ran = Ran(task, {"kind": "s3", "bucket": bucket, "key": "a", "format": "text"})
    assert ran.result["metadata"] == {"run": ran.execution_id, "n": "1"}


def test_an_object_that_is_there_is_not_written_over(bucket: str) -> None:
    put(bucket, "a", b"theirs")
    error = Ran({"kind": "s3", "action": "put", "bucket": bucket, "key": "a", "data": "mine", "if_none_match": "*"}).error
    assert (error["kind"], error["code"], error["retryable"]) == ("client_error", "PreconditionFailed", False)
    assert body(bucket, "a") == b"theirs"


def test_repeating_a_conditional_write_with_a_lost_answer_succeeds(bucket: str) -> None:
    inputs = {"action": "put", "key": "a", "data": "mine", "if_none_match": "*"}
    first, again = call(bucket, **inputs), call(bucket, **inputs)
    assert first.status == again.status == "ok"
    assert first.result["etag"] == again.result["etag"]


@pytest.mark.nightly
def test_a_large_object_passes_in_parts_and_in_constant_memory(bucket: str) -> None:
    """S3 mocked keeps what it is given in this process, so what is counted is what one part takes."""
    content = b"0123456789abcdef" * 65536 * 40  # 40 MB
    put(bucket, "a.bin", content)
    largest: list[int] = []
    upload = client("s3").meta.events
    upload.register("before-parameter-build.s3.UploadPart", lambda params, **_: largest.append(len(params["Body"])))
    copied = {"kind": "s3", "action": "put", "bucket": bucket, "key": "b.bin", "data": "{{ t0.data }}", "metadata": {"a": "b"}}
    Ran({"kind": "s3", "bucket": bucket, "key": "a.bin"}, copied)
    assert largest == [s3_bodies.PART, s3_bodies.PART, 8 * 1024 * 1024]
    assert body(bucket, "b.bin") == content
    assert client("s3").head_object(Bucket=bucket, Key="b.bin")["Metadata"]["a"] == "b"


def test_an_upload_that_fails_or_is_cancelled_leaves_nothing(bucket: str) -> None:
    stopping = ToolCall("s3", {})

    def data() -> Iterator[bytes]:
        for _ in range(20):
            yield b"x" * 1024 * 1024
            stopping.cancelled.set()

    request = {"Bucket": bucket, "Key": "a"}
    with pytest.raises(Exception, match="cancelled"):
        s3_bodies.write(client("s3"), request, {}, bodies.Body(0, "text", "", data()), stopper(stopping))
    assert keys(bucket) == []
    assert "Uploads" not in client("s3").list_multipart_uploads(Bucket=bucket)


@pytest.mark.nightly
def test_reading_a_large_object_by_reference_holds_a_few_parts_of_it(bucket: str, tmp_path: Any) -> None:
    """The local store writes to a file; the object is mocked in this process, so only what reading adds is counted."""
    put(bucket, "a.bin", b"\0" * (48 * 1024 * 1024))
    local = LocalWiring(tmp_path / "noetl.db")
    answer = client("s3").get_object(Bucket=bucket, Key="a.bin")
    tool_call = ToolCall("s3", {}, execution_id="1", task_run_id="r", results=local.control.results)
    tracemalloc.start()
    try:
        reference = s3_bodies.read(tool_call, "a.bin", "reference", answer)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
        local.close()
    assert reference["size"] == 48 * 1024 * 1024
    assert peak < 16 * 1024 * 1024, f"{peak:,} bytes"
