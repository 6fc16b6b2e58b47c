"""The HTTP API (CONTRACT "HTTP API"): requests to control-plane calls, errors to honest statuses."""

from __future__ import annotations

import difflib
import json
import os
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Any, get_args
from urllib.parse import unquote

from aws_lambda_powertools.event_handler import APIGatewayRestResolver, Response
from aws_lambda_powertools.event_handler.exceptions import NotFoundError
from aws_lambda_powertools.utilities.typing import LambdaContext

from noetl_core import __version__
from noetl_core.control import operate, read
from noetl_core.control.admit import KeyReused, StartRequest, admit, register
from noetl_core.control.core import Control
from noetl_core.dsl.diagnostics import Diagnostic, InvalidPlaybook
from noetl_core.dsl.parse import check
from noetl_core.engine.state import State, Status
from noetl_core.ports import CorruptLog, NotFound, PlaybookVersion, PortError, TooLarge, Unavailable

MAX_BODY = 6 * 1024 * 1024
"""Lambda's synchronous payload limit."""
STATUSES = get_args(Status)
START_KEYS = ("path", "version", "playbook_id", "playbook", "payload", "ctx", "idempotency_key", "parent", "trace_id")


class BadRequest(ValueError):
    """The request is malformed (HTTP 400). Who acts: the caller."""

    def __init__(self, message: str, loc: str = "body", hint: str = "") -> None:
        super().__init__(message)
        self.details = [{"loc": loc, "message": message, "hint": hint}]


