"""The HTTP API: routes on Lambda Powertools' event handler, with pydantic models of what they take.

* `app` builds it over a `service`. `resolver` and `reading` are what is particular to it: strict bodies, rights, paths with
  slashes. `callers` says what a caller may do, `parameters` and `responses` are the types of what routes take and answer.
* The routes, by subject: `catalog`, `executions`, `following`, `operating`, `callbacks`, `context`, `views`, `steps`,
  `triggers`, `credentials` and `service_routes`.
* `document` and `page` describe it all, `hooks_route` what another function answers.

Nothing is decided here: what an operation does is in `control.operations`, how a request is refused in `control.refusals`.
"""

from noetl_core.control.api.app import Api, build_resolver
from noetl_core.control.api.reading import MAX_BODY
from noetl_core.control.api.service import Service, nothing_here

__all__ = ["MAX_BODY", "Api", "Service", "build_resolver", "nothing_here"]
