"""Sends traces of functions to X-Ray: that a function ran, how long, and which AWS calls it made. Never payloads.

* Only botocore is patched: for other libraries X-Ray would record whole URLs and send trace headers to third parties.
* Answers and exceptions are not captured, because they contain payloads, results and callback tokens. The reason of a failure
  is in the log.
* Without a receiver - in a container of `sam local`, on an emulator - X-Ray's library is not loaded. Outside of Lambda it
  requests sampling rules from a daemon, with a client of botocore's that the layer does not have.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

Handler = Callable[..., Mapping[str, Any]]


def traced(handler: Handler) -> Handler:
    """Return `handler` with traces of its invocations."""
    if not _is_traced():
        return handler
    from aws_lambda_powertools import Tracer  # 100 ms: X-Ray's library, even without a receiver

    tracer = Tracer(patch_modules=["botocore"])
    traced: Handler = tracer.capture_lambda_handler(handler, capture_response=False, capture_error=False)
    return traced


def _is_traced() -> bool:
    """Return whether this is a function of AWS Lambda with traces enabled."""
    disabled = os.environ.get("POWERTOOLS_TRACE_DISABLED", "").lower() in ("1", "true", "t", "yes", "y", "on")
    return "LAMBDA_TASK_ROOT" in os.environ and "AWS_SAM_LOCAL" not in os.environ and not disabled
