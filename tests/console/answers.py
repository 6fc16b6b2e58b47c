"""Queries the API for comparison with a page."""

from __future__ import annotations

import json
from typing import Any

from noetl_console.answering import Asked
from tests.console.sample_store import Stored


def asked(stored: Stored, path: str, query: str = "") -> Any:
    """Return the answer of the API."""
    answered = stored.server.api.answer(Asked("GET", f"/api/{path}", query))
    assert answered.status == 200, answered.body
    return json.loads(answered.body)
