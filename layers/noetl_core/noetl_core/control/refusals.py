"""Converts errors to responses: a status, and `{"error": {"code", "message", "details", "request_id"}}`, where details are
`{"loc", "message", "hint"}`."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from noetl_core.api.refused import BadRequest

if TYPE_CHECKING:
    from noetl_core.api.shapes import catalog as catalog_shapes
    from noetl_core.api.shapes import service as service_shapes
    from noetl_core.dsl.reading.diagnostics import Diagnostic

log = logging.getLogger(__name__)


class PathsMissing(BadRequest):
    """A credential does not name the playbooks that may use it (HTTP 422). Who acts: the caller."""


TABLE: Final[Mapping[str, tuple[HTTPStatus, str]]] = {
    "noetl_core.control.refusals.PathsMissing": (HTTPStatus.UNPROCESSABLE_ENTITY, "paths_missing"),
    "noetl_core.api.refused.BadRequest": (HTTPStatus.BAD_REQUEST, "malformed"),
    "noetl_core.api.refused.BadCursor": (HTTPStatus.BAD_REQUEST, "malformed"),
    "noetl_core.api.refused.NoRoute": (HTTPStatus.NOT_FOUND, "not_found"),
    "noetl_core.control.catalog.versions.Deleted": (HTTPStatus.GONE, "deleted"),
    "noetl_core.ports.errors.NotFound": (HTTPStatus.NOT_FOUND, "not_found"),
    "noetl_core.api.refused.NotAllowed": (HTTPStatus.FORBIDDEN, "forbidden"),
    "noetl_core.control.admit.KeyReused": (HTTPStatus.CONFLICT, "conflict"),
    "noetl_core.control.lifecycle.operate.NotNow": (HTTPStatus.CONFLICT, "conflict"),
    "noetl_core.engine.callbacks.Forged": (HTTPStatus.FORBIDDEN, "forbidden"),
    "noetl_core.control.callbacks.Answered": (HTTPStatus.CONFLICT, "conflict"),
    "noetl_core.control.callbacks.Gone": (HTTPStatus.GONE, "gone"),
    "noetl_core.control.callbacks.Unfit": (HTTPStatus.UNPROCESSABLE_ENTITY, "unfit_answer"),
    "noetl_core.ports.errors.Forbidden": (HTTPStatus.FORBIDDEN, "forbidden"),
    "noetl_core.ports.errors.TooLarge": (HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "too_large"),
    "noetl_core.control.lifecycle.backfill.BadBackfill": (HTTPStatus.UNPROCESSABLE_ENTITY, "backfill"),
    "noetl_core.control.catalog.versions.BadLabel": (HTTPStatus.UNPROCESSABLE_ENTITY, "label"),
    "noetl_core.control.admit.UnknownPool": (HTTPStatus.UNPROCESSABLE_ENTITY, "unknown_pool"),
    "noetl_core.engine.redrive.plan.BadRedrive": (HTTPStatus.UNPROCESSABLE_ENTITY, "redrive"),
    "noetl_core.engine.workload.BadWorkload": (HTTPStatus.UNPROCESSABLE_ENTITY, "workload"),
    "noetl_core.expr.errors.TemplateError": (HTTPStatus.UNPROCESSABLE_ENTITY, "template"),
    "noetl_core.dsl.reading.diagnostics.InvalidPlaybook": (HTTPStatus.UNPROCESSABLE_ENTITY, "invalid_playbook"),
    "noetl_core.ports.errors.Unavailable": (HTTPStatus.SERVICE_UNAVAILABLE, "unavailable"),
    "noetl_core.ports.errors.CorruptLog": (HTTPStatus.CONFLICT, "corrupt_log"),
    "noetl_core.ports.errors.PortError": (HTTPStatus.SERVICE_UNAVAILABLE, "unavailable"),
}
"""Statuses and codes by the names of exceptions: importing all of the classes takes a third of a start.

The most derived class with a row decides. An exception without one is a bug: 500, and only the log has its reason.
"""


class Refused(NamedTuple):
    """An error response."""

    status: HTTPStatus
    body: service_shapes.ErrorBody


def refusal(error: Exception, request_id: str) -> Refused:
    """Return the response to a request that raised `error`."""
    row = _row(error)
    if row is None:
        log.error("request %s failed: %s", request_id, type(error).__name__, exc_info=error)
        message = "the request failed inside the service; the log has the reason under this request id"
        return _refused(HTTPStatus.INTERNAL_SERVER_ERROR, "internal", message, [], request_id)
    status, code = row
    if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        log.error("request %s is answered %d: %s", request_id, status, error)
    return _refused(status, code, _message(error, code), _details(error, code), request_id)


def code_of(error: Exception) -> str:
    """Return the code for a request that raised `error`."""
    row = _row(error)
    return "internal" if row is None else row[1]


def _row(error: Exception) -> tuple[HTTPStatus, str] | None:
    names = (f"{kind.__module__}.{kind.__qualname__}" for kind in type(error).__mro__)
    return next((TABLE[name] for name in names if name in TABLE), None)


def diagnostic(d: Diagnostic) -> catalog_shapes.Diagnostic:
    """Return a diagnostic in the form of details."""
    from noetl_core.dsl.reading.diagnostics import page_of  # 20 ms: loaded already if a diagnostic was made

    return {
        "loc": f"{d.source}:{d.line}:{d.col}",
        "code": d.code,
        "severity": str(d.severity),
        "message": d.message,
        "hint": d.hint,
        "page": page_of(d.code),
        "line": d.line,
        "col": d.col,
    }


def _refused(status: HTTPStatus, code: str, message: str, details: list[service_shapes.Detail], request_id: str) -> Refused:
    return Refused(status, {"error": {"code": code, "message": message, "details": details, "request_id": request_id}})


def _message(error: Any, code: str) -> str:
    return f"the playbook is not valid: {len(error.diagnostics)} error(s)" if code == "invalid_playbook" else str(error)


def _details(error: Any, code: str) -> list[service_shapes.Detail]:
    if isinstance(error, BadRequest):
        return error.details
    if code == "workload":
        return [{"loc": "body.payload", "message": wrong, "hint": ""} for wrong in error.wrong]
    if code == "unfit_answer":
        return [{"loc": "body", "message": wrong, "hint": "the callback still waits"} for wrong in error.wrong]
    if code == "corrupt_log":
        from noetl_core.control.unreadable_logs import REMEDY  # 30 ms, with its imports

        return [{"loc": "path.execution_id", "message": "its log is unreadable", "hint": REMEDY}]
    if code == "invalid_playbook":
        return [{**diagnostic(d)} for d in error.diagnostics]
    return []
