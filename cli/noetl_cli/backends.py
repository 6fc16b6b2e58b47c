"""Where executions are: the local store in this process, or a stack behind its HTTP API. Commands see one interface."""

from __future__ import annotations

import json
import os
import shlex
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from noetl_cli.errors import FAILED, TIMEOUT, UNREACHABLE, USAGE, Exit, Stopped, say

if TYPE_CHECKING:
    from noetl_core.control.api import Answer, Service
    from noetl_core.local import LocalWiring

MEMORY = ":memory:"
TERMINAL = frozenset({"completed", "failed", "cancelled"})
STOPPED = TERMINAL | {"paused", "stuck"}
POLL_S = 0.2
PATIENCE_S = 10.0
"""How long a stack that has accepted an execution may be silent before following it is given up."""
LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})
ATTEMPTS = 8
"""How often a request is sent that is answered 429: nothing was done, and `Retry-After` says when to come again."""
LONGEST_WAIT_S = 10.0
PAGE = 1000
"""Events asked for at once: the API's limit."""
Tick = Callable[[], None]


class Backend(Protocol):
    """What commands need of a wiring. All raise `Exit` with the right code."""

    name: str

    @property
    def novel(self) -> str:
        """Where state is kept, in words, when that is news."""
        ...

    @property
    def absent(self) -> str:
        """Where state was looked for, in words, when there is none yet."""
        ...

    def start(
        self, *, source: str | None, path: str | None, version: int | None, payload: dict[str, Any], key: str | None
    ) -> dict[str, Any]: ...

    def follow(self, execution_id: str, timeout: float | None, tick: Tick) -> None:
        """Until the execution ends or stands still for a reason; raises `Exit(124)` when `timeout` comes first."""
        ...

    def news(self, execution_id: str) -> Callable[[], list[Mapping[str, Any]]] | None:
        """Envelopes as this process makes them, when it carries the execution out itself; None: ask for them."""
        ...

    def get(self, what: str, **query: Any) -> dict[str, Any]:
        """A read of the API: `executions/ID`, `executions/ID/events`, `playbooks`, ..."""
        ...

    def post(self, what: str, body: dict[str, Any] | str, **query: Any) -> dict[str, Any]: ...

    def delete(self, what: str) -> dict[str, Any]: ...

    def text(self, what: str, **query: Any) -> str:
        """A read of the API that answers with text: a drawing."""
        ...

    def close(self) -> None: ...


class StackBackend:
    """Over HTTP. The URL is `NOETL_API_URL`, or that of the stack brought up last."""

    name = "stack"
    novel = absent = ""

    def __init__(self, url: str) -> None:
        self.url = url.rstrip("/")

    @classmethod
    def find(cls) -> StackBackend:
        url = os.environ.get("NOETL_API_URL")
        if not url:
            from noetl_infra.stack import absent as stack_absent
            from noetl_infra.stack import current

            stack = current()
            if stack is None or not stack.api_url:
                raise Exit(UNREACHABLE, f"{stack_absent()}: run `noetl up`, or set NOETL_API_URL")
            url = stack.api_url
        return cls(url)

    def start(
        self, *, source: str | None, path: str | None, version: int | None, payload: dict[str, Any], key: str | None
    ) -> dict[str, Any]:
        body: dict[str, Any] = {"payload": payload}
        body |= {"playbook": source} if source is not None else {"path": path}
        if version is not None:
            body["version"] = version
        if key is not None:
            body["idempotency_key"] = key
        return self.post("executions", body)

    def follow(self, execution_id: str, timeout: float | None, tick: Tick) -> None:
        until = None if timeout is None else time.monotonic() + timeout
        answered = time.monotonic()
        try:
            while True:
                try:
                    if self.get(f"executions/{execution_id}/state")["status"] in STOPPED:
                        tick()
                        return
                    tick()
                    answered = time.monotonic()
                except Exit as end:
                    if end.code != UNREACHABLE or time.monotonic() - answered > PATIENCE_S:
                        raise
                if until is not None and time.monotonic() > until:
                    raise Exit(TIMEOUT, f"execution {execution_id} did not end within {timeout:g} s; it goes on")
                time.sleep(POLL_S)
        except Stopped as stopped:
            message = f"execution {execution_id} goes on; `noetl watch {execution_id} --on stack` follows it again"
            raise Exit(stopped.code, message) from None

    def news(self, execution_id: str) -> None:
        return None

    def get(self, what: str, **query: Any) -> dict[str, Any]:
        return self._call("GET", what, None, _given(query))

    def post(self, what: str, body: dict[str, Any] | str, **query: Any) -> dict[str, Any]:
        return self._call("POST", what, body, _given(query))

    def delete(self, what: str) -> dict[str, Any]:
        return self._call("DELETE", what, None, {})

    def close(self) -> None:
        """Nothing is held."""

    def text(self, what: str, **query: Any) -> str:
        return self._send("GET", what, None, _given(query))

    def _call(self, method: str, what: str, body: dict[str, Any] | str | None, query: dict[str, Any]) -> dict[str, Any]:
        text = self._send(method, what, body, query)
        try:
            return json.loads(text)  # type: ignore[no-any-return]
        except ValueError:
            raise Exit(UNREACHABLE, f"{self.url}/api/{what}: not JSON: {text[:300]}") from None

    def _send(self, method: str, what: str, body: dict[str, Any] | str | None, query: dict[str, Any]) -> str:
        import httpx

        url = f"{self.url}/api/{what}"
        content = body if isinstance(body, str) else None if body is None else json.dumps(body)
        kind = "application/yaml" if isinstance(body, str) else "application/json"
        request = httpx.Request(method, url, params=query or None, content=content, headers={"content-type": kind})
        _sign(request)
        try:
            with httpx.Client(timeout=60, trust_env=False) as client:
                for attempt in range(1, ATTEMPTS + 1):
                    answer = client.send(request)
                    if answer.status_code != 429 or attempt == ATTEMPTS:
                        break
                    time.sleep(_wait_s(answer.headers.get("retry-after", "")))
        except httpx.HTTPError as error:
            raise Exit(UNREACHABLE, f"{url}: {error}") from None
        if answer.is_success:
            return answer.text
        try:
            value = answer.json()
        except ValueError:
            raise Exit(UNREACHABLE, f"{url}: HTTP {answer.status_code}: {answer.text[:300]}") from None
        raise _refused(answer.status_code, value)


