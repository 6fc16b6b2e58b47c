"""`kind: lambda`: invokes functions (docs/tools/lambda.md)."""

from __future__ import annotations

import json
import re
from base64 import b64encode
from typing import Any, Final

from noetl_core.engine.outcome import Outcome
from noetl_core.tools.actions import action_of, choice, optional_text, text
from noetl_core.tools.aws import rights
from noetl_core.tools.aws.clients import client
from noetl_core.tools.aws.errors import errors_of
from noetl_core.tools.aws.rights import FUNCTIONS
from noetl_core.tools.base import BadInput, ToolCall
from noetl_core.values.strict_json import parsed

PATIENCE_S: Final = (15, 60, 300, 900)
"""Read timeouts of clients (seconds): the first that is not shorter than the task's timeout is used."""
_ARN: Final = re.compile(r"arn:[a-z-]+:lambda:[a-z0-9-]+:[0-9]{12}:function:([A-Za-z0-9_-]+)(?::[$A-Za-z0-9_-]+)?")
_NAME: Final = re.compile(r"([A-Za-z0-9_-]+)(?::([$A-Za-z0-9_-]+))?")
MAX_BYTES: Final = {"request": 6 * 1024 * 1024, "event": 1024 * 1024}


class LambdaTool:
    """Inputs `function`, `payload` and `invocation`."""

    kind = "lambda"
    inline = False

    def run(self, call: ToolCall) -> Outcome:
        action_of(call)
        function, how = text(call, "function"), choice(call, "invocation")
        name = function_name(function)
        rights.check(FUNCTIONS, name)
        payload = json.dumps(call.inputs.get("payload"), ensure_ascii=False, allow_nan=False).encode()
        if len(payload) > MAX_BYTES[how]:
            message = f"lambda: the payload has {len(payload):,} bytes, and Lambda takes {MAX_BYTES[how]:,}"
            return Outcome.failed("limit", message, retryable=False)
        waits = 900.0 if call.timeout_s is None else call.timeout_s
        patience = next((s for s in PATIENCE_S if s >= waits), PATIENCE_S[-1])
        with errors_of(call.kind, FUNCTIONS, name):
            answer = client("lambda", optional_text(call, "region"), patience).invoke(
                **_invoked(function),
                InvocationType={"request": "RequestResponse", "event": "Event"}[how],
                Payload=payload,
                **({"ClientContext": _context(call)} if how == "request" else {}),
            )
            body = answer["Payload"].read()
        return _outcome(name, answer, body)


def function_name(function: str) -> str:
    """Return the name of a function that is given as `name`, `name:alias` or ARN. Raises `BadInput`."""
    found = _ARN.fullmatch(function) or _NAME.fullmatch(function)
    if found is None:
        raise BadInput(f"`function` must be a name, name:alias or an ARN, not {function[:80]!r}")
    return found[1]


def _invoked(function: str) -> dict[str, str]:
    """Return the function and the qualifier of the request. An alias is passed separately, because `function:x` and
    `123456789012:x` are also names of the function `x`, while the right was checked for another name."""
    if _ARN.fullmatch(function):
        return {"FunctionName": function}
    name, _, alias = function.partition(":")
    return {"FunctionName": name, **({"Qualifier": alias} if alias else {})}


def _context(call: ToolCall) -> str:
    """Return the data by which the function may recognize a repeated task: `context.client_context.custom`."""
    custom = {"noetl_execution_id": call.execution_id, "noetl_task_run_id": call.task_run_id}
    return b64encode(json.dumps({"custom": custom}).encode()).decode()


def _outcome(name: str, answer: Any, body: bytes) -> Outcome:
    value = _value(body)
    if answer.get("FunctionError"):
        reason = value.get("errorMessage") if isinstance(value, dict) else None
        code = str(value.get("errorType")) if isinstance(value, dict) and value.get("errorType") else answer["FunctionError"]
        message = f"lambda: {name} failed: {reason or answer['FunctionError']}"[:2000]
        return Outcome.failed("server_error", message, retryable=False, code=code, details={"payload": value})
    return Outcome.ok({"status": answer["StatusCode"], "payload": value, "version": answer.get("ExecutedVersion")})


def _value(body: bytes) -> Any:
    if not body:
        return None
    try:
        return parsed(body)
    except ValueError:
        return body.decode("utf-8", "replace")
