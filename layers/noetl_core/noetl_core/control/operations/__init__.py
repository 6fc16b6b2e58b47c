"""The operations of the API over the control plane in this process: a function for each request class, which says with
`@RequestClass.answered` what it answers. `Operations` calls them; it has a method for each, like the client over HTTP.

They know no HTTP. The caller's rights are checked before.
"""

from noetl_core.control.operations import (  # noqa: F401  # each lets its functions answer requests
    callbacks,
    catalog,
    credentials,
    executions,
    operating,
    service,
    triggers,
    views,
)
from noetl_core.control.operations.base import Operations as Operations
from noetl_core.control.operations.base import cursor_key as cursor_key
