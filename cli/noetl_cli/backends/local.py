"""The local store: the services in this process."""

from __future__ import annotations

import os
import shlex
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from noetl_cli.backends.backend import POLL_S, Tick, refused
from noetl_cli.backends.local_store import IN_MEMORY, default_store
from noetl_cli.errors import TIMEOUT, UNREACHABLE, Exit, Stopped, say
from noetl_cli.inputs.environments import on_failure
from noetl_cli.inputs.files import parsed
from noetl_core.adapters.local.database import MEMORY
from noetl_core.adapters.local.home import home
from noetl_core.adapters.local.processes import pid_of, user_name
from noetl_core.adapters.local.secrets import LocalSecrets
from noetl_core.api.request import Answer, Request
from noetl_core.api.requests import Api
from noetl_core.api.requests.catalog import RegisterPlaybook
from noetl_core.api.requests.executions import StartExecution
from noetl_core.control.refusals import refusal
from noetl_core.control.unreadable_logs import REMEDY, mark_head_stuck
from noetl_core.ports import CorruptLog, PortError, StorageFailed, UnreadableStore
from noetl_core.runtime.local import LocalWiring
from noetl_core.runtime.local_runner import THREADS
from noetl_core.service.operations.base import Operations, cursor_key
from noetl_core.views.history.pages import whole
from noetl_core.views.reading.cursor import history
from noetl_core.views.reading.envelopes import Expander

if TYPE_CHECKING:
    from noetl_core.api.shapes.executions import Event, Started
    from noetl_core.events.shapes import By

ENDS_WITHIN_S = 5
"""Seconds that a serving process may take to finish its current work."""


