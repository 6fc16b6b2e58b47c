"""What a refused request is answered: a status, and `{"error": {"code", "message", "details", "request_id"}}`, where details are
`{"loc", "message", "hint"}`."""

from __future__ import annotations

import logging
from http import HTTPStatus
from typing import TYPE_CHECKING, NamedTuple

from noetl_core.api.refused import BadRequest, NoRoute, NotAllowed
from noetl_core.control import callbacks, catalog, operate, read
from noetl_core.control.admit import KeyReused, UnknownPool
from noetl_core.control.backfill import BadBackfill
from noetl_core.control.unreadable import REMEDY
from noetl_core.dsl.diagnostics import Diagnostic, InvalidPlaybook, page_of
from noetl_core.engine.redrive import BadRedrive
from noetl_core.engine.workload import BadWorkload
from noetl_core.expr import TemplateError
from noetl_core.ports import CorruptLog, Forbidden, NotFound, PortError, TooLarge, Unavailable

if TYPE_CHECKING:
    from noetl_core.api.shapes import catalog as catalog_shapes
    from noetl_core.api.shapes import service as service_shapes

log = logging.getLogger(__name__)


class PathsMissing(BadRequest):
    """A credential does not name the playbooks that may use it (HTTP 422). Who acts: the caller."""


TABLE: tuple[tuple[type[Exception], HTTPStatus, str], ...] = (
    (PathsMissing, HTTPStatus.UNPROCESSABLE_ENTITY, "paths_missing"),
    (BadRequest, HTTPStatus.BAD_REQUEST, "malformed"),
    (read.BadCursor, HTTPStatus.BAD_REQUEST, "malformed"),
    (NoRoute, HTTPStatus.NOT_FOUND, "not_found"),
    (catalog.Deleted, HTTPStatus.GONE, "deleted"),
    (NotFound, HTTPStatus.NOT_FOUND, "not_found"),
    (NotAllowed, HTTPStatus.FORBIDDEN, "forbidden"),
    (KeyReused, HTTPStatus.CONFLICT, "conflict"),
    (operate.NotNow, HTTPStatus.CONFLICT, "conflict"),
    (callbacks.Forged, HTTPStatus.FORBIDDEN, "forbidden"),
    (callbacks.Answered, HTTPStatus.CONFLICT, "conflict"),
    (callbacks.Gone, HTTPStatus.GONE, "gone"),
    (callbacks.Unfit, HTTPStatus.UNPROCESSABLE_ENTITY, "unfit_answer"),
    (Forbidden, HTTPStatus.FORBIDDEN, "forbidden"),
    (TooLarge, HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "too_large"),
    (BadBackfill, HTTPStatus.UNPROCESSABLE_ENTITY, "backfill"),
    (catalog.BadLabel, HTTPStatus.UNPROCESSABLE_ENTITY, "label"),
    (UnknownPool, HTTPStatus.UNPROCESSABLE_ENTITY, "unknown_pool"),
    (BadRedrive, HTTPStatus.UNPROCESSABLE_ENTITY, "redrive"),
    (BadWorkload, HTTPStatus.UNPROCESSABLE_ENTITY, "workload"),
    (TemplateError, HTTPStatus.UNPROCESSABLE_ENTITY, "template"),
    (InvalidPlaybook, HTTPStatus.UNPROCESSABLE_ENTITY, "invalid_playbook"),
    (Unavailable, HTTPStatus.SERVICE_UNAVAILABLE, "unavailable"),
    (CorruptLog, HTTPStatus.CONFLICT, "corrupt_log"),
    (PortError, HTTPStatus.SERVICE_UNAVAILABLE, "unavailable"),
)
"""The first row whose class fits decides; what fits none is a bug: 500, with its reason in the log alone."""


class Refused(NamedTuple):
    """An answer to a request that was refused."""

    status: HTTPStatus
    body: service_shapes.ErrorBody


def refusal(error: Exception, request_id: str) -> Refused:
    """What a request that raised `error` is answered."""
    for kind, status, code in TABLE:
        if isinstance(error, kind):
            if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
                log.error("request %s is answered %d: %s", request_id, status, error)
            return _refused(status, code, _message(error), _details(error), request_id)
    log.error("request %s failed: %s", request_id, type(error).__name__, exc_info=error)
    message = "the request failed inside the service; the log has the reason under this request id"
    return _refused(HTTPStatus.INTERNAL_SERVER_ERROR, "internal", message, [], request_id)


def code_of(error: Exception) -> str:
    """Return the word for what is wrong with a request that raised `error`."""
    return next((code for kind, _, code in TABLE if isinstance(error, kind)), "internal")


def diagnostic(d: Diagnostic) -> catalog_shapes.Diagnostic:
    """A diagnostic as details show it."""
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


def _message(error: Exception) -> str:
    if isinstance(error, InvalidPlaybook):
        return f"the playbook is not valid: {len(error.diagnostics)} error(s)"
    return str(error)


def _details(error: Exception) -> list[service_shapes.Detail]:
    if isinstance(error, BadRequest):
        return error.details
    if isinstance(error, BadWorkload):
        return [{"loc": "body.payload", "message": wrong, "hint": ""} for wrong in error.wrong]
    if isinstance(error, callbacks.Unfit):
        return [{"loc": "body", "message": wrong, "hint": "the callback still waits"} for wrong in error.wrong]
    if isinstance(error, CorruptLog):
        return [{"loc": "path.execution_id", "message": "its log does not read", "hint": REMEDY}]
    if isinstance(error, InvalidPlaybook):
        return [{**diagnostic(d)} for d in error.diagnostics]
    return []