class Api:
    """The resolver and what its routes stand on. `control` is asked for at the first request: cold starts stay short."""

    def __init__(self, control: Callable[[], Control], cursor_key: bytes) -> None:
        self._control, self._key = control, cursor_key
        self.app = APIGatewayRestResolver(serializer=_json, debug=False)
        self._routes()
        self._errors()

    def resolve(self, event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
        """Answer one API Gateway proxy event."""
        return self.app.resolve(event, context)

    # --- reading requests -----------------------------------------------------------------------------------------------

    def _body(self) -> str:
        try:
            text = self.app.current_event.decoded_body or ""
            size = len(text.encode())
        except ValueError as error:  # not base64, or not UTF-8
            raise BadRequest(f"the body is not text: {error}") from None
        if size > MAX_BODY:
            raise TooLarge(f"the body exceeds {MAX_BODY} bytes")
        return text

    def _object(self, keys: tuple[str, ...]) -> dict[str, Any]:
        """The JSON object of the body; unknown keys are errors with a suggestion."""
        try:
            value = json.loads(self._body() or "{}", parse_constant=_no_number)
        except BadRequest:
            raise
        except (ValueError, RecursionError) as error:
            raise BadRequest(f"the body is not JSON: {error}") from None
        if not isinstance(value, dict):
            raise BadRequest(f"the body is a JSON {type(value).__name__}; an object is expected")
        for key in value:
            if key not in keys:
                near = difflib.get_close_matches(key, keys, 1)
                hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(keys)}"
                raise BadRequest(f"unknown key {key!r}", f"body.{key}", hint)
        return value

    def _query(self, name: str) -> str | None:
        value = self.app.current_event.query_string_parameters.get(name)
        return value or None

    def _limit(self, default: int) -> int:
        text = self._query("limit")
        if text is None:
            return default
        if not text.isdecimal() or not 1 <= int(text) <= read.MAX_PAGE:
            raise BadRequest(f"limit is a number from 1 to {read.MAX_PAGE}", "query.limit")
        return int(text)

    def _rest(self, prefix: str) -> str:
        return unquote(self.app.current_event.path.split(prefix, 1)[1]).strip("/")

    # --- routes ---------------------------------------------------------------------------------------------------------

    def _routes(self) -> None:
        app = self.app
        app.get("/api/health")(self._health)
        app.get("/api/openapi.json")(openapi)
        app.post("/api/playbooks/validate")(self._validate)
        app.post("/api/playbooks")(self._register)
        app.get("/api/playbooks")(self._playbooks)
        app.get("/api/playbooks/.+/versions")(self._versions)
        app.get("/api/playbooks/.+")(self._playbook)
        app.post("/api/executions")(self._start)
        app.get("/api/executions")(self._executions)
        app.get("/api/executions/<execution_id>")(self._execution)
        app.get("/api/executions/<execution_id>/events")(self._events)
        app.get("/api/executions/<execution_id>/state")(self._state)
        app.get("/api/vars/<execution_id>")(self._vars)
        for name in ("cancel", "pause", "resume"):
            app.post(f"/api/executions/<execution_id>/{name}")(self._operation(name))
        app.post("/api/events")(self._signal)
        app.get("/api/queue")(self._queue)

    def _health(self) -> dict[str, Any]:
        return {"status": "ok", "version": __version__, "api_version": "noetl.io/v2"}

    def _validate(self) -> Response[Any]:
        playbook, found = check(self._source()[0], "<body>")
        status = HTTPStatus.OK if playbook is not None else HTTPStatus.UNPROCESSABLE_ENTITY
        return _answer(status, {"valid": playbook is not None, "diagnostics": [_diagnostic(d) for d in found]})

    def _source(self) -> tuple[str, str]:
        """A playbook's text: the body itself (YAML or JSON), or `{"playbook": "..."}`."""
        text = self._body()
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            return text, "<body>"
        if isinstance(value, dict) and isinstance(value.get("playbook"), str) and len(value) == 1:
            return value["playbook"], "<body.playbook>"
        return text, "<body>"

    def _register(self) -> Response[Any]:
        playbook, version = register(self._control(), *self._source())
        return _answer(HTTPStatus.CREATED, {**_version(version), "name": playbook.name})

    def _playbooks(self) -> dict[str, Any]:
        return {"playbooks": [_version(v) for v in self._control().catalog.list(self._query("prefix") or "")]}

    def _versions(self) -> dict[str, Any]:
        path = self._rest("/api/playbooks/").removesuffix("/versions")
        versions = self._control().catalog.versions(path)
        if not versions:
            raise NotFound(f"no playbook {path}")
        return {"versions": [_version(v) for v in versions]}

    def _playbook(self) -> dict[str, Any]:
        wanted = self._query("version")
        if wanted is not None and not wanted.isdecimal():
            raise BadRequest("version is a number", "query.version")
        found = self._control().catalog.get(self._rest("/api/playbooks/"), int(wanted) if wanted else None)
        return {**_version(found), "source": found.source}

    def _start(self) -> Response[Any]:
        body = self._object(START_KEYS)
        for name, kind in (
            ("path", str),
            ("version", int),
            ("playbook", str),
            ("payload", dict),
            ("ctx", dict),
            ("parent", dict),
        ):
            if body.get(name) is not None and type(body[name]) is not kind:  # a bool is no version
                raise BadRequest(f"{name} is a JSON {type(body[name]).__name__}; {kind.__name__} is expected", f"body.{name}")
        if not any(body.get(k) for k in ("path", "playbook", "playbook_id")):
            raise BadRequest("a request names a playbook", "body.path", "give path (and version), playbook_id, or playbook")
        request = StartRequest(
            path=body.get("path"),
            version=body.get("version"),
            digest=body.get("playbook_id"),
            playbook=body.get("playbook"),
            payload=body.get("payload") or {},
            ctx=body.get("ctx") or {},
            idempotency_key=body.get("idempotency_key") or self.app.current_event.headers.get("Idempotency-Key"),
            trace_id=body.get("trace_id"),
        )
        started = admit(self._control(), request)
        out = {"execution_id": started.execution_id, "status": started.status, "playbook": _version(started.playbook)}
        return _answer(HTTPStatus.ACCEPTED, {**out, "created": started.created})

    def _executions(self) -> dict[str, Any]:
        limit = self._limit(50)
        since, status = self._query("since"), self._query("status")
        if status is not None and status not in STATUSES:
            raise BadRequest(f"there is no status {status!r}", "query.status", f"known: {', '.join(STATUSES)}")
        heads = self._control().index.heads(
            status=status,
            path=self._query("path"),
            since=None if since is None else _instant(since),
            limit=limit,
            before=self._query("cursor"),
        )
        cursor = heads[-1].execution_id if len(heads) == limit else None
        return {"executions": [read.head_as_dict(h) for h in heads], "cursor": cursor}

    def _execution(self, execution_id: str) -> dict[str, Any]:
        return read.summary(self._control(), execution_id)

    def _events(self, execution_id: str) -> dict[str, Any]:
        found, cursor = read.events(
            self._control(),
            execution_id,
            name=self._query("name"),
            after=self._query("after"),
            limit=self._limit(read.MAX_PAGE),
            key=self._key,
        )
        return {"events": found, "cursor": cursor}

    def _state(self, execution_id: str) -> dict[str, Any]:
        return read.state_at(self._control(), execution_id, self._query("at"))

    def _vars(self, execution_id: str) -> dict[str, Any]:
        return {"execution_id": execution_id, "ctx": read.load(self._control(), execution_id).ctx}

    def _operation(self, name: str) -> Callable[..., Response[Any]]:
        def act(execution_id: str) -> Response[Any]:
            body = self._object(("reason",))
            if name == "cancel":
                state = operate.cancel(self._control(), execution_id, str(body.get("reason") or ""))
            else:
                state = {"pause": operate.pause, "resume": operate.resume}[name](self._control(), execution_id)
            return _answer(HTTPStatus.ACCEPTED, _status(state))

        return act

    def _signal(self) -> Response[Any]:
        body = self._object(("execution_id", "name", "data", "id"))
        for key in ("execution_id", "name"):
            if not isinstance(body.get(key), str) or not body[key]:
                raise BadRequest(f"{key} is missing", f"body.{key}")
        state = operate.signal(self._control(), body["execution_id"], body["name"], body.get("data"), body.get("id"))
        return _answer(HTTPStatus.ACCEPTED, _status(state))

    def _queue(self) -> dict[str, Any]:
        return {"pools": {"default": {"waiting": self._control().queue.depth("default")}}}

    # --- errors ---------------------------------------------------------------------------------------------------------

    def _errors(self) -> None:
        app = self.app

        @app.not_found
        def no_route(_: NotFoundError) -> Response[Any]:
            return self._refuse(HTTPStatus.NOT_FOUND, "not_found", f"no such resource: {app.current_event.path}")

        table: list[tuple[type[Exception], HTTPStatus, str]] = [
            (BadRequest, HTTPStatus.BAD_REQUEST, "malformed"),
            (read.BadCursor, HTTPStatus.BAD_REQUEST, "malformed"),
            (NotFound, HTTPStatus.NOT_FOUND, "not_found"),
            (KeyReused, HTTPStatus.CONFLICT, "conflict"),
            (operate.NotNow, HTTPStatus.CONFLICT, "conflict"),
            (TooLarge, HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "too_large"),
            (InvalidPlaybook, HTTPStatus.UNPROCESSABLE_ENTITY, "invalid_playbook"),
            (Unavailable, HTTPStatus.SERVICE_UNAVAILABLE, "unavailable"),
            (CorruptLog, HTTPStatus.INTERNAL_SERVER_ERROR, "corrupt_log"),
            (PortError, HTTPStatus.SERVICE_UNAVAILABLE, "unavailable"),
            (Exception, HTTPStatus.INTERNAL_SERVER_ERROR, "internal"),
        ]

        def handler(status: HTTPStatus, code: str) -> Callable[[Exception], Response[Any]]:
            def answer(error: Exception) -> Response[Any]:
                return self._refuse(status, code, _message(error, code), _details(error))

            return answer

        for kind, status, code in table:
            app.exception_handler(kind)(handler(status, code))

    def _refuse(self, status: HTTPStatus, code: str, message: str, details: list[dict[str, Any]] | None = None) -> Response[Any]:
        request_id = getattr(self.app.lambda_context, "aws_request_id", "")
        if code == "internal":
            _log().exception("request failed")
        return _answer(status, {"error": {"code": code, "message": message, "details": details or [], "request_id": request_id}})


