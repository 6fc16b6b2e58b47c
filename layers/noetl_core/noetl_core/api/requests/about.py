"""Operations that describe the API. The routes answer them themselves."""

from __future__ import annotations

from typing import Any

from noetl_core.api.request import HTML, Http, Request


class GetDocument(Request[dict[str, Any]]):
    """This document."""

    http = Http("GET", "/api/openapi.json")


class GetDocs(Request[str]):
    """This document as a page."""

    http = Http("GET", "/api/docs", media=(HTML,))

    def content_type(self) -> str:
        return HTML