def _wait_s(retry_after: str) -> float:
    """Seconds to wait by a `Retry-After`; one where it has none."""
    return min(float(retry_after), LONGEST_WAIT_S) if retry_after.isdecimal() else 1.0


def _given(query: Mapping[str, Any]) -> dict[str, str]:
    return {k: str(v) for k, v in query.items() if v is not None}


def _refused(status: int, value: Any) -> Exit:
    error = value.get("error") if isinstance(value, dict) else None
    if not isinstance(error, dict):
        return Exit(UNREACHABLE, f"HTTP {status}: {json.dumps(value)[:300]}")
    lines = [error["message"]]
    for d in error.get("details", ()):
        hint = f" ({d['hint']})" if d.get("hint") else ""
        loc = "" if d["loc"].startswith("path.") else f"{d['loc']} "  # a part of the URL is no place of the caller's
        lines.append(f"{loc}{d.get('code', '')} {d['message']}{hint}".replace("  ", " ").strip())
    code = UNREACHABLE if status >= 500 or status in (401, 403, 429) else FAILED if status == 409 else USAGE
    return Exit(code, "\n".join(lines))


def _sign(request: Any) -> None:
    """The token in `NOETL_TOKEN` where there is one; else SigV4 for an API on AWS; emulators and proxies are called plainly."""
    if token := os.environ.get("NOETL_TOKEN", "").strip():
        if request.url.scheme != "https" and request.url.host not in LOOPBACK:
            raise Exit(USAGE, f"NOETL_TOKEN is not sent to {request.url.host} without TLS: use https, or unset it")
        request.headers["authorization"] = f"Bearer {token}"
        return
    if not request.url.host.endswith(".amazonaws.com"):
        return
    import boto3
    from botocore.auth import SigV4Auth
    from botocore.awsrequest import AWSRequest

    session = boto3.Session()
    credentials = session.get_credentials()
    if credentials is None:
        raise Exit(UNREACHABLE, "the API is on AWS and there are no AWS credentials here")
    signed = AWSRequest(
        request.method, str(request.url), data=request.content, headers={"content-type": request.headers["content-type"]}
    )
    SigV4Auth(credentials, "execute-api", request.url.host.split(".")[2]).add_auth(signed)
    request.headers.update(dict(signed.headers))


