"""A stack whose functions start from snapshots: they are called by an alias, and another word makes other versions."""

from __future__ import annotations

import os
from typing import Any

import boto3
import pytest

from noetl_infra.deploy import deploy, local_environment
from noetl_infra.stack import Stack
from tests.e2e.support import Api

pytestmark = pytest.mark.skipif("NOETL_E2E_ENDPOINT" in os.environ, reason="deploys over a stack, which LocalStack refuses")
PLAYBOOK = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: snapshots, path: tests/snapshots }
workflow:
  - step: first
    tool: { kind: noop }
    next: { arcs: [{ step: second }] }
  - step: second
    tool: { kind: noop }
"""


@pytest.fixture
def functions(stack: Stack) -> Any:
    env = local_environment(stack.endpoint)
    return boto3.client(
        "lambda",
        endpoint_url=stack.endpoint,
        region_name=env["AWS_DEFAULT_REGION"],
        aws_access_key_id=env["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=env["AWS_SECRET_ACCESS_KEY"],
    )


@pytest.mark.nightly
def test_a_stack_with_snapshots_is_called_by_aliases_and_another_word_makes_other_versions(stack: Stack, functions: Any) -> None:
    live = []
    for word in ("one", "one", "two"):
        # the emulator's functions run in this interpreter whatever the runtime is called, and python3.11 has no snapshots
        made = deploy(
            stack.endpoint, dependencies=False, parameters={"SnapStart": word, "LambdaRuntime": "python3.13"}, name="snapshots"
        )
        api = Api(made.api_url)
        assert api.wait(api.start(PLAYBOOK))["status"] == "completed"
        worker = made.outputs["WorkerFunctionName"]
        (alias,) = functions.list_aliases(FunctionName=worker)["Aliases"]
        (commands,) = functions.list_event_source_mappings(FunctionName=worker)["EventSourceMappings"]
        assert commands["FunctionArn"] == alias["AliasArn"]
        live.append(alias["FunctionVersion"])
    assert live == ["1", "1", "2"]
