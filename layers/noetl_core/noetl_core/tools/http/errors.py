"""Translates errors of an exchange to those of httpx, whose names are the codes of outcomes."""

from __future__ import annotations

from typing import Final

import aiohttp
import httpx
from aiohttp.http_exceptions import HttpProcessingError

from noetl_core.ports import PortError
from noetl_core.values.result_refs import Altered

ERRORS: Final = (aiohttp.ClientError, HttpProcessingError, OSError)
"""The errors that aiohttp raises."""


def as_httpx_error(error: Exception) -> Exception:
    """Return the httpx error for one of aiohttp's; an error of reading the request body is returned unchanged."""
    if isinstance(error.__cause__, PortError | Altered):
        return error.__cause__
    if isinstance(error.__cause__, httpx.WriteTimeout):
        return error.__cause__
    if isinstance(error, aiohttp.ConnectionTimeoutError):
        return httpx.ConnectTimeout("timed out")
    if isinstance(error, TimeoutError):
        return httpx.ReadTimeout("timed out")
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        return httpx.ConnectError(f"{error.host} cannot be resolved: {error.os_error}")
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return httpx.ConnectError(str(error.certificate_error))
    if isinstance(error, aiohttp.ClientConnectorError):
        return httpx.ConnectError(str(error.os_error))
    if isinstance(error, aiohttp.InvalidURL):
        return httpx.InvalidURL(str(error))
    if isinstance(error, aiohttp.ServerDisconnectedError):
        return httpx.RemoteProtocolError("Server disconnected without sending a response.")
    if isinstance(error, (aiohttp.ClientPayloadError, aiohttp.ClientResponseError, HttpProcessingError)):
        return httpx.RemoteProtocolError(getattr(error, "message", "") or str(error))
    return httpx.ReadError(str(error))
