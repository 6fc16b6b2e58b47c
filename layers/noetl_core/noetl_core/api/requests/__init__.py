"""States the operations of the API, each as a request class, by subject: `service`, `catalog`, `executions`, `operating`,
`callbacks`, `triggers`, `credentials`, `views` and `about` (the API itself). Nothing here answers: `service.operations` does."""

from __future__ import annotations

from typing import Any

from noetl_core.api.request import Request
from noetl_core.api.requests.about import GetDocs as GetDocs
from noetl_core.api.requests.about import GetDocument as GetDocument
from noetl_core.api.requests.callbacks import CallbacksApi
from noetl_core.api.requests.catalog import CatalogApi
from noetl_core.api.requests.credentials import CredentialsApi
from noetl_core.api.requests.executions import ExecutionsApi
from noetl_core.api.requests.operating import OperatingApi
from noetl_core.api.requests.service import ServiceApi
from noetl_core.api.requests.triggers import TriggersApi
from noetl_core.api.requests.views import ViewsApi


class Api(ServiceApi, CatalogApi, TriggersApi, ExecutionsApi, OperatingApi, CallbacksApi, ViewsApi, CredentialsApi):
    """Every operation. Arguments that are None are omitted; the answers are those of the OpenAPI document."""


REQUESTS: tuple[type[Request[Any]], ...] = tuple(Request.__subclasses__())
"""The request classes, one for each route."""
