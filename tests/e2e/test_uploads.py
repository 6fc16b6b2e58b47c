"""An upload starts a playbook: one put, one execution."""

from __future__ import annotations

import json
import time

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
