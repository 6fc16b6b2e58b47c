"""The example of 500 files, in a bucket that the stack's `ToolBuckets` names."""

from __future__ import annotations

import pytest

from noetl_infra.stack import Stack
from tests.conformance.wirings import on_stack
from tests.e2e.support import Api
from tests.examples_runner import EXAMPLES
from tests.fan_out_files import RESULT, make


@pytest.mark.soak
def test_unreadable_files_are_named_and_all_others_are_in_one_file(stack: Stack, api: Api) -> None:
    with on_stack(stack):
        make("matrix-fan-out")
    source = (EXAMPLES / "fan_out" / "playbook.yaml").read_text()
    summary = api.run(source, {"bucket": "matrix-fan-out"}, timeout_s=400)
    assert (summary["status"], summary["error"]) == ("completed", None)
    assert summary["result"] == RESULT
    refused = api.run(source, {"bucket": "another"})
    assert refused["error"]["kind"] == "auth" and "ToolBuckets does not name bucket `another`" in refused["error"]["message"]
