"""`kind: s3` as playbooks use it, over a mocked S3."""

from __future__ import annotations

import json
import tracemalloc
import urllib.parse
from base64 import b64encode
from collections.abc import Iterator
from typing import Any

import pytest

from noetl_core.adapters.aws.clients import client
from noetl_core.dsl.parse import check
from noetl_core.engine.outcome import Outcome
from noetl_core.local import LocalWiring
from noetl_core.tools import bodies
from noetl_core.tools.aws import s3_bodies
from noetl_core.tools.aws.globs import matcher
from noetl_core.tools.aws.s3 import S3Tool
from noetl_core.tools.base import ToolCall
from noetl_core.tools.invoke import invoke
from noetl_core.tools.stopping import stopper
from tests.contract.aws import make_bucket
from tests.unit.tools.aws_playbooks import Ran, mocked, playbook


@pytest.fixture
def bucket() -> Iterator[str]:
    with mocked():
        yield make_bucket()


def put(bucket: str, key: str, body: bytes, **more: Any) -> None:
    client("s3").put_object(Bucket=bucket, Key=key, Body=body, **more)


def body(bucket: str, key: str) -> bytes:
    found: bytes = client("s3").get_object(Bucket=bucket, Key=key)["Body"].read()
    return found


def keys(bucket: str) -> list[str]:
    return [one["Key"] for one in client("s3").list_objects_v2(Bucket=bucket).get("Contents", [])]


def call(bucket: str, **inputs: Any) -> Outcome:
    """One attempt, without a playbook."""
    return invoke(S3Tool(), ToolCall("s3", {"bucket": bucket, **inputs}, task_run_id="run-1", execution_id="1"))


def test_a_reference_with_references_in_it_is_put_as_its_value(bucket: str) -> None:
    """What these lead to means nothing to who reads the object."""
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


# --- get ----------------------------------------------------------------------------------------------------------------


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
def test_an_object_reads_as_what_it_is(bucket: str, key: str, content: bytes, more: Any, data: Any) -> None:
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
def test_it_reads_as_the_author_says(bucket: str, form: str, content: bytes, data: Any) -> None:
    put(bucket, "a.csv", content)
    assert Ran({"kind": "s3", "uri": f"s3://{bucket}/a.csv", "format": form}).result["data"] == data


def test_what_is_no_value_is_kept_by_reference_and_opened_by_duckdb(bucket: str) -> None:
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
def test_what_cannot_be_read_says_why(bucket: str, inputs: dict[str, Any], kind: str, code: str | None) -> None:
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


# --- put ----------------------------------------------------------------------------------------------------------------


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
def test_what_no_header_can_be_is_said_before_anything_is_sent(bucket: str, bad: dict[str, Any]) -> None:
    refused = [
        Ran({"kind": "s3", "bucket": bucket, "key": "a", **more, **bad}).error
        for more in ({"action": "put", "data": 1}, {"action": "copy", "source": "s3://x/y"})
    ]
    assert [(error["kind"], error["retryable"]) for error in refused] == [("schema", False)] * 2
    assert all("header" in error["message"] or "is no name" in error["message"] for error in refused)


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


def test_a_conditional_write_whose_answer_was_lost_succeeds_when_it_is_repeated(bucket: str) -> None:
    inputs = {"action": "put", "key": "a", "data": "mine", "if_none_match": "*"}
    first, again = call(bucket, **inputs), call(bucket, **inputs)
    assert first.status == again.status == "ok"
    assert first.result["etag"] == again.result["etag"]


