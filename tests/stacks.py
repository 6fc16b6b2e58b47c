"""The stack that tests share: an embedded one, or the endpoint that `NOETL_E2E_ENDPOINT` names (LocalStack)."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.config import Config

from noetl_infra import REGION
from noetl_infra.deploy import local_environment
from noetl_infra.stack import Stack, down
from noetl_infra.up import free_port, up
from tests.packages import SAMPLE, index

SCRIPTED_TOOL = Path(__file__).parent / "conformance" / "scripted_tool"
"""The workers have this kind besides their own."""

PARAMETERS = {
    f"Tool{what}": "matrix-*"
    for what in ("Buckets", "Queues", "Tables", "Functions", "Clusters", "Tasks", "Topics", "EventBuses", "Senders")
}
"""Parameters that let tools reach the resources of the tool matrix."""
PARAMETERS |= {"AllowShell": "all", "Console": "yes"}
ORDERS, SCANS = "ways-in-orders", "ways-in-scans"
"""A queue and a bucket whose messages and objects may start playbooks."""
PARAMETERS |= {
    "EventBus": "default",
    "EventSources": "ways.in,aws.s3",
    "TriggerQueue": f"arn:aws:sqs:{REGION}:000000000000:{ORDERS}",
    "UploadBuckets": SCANS,
}


def client(service: str, endpoint: str) -> Any:
    """A boto3 client of an endpoint."""
    env = local_environment(endpoint)
    return boto3.client(  # type: ignore[call-overload]  # the stubs know services by literal names
        service,
        endpoint_url=endpoint,
        region_name=env["AWS_DEFAULT_REGION"],
        aws_access_key_id=env["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=env["AWS_SECRET_ACCESS_KEY"],
        config=Config(s3={"addressing_style": "path"}),
    )


@contextmanager
def brought_up(folder: Path) -> Iterator[Stack]:
    """A stack with a folder and a port of its own, that ends with the block."""
    endpoint = os.environ.get("NOETL_E2E_ENDPOINT")
    if endpoint:
        client("sqs", endpoint).create_queue(
            QueueName=ORDERS, Attributes={"VisibilityTimeout": "360"}
        )  # a mapping needs its queue
        yield up(folder, endpoint=endpoint, tools=[str(SCRIPTED_TOOL)], parameters=PARAMETERS)
        return
    port = free_port()
    wanted = folder / "requirements.txt"
    wanted.write_text(f"{SAMPLE}\n")
    with pytest.MonkeyPatch.context() as patch:
        for name, value in index(folder / "index").items():
            patch.setenv(name, value)
        brought = up(folder, port=port, tools=[str(SCRIPTED_TOOL)], packages=[str(wanted)], parameters=PARAMETERS)
    try:
        yield brought
    finally:
        down(folder)