def build_resolver(control: Callable[[], Control]) -> Api:
    """The API over a control plane. Cursors are signed with `CURSOR_KEY`, or one derived from the deployment's own names."""
    key = os.environ.get("CURSOR_KEY") or os.environ.get("EVENTS_TABLE", "local")
    return Api(control, key.encode())


def _log() -> Any:
    import logging

    return logging.getLogger(__name__)


def _message(error: Exception, code: str) -> str:
    if code == "internal":
        return "the request failed inside the service; the log has the reason under this request id"
    if isinstance(error, InvalidPlaybook):
        return f"the playbook is not valid: {len(error.diagnostics)} error(s)"
    return str(error)


def _details(error: Exception) -> list[dict[str, Any]]:
    if isinstance(error, BadRequest):
        return error.details
    if isinstance(error, InvalidPlaybook):
        return [_diagnostic(d) for d in error.diagnostics]
    return []


def _diagnostic(d: Diagnostic) -> dict[str, Any]:
    return {
        "loc": f"{d.source}:{d.line}:{d.col}",
        "code": d.code,
        "severity": str(d.severity),
        "message": d.message,
        "hint": d.hint,
        "line": d.line,
        "col": d.col,
    }


def _version(v: PlaybookVersion) -> dict[str, Any]:
    return {"path": v.path, "version": v.version, "digest": v.digest}