def test_a_large_object_passes_in_parts_and_in_constant_memory(bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """S3 mocked keeps what it is given in this process, so what is counted is what one part takes."""
    content = b"0123456789abcdef" * 65536 * 12  # 12 MB
    put(bucket, "a.bin", content)
    monkeypatch.setattr(s3_bodies, "PART", 5 * 1024 * 1024)
    largest: list[int] = []
    upload = client("s3").meta.events
    upload.register("before-parameter-build.s3.UploadPart", lambda params, **_: largest.append(len(params["Body"])))
    copied = {"kind": "s3", "action": "put", "bucket": bucket, "key": "b.bin", "data": "{{ t0.data }}", "metadata": {"a": "b"}}
    Ran({"kind": "s3", "bucket": bucket, "key": "a.bin"}, copied)
    assert largest == [5 * 1024 * 1024, 5 * 1024 * 1024, 2 * 1024 * 1024]
    assert body(bucket, "b.bin") == content
    assert client("s3").head_object(Bucket=bucket, Key="b.bin")["Metadata"]["a"] == "b"


def test_an_upload_that_fails_or_is_cancelled_leaves_nothing(bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(s3_bodies, "PART", 5 * 1024 * 1024)
    stopping = ToolCall("s3", {})

    def data() -> Iterator[bytes]:
        for _ in range(12):
            yield b"x" * 1024 * 1024
            stopping.cancelled.set()

    request = {"Bucket": bucket, "Key": "a"}
    with pytest.raises(Exception, match="cancelled"):
        s3_bodies.write(client("s3"), request, {}, bodies.Body(0, "text", "", data()), stopper(stopping))
    assert keys(bucket) == []
    assert "Uploads" not in client("s3").list_multipart_uploads(Bucket=bucket)


# --- list, copy, delete, presign ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pattern", "fits", "not_"),
    [
        ("a/*.csv", ["a/1.csv", "a/.csv"], ["a/b/1.csv", "a/1.json", "b/1.csv"]),
        ("a/**", ["a/", "a/b/c"], ["b"]),
        ("**/x.json", ["x.json", "a/x.json", "a/b/x.json"], ["ax.json", "x.jsonl"]),
        ("day-?.csv", ["day-1.csv"], ["day-10.csv", "day-/.csv"]),
        ("[ab]-[!0-9]", ["a-x"], ["c-x", "a-1"]),
        ("a[", ["a["], ["a"]),
        ("a+b.(1)", ["a+b.(1)"], ["aab.(1)"]),
    ],
)
def test_patterns_of_keys(pattern: str, fits: list[str], not_: list[str]) -> None:
    found = matcher(pattern)
    assert [key for key in fits if not found(key)] == []
    assert [key for key in not_ if found(key)] == []


@pytest.mark.parametrize(
    ("inputs", "found"),
    [
        ({"bucket": "B"}, ["in/1.csv", "in/2.csv", "in/old/3.csv", "out/1.csv"]),
        ({"bucket": "B", "prefix": "in/"}, ["in/1.csv", "in/2.csv", "in/old/3.csv"]),
        ({"bucket": "B", "prefix": "in/*"}, []),
        ({"bucket": "B", "glob": "in/*.csv"}, ["in/1.csv", "in/2.csv"]),
        ({"uri": "s3://B/**/1.csv"}, ["in/1.csv", "out/1.csv"]),
        ({"uri": "s3://B/in/"}, ["in/1.csv", "in/2.csv", "in/old/3.csv"]),
        ({"uri": "s3://B"}, ["in/1.csv", "in/2.csv", "in/old/3.csv", "out/1.csv"]),
        ({"bucket": "B", "prefix": "none/"}, []),
    ],
)
def test_a_list_gives_what_fits(bucket: str, inputs: dict[str, str], found: list[str]) -> None:
    for key in ("in/1.csv", "in/2.csv", "in/old/3.csv", "out/1.csv"):
        put(bucket, key, b"12")
    asked = {name: value.replace("B", bucket) for name, value in inputs.items()}
    result = Ran({"kind": "s3", "action": "list", **asked}).result
    assert [one["key"] for one in result["objects"]] == found
    assert (result["count"], result["bytes"]) == (len(found), 2 * len(found))


def test_a_list_is_never_cut(bucket: str) -> None:
    for n in range(4):
        put(bucket, f"{n}", b"")
    error = Ran({"kind": "s3", "action": "list", "bucket": bucket, "spec": {"max_objects": 3}}).error
    assert error["kind"] == "schema" and "more than 3 objects" in error["message"]


@pytest.mark.parametrize("source", ["s3://B/a", {"bucket": "B", "key": "a"}], ids=["uri", "mapping"])
def test_an_object_is_copied_with_its_type_and_metadata(bucket: str, source: Any) -> None:
    put(bucket, "a", b"x", ContentType="text/x-mine", Metadata={"m": "1"})
    source = json.loads(json.dumps(source).replace("B", bucket))
    result = Ran({"kind": "s3", "action": "copy", "source": source, "bucket": bucket, "key": "b"}).result
    head = client("s3").head_object(Bucket=bucket, Key="b")
    assert (head["ContentType"], head["Metadata"], result["size"]) == ("text/x-mine", {"m": "1"}, 1)
    changed = {"kind": "s3", "action": "copy", "source": source, "bucket": bucket, "key": "c", "metadata": {"m": "2"}}
    Ran(changed)
    assert client("s3").head_object(Bucket=bucket, Key="c")["Metadata"] == {"m": "2"}


def test_what_is_not_there_cannot_be_copied(bucket: str) -> None:
    task = {"kind": "s3", "action": "copy", "source": f"s3://{bucket}/none", "bucket": bucket, "key": "b"}
    assert Ran(task).error["kind"] == "not_found"


def test_objects_are_deleted_by_key_and_by_a_list_of_keys(bucket: str) -> None:
    for key in ("a", "b", "c", "d"):
        put(bucket, key, b"")
    listed = {"kind": "s3", "action": "list", "bucket": bucket, "glob": "[bc]"}
    found = "{{ t0.objects | map(attribute='key') | list }}"
    assert Ran(listed, {"kind": "s3", "action": "delete", "bucket": bucket, "keys": found}).result["deleted"] == 2
    assert Ran({"kind": "s3", "action": "delete", "uri": f"s3://{bucket}/a"}).result == {"bucket": bucket, "deleted": 1}
    assert Ran({"kind": "s3", "action": "delete", "bucket": bucket, "key": "gone", "keys": []}).result["deleted"] == 1
    assert keys(bucket) == ["d"]


def test_more_keys_than_one_request_takes_are_deleted(bucket: str) -> None:
    for n in range(3):
        put(bucket, f"{n}", b"")
    wanted = [f"{n}" for n in range(1500)]
    assert call(bucket, action="delete", keys=wanted).result["deleted"] == 1500
    assert keys(bucket) == []


def test_an_address_is_made_and_kept_secret(bucket: str) -> None:
    task = {"kind": "s3", "action": "presign", "bucket": bucket, "key": "a b", "expires": "15m"}
    ran = Ran(task, {"kind": "noop", "result": ["{{ t0.url }}", "{{ t0.expires_s }}"]})
    assert ran.result == ["***", 900]
    shown = Ran({**task, "spec": {"secret": False}}).result["url"]
    asked = urllib.parse.parse_qs(urllib.parse.urlsplit(shown).query)
    assert f"/{bucket}/a%20b" in shown and asked.get("X-Amz-Expires") == ["900"]


# --- what an action takes -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("task", "told"),
    [
        ({"key": "a"}, "has no bucket or uri, which get needs"),
        ({"bucket": "b"}, "has no key or uri, which get needs"),
        ({"bucket": "b", "key": "a", "data": 1}, "has data, which means nothing to get"),
        ({"action": "put", "bucket": "b", "key": "a"}, "has no data, which put needs"),
        ({"operation": "list", "bucket": "b", "key": "a"}, "has key, which means nothing to list"),
        ({"action": "fetch", "bucket": "b", "key": "a"}, "action"),
        ({"uri": "s3://b/a", "bucket": "b"}, "has uri and bucket"),
        ({"action": "presign", "uri": "s3://b/a", "expires": "8d"}, "expires"),
    ],
)
def test_what_an_action_lacks_or_does_not_take_is_refused_at_validation(task: dict[str, Any], told: str) -> None:
    wrong = [str(d) for d in check(playbook({"kind": "s3", **task}))[1] if d.severity == "error"]
    assert len(wrong) == 1 and told in wrong[0], wrong


