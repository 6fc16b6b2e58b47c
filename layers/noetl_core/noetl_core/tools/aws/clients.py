"""botocore clients for tools: with the role of the worker's function on a stack, with the caller's own profile elsewhere.

They honour `AWS_ENDPOINT_URL`. Callers must check the names of resources first (`rights`).
"""

from __future__ import annotations

from noetl_core.aws.clients import client, session

__all__ = ["client", "session"]
