"""What the document says of a route's answers: the type of each status, refusals among them."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from noetl_core.client.service_shapes import ErrorBody

GATEWAY = (401, 403, 429)
"""What API Gateway answers before the service is asked."""
JSON = "application/json"


def responses(method: str, path: str, answers: Any, status: int, refuses: tuple[int, ...]) -> dict[int, Any]:
    """Every status a route may answer with, in the form of Powertools. `answers` is a type, or `{status: type or content}`."""
    refused: dict[int, Any] = {s: _body(s, {JSON: {"model": ErrorBody}}) for s in refusals(method, path, refuses)}
    given = answers if isinstance(answers, Mapping) else {status: answers}
    return refused | {int(s): _body(s, a if isinstance(a, Mapping) else {JSON: {"model": a}}) for s, a in given.items()}


def refusals(method: str, path: str, refuses: tuple[int, ...] = ()) -> list[int]:
    """Every status but success that the route may answer with."""
    found = {400, 503, *refuses, *GATEWAY}
    if "{" in path:
        found.add(404)
    if "{execution_id}" in path:
        found.add(409)  # its log does not read
    if method in ("GET", "POST"):
        found.add(413)  # the request, or the answer
    return sorted(found)


def _body(status: int, content: Mapping[str, Any]) -> dict[str, Any]:
    return {"description": HTTPStatus(status).phrase, "content": dict(content)}