class LocalBackend:
    """The services in this process, on a SQLite store."""

    name = "local"

    def __init__(self, store: str) -> None:
        self._store = MEMORY if store == "memory" else store
        self._wiring: LocalWiring | None = None
        self._created: set[str] = set()

    @property
    def absent(self) -> str:
        if self._exists() or self._store == MEMORY:
            return ""
        return f"there is no local store yet: {Path(self._store).absolute()} (NOETL_HOME or --store name another)"

    @property
    def wiring(self) -> LocalWiring:
        if self._wiring is None:
            self._wiring = self._opened(self._store)
        return self._wiring

    @staticmethod
    def _opened(store: str) -> LocalWiring:
        from noetl_core.local import LocalWiring

        return LocalWiring(store)

    def _exists(self) -> bool:
        return self._wiring is not None or Path(self._store).exists()

    @staticmethod
    def default_store() -> str:
        """`runs.db` in this machine's `.noetl`."""
        from noetl_core.adapters.local.home import home, shown

        return shown(home() / "runs.db")

    @property
    def novel(self) -> str:
        """Where state is kept, in words, when that is news: it is made now, or lies in a folder above."""
        store = Path(self._store).absolute()
        if self._store != self.default_store():
            return ""
        if not store.exists():
            return f"state is kept in {store.parent} (new; NOETL_HOME names another place)"
        found_above = "NOETL_HOME" not in os.environ and store.parent.parent != Path.cwd()
        return f"state is kept in {store.parent}" if found_above else ""

    def start(
        self, *, source: str | None, path: str | None, version: int | None, payload: dict[str, Any], key: str | None
    ) -> dict[str, Any]:
        from noetl_core.control.admit import KeyReused, StartRequest, UnknownPool
        from noetl_core.engine.workload import BadWorkload
        from noetl_core.ports import NotFound

        request = StartRequest(path=path, version=version, playbook=source, payload=payload, idempotency_key=key)
        try:
            started = self.wiring.start(request)
        except KeyReused as error:
            raise Exit(FAILED, str(error)) from None
        except (NotFound, UnknownPool) as error:
            raise Exit(USAGE, str(error)) from None
        except BadWorkload as error:
            raise Exit(USAGE, "\n".join(error.wrong)) from None
        if started.created:
            self._created.add(started.execution_id)
        return {"execution_id": started.execution_id, "status": started.status, "warnings": list(started.warnings)}

    def follow(self, execution_id: str, timeout: float | None, tick: Tick) -> None:
        from noetl_core.ports import CorruptLog, StorageFailed

        def carry_out() -> bool:
            if execution_id not in self._created:
                self.wiring.runner.adopt(execution_id)
            return self.wiring.run(execution_id, timeout_s=timeout)

        waits = ""
        try:
            carrier = _Carrier(carry_out)  # signals reach the main thread: it only waits, so they break nothing off half-way
            while not carrier.over.wait(POLL_S):
                tick()
                waits = self._waits(execution_id, waits)
            in_time = carrier.answer()
        except Stopped as stopped:
            self.wiring.runner.leave(stopped.signal)
            raise Exit(stopped.code, f"interrupted by {stopped.signal}; {self._goes_on(execution_id)}") from None
        except StorageFailed as error:
            self.wiring.runner.leave("storage")
            remedy = f"the execution was interrupted, it did not fail; once that is repaired, {self._goes_on(execution_id)}"
            raise Exit(UNREACHABLE, f"storage: {error}\n{remedy}") from None
        except CorruptLog as error:
            self.wiring.runner.leave("log")
            raise Exit(UNREACHABLE, f"storage: {self._unreadable(execution_id, error)}") from None
        if not in_time:
            self.wiring.runner.leave("timeout")
            message = f"execution {execution_id} did not end within {timeout:g} s; {self._goes_on(execution_id)}"
            raise Exit(TIMEOUT, message)

    def _waits(self, execution_id: str, said: str) -> str:
        """Say once who holds what this process waits for; gives that worker's name."""
        from noetl_core.adapters.local.processes import pid_of

        holder = self.wiring.runner.holder
        if holder and holder != said:
            pid = pid_of(holder)
            who = f"process {pid}" if pid else f"another process ({holder})"
            say(f"{who} carries execution {execution_id} out; this one waits for it (Ctrl-C ends only the waiting)")
        return holder or said

    def _unreadable(self, execution_id: str, error: Exception) -> str:
        from noetl_core.control.unreadable import REMEDY, mark_head_stuck
        from noetl_core.ports import PortError

        try:
            self.wiring.control.load(execution_id)
        except PortError:  # its own log, not that of a child
            mark_head_stuck(self.wiring.control, execution_id, str(error))
        return f"{error}\nexecution {execution_id} is stuck: {REMEDY}"

    def _goes_on(self, execution_id: str) -> str:
        if self._store == MEMORY:
            return "it was kept in memory only, and is gone"
        store = "" if self._store == self.default_store() else f" --store {shlex.quote(self._store)}"
        return f"`noetl resume {execution_id}{store}` goes on where it was"

    def news(self, execution_id: str) -> Callable[[], list[Mapping[str, Any]]]:
        from noetl_core.control.cursor import history
        from noetl_core.control.envelopes import Expander

        commits: deque[Any] = deque(history(self.wiring.store, execution_id))
        self.wiring.observe(lambda commit: commits.append(commit) if commit.stream.execution_id == execution_id else None)
        expand = Expander(execution_id)

        def read() -> list[Mapping[str, Any]]:
            return [e for _ in range(len(commits)) for e in expand(commits.popleft())]

        return read

    def get(self, what: str, **query: Any) -> dict[str, Any]:
        return self._call("GET", what, "", _given(query))

    def post(self, what: str, body: dict[str, Any] | str, **query: Any) -> dict[str, Any]:
        return self._call("POST", what, body if isinstance(body, str) else json.dumps(body), _given(query))

    def delete(self, what: str) -> dict[str, Any]:
        return self._call("DELETE", what, "", {})

    def text(self, what: str, **query: Any) -> str:
        return self._send("GET", what, "", _given(query)).text()

    def _call(self, method: str, what: str, body: str, query: dict[str, str]) -> dict[str, Any]:
        found = self._send(method, what, body, query).body
        assert not isinstance(found, str), what
        return dict(found)

    def _send(self, method: str, what: str, body: str, query: dict[str, str]) -> Answer:
        """The API's own routes, in this process."""
        from noetl_core.control.api import Call, dispatch

        wiring = self.wiring if method != "GET" or self._exists() else self._empty
        answer = dispatch(Call(self._service(wiring), method, f"/api/{what}", query, body=body))
        if answer.status >= 400:
            raise _refused(answer.status, answer.body)
        return answer

    @cached_property
    def _empty(self) -> LocalWiring:
        """What is looked at where there is no store yet: looking makes none."""
        return self._opened(MEMORY)

    def _service(self, wiring: LocalWiring) -> Service:
        """What the routes stand on here. Credentials are the caller's own."""
        from noetl_core.adapters.local.home import home
        from noetl_core.adapters.local.secrets import LocalSecrets
        from noetl_core.control.api import Service
        from noetl_core.control.api.call import cursor_key
        from noetl_core.local_runner import THREADS

        return Service(
            lambda: wiring.control,
            cursor_key(lambda: wiring.control),
            facts={"name": "local", "pools": {"default": {"concurrency": THREADS}}},
            secrets=lambda: LocalSecrets(home() / "credentials.json"),
            rights=lambda *_: True,
        )

    def knows(self, execution_id: str) -> bool:
        """Whether the local store has the execution; does not make a store."""
        return self._exists() and self.wiring.database.knows(execution_id)

    def close(self) -> None:
        for wiring in (self._wiring, self.__dict__.get("_empty")):
            if wiring is not None:
                wiring.close()


