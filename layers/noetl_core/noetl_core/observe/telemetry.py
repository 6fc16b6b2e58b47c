"""What a function tells X-Ray of itself: that it ran, for how long, and which AWS calls it made. Never what passed through it.

* botocore alone is patched: of the libraries that X-Ray knows, the others would write down whole URLs, and hand trace headers to
  third parties.
* Neither answers nor exceptions are captured: they hold payloads, results, callback tokens. Why something failed is in the log.
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
