"""Describes webhooks in the OpenAPI document.

They are not routes of this resolver: another function answers them, or `noetl serve` (docs/triggers.md), so this module describes
those answers (`control.triggers.hooks`).
"""

from __future__ import annotations

from http import HTTPStatus
from typing import Any, Final

from noetl_core.api.request import JSON

PATH: Final = "/api/hooks/{path}/{trigger}"
REFUSED: Final = {"$ref": "#/components/schemas/ErrorBody"}
TAKEN: Final = {
    "type": "object",
    "required": ["status"],
    "properties": {
        "status": {"enum": ["accepted", "ignored"], "description": "ignored: its `match` is false, and nothing starts"},
        "delivery": {"type": "string", "description": "its id, which identifies repetitions"},
        "execution_id": {"type": "string", "description": "the started execution"},
    },
}
CHALLENGE: Final = {"type": "object", "required": ["challenge"], "properties": {"challenge": {}}}
REFUSALS: Final = (400, 401, 403, 409, 410, 413, 422, 429, 503)


def hooks_route() -> dict[str, Any]:
    """Return the path's entry in the document."""
    answers: dict[int, Any] = {200: CHALLENGE, 202: TAKEN, **dict.fromkeys(REFUSALS, REFUSED)}
    return {
        "post": {
            "summary": "A signed request to a webhook: its signature is the only authentication",
            "operationId": "take_webhook",
            "security": [],
            "parameters": [
                {"name": name, "in": "path", "required": True, "description": of, "schema": {"type": "string"}}
                for name, of in (("path", "path of the playbook, with its slashes"), ("trigger", "its name"))
            ],
            "requestBody": {
                "description": "The signed body, up to 4 MB: JSON, a form or text; binary data as application/octet-stream",
                "content": {"application/json": {"schema": {}}, "*/*": {"schema": {"type": "string", "format": "binary"}}},
            },
            "responses": {
                str(status): {"description": HTTPStatus(status).phrase, "content": {JSON: {"schema": schema}}}
                for status, schema in answers.items()
            },
        }
    }