class _Carrier:
    """A call on a thread of its own."""

    def __init__(self, call: Callable[[], bool]) -> None:
        self.over = threading.Event()
        self._call = call
        self._answer = False
        self._error: BaseException | None = None
        threading.Thread(target=self._run, name="carrier", daemon=True).start()

    def _run(self) -> None:
        try:
            self._answer = self._call()
        except BaseException as error:  # whatever it is, it is raised where the answer is waited for
            self._error = error
        finally:
            self.over.set()

    def answer(self) -> bool:
        """What the call returned, or raised."""
        if self._error is not None:
            raise self._error
        return self._answer


def all_events(where: Backend, execution_id: str, name: str | None = None, after: str | None = None) -> list[dict[str, Any]]:
    """Every envelope of an execution, page by page."""
    found: list[dict[str, Any]] = []
    while True:
        page = where.get(f"executions/{execution_id}/events", name=name, after=after, limit=PAGE)
        found += page["events"]
        after = page["cursor"]
        if not page["more"]:
            return found


def backend(on: str | None, store: str | None, execution_id: str | None = None) -> Backend:
    """The wiring asked for; for an existing execution with nothing asked: the local store if it has it, else the stack."""
    if execution_id is not None and not (execution_id.isascii() and execution_id.isdecimal()):
        raise Exit(USAGE, f"{execution_id} is no execution's id: a number is expected")
    local_store = store or LocalBackend.default_store()
    local = LocalBackend(local_store)
    if on == "local" or (on is None and execution_id is not None and local.knows(execution_id)):
        return local
    if on is None and execution_id is None:
        return local
    local.close()
    if on is None:
        try:
            return StackBackend.find()
        except Exit:
            where = f"the local store {Path(local_store).absolute()} (NOETL_HOME or --store name another)"
            raise Exit(USAGE, f"there is no execution {execution_id} in {where}, and no stack is up") from None
    return StackBackend.find()