def _status(state: State) -> dict[str, Any]:
    return {"execution_id": state.execution_id, "status": read.status_of(state)}


def _instant(text: str) -> int:
    from datetime import UTC, datetime

    try:
        at = datetime.fromisoformat(text)
    except ValueError as error:
        raise BadRequest(f"since is not an instant: {error}", "query.since") from None
    return int((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() * 1_000_000)


def _no_number(text: str) -> None:
    raise BadRequest(f"{text} is not JSON: numbers are finite")


def _json(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), default=str)


def _answer(status: HTTPStatus, body: Mapping[str, Any]) -> Response[Any]:
    return Response(int(status), "application/json", _json(body))


ROUTES: tuple[tuple[str, str, str, int], ...] = (
    ("get", "/api/health", "Liveness and versions", 200),
    ("post", "/api/playbooks", "Register a playbook (YAML or JSON)", 201),
    ("get", "/api/playbooks", "Registered playbooks, by prefix", 200),
    ("post", "/api/playbooks/validate", "Validate a playbook", 200),
    ("get", "/api/playbooks/{path}", "One playbook, latest or a version", 200),
    ("get", "/api/playbooks/{path}/versions", "Versions of a playbook", 200),
    ("post", "/api/executions", "Start an execution", 202),
    ("get", "/api/executions", "Executions, newest first", 200),
    ("get", "/api/executions/{execution_id}", "Summary of an execution", 200),
    ("get", "/api/executions/{execution_id}/events", "History in causal order", 200),
    ("get", "/api/executions/{execution_id}/state", "State now or at an event", 200),
    ("post", "/api/executions/{execution_id}/cancel", "Cancel", 202),
    ("post", "/api/executions/{execution_id}/pause", "Pause", 202),
    ("post", "/api/executions/{execution_id}/resume", "Resume", 202),
    ("get", "/api/vars/{execution_id}", "ctx of an execution", 200),
    ("post", "/api/events", "A named signal", 202),
    ("get", "/api/queue", "Commands waiting", 200),
    ("get", "/api/openapi.json", "This document", 200),
)


def openapi() -> dict[str, Any]:
    """The OpenAPI document of the routes above."""
    paths: dict[str, dict[str, Any]] = {}
    for method, path, text, status in ROUTES:
        names = [part[1:-1] for part in path.split("/") if part.startswith("{")]
        parameters = [{"name": n, "in": "path", "required": True, "schema": {"type": "string"}} for n in names]
        entry: dict[str, Any] = {
            "summary": text,
            "responses": {str(status): {"description": "ok"}, "default": {"description": "error"}},
        }
        if parameters:
            entry["parameters"] = parameters
        if method == "post":
            entry["requestBody"] = {"content": {"application/json": {"schema": {"type": "object"}}}}
        paths.setdefault(path, {})[method] = entry
    return {"openapi": "3.1.0", "info": {"title": "NoETL", "version": __version__}, "paths": paths}
