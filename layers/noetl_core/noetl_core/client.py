"""A typed client of the HTTP API (docs/api.md); the command line uses it for `--on stack` and `--on URL`.

from noetl_core.client import Client

api = Client("https://abc123.execute-api.eu-west-1.amazonaws.com/v1")
started = api.start(path="examples/hello", payload={"name": "Ada"})
print(api.execution(started["execution_id"])["status"])
"""

from noetl_core.api.client import Client
from noetl_core.api.errors import ApiError, Refused, TokenInTheClear, Unreachable
from noetl_core.api.requests import Api

__all__ = ["Api", "ApiError", "Client", "Refused", "TokenInTheClear", "Unreachable"]
