"""Sends traces of functions to X-Ray: that a function ran, how long, and which AWS calls it made. Never payloads.

* Only botocore is patched; requests that `noetl_core.aws.direct_requests` sends are added here. For other libraries X-Ray would
  record whole URLs and send trace headers to third parties.
* Answers and exceptions are not captured, because they contain payloads, results and callback tokens. The reason of a failure
  is in the log.
* Without a receiver - in a container of `sam local`, on an emulator - X-Ray's library is not loaded. Outside of Lambda it
  requests sampling rules from a daemon, with a client of botocore's that the layer does not have.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from typing import Any

from noetl_core.aws import direct_requests

Handler = Callable[..., Mapping[str, Any]]


def traced(handler: Handler) -> Handler:
    """Return `handler` with traces of its invocations."""
    if not _is_traced():
        return handler
    from aws_lambda_powertools import Tracer  # 100 ms: X-Ray's library, even without a receiver

    tracer = Tracer(patch_modules=["botocore"])
    direct_requests.trace = _subsegment
    traced: Handler = tracer.capture_lambda_handler(handler, capture_response=False, capture_error=False)
    return traced


_TRACED = {"TableName": "table_name", "QueueUrl": "queue_url"}
"""The arguments of a request that its trace has, and their names there."""


@contextmanager
def _subsegment(service: str, operation: str, request: Mapping[str, Any], region: str) -> Iterator[Callable[[int], None] | None]:
    """Trace a request as X-Ray's library traces those of botocore's clients, but without an exception's text."""
    recorder = import_module("aws_xray_sdk.core").xray_recorder  # the tracer has imported it
    failed: BaseException | None = None
    with recorder.in_subsegment(service, namespace="aws") as made:
        note = None
        if made is not None:  # outside of an invocation nothing is recorded
            fields = {key: request[name] for name, key in _TRACED.items() if name in request}
            made.set_aws({"operation": operation, "region": region, **fields})
            note = partial(made.put_http_meta, "status")
        try:
            yield note
        except BaseException as error:  # re-raised outside of the subsegment, which would record it
            failed = error
            if made is not None:
                made.add_fault_flag()
    if failed is not None:
        raise failed


def _is_traced() -> bool:
    """Return whether this is a function of AWS Lambda with traces enabled."""
    disabled = os.environ.get("POWERTOOLS_TRACE_DISABLED", "").lower() in ("1", "true", "t", "yes", "y", "on")
    return "LAMBDA_TASK_ROOT" in os.environ and "AWS_SAM_LOCAL" not in os.environ and not disabled
