"""An upload starts a playbook: one put, one execution."""

from __future__ import annotations

import json
import time

import pytest

from noetl_infra.stack import Stack
from tests.e2e.support import Api, aws
from tests.examples_runner import EXAMPLES

PATH = "examples/upload"


def settled(api: Api, known: set[str], quiet_s: float = 4) -> list[str]:
    """New executions of the upload example, once there is one and no more come."""
    until = time.monotonic() + 60
    while not (ids_of(api) - known):
        assert time.monotonic() < until, "the upload started nothing"
        time.sleep(0.2)
    time.sleep(quiet_s)
    return sorted(ids_of(api) - known)


def ids_of(api: Api) -> set[str]:
    return {str(e["execution_id"]) for e in api.executions(PATH)}


def test_one_put_starts_exactly_one_execution(stack: Stack, api: Api) -> None:
    status, answer = api.call("POST", "/api/playbooks", (EXAMPLES / "upload" / "playbook.yaml").read_text())
    assert status == 201, answer
    s3, bucket = aws(stack, "s3"), stack.outputs["InboxBucketName"]
    known = ids_of(api)
    s3.put_object(Bucket=bucket, Key=f"triggers/{PATH}/report one.csv", Body=b"a,b\n1,2\n")
    (started,) = settled(api, known)
    summary = api.wait(started)
    assert summary["status"] == "completed"
    assert summary["result"] == {
        "object": f"s3://{bucket}/triggers/{PATH}/report one.csv",
        "size": 8,
        "rows": 1,
    }
    s3.put_object(Bucket=bucket, Key=f"triggers/{PATH}/report one.csv", Body=b"a,b\n3,4\n")
    assert len(settled(api, {*known, started})) == 1, "the same key put again is another upload"


def test_a_playbook_put_under_playbooks_is_registered(stack: Stack, api: Api) -> None:
    source = (EXAMPLES / "hello" / "playbook.yaml").read_text()
    aws(stack, "s3").put_object(Bucket=stack.outputs["InboxBucketName"], Key="playbooks/hello.yaml", Body=source.encode())
    until = time.monotonic() + 30
    while (answer := api.call("GET", "/api/playbooks/examples/hello"))[0] != 200:
        assert time.monotonic() < until, answer
        time.sleep(0.2)
    assert answer[1]["version"] == 1


def test_an_object_that_cannot_be_taken_is_moved_aside_with_its_error(stack: Stack) -> None:
    s3, bucket = aws(stack, "s3"), stack.outputs["InboxBucketName"]
    s3.put_object(Bucket=bucket, Key="playbooks/bad.yaml", Body=b"kind: Nothing\n")
    until = time.monotonic() + 30
    while "Contents" not in (listed := s3.list_objects_v2(Bucket=bucket, Prefix="rejected/playbooks/bad.yaml")):
        assert time.monotonic() < until, "nothing was moved aside"
        time.sleep(0.2)
    told = json.loads(s3.get_object(Bucket=bucket, Key="rejected/playbooks/bad.yaml.error.json")["Body"].read())
    assert told["error"]["code"] == "invalid_playbook"
    while len(listed.get("Contents", ())) < 2 or "Contents" in s3.list_objects_v2(Bucket=bucket, Prefix="playbooks/bad.yaml"):
        assert time.monotonic() < until, "it is still there"
        time.sleep(0.2)
        listed = s3.list_objects_v2(Bucket=bucket, Prefix="rejected/playbooks/bad.yaml")


OPENS = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: opens, path: tests/opens }
workload: { s3: { bucket: none, key: none, object: null } }
workflow:
  - step: opens
    tool:
      - { name: rows, kind: s3, bucket: "{{ workload.s3.bucket }}", key: "{{ workload.s3.key }}", format: csv, version_id: "{{ workload.s3.version_id }}" }
      - { name: bytes, kind: s3, bucket: "{{ workload.s3.bucket }}", key: "{{ workload.s3.key }}", format: base64 }
      - { name: kept, kind: s3, bucket: "{{ workload.s3.bucket }}", key: "{{ workload.s3.key }}" }
      - { name: stored, kind: s3, action: put, bucket: matrix-uploads, key: a.csv, data: "{{ workload.s3.object }}" }
      - { name: sum, kind: duckdb, sources: { a: "{{ workload.s3.object }}", b: "{{ kept.data }}" }, command: "SELECT (SELECT sum(n) FROM a)::int + (SELECT sum(n) FROM b)::int AS n" }
      - name: decoded
        kind: python
        args: { body: "{{ bytes.data }}" }
        code: |
          import base64
          result = base64.b64decode(body).decode()
      - { name: closed, kind: s3, action: delete, bucket: "{{ workload.s3.bucket }}", key: "{{ workload.s3.key }}", spec: { policy: { rules: [{ else: { then: { do: continue } } }] } } }
      - { name: said, kind: noop, result: ["{{ rows.data }}", "{{ decoded }}", "{{ sum.rows[0].n }}", "{{ stored.size }}", "{{ closed is defined }}"] }
"""


@pytest.mark.nightly
def test_a_playbook_opens_its_upload_as_rows_bytes_and_a_reference_and_stores_it_elsewhere(stack: Stack, api: Api) -> None:
    """Workers read uploads without any parameter, and do nothing else with them."""
    assert api.call("POST", "/api/playbooks", OPENS)[0] == 201
    s3, inbox = aws(stack, "s3"), stack.outputs["InboxBucketName"]
    s3.create_bucket(Bucket="matrix-uploads")
    s3.put_object(Bucket=inbox, Key="triggers/tests/opens/a b.csv", Body=b"n\n1\n2\n")
    until = time.monotonic() + 60
    while not (started := api.executions("tests/opens")):
        assert time.monotonic() < until, "the upload started nothing"
        time.sleep(0.2)
    summary = api.wait(str(started[0]["execution_id"]))
    assert summary["error"] is None, summary["error"]
    assert summary["result"] == [[{"n": "1"}, {"n": "2"}], "n\n1\n2\n", 6, 6, False]
    assert s3.get_object(Bucket="matrix-uploads", Key="a.csv")["Body"].read() == b"n\n1\n2\n"
    assert s3.head_object(Bucket=inbox, Key="triggers/tests/opens/a b.csv")["ContentLength"] == 6
