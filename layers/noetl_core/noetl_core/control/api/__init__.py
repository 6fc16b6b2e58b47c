"""The HTTP API: routes on Lambda Powertools' event handler, with pydantic models of what they take.

`app` builds it, `resolver` and `reading` are what is particular to it (strict bodies, rights, paths with slashes), `document` and
`page` describe it. Nothing is decided here: what an operation does lives in `control.operations`; what is refused how, in
`control.refusals`.
"""

from noetl_core.control.api.app import Api, build_resolver
from noetl_core.control.api.reading import MAX_BODY
from noetl_core.control.api.service import Service, nothing_here

__all__ = ["MAX_BODY", "Api", "Service", "build_resolver", "nothing_here"]
