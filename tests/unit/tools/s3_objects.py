"""A bucket (moto), and its objects."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from noetl_core.adapters.aws.clients import client
from noetl_core.engine.outcome import Outcome
from noetl_core.tools.aws.s3 import S3Tool
from noetl_core.tools.base import ToolCall
from noetl_core.tools.invoke import invoke
from tests.contract.aws import make_bucket
from tests.unit.tools.aws_playbooks import mocked


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
