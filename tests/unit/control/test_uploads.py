"""Uploads: each object starts or registers once, is there for what it starts, and is moved aside once when it cannot be taken."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from noetl_core.adapters.aws.clients import client
from noetl_core.adapters.aws.inbox import S3Inbox
from noetl_core.adapters.aws.results import S3ResultStore
from noetl_core.control.catalog import versions
from noetl_core.control.triggers.uploads import MAX_UPLOAD, take_upload
from noetl_core.dsl.reading.load import MAX_BYTES
from noetl_core.ports import Upload
from noetl_core.runtime.local import LocalWiring
from noetl_core.views.executions import executions
from tests.contract.aws import environment, make_bucket
from tests.fast_moto import mock_aws

COUNT = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: count, path: etl/count}
workload: {s3: null}
workflow:
  - step: start
    tool:
      kind: duckdb
      sources: {rows: "{{ workload.s3.object }}"}
      command: SELECT count(*) AS n, sum(b) AS b FROM rows
"""


class Cloud:
    def __init__(self) -> None:
        results = make_bucket()
        self.results, self.inbox = S3ResultStore(results), S3Inbox(results)
        self.bucket = make_bucket()
        client("s3").put_bucket_versioning(Bucket=self.bucket, VersioningConfiguration={"Status": "Enabled"})
        self.local = LocalWiring()
        for service in (self.local.control, self.local.worker):
            service.results = self.results

    def put(self, key: str, body: bytes) -> Upload:
        put = client("s3").put_object(Bucket=self.bucket, Key=key, Body=body)
        return Upload(self.bucket, key, len(body), put["ETag"], put["VersionId"])

    def take(self, upload: Upload) -> str:
        return take_upload(self.local.control, upload, self.inbox)

    def objects(self) -> list[str]:
        return sorted(o["Key"] for o in client("s3").list_objects_v2(Bucket=self.bucket).get("Contents", ()))

    def error(self, key: str) -> dict[str, object]:
        told = json.loads(client("s3").get_object(Bucket=self.bucket, Key=f"rejected/{key}.error.json")["Body"].read())
        return dict(told["error"])


@pytest.fixture
def cloud() -> Iterator[Cloud]:
    with mock_aws(), environment():
        cloud = Cloud()
        yield cloud
        cloud.local.close()


def test_an_execution_reads_the_object_that_started_it_even_when_it_is_put_again(cloud: Cloud) -> None:
    assert cloud.take(cloud.put("playbooks/count.yaml", COUNT.encode())) == "registered etl/count version 1"
    first = cloud.put("triggers/etl/count/in/a.csv", b"a,b\n1,2\n3,4\n")
    outcome = cloud.take(first)
    cloud.put("triggers/etl/count/in/a.csv", b"a,b\n9,9\n")
    execution_id = outcome.removeprefix("started ")
    assert cloud.local.run(execution_id, timeout_s=60)
    summary = executions.summary(cloud.local.control, execution_id)
    assert (summary["status"], summary["result"]["rows"]) == ("completed", [{"n": 2, "b": 6}]), summary["error"]
    assert cloud.take(first) == "started before", "however often the notification comes"


def test_json_that_is_put_is_a_value_in_templates(cloud: Cloud) -> None:
    source = (
        COUNT.split("    tool:")[0] + "    tool: {kind: noop, result: \"{{ workload.s3.object.rows | sum(attribute='b') }}\"}\n"
    )
    cloud.take(cloud.put("playbooks/count.yaml", source.encode()))
    rows = [{"a": n, "b": 2, "text": "x" * 50} for n in range(2_000)]
    outcome = cloud.take(cloud.put("triggers/etl/count/a.json", json.dumps({"rows": rows}).encode()))
    execution_id = outcome.removeprefix("started ")
    assert cloud.local.run(execution_id, timeout_s=60)
    assert executions.summary(cloud.local.control, execution_id)["result"] == 4_000


def test_another_put_of_the_same_key_is_another_execution(cloud: Cloud) -> None:
    cloud.take(cloud.put("playbooks/count.yaml", COUNT.encode()))
    started = {cloud.take(cloud.put("triggers/etl/count/a.csv", b"a,b\n1,2\n")) for _ in range(3)}
    assert len(started) == 3


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("key", "body", "code", "message"),
    [
        ("playbooks/x.yaml", b"\xff\xfe", "malformed", "not UTF-8 text: byte 0 is 0xff"),
        ("playbooks/x.yaml", b"kind: Nothing\n", "invalid_playbook", "playbooks/x.yaml:1:"),
        ("playbooks/x.yaml", b"#" * (MAX_BYTES + 1), "too_large", "at most 5 MB"),
        ("playbooks/other/x.yaml", COUNT.encode(), "conflict", "'etl/count' is not below the folder 'other'"),
        ("playbooks/et/x.yaml", COUNT.encode(), "conflict", "put the object under playbooks/etl/count/"),
        ("triggers/nobody/x.csv", b"a\n1\n", "not_found", "no playbook is registered under any prefix of 'nobody/x.csv'"),
    ],
)
def test_a_bad_object_is_moved_aside_with_its_error_at_the_first_delivery(
    cloud: Cloud, key: str, body: bytes, code: str, message: str
) -> None:
    outcome = cloud.take(cloud.put(key, body))
    assert outcome.startswith("refused: ")
    error = cloud.error(key)
    assert error["code"] == code
    assert message in str(error["message"])
    assert cloud.objects() == [f"rejected/{key}", f"rejected/{key}.error.json"]


