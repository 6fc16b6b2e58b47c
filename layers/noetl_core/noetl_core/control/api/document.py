"""The OpenAPI document: every route with what it takes and, for each status, what it answers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from noetl_core import __version__
from noetl_core.control.api.hooks_route import PATH, hooks_route
from noetl_core.control.api.resolver import Resolver
from noetl_core.events.schema import event_schema

EVENT_PARTS = "#/components/schemas/Event."
"""Where the parts of an event's schema are: each event, its payload's shapes."""
UNUSED = ("HTTPValidationError", "ValidationError")
"""What Powertools adds for answers that this API does not give."""
ABOUT = (
    "Errors say what is wrong, where, and what to do. Unknown parameters and keys are refused. "
    "Cursors and ids are texts to be given back as they came."
)


def document_of(app: Resolver) -> dict[str, Any]:
    """The OpenAPI 3.1 document of a resolver that is `documented`."""
    made: dict[str, Any] = json.loads(
        app.get_openapi_json_schema(title="NoETL", version=__version__, openapi_version="3.1.0", description=ABOUT)
    )
    del made["servers"]  # it is served where the API is: a stage, a domain of somebody's own
    schemas = made["components"]["schemas"]
    for name in UNUSED:
        schemas.pop(name, None)
    event = event_schema(EVENT_PARTS)
    schemas |= {f"Event.{name}": part for name, part in event.pop("$defs").items()}
    schemas["Event"] = {key: value for key, value in event.items() if key != "$schema"}
    for schema in _titled(made):
        schema.pop("title", None)  # the name again
    for methods in made["paths"].values():
        for operation in methods.values():
            operation["responses"] = dict(sorted(operation["responses"].items()))
            for parameter in operation.get("parameters", ()):
                parameter["schema"] = _never_null(parameter["schema"])
    made["paths"][PATH] = hooks_route()
    return made


def _never_null(schema: dict[str, Any]) -> dict[str, Any]:
    """Of a parameter that may be left out: where it is there, it is a text."""
    given = [part for part in schema.get("anyOf", ()) if part != {"type": "null"}]
    found = given[0] if len(given) == 1 else schema
    return {k: v for k, v in found.items() if k != "description"}


def _titled(value: Any) -> Iterator[dict[str, Any]]:
    """Schemas that have a title, in all of the document."""
    if isinstance(value, list):
        for part in value:
            yield from _titled(part)
    elif isinstance(value, dict):
        if isinstance(value.get("title"), str) and "version" not in value:
            yield value
        for part in value.values():
            yield from _titled(part)
