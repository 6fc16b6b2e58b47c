"""Every operation of the API as a method, over the control plane in this process (`client.api.Api`).

The routes of the HTTP API call it, and so does the command line for its local store. It knows no request: who asks, and whether
they may, is judged before.
"""

from __future__ import annotations

import hmac
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Literal, cast

from noetl_core import __version__
from noetl_core.control import batch, callbacks, credentials, listing, operate, pages, read, waiting
from noetl_core.control import labels as label_rules
from noetl_core.control.admit import StartRequest, admit
from noetl_core.control.catalog_operations import CatalogOperations, named
from noetl_core.control.core import Control
from noetl_core.control.limit_views import limits
from noetl_core.control.looking import Looking, iteration_path, limited
from noetl_core.control.redrive import redrive
from noetl_core.control.refusals import BadRequest, NoRoute, nearest, within
from noetl_core.control.render import render_context
from noetl_core.control.task_names import Asked
from noetl_core.control.triggers.operations import TriggerOperations
from noetl_core.dsl.kinds import KINDS
from noetl_core.dsl.versions import Version
from noetl_core.engine.redrive import From, Redrive
from noetl_core.engine.waits import BY_TOKEN
from noetl_core.frozen import frozen
from noetl_core.ports import NotFound, Secrets, TooLarge, Unavailable

if TYPE_CHECKING:
    from noetl_core.client import following_shapes, limit_shapes, service_shapes, shapes
    from noetl_core.engine.state import State
    from noetl_core.events.shapes import By

ERROR_TYPES: Mapping[str, tuple[type, ...]] = {
    "kind": (str,),
    "message": (str,),
    "code": (str, int),
    "retryable": (bool,),
    "details": (),
}
"""What an error may say, and of which types (none: any)."""


def cursor_key(control: Callable[[], Control]) -> Callable[[], bytes]:
    """The key cursors are signed with: made from the one that the deployment, or the local store, generated for itself.

    It is read when the first cursor is, once per process.
    """

    def key() -> bytes:
        generated = control().callback_key
        if generated is None:
            raise Unavailable("this process has no key to sign cursors with")
        return hmac.digest(generated(), b"noetl cursors", "sha256")

    return key