def test_an_object_that_is_too_large_is_refused_before_it_is_read(cloud: Cloud) -> None:
    cloud.take(cloud.put("playbooks/count.yaml", COUNT.encode()))
    upload = cloud.put("triggers/etl/count/a.csv", b"")
    huge = Upload(upload.bucket, upload.key, MAX_UPLOAD + 1, upload.etag, upload.version_id)
    assert cloud.take(huge).startswith("refused: an upload may have at most 20 GB")
    assert "triggers/etl/count/a.csv" in cloud.objects(), "what is too large to be moved stays, with its error beside it"
    assert cloud.error("triggers/etl/count/a.csv")["code"] == "too_large"


@pytest.mark.parametrize("key", ["playbooks/etl/count.yaml", "playbooks/etl/count/playbook.yaml", "playbooks/count.yaml"])
def test_a_playbook_is_put_where_its_path_begins(cloud: Cloud, key: str) -> None:
    assert cloud.take(cloud.put(key, COUNT.encode())) == "registered etl/count version 1"


def test_a_bad_object_put_over_in_the_meantime_leaves_its_successor_alone(cloud: Cloud) -> None:
    bad = cloud.put("playbooks/x.yaml", b"\xff")
    good = cloud.put("playbooks/x.yaml", COUNT.encode())
    assert cloud.take(bad).startswith("refused")
    assert cloud.take(good) == "registered etl/count version 1"
    assert "playbooks/x.yaml" in cloud.objects()


def test_an_upload_whose_object_is_gone_is_ignored(cloud: Cloud) -> None:
    upload = cloud.put("playbooks/x.yaml", COUNT.encode())
    client("s3").delete_object(Bucket=cloud.bucket, Key=upload.key, VersionId=upload.version_id)
    assert cloud.take(upload) == "ignored: playbooks/x.yaml is gone"


def test_a_key_of_the_greatest_length_is_answered_too(cloud: Cloud) -> None:
    key = "playbooks/" + "/".join(["k" * 200] * 5)
    assert cloud.take(cloud.put(key, b"\xff")).startswith("refused")
    assert [k for k in cloud.objects() if k.startswith("rejected/") and k.endswith(".error.json")]


def test_an_upload_may_add_values_that_the_workload_does_not_name(cloud: Cloud) -> None:
    cloud.take(cloud.put("playbooks/count.yaml", COUNT.replace("{s3: null}", "{n: 1, of: '{{ workload.s3.key }}'}").encode()))
    outcome = cloud.take(cloud.put("triggers/etl/count/a.csv", b"a,b\n1,2\n"))
    assert outcome.startswith("started ")
    assert cloud.local.control.load(outcome.removeprefix("started ")).rendered == {"of": "triggers/etl/count/a.csv"}


def test_an_upload_that_the_playbook_refuses_is_moved_aside(cloud: Cloud) -> None:
    schema = "{s3: null, x-schema: {properties: {s3: {properties: {size: {minimum: 1000}}}}}}"
    cloud.take(cloud.put("playbooks/count.yaml", COUNT.replace("{s3: null}", schema).encode()))
    outcome = cloud.take(cloud.put("triggers/etl/count/a.csv", b"a,b\n1,2\n"))
    assert outcome == "refused: the upload does not start etl/count: workload.s3.size is below 1000"
    error = cloud.error("triggers/etl/count/a.csv")
    assert (error["code"], error["details"]) == (
        "workload",
        [{"loc": "workload", "message": "workload.s3.size is below 1000", "hint": ""}],
    )


def test_a_key_may_name_a_version_of_the_playbook(cloud: Cloud) -> None:
    cloud.take(cloud.put("playbooks/count.yaml", COUNT.encode()))
    cloud.take(cloud.put("playbooks/count.yaml", f"{COUNT}# again\n".encode()))
    for version in (2, 1):
        versions.set_alias(cloud.local.control, "etl/count", "prod", {version: 1})
        outcome = cloud.take(cloud.put("triggers/etl/count@prod/in/a.csv", b"a,b\n1,2\n"))
        assert executions.summary(cloud.local.control, outcome.removeprefix("started "))["playbook"]["version"] == version
    wrong = cloud.take(cloud.put("triggers/etl/count@prdo/a.csv", b"a,b\n1,2\n"))
    assert wrong.startswith("refused: no playbook is registered under any prefix")
    assert "has no alias 'prdo' (did you mean \"prod\"?)" in wrong
    assert cloud.error("triggers/etl/count@prdo/a.csv")["code"] == "not_found"


def test_an_upload_for_a_deleted_playbook_is_moved_aside(cloud: Cloud) -> None:
    cloud.take(cloud.put("playbooks/count.yaml", COUNT.encode()))
    versions.delete(cloud.local.control, "etl/count")
    assert "was deleted at" in cloud.take(cloud.put("triggers/etl/count/a.csv", b"a,b\n1,2\n"))
    assert cloud.error("triggers/etl/count/a.csv")["code"] == "deleted"
