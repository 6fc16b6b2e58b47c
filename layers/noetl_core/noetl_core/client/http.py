"""The API over HTTP."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, cast
from urllib.parse import quote

from noetl_core import __version__
from noetl_core.client.authorization import authorize
from noetl_core.client.errors import Refused, Unreachable
from noetl_core.client.looking import Looking, path_of

if TYPE_CHECKING:
    import httpx

    from noetl_core.client import (
        catalog_shapes,
        following_shapes,
        limit_shapes,
        service_shapes,
        shapes,
        trigger_shapes,
    )
    from noetl_core.dsl.versions import Version

ATTEMPTS = 8
"""How often a request answered with 429 is sent: nothing was done, and `Retry-After` says when to retry."""
LONGEST_WAIT_S = 10.0


class Client(Looking):
    """The operations of the API at `url`, which ends before `/api`. All raise `Refused` and
    `Unreachable`.

    With a `token`, requests
    carry it (over TLS, or to this machine). Without one they are signed with the AWS credentials of the process if the API
    is on AWS; emulators and proxies are called unsigned. `timeout_s` is for one request.
    """

    agent = f"noetl-client/{__version__}"
    """The user agent of requests."""

    def __init__(self, url: str, *, token: str | None = None, timeout_s: float = 60.0) -> None:
        self.url = url.rstrip("/")
        self._token = token
        self._timeout_s = timeout_s

    # --- the service ---

    def health(self) -> service_shapes.Health:
        return cast("service_shapes.Health", self._get("health"))

    def queue(self) -> service_shapes.Backlog:
        return cast("service_shapes.Backlog", self._get("queue"))

    def runtime(self) -> service_shapes.Runtime:
        return cast("service_shapes.Runtime", self._get("runtime"))

    def limits(self, key: str | None = None) -> limit_shapes.Limits:
        return cast("limit_shapes.Limits", self._get("limits", key=key))

    # --- catalog ---

    def register(self, source: str) -> catalog_shapes.RegisteredPlaybook:
        return cast("catalog_shapes.RegisteredPlaybook", self._post("playbooks", source))

    def validate(self, source: str) -> catalog_shapes.Validation:
        return cast("catalog_shapes.Validation", self._json("POST", "playbooks/validate", source, {}, also=(422,)))

    def playbooks(
        self, prefix: str | None = None, *, tag: str | None = None, deleted: bool | None = None
    ) -> catalog_shapes.Playbooks:
        return cast("catalog_shapes.Playbooks", self._get("playbooks", prefix=prefix, tag=tag, deleted=deleted))

    def playbook(self, path: str, version: Version = None) -> catalog_shapes.PlaybookSource:
        return cast("catalog_shapes.PlaybookSource", self._get(f"playbooks/{quote(path)}", version=version))

    def playbook_versions(self, path: str) -> catalog_shapes.PlaybookVersions:
        return cast("catalog_shapes.PlaybookVersions", self._get(f"playbooks/{quote(path)}/versions"))

    def about_playbook(self, path: str) -> catalog_shapes.AboutPlaybook:
        return cast("catalog_shapes.AboutPlaybook", self._get(f"playbooks/{quote(path)}/about"))

    def set_alias(self, path: str, name: str, weights: Mapping[int, int] | None) -> catalog_shapes.AboutPlaybook:
        to = {"remove": True} if weights is None else {"weights": {str(v): w for v, w in weights.items()}}
        return cast("catalog_shapes.AboutPlaybook", self._post(f"playbooks/{quote(path)}/aliases", {"name": name, **to}))

    def tag_playbook(self, path: str, add: Sequence[str] = (), remove: Sequence[str] = ()) -> catalog_shapes.AboutPlaybook:
        body = {"add": list(add), "remove": list(remove)}
        return cast("catalog_shapes.AboutPlaybook", self._post(f"playbooks/{quote(path)}/tags", body))

    def delete_playbook(self, path: str) -> catalog_shapes.AboutPlaybook:
        return cast("catalog_shapes.AboutPlaybook", self._json("DELETE", f"playbooks/{quote(path)}", None, {}))

    def undelete_playbook(self, path: str) -> catalog_shapes.AboutPlaybook:
        return cast("catalog_shapes.AboutPlaybook", self._post(f"playbooks/{quote(path)}/undelete", {}))

    def backfill(
        self,
        path: str,
        begin: str,
        end: str,
        *,
        version: Version = None,
        trigger: str | None = None,
        parallel: int | None = None,
        again: str | None = None,
        preview: bool | None = None,
    ) -> catalog_shapes.BackfillStarted:
        body = {
            "from": begin,
            "to": end,
            "version": version,
            "trigger": trigger,
            "parallel": parallel,
            "again": again,
            "preview": preview,
        }
        return cast("catalog_shapes.BackfillStarted", self._post(f"playbooks/{quote(path)}/backfill", body))

    # --- triggers ---

    def triggers(self, path: str | None = None, kind: str | None = None) -> trigger_shapes.Triggers:
        return cast("trigger_shapes.Triggers", self._get("triggers", path=path, kind=kind))

    def trigger(self, path: str, name: str) -> trigger_shapes.TriggerDetails:
        return cast("trigger_shapes.TriggerDetails", self._get(_trigger(path, name)))

    def switch_trigger(self, path: str, name: str, *, on: bool) -> trigger_shapes.Trigger:
        return cast("trigger_shapes.Trigger", self._post(_trigger(path, name, "enable" if on else "disable"), {}))

    def fire_trigger(
        self,
        path: str,
        name: str,
        *,
        at: str | None = None,
        event: Mapping[str, Any] | None = None,
        idempotency_key: str | None = None,
    ) -> trigger_shapes.Firing:
        body = {"at": at, "event": event, "idempotency_key": idempotency_key}
        return cast("trigger_shapes.Firing", self._post(_trigger(path, name, "fire"), body))

    def refused(self, path: str | None = None, limit: int | None = None) -> trigger_shapes.RefusedDeliveries:
        return cast("trigger_shapes.RefusedDeliveries", self._get("refused", path=path, limit=limit))

    def fire_refused(self, id: str) -> trigger_shapes.Firing:
        return cast("trigger_shapes.Firing", self._post(f"refused/{quote(id, safe='')}/fire", {}))

    def forget_refused(self, id: str) -> trigger_shapes.Forgotten:
        return cast("trigger_shapes.Forgotten", self._json("DELETE", f"refused/{quote(id, safe='')}", None, {}))

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
    ) -> shapes.Started:
        body = {
            "path": path,
            "version": version,
            "playbook_id": playbook_id,
            "playbook": playbook,
            "payload": payload,
            "ctx": ctx,
            "idempotency_key": idempotency_key,
            "parent": parent,
            "trace_id": trace_id,
            "labels": labels,
            "priority": priority,
            "strict": strict,
        }
        return cast("shapes.Started", self._post("executions", body))

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
        asked = {"status": status, "path": path, "since": since, "limit": limit, "cursor": cursor}
        found = self._get("executions", **asked, search=search, label=label, q=q)
        return cast("shapes.Executions", found)

    def execution(self, execution_id: str) -> shapes.Execution:
        return cast("shapes.Execution", self._get(path_of(execution_id)))

    def state(self, execution_id: str, at: str | None = None) -> shapes.ExecutionState:
        return cast("shapes.ExecutionState", self._get(path_of(execution_id, "state"), at=at))

    def ctx(self, execution_id: str) -> shapes.Ctx:
        return cast("shapes.Ctx", self._get(f"vars/{quote(execution_id, safe='')}"))

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
        where = {"step": step, "at": at, "task": task, "iteration": iteration}
        body = {"execution_id": execution_id, "template": template, **where}
        return cast("shapes.Rendered", self._post("context/render", body))

    # --- operating ---

    def cancel(self, execution_id: str, *, reason: str | None = None, compensate: bool | None = None) -> shapes.Operated:
        body = {"reason": reason, "compensate": compensate}
        return cast("shapes.Operated", self._post(path_of(execution_id, "cancel"), body))

    def pause(self, execution_id: str) -> shapes.Operated:
        return cast("shapes.Operated", self._post(path_of(execution_id, "pause"), {}))

    def resume(self, execution_id: str) -> shapes.Operated:
        return cast("shapes.Operated", self._post(path_of(execution_id, "resume"), {}))

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
    ) -> shapes.Redriven:
        body = {"from": begin, "ctx": ctx, "args": args, "playbook": playbook, "version": version, "preview": preview}
        return cast("shapes.Redriven", self._post(path_of(execution_id, "redrive"), body))

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
        which = {"ids": ids, "status": status, "path": path, "since": since, "until": until, "label": label}
        given = {"reason": reason, "compensate": compensate, "from": begin}
        body = {
            "filter": {name: value for name, value in which.items() if value is not None},
            "action": action,
            "with": {name: value for name, value in given.items() if value is not None},
            "preview": preview,
            "limit": limit,
            "cursor": cursor,
        }
        return cast("following_shapes.Batch", self._post("executions/batch", body))

    def signal(self, execution_id: str, name: str, data: Any = None, signal_id: str | None = None) -> shapes.Operated:
        body = {"execution_id": execution_id, "name": name, "data": data, "id": signal_id}
        return cast("shapes.Operated", self._post("events", body))

    def callbacks(self, execution_id: str) -> shapes.OpenCallbacks:
        return cast("shapes.OpenCallbacks", self._get(path_of(execution_id, "callbacks")))

    def answer_wait(
        self, execution_id: str, wait_id: str, data: Any = None, error: Mapping[str, Any] | str | None = None
    ) -> shapes.CallbackReply:
        answer = {"data": data} if error is None else {"status": "error", "error": error}
        return cast("shapes.CallbackReply", self._post(path_of(execution_id, f"callbacks/{quote(wait_id, safe='')}"), answer))

    def wait_heartbeat(self, execution_id: str, wait_id: str) -> shapes.CallbackReply:
        beat = {"heartbeat": True}
        return cast("shapes.CallbackReply", self._post(path_of(execution_id, f"callbacks/{quote(wait_id, safe='')}"), beat))

    def answer_callback(self, token: str, data: Any = None, error: Mapping[str, Any] | str | None = None) -> shapes.CallbackReply:
        answer = {"data": data} if error is None else {"status": "error", "error": error}
        return cast("shapes.CallbackReply", self._post("callbacks", {"token": token, **answer}))

    def callback_heartbeat(self, token: str) -> shapes.CallbackReply:
        return cast("shapes.CallbackReply", self._post("callbacks", {"token": token, "heartbeat": True}))

    # --- credentials ---

    def credentials(self, prefix: str | None = None) -> service_shapes.Credentials:
        return cast("service_shapes.Credentials", self._get("credentials", prefix=prefix))

    def credential(self, name: str, *, include_data: bool | None = None) -> service_shapes.Credential:
        return cast("service_shapes.Credential", self._get(f"credentials/{quote(name)}", include_data=include_data))

    def put_credential(
        self,
        name: str,
        data: Mapping[str, Any],
        *,
        type: str | None = None,
        description: str | None = None,
        paths: Sequence[str] | None = None,
    ) -> service_shapes.Credential:
        body = {"name": name, "data": data, "type": type, "description": description, "paths": paths}
        return cast("service_shapes.Credential", self._post("credentials", body))

    def delete_credential(self, name: str) -> service_shapes.Deleted:
        return cast("service_shapes.Deleted", self._json("DELETE", f"credentials/{quote(name)}", None, {}))

    # --- the way ---

    def send(
        self,
        method: str,
        what: str,
        body: Mapping[str, Any] | str | None,
        query: Mapping[str, Any],
        also: tuple[int, ...] = (),
        headers: Mapping[str, str] | None = None,
    ) -> str:
        """The text of an answer to a request for `/api/{what}`; a text as body is YAML. `also` are statuses beside 2xx whose
        bodies are what was asked for; of one that has not changed it is empty. Raises `Refused`, `Unreachable`."""
        import httpx  # 280 ms: a client that is made and not used costs nothing

        url = f"{self.url}/api/{what}"
        kind = "application/yaml" if isinstance(body, str) else "application/json"
        content = body if isinstance(body, str | None) else json.dumps(body)
        params = {name: _word(value) for name, value in query.items() if value is not None}
        sent = {"content-type": kind, "user-agent": self.agent, **(headers or {})}
        request = httpx.Request(
            method,
            url,
            params=params or None,
            content=content,
            headers=sent,
        )
        authorize(request, self._token)
        try:
            with httpx.Client(timeout=self._timeout_s, trust_env=False) as client:
                for attempt in range(1, ATTEMPTS + 1):
                    answer = client.send(request)
                    if answer.status_code != 429 or attempt == ATTEMPTS:
                        break
                    time.sleep(_wait_s(answer.headers.get("retry-after", "")))
        except httpx.HTTPError as error:
            raise Unreachable(f"{url}: {error}") from None
        if answer.status_code == 304:
            return ""
        if answer.is_success or (answer.status_code in also and "error" not in _object(answer)):
            return answer.text
        said = _object(answer).get("error")
        if not isinstance(said, dict) or "message" not in said:
            raise Unreachable(f"{url}: HTTP {answer.status_code}: {answer.text[:300]}")
        raise Refused(answer.status_code, said)


def _trigger(path: str, name: str, verb: str = "") -> str:
    return f"triggers/{quote(path)}/{quote(name, safe='')}" + (f"/{verb}" if verb else "")


def _word(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _wait_s(retry_after: str) -> float:
    """Seconds to wait according to `Retry-After`; one second without it."""
    return min(float(retry_after), LONGEST_WAIT_S) if retry_after.isdecimal() else 1.0


def _object(answer: httpx.Response) -> dict[str, Any]:
    try:
        value = answer.json()
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}
