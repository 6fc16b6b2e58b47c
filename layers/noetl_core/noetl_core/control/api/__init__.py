"""The HTTP API (docs/looking.md, docs/operating.md): requests to control-plane calls, errors to honest statuses.

One table of routes (`dispatch.routes`, each module brings its own) that three things stand on: API Gateway (`gateway`), the
command line's local store, and the OpenAPI document. Nothing here knows how a request came.
"""

from noetl_core.control.api.call import MAX_BODY, Answer, Call, Route, Service, nothing_here
from noetl_core.control.api.dispatch import dispatch, routes
from noetl_core.control.api.gateway import Api, build_resolver

__all__ = ["MAX_BODY", "Answer", "Api", "Call", "Route", "Service", "build_resolver", "dispatch", "nothing_here", "routes"]
