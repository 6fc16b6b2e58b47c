"""A typed client of the HTTP API; the command line uses it for `--on stack` and `--on URL`.

    from noetl_core.client import Client

    api = Client("https://abc123.execute-api.eu-west-1.amazonaws.com/v1")
    started = api.start(path="examples/hello", payload={"name": "Ada"})
    print(api.execution(started["execution_id"])["status"])

`api` has the methods as a protocol, which `control.operations.Operations` has too, in this process. Their answers are in
`shapes`, `catalog_shapes`, `view_shapes`, `step_shapes`, `trigger_shapes`, `limit_shapes`, `following_shapes`, `why_shapes` and
`service_shapes`. `http` is the way over HTTP, with `looking` for what changes nothing and `authorization` for what lets a request
in there; `errors` are what it raises. Nothing here knows the control plane.
"""

from noetl_core.client.api import Api
from noetl_core.client.errors import ApiError, Refused, TokenInTheClear, Unreachable
from noetl_core.client.http import Client

__all__ = ["Api", "ApiError", "Client", "Refused", "TokenInTheClear", "Unreachable"]
