"""Imports every operation of the API, which lets all functions of the package answer requests."""

from noetl_core.service.operations import callbacks, catalog, credentials, executions, operating, service, triggers, views  # noqa: F401  # each lets its functions answer requests
from noetl_core.service.operations.base import Operations as Operations
from noetl_core.service.operations.base import cursor_key as cursor_key
