"""What the OpenAPI document says of webhooks. They are no route of this resolver: a function of their own answers them, or
`noetl serve` (docs/triggers.md), so here is what it answers (`control.triggers.hooks`)."""

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
        "status": {"enum": ["accepted", "ignored"], "description": "ignored: its `match` does not, and nothing starts"},
        "delivery": {"type": "string", "description": "by which it is the same when it comes again"},
        "execution_id": {"type": "string", "description": "what it starts"},
    },
}
CHALLENGE: Final = {"type": "object", "required": ["challenge"], "properties": {"challenge": {}}}
REFUSALS: Final = (400, 401, 403, 409, 410, 413, 422, 429, 503)


def hooks_route() -> dict[str, Any]:
    """Return the path's entry in the document."""
    answers: dict[int, Any] = {200: CHALLENGE, 202: TAKEN, **dict.fromkeys(REFUSALS, REFUSED)}
    return {
        "post": {
            "summary": "A signed request to a webhook: its signature is all the proof that it takes",
            "operationId": "take_webhook",
            "security": [],
            "parameters": [
                {"name": name, "in": "path", "required": True, "description": of, "schema": {"type": "string"}}
                for name, of in (("path", "of the playbook, with its slashes"), ("trigger", "its name"))
            ],
            "requestBody": {
                "description": "What is signed, of up to 4 MB: JSON, a form or text; what is no text as application/octet-stream",
                "content": {"application/json": {"schema": {}}, "*/*": {"schema": {"type": "string", "format": "binary"}}},
            },
            "responses": {
                str(status): {"description": HTTPStatus(status).phrase, "content": {JSON: {"schema": schema}}}
                for status, schema in answers.items()
            },
        }
    }
