"""The cases of `lambda`, on the stack: what mocks AWS in one process runs no functions. The stack's parameter `ToolFunctions` names `matrix-*`."""

from __future__ import annotations

import io
import os
import sys
import zipfile
from collections.abc import Mapping
from typing import Any

from noetl_core.adapters.aws.clients import client
from tests.matrix.cases import Case

leaves_out: Mapping[str, str] = {}
CODE = """
import time

def handler(event, context):
    if "fail" in event:
        raise ValueError(event["fail"])
    time.sleep(event.get("sleep", 0))
    return {"told": event, "text": "x" * event.get("size", 0)}
"""


def prepare() -> dict[str, Any]:
    """A function that answers, or not, as it is told."""
    if "AWS_ENDPOINT_URL" in os.environ:
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w") as archive:
            archive.writestr("app.py", CODE)
        client("lambda").create_function(
            FunctionName="matrix-answers",
            Runtime=f"python3.{sys.version_info.minor}",
            Role="arn:aws:iam::000000000000:role/any",
            Handler="app.handler",
            Code={"ZipFile": packed.getvalue()},
            Timeout=30,
        )
    return {}


def _asked(payload: Any, **more: Any) -> dict[str, Any]:
    return {"function": "matrix-answers", "payload": payload, **more}


ON_STACK = ("stack",)


CASES = [
    Case("answers", _asked({"a": 1}), gives={"{{ _prev.payload.told }}": {"a": 1}}, on=ON_STACK),
    Case("fails", _asked({"fail": "no"}), "errors", fails="server_error", retryable=False, says="failed: no", on=ON_STACK),
    Case("no_function", {"function": "matrix-none"}, "errors", fails="not_found", retryable=False, on=ON_STACK),
    Case("wrong", {"function": "a:b:c"}, "errors", fails="schema", retryable=False),
    Case(
        "too_large",
        {"function": "matrix-answers", "payload": "{{ 'x' * 1048577 }}", "invocation": "event"},
        "errors",
        fails="limit",
        retryable=False,
    ),
    Case("slow", _asked({"sleep": 6}, spec={"timeout": 0.5}), "timeout", fails="timeout", retryable=True, on=ON_STACK),
    Case("large", _asked({"size": 300_000}), "large result", gives={"{{ _prev.payload.text | length }}": 300_000}, on=ON_STACK),
    Case(
        "secret", _asked({"a": "{{ keychain.matrix.token }}"}), "secret", gives={"{{ _prev.payload.told.a }}": "***"}, on=ON_STACK
    ),
    Case(
        "not_named",
        {"function": "closed-answers"},
        "rights",
        fails="auth",
        retryable=False,
        says="ToolFunctions does not name function `closed-answers` (it names: matrix-*)",
        on=ON_STACK,
    ),
]
