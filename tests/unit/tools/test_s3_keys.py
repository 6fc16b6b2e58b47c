"""`kind: s3` as playbooks use it, over a mocked S3: lists, copies, deletions, addresses, and what is refused."""

from __future__ import annotations

import json
import urllib.parse
from typing import Any

import pytest

from noetl_core.adapters.aws.clients import client
from noetl_core.dsl.parse import check
from noetl_core.tools.aws.globs import matcher
from tests.contract.aws import make_bucket
from tests.unit.tools.aws_playbooks import Ran, mocked, playbook
from tests.unit.tools.s3_objects import bucket, call, keys, put

__all__ = ["bucket"]


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


@pytest.mark.one_in(3)
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
def test_a_list_returns_the_objects_that_match(bucket: str, inputs: dict[str, str], found: list[str]) -> None:
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


def test_copying_a_missing_object_is_not_found(bucket: str) -> None:
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


@pytest.mark.parametrize(
    ("task", "told"),
    [
        ({"key": "a"}, "has no bucket or uri, which action get needs"),
        ({"bucket": "b"}, "has no key or uri, which action get needs"),
        ({"bucket": "b", "key": "a", "data": 1}, "has data, which get does not take"),
        ({"action": "put", "bucket": "b", "key": "a"}, "has no data, which action put needs"),
        ({"operation": "list", "bucket": "b", "key": "a"}, "has key, which list does not take"),
        ({"action": "fetch", "bucket": "b", "key": "a"}, "action"),
        ({"uri": "s3://b/a", "bucket": "b"}, "has uri and bucket"),
        ({"action": "presign", "uri": "s3://b/a", "expires": "8d"}, "expires"),
    ],
)
def test_missing_and_unknown_inputs_of_an_action_are_refused_at_validation(task: dict[str, Any], told: str) -> None:
    wrong = [str(d) for d in check(playbook({"kind": "s3", **task}))[1] if d.severity == "error"]
    assert len(wrong) == 1 and told in wrong[0], wrong


@pytest.mark.parametrize(
    ("task", "told"),
    [
        ({"data": 1}, "get does not take `data`"),
        ({"action": "{{ 'put' }}"}, "put needs `data`"),
        ({"action": "{{ 'fetch' }}"}, "`action` is one of get, put, list, copy, delete, presign, not 'fetch'"),
        ({"key": "{{ 5 }}"}, "`key` must be text, not 5"),
        ({"format": "{{ 'xml' }}"}, "`format` is one of auto, json"),
        ({"spec": {"max_value_bytes": "{{ 0 }}"}}, "`spec.max_value_bytes` must be a whole number from 1, not 0"),
    ],
)
def test_templates_are_held_to_the_same_when_they_are_rendered(bucket: str, task: dict[str, Any], told: str) -> None:
    put(bucket, "a", b"x", ContentType="text/plain")
    fields = {"kind": "s3", "bucket": bucket, "key": "a", **task}
    if "data" in task:
        fields["action"] = "{{ 'get' }}"
    error = Ran(fields).error
    assert error["kind"] == "schema" and told in error["message"], error


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
