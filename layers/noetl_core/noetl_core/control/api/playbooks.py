"""Routes of the catalog."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

from noetl_core import strict_json
from noetl_core.control.admit import register
from noetl_core.control.api.call import Answer, BadRequest, Call, Route
from noetl_core.control.api.errors import diagnostic
from noetl_core.control.read import version_as_dict
from noetl_core.dsl.parse import check
from noetl_core.ports import NotFound


def validate(call: Call) -> Answer:
    playbook, found = check(_source(call)[0], "<body>")
    status = HTTPStatus.OK if playbook is not None else HTTPStatus.UNPROCESSABLE_ENTITY
    return Answer(status, {"valid": playbook is not None, "diagnostics": [diagnostic(d) for d in found]})


def put(call: Call) -> dict[str, Any]:
    playbook, version = register(call.control, *_source(call))
    return {**version_as_dict(version), "name": playbook.name}


def _source(call: Call) -> tuple[str, str]:
    """A playbook's text: the body itself (YAML or JSON), or `{"playbook": "..."}`."""
    text = call.text()
    try:
        value = strict_json.loads(text)
    except ValueError:  # the reader of playbooks says what is wrong with it
        return text, "<body>"
    if isinstance(value, dict) and isinstance(value.get("playbook"), str) and len(value) == 1:
        return value["playbook"], "<body.playbook>"
    return text, "<body>"


def listed(call: Call) -> dict[str, Any]:
    return {"playbooks": [version_as_dict(v) for v in call.control.catalog.list(call.argument("prefix") or "")]}


def versions(call: Call) -> dict[str, Any]:
    path = call.params["path"]
    found = call.control.catalog.versions(path)
    if not found:
        raise NotFound(f"no playbook {path}")
    return {"versions": [version_as_dict(v) for v in found]}


def one(call: Call) -> dict[str, Any]:
    wanted = call.argument("version")
    if wanted is not None and not (wanted.isdecimal() and len(wanted) < 10):
        raise BadRequest("version is a number", "query.version")
    found = call.control.catalog.get(call.params["path"], int(wanted) if wanted else None)
    return {**version_as_dict(found), "source": found.source}


TEXT = "A playbook as YAML or JSON, or `{playbook: text}`"

ROUTES = (
    Route("POST", "/api/playbooks", f"Register. {TEXT}", put, HTTPStatus.CREATED, refuses=(422,), right="playbooks:write"),
    Route(
        "GET", "/api/playbooks", "Registered playbooks", listed, query={"prefix": "whose path begins so"}, right="playbooks:read"
    ),
    Route("POST", "/api/playbooks/validate", f"Validate. {TEXT}", validate, refuses=(422,), right="playbooks:read"),
    Route(
        "GET",
        "/api/playbooks/{path+}",
        "One playbook with its text",
        one,
        query={"version": "a number, the latest by default"},
        right="playbooks:read",
    ),
    Route("GET", "/api/playbooks/{path+}/versions", "Versions of a playbook", versions, right="playbooks:read"),
)
