"""Routes of the catalog."""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated, Any

from noetl_core import strict_json
from noetl_core.client import shapes, view_shapes
from noetl_core.control.api.callers import SEES, WRITES
from noetl_core.control.api.parameters import PlaybookPath, Switch, asked, on, written
from noetl_core.control.api.reading import body_text
from noetl_core.control.api.resolver import Resolver
from noetl_core.control.operations import SOURCE

TEXT = "A playbook as YAML or JSON, or `{playbook: text}`"
BODY = {
    "requestBody": {
        "required": True,
        "description": TEXT,
        "content": {"application/yaml": {"schema": {"type": "string"}}, "application/json": {"schema": {"type": "object"}}},
    }
}
Version = Annotated[int, written("version", 0, 999_999_999)]


def source(text: str) -> tuple[str, str]:
    """A playbook's text, and what it is called in diagnostics: the body itself (YAML or JSON), or `{"playbook": "..."}`."""
    try:
        value = strict_json.loads(text)
    except ValueError:  # the reader of playbooks says what is wrong with it
        return text, SOURCE
    if isinstance(value, dict) and isinstance(value.get("playbook"), str) and len(value) == 1:
        return value["playbook"], "<body.playbook>"
    return text, SOURCE


def add(app: Resolver) -> None:
    """Add them."""
    operations = app.service.operations

    @app.operation(
        "POST",
        "/api/playbooks",
        f"Register. {TEXT}",
        shapes.RegisteredPlaybook,
        right=WRITES,
        status=HTTPStatus.CREATED,
        refuses=(422,),
        extensions=BODY,
    )
    def register_playbook() -> Any:
        return operations.register(*source(body_text(app.current_event)))

    @app.operation("GET", "/api/playbooks", "Registered playbooks", shapes.Playbooks, right=SEES)
    def list_playbooks(prefix: Annotated[str | None, asked("whose path begins so")] = None) -> Any:
        return operations.playbooks(prefix)

    @app.operation(
        "POST",
        "/api/playbooks/validate",
        f"Validate. {TEXT}",
        {HTTPStatus.OK: shapes.Validation, HTTPStatus.UNPROCESSABLE_ENTITY: shapes.Validation},
        right=SEES,
        extensions=BODY,
    )
    def validate_playbook() -> Any:
        found = operations.validate(source(body_text(app.current_event))[0])
        return found, HTTPStatus.OK if found["valid"] else HTTPStatus.UNPROCESSABLE_ENTITY

    @app.operation(
        "POST",
        "/api/playbooks/graph",
        f"Steps and arcs of a text, as they would be drawn. {TEXT}",
        view_shapes.PlaybookGraph,
        right=SEES,
        refuses=(422,),
        extensions=BODY,
    )
    def graph_playbook(layout: Annotated[Switch, asked("1: with where steps and arcs are drawn")] = "0") -> Any:
        return operations.playbook_graph(source(body_text(app.current_event))[0], layout=on(layout))

    @app.operation("GET", "/api/playbooks/{path+}/versions", "Versions of a playbook", shapes.PlaybookVersions, right=SEES)
    def list_versions(path: PlaybookPath) -> Any:
        return operations.playbook_versions(path)

    @app.operation("GET", "/api/playbooks/{path+}", "One playbook with its text", shapes.PlaybookSource, right=SEES)
    def get_playbook(
        path: PlaybookPath, version: Annotated[Version | None, asked("a number, the latest by default")] = None
    ) -> Any:
        return operations.playbook(path, version)
