"""What a function sends to X-Ray: that it ran, how long, and which AWS calls it made. Never payloads.

* Only botocore is patched: for other libraries X-Ray would record whole URLs and send trace headers to third parties.
* Answers and exceptions are not captured, because they contain payloads, results and callback tokens. The reason of a failure
  is in
  the log.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from aws_lambda_powertools import Tracer

Handler = Callable[..., Mapping[str, Any]]


def traced(handler: Handler) -> Handler:
    """`handler` with a trace of its invocations."""
    tracer = Tracer(patch_modules=["botocore"])
    traced: Handler = tracer.capture_lambda_handler(handler, capture_response=False, capture_error=False)
    return traced