@pytest.mark.parametrize(
    ("task", "told"),
    [
        ({"data": 1}, "`data` means nothing to get"),
        ({"action": "{{ 'put' }}"}, "put needs `data`"),
        ({"action": "{{ 'fetch' }}"}, "`action` is one of get, put, list, copy, delete, presign, not 'fetch'"),
        ({"key": "{{ 5 }}"}, "`key` must be text, not 5"),
        ({"format": "{{ 'xml' }}"}, "`format` is one of auto, json"),
        ({"spec": {"max_value_bytes": "{{ 0 }}"}}, "`spec.max_value_bytes` must be a whole number from 1, not 0"),
    ],
)
def test_templates_are_held_to_the_same_when_they_are_rendered(bucket: str, task: dict[str, Any], told: str) -> None:
    put(bucket, "a", b"x", ContentType="text/plain")
    given = {"kind": "s3", "bucket": bucket, "key": "a", **task}
    if "data" in task:
        given["action"] = "{{ 'get' }}"
    error = Ran(given).error
    assert error["kind"] == "schema" and told in error["message"], error


# --- rights -------------------------------------------------------------------------------------------------------------


def test_a_worker_reaches_the_buckets_that_are_named_and_uploads_for_reading(monkeypatch: pytest.MonkeyPatch) -> None:
    with mocked():
        named, other, inbox = make_bucket(), make_bucket(), make_bucket()
        for one in (named, other, inbox):
            put(one, "triggers/x/a.txt", b"up")
            put(one, "rejected/a.txt", b"up")
        monkeypatch.setenv("STACK_RESOURCES", json.dumps({"buckets": [inbox], "inbox": [inbox]}))
        monkeypatch.setenv("NOETL_TOOL_BUCKETS", named)
        assert call(named, key="triggers/x/a.txt").result["data"] == "up"
        assert call(inbox, key="triggers/x/a.txt").result["data"] == "up"
        assert call(named, action="copy", key="b", source=f"s3://{inbox}/triggers/x/a.txt").status == "ok"
        closed: list[tuple[str, dict[str, Any]]] = [
            (other, {"key": "triggers/x/a.txt"}),
            (other, {"action": "list"}),
            (other, {"action": "put", "key": "a", "data": 1}),
            (other, {"action": "delete", "key": "a"}),
            (other, {"action": "presign", "key": "a"}),
            (named, {"action": "copy", "key": "b", "source": f"s3://{other}/rejected/a.txt"}),
            (inbox, {"key": "rejected/a.txt"}),
            (inbox, {"action": "list"}),
            (inbox, {"action": "put", "key": "triggers/x/b.txt", "data": 1}),
            (inbox, {"action": "delete", "key": "triggers/x/a.txt"}),
            (inbox, {"action": "presign", "key": "triggers/x/a.txt", "method": "put"}),
            (inbox, {"action": "copy", "key": "triggers/x/b.txt", "source": f"s3://{named}/rejected/a.txt"}),
        ]
        for where, inputs in closed:
            refused = call(where, **inputs).as_dict()["error"]
            assert (refused["kind"], refused["retryable"]) == ("auth", False)
            told = "is the engine's own" if where == inbox else f"ToolBuckets does not name bucket `{other}` (it names: {named})"
            assert told in refused["message"], (inputs, refused)


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