@frozen
class Operations(CatalogOperations, Looking, TriggerOperations):
    """What the operations stand on; asked for when the first that needs it is called: cold starts stay short.

    `facts` are what only the wiring knows (`runtime`): where it runs, its pools and their limits. `secrets` None: credentials
    are another function's; this one has no way to them.
    """

    secrets: Callable[[], Secrets] | None = None
    by: Callable[[], By | None] = lambda: None
    """Who asks, where that is known."""
    paths_required: bool = False
    """Each credential names the playbooks that may use it: on a stack."""

    # --- the service ---

    def health(self) -> service_shapes.Health:
        return {"status": "ok", "version": __version__, "api_version": "noetl.io/v2", "wiring": self._wiring()}

    def queue(self) -> service_shapes.Backlog:
        """Numbers are SQS's approximations on a stack; of a local store they are this process's own."""
        return cast("service_shapes.Backlog", asdict(self.control().queue.backlog()))

    def limits(self, key: str | None = None) -> limit_shapes.Limits:
        """Limits in use; with `key`, who holds and awaits places in that one."""
        return limits(self.control(), key)

    def runtime(self) -> service_shapes.Runtime:
        """Where work is carried out: there are no standing workers, so a pool is its queue and what may run from it at once."""
        return {**self._wiring(), "version": __version__, "kinds": sorted(KINDS), "pools": dict(self.facts.get("pools", {}))}

    def _wiring(self) -> service_shapes.Wiring:
        known = {k: v for k, v in self.facts.items() if k in ("name", "stack", "region")}
        return cast("service_shapes.Wiring", known)

    # --- executions ---

    def start(
        self,
        *,
        path: str | None = None,
        version: Version = None,
        playbook_id: str | None = None,
        playbook: str | None = None,
        payload: Mapping[str, Any] | None = None,
        ctx: Mapping[str, Any] | None = None,
        idempotency_key: str | None = None,
        parent: Mapping[str, str] | None = None,
        trace_id: str | None = None,
        labels: Mapping[str, str] | None = None,
        priority: float | None = None,
        strict: bool | None = None,
        registers: bool = True,
    ) -> shapes.Started:
        """`registers` as in `StartRequest`. Raises what `admit` raises."""
        if not (path or playbook or playbook_id):
            raise BadRequest("a request names a playbook", "body.path", "give path (and version), playbook_id, or playbook")
        control = self.control()
        path, version = (path, None) if path is None else named(path, version)
        if parent is not None:
            read.load(control, execution_id(parent["execution_id"]))
        request = StartRequest(
            path=path,
            version=version,
            digest=playbook_id,
            playbook=playbook,
            payload=payload or {},
            ctx=ctx or {},
            idempotency_key=idempotency_key,
            parent=parent,
            trace_id=trace_id,
            labels=label_rules.checked(labels or {}),
            priority=priority,
            strict=bool(strict),
            registers=registers,
        )
        started = admit(control, request)
        found = {
            "execution_id": started.execution_id,
            "status": started.status,
            "playbook": read.version_as_dict(started.playbook),
            "created": started.created,
            "warnings": list(started.warnings),
        }
        return cast("shapes.Started", found)

    def executions(
        self,
        *,
        status: str | None = None,
        path: str | None = None,
        since: str | None = None,
        limit: int | None = None,
        cursor: str | None = None,
        search: str | None = None,
        label: str | None = None,
        q: str | None = None,
    ) -> shapes.Executions:
        most = limited(limit, listing.LISTED)
        return listing.page(
            self.control(),
            self.cursor_key,
            status=status,
            path=path,
            since=since,
            limit=most,
            cursor=cursor,
            search=search,
            label=label,
            text=q,
        )

    def execution(self, execution_id: str) -> shapes.Execution:
        return cast("shapes.Execution", read.summary(self.control(), execution_id))

    def state(self, execution_id: str, at: str | None = None) -> shapes.ExecutionState:
        return cast("shapes.ExecutionState", read.state_at(self.control(), execution_id, at))

    def ctx(self, execution_id: str) -> shapes.Ctx:
        return {"execution_id": execution_id, "ctx": read.load(self.control(), execution_id).ctx}

    def render(
        self,
        execution_id: str,
        template: Any,
        step: str | None = None,
        at: str | None = None,
        *,
        task: str | None = None,
        iteration: str | None = None,
    ) -> shapes.Rendered:
        path = None if iteration is None else iteration_path(iteration, "body.iteration")
        found = render_context(self.control(), execution_id, template, Asked(step, task, path), at)
        if len(json.dumps(found["value"], default=str)) > pages.MAX_PAGE_BYTES:
            raise TooLarge(f"what the template gives exceeds {pages.MAX_PAGE_BYTES} bytes")
        return found

    # --- operating ---

    def cancel(self, execution_id: str, *, reason: str | None = None, compensate: bool | None = None) -> shapes.Operated:
        return operated(operate.cancel(self.control(), execution_id, reason or "", compensate=bool(compensate)))

    def pause(self, execution_id: str) -> shapes.Operated:
        return operated(operate.pause(self.control(), execution_id))

    def resume(self, execution_id: str) -> shapes.Operated:
        return operated(operate.resume(self.control(), execution_id))

    def redrive(
        self,
        execution_id: str,
        *,
        begin: str | None = None,
        ctx: Mapping[str, Any] | None = None,
        args: Mapping[str, Any] | None = None,
        playbook: str | None = None,
        version: Version = None,
        preview: bool | None = None,
        registers: bool = True,
    ) -> shapes.Redriven:
        """`registers` as in `StartRequest`. Raises what `control.redrive` raises."""
        _, wanted = named("", version)
        asked = Redrive(None if begin is None else From.parse(begin), dict(ctx or {}), dict(args or {}))
        done = redrive(
            self.control(),
            execution_id,
            asked,
            source=playbook,
            version=wanted,
            preview=bool(preview),
            registers=registers,
        )
        return {**operated(done.state), "redrive": cast("shapes.RedrivePlan", done.shown)}

    def batch(
        self,
        action: Literal["cancel", "pause", "resume", "redrive"],
        *,
        ids: Sequence[str] | None = None,
        status: str | None = None,
        path: str | None = None,
        since: str | None = None,
        until: str | None = None,
        label: str | None = None,
        reason: str | None = None,
        compensate: bool | None = None,
        begin: str | None = None,
        preview: bool | None = None,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> following_shapes.Batch:
        known = None if ids is None else [execution_id(each) for each in ids]
        which = batch.Selection(known, status, path, since, until, label)
        given = batch.Arguments(reason, compensate, begin)
        most = batch.DONE if limit is None else within("limit", limit, 1, batch.MAX_DONE)
        key, control = self.cursor_key, self.control()
        return batch.batch(control, key, which, action, given, preview=bool(preview), limit=most, cursor=cursor)

    def signal(self, execution_id: str, name: str, data: Any = None, signal_id: str | None = None) -> shapes.Operated:
        if name.startswith(BY_TOKEN):
            raise BadRequest(f"names that begin with {BY_TOKEN!r} are answers by token", "body.name", "POST /api/callbacks")
        return operated(operate.signal(self.control(), execution_id, name, data, signal_id))

    def callbacks(self, execution_id: str) -> shapes.OpenCallbacks:
        found = callbacks.open_callbacks(self.control(), execution_id)
        return {"callbacks": cast("list[shapes.OpenCallback]", found)}

    def answer_wait(
        self, execution_id: str, wait_id: str, data: Any = None, error: Mapping[str, Any] | str | None = None
    ) -> shapes.CallbackReply:
        said = None if error is None else task_error(error)
        return _reply(waiting.answer_wait(self.control(), execution_id, wait_id, data, said))

    def wait_heartbeat(self, execution_id: str, wait_id: str) -> shapes.CallbackReply:
        return _reply(waiting.wait_heartbeat(self.control(), execution_id, wait_id))

    def answer_callback(self, token: str, data: Any = None, error: Mapping[str, Any] | str | None = None) -> shapes.CallbackReply:
        said = None if error is None else task_error(error)
        return _reply(callbacks.answer(self.control(), token, data, said))

    def callback_heartbeat(self, token: str) -> shapes.CallbackReply:
        return _reply(callbacks.heartbeat(self.control(), token))

    # --- credentials ---

    def credentials(self, prefix: str | None = None) -> service_shapes.Credentials:
        return {"credentials": credentials.listed(self._secrets(), prefix or "")}

    def credential(self, name: str, *, include_data: bool | None = None) -> service_shapes.Credential:
        return credentials.one(self._secrets(), name, include_data=bool(include_data))

    def put_credential(
        self,
        name: str,
        data: Mapping[str, Any],
        *,
        type: str | None = None,
        description: str | None = None,
        paths: Sequence[str] | None = None,
    ) -> service_shapes.Credential:
        if paths is None and self.paths_required:
            raise credentials.without_paths(name)
        return credentials.put(self._secrets(), name, data, type=type, description=description, paths=paths, by=self.by())

    def delete_credential(self, name: str) -> service_shapes.Deleted:
        return credentials.delete(self._secrets(), name)

    def _secrets(self) -> Secrets:
        if self.secrets is None:
            raise NoRoute("credentials are not served here")
        return self.secrets()


def execution_id(text: str) -> str:
    """`text`, if it can be an execution's id: a decimal number below 2^63. Raises `NotFound`."""
    if not (text.isascii() and text.isdecimal() and len(text) <= 19):
        raise NotFound(f"there is no execution {text}")
    return text


def operated(state: State) -> shapes.Operated:
    """What an operation left the execution at."""
    return cast("shapes.Operated", {"execution_id": state.execution_id, "status": read.status_of(state)})


def task_error(error: Any) -> dict[str, Any]:
    """The error a callback is answered with: `{kind, message, code, retryable, details}`, or a text as its message. Raises
    `BadRequest`."""
    if isinstance(error, str):
        return {"message": error}
    if not isinstance(error, Mapping):
        raise BadRequest("error is {kind, message, code, retryable, details}, or a text", "body.error")
    for key, value in error.items():
        if key not in ERROR_TYPES:
            raise BadRequest(f"unknown key {key!r}", f"body.error.{key}", nearest(key, ERROR_TYPES))
        if value is not None and ERROR_TYPES[key] and type(value) not in ERROR_TYPES[key]:
            wanted = " or ".join(t.__name__ for t in ERROR_TYPES[key])
            raise BadRequest(f"error.{key} is a JSON {type(value).__name__}; {wanted} is expected", f"body.error.{key}")
    return dict(error)


def _reply(reply: callbacks.Reply) -> shapes.CallbackReply:
    return {"execution_id": reply.execution_id, "callback": reply.became}