class LocalBackend:
    """The services in this process, on a SQLite store."""

    name = "local"

    def __init__(self, store: str) -> None:
        self._store = MEMORY if store == IN_MEMORY else store
        self._wiring: LocalWiring | None = None
        self._created: set[str] = set()

    @property
    def missing_store(self) -> str:
        if self._exists() or self._store == MEMORY:
            return ""
        return f"there is no local store yet: {Path(self._store).absolute()} (NOETL_HOME or --store name another)"

    @property
    def wiring(self) -> LocalWiring:
        if self._wiring is None:
            self._wiring = LocalWiring(self._store)
            self._wiring.control.on_failure = on_failure()
        return self._wiring

    def _exists(self) -> bool:
        return self._wiring is not None or Path(self._store).exists()

    @property
    def new_store(self) -> str:
        """A description of the store's place, if worth mentioning: the store is created now, or is in a folder above."""
        store = Path(self._store).absolute()
        if self._store != default_store():
            return ""
        if not store.exists():
            return f"state is kept in {store.parent} (new; name another place with NOETL_HOME)"
        found_above = "NOETL_HOME" not in os.environ and store.parent.parent != Path.cwd()
        return f"state is kept in {store.parent}" if found_above else ""

    def follow(self, execution_id: str, timeout: float | None, tick: Tick) -> None:
        def carry_out() -> bool:
            if execution_id not in self._created:
                self.wiring.runner.adopt(execution_id)
            return self.wiring.run(execution_id, timeout_s=timeout)

        waits = ""
        try:
            carrier = _Carrier(carry_out)  # signals reach the main thread: it only waits, so they interrupt nothing midway
            while not carrier.over.wait(POLL_S):
                tick()
                waits = self._waits(execution_id, waits)
            in_time = carrier.answer()
        except Stopped as stopped:
            self.wiring.runner.leave(stopped.signal)
            raise Exit(stopped.code, f"interrupted by {stopped.signal}; {self._goes_on(execution_id)}") from None
        except StorageFailed as error:
            self.wiring.runner.leave("storage")
            remedy = (
                f"the execution was interrupted, it did not fail; once the storage is repaired, {self._goes_on(execution_id)}"
            )
            raise Exit(UNREACHABLE, f"storage: {error}\n{remedy}") from None
        except CorruptLog as error:
            self.wiring.runner.leave("log")
            raise Exit(UNREACHABLE, f"storage: {self._unreadable(execution_id, error)}") from None
        if not in_time:
            self.wiring.runner.leave("timeout")
            message = f"execution {execution_id} did not end within {timeout:g} s; {self._goes_on(execution_id)}"
            raise Exit(TIMEOUT, message)

    def serve(self, tick: Tick) -> None:
        """Run everything that is due in the store until a signal ends this process. Unfinished executions continue when the store
        is served again or the execution is resumed."""
        carrier = _Carrier(self._served)
        try:
            while not carrier.over.wait(POLL_S):
                tick()
            carrier.answer()
        except Stopped as stopped:
            self.wiring.runner.leave(stopped.signal)
            carrier.over.wait(ENDS_WITHIN_S)
            say(f"ended by {stopped.signal}; the next `noetl serve` continues the executions in progress")
        except StorageFailed as error:
            self.wiring.runner.leave("storage")
            raise Exit(UNREACHABLE, f"storage: {error}") from None
        except UnreadableStore:
            self.wiring.runner.leave("storage")
            raise

    def _served(self) -> bool:
        self.wiring.runner.serve()
        return True

    def _waits(self, execution_id: str, known_holder: str) -> str:
        """Report once which worker holds the run that this process waits for; return its name."""
        holder = self.wiring.runner.holder
        if holder and holder != known_holder:
            pid = pid_of(holder)
            who = f"process {pid}" if pid else f"another process ({holder})"
            say(f"{who} runs execution {execution_id}; this process waits for it (Ctrl-C ends only the waiting)")
        return holder or known_holder

    def _unreadable(self, execution_id: str, error: Exception) -> str:
        try:
            self.wiring.control.load(execution_id)
        except PortError:  # its own log, not that of a child
            mark_head_stuck(self.wiring.control, execution_id, str(error))
        return f"{error}\nexecution {execution_id} is stuck: {REMEDY}"

    def _goes_on(self, execution_id: str) -> str:
        if self._store == MEMORY:
            return "the execution was kept in memory only, and is gone"
        store = "" if self._store == default_store() else f" --store {shlex.quote(self._store)}"
        return f"`noetl resume {execution_id}{store}` continues it"

    def news(self, execution_id: str) -> Callable[[], list[Mapping[str, Any]]]:
        commits: deque[Any] = deque(history(self.wiring.store, execution_id))
        self.wiring.observe(lambda commit: commits.append(commit) if commit.stream.execution_id == execution_id else None)
        expand = Expander(execution_id)

        def read() -> list[Mapping[str, Any]]:
            return [e for _ in range(len(commits)) for e in expand(commits.popleft())]

        return read

    def history(self, execution_id: str, name: str | None = None, after: str | None = None) -> Iterator[Event]:
        control = self._looked_at.control
        with _refusing():
            key = cursor_key(lambda: control)()
            yield from cast("Iterator[Event]", whole(control, execution_id, name=name, after=after, key=key))

    @cached_property
    def api(self) -> Api:
        return _LocalApi(self)

    def answer(self, request: Request[Answer]) -> Answer:
        """Return the answer of the services in this process. Starting and registering create a missing store."""
        changes = isinstance(request, StartExecution | RegisterPlaybook)
        wiring = self.wiring if changes else self._looked_at
        source = _text_of(request)
        if source is not None and (playbook := parsed(source)) is not None:
            wiring.control.playbook.keep(playbook)  # parsing a large playbook takes seconds
        by: By = {"principal": user_name(), "source": "cli"}
        answer = Operations(
            lambda: wiring.control,
            cursor_key(lambda: wiring.control),
            {"name": "local", "pools": {"default": {"concurrency": THREADS}}},
            lambda: LocalSecrets(home() / "credentials.json"),
            lambda: by,
        ).call(request)
        if isinstance(request, StartExecution):
            started = cast("Started", answer)
            wiring.warm(started["playbook"]["digest"])
            if started["created"]:
                self._created.add(started["execution_id"])
        return answer

    @property
    def _looked_at(self) -> LocalWiring:
        return self.wiring if self._exists() else self._empty

    @cached_property
    def _empty(self) -> LocalWiring:
        """Return the empty store to read if there is none yet."""
        return LocalWiring(MEMORY)

    def knows(self, execution_id: str) -> bool:
        """Return whether the local store has the execution, without creating a store."""
        return self._exists() and self.wiring.database.knows(execution_id)

    def close(self) -> None:
        """Close the store: the command is over, and its process ends."""
        for wiring in (self._wiring, self.__dict__.get("_empty")):
            if wiring is not None:
                wiring.close(exits=True)


def _text_of(request: Request[Any]) -> str | None:
    """Return the text of the playbook that a request starts or registers."""
    match request:
        case StartExecution():
            return request.playbook
        case RegisterPlaybook():
            return request.source
        case _:
            return None


class _LocalApi(Api):
    """The operations of the services in this process; a refusal ends the command."""

    def __init__(self, backend: LocalBackend) -> None:
        self._backend = backend

    def call(self, request: Request[Answer]) -> Answer:
        with _refusing():
            return self._backend.answer(request)


@contextmanager
def _refusing() -> Iterator[None]:
    """End the command if the block raises a refusal."""
    try:
        yield
    except (StorageFailed, UnreadableStore):
        raise  # a failure of this machine, which `main` reports
    except Exception as error:  # refusals have messages; a bug is logged with its traceback
        status, body = refusal(error, "")
        raise refused(status, body["error"]["message"], body["error"]["details"]) from None


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
        except BaseException as error:  # any exception is raised where the answer is awaited
            self._error = error
        finally:
            self.over.set()

    def answer(self) -> bool:
        """Wait for the call; return its result or raise its exception."""
        if self._error is not None:
            raise self._error
        return self._answer
