"""The local wiring: control plane, worker and SQLite store in one process (DESIGN section 1 "local runner").

The same services as on AWS; only what carries news differs: waking commits reach the router through a list instead of a
stream, commands through a heap instead of a queue.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Literal

from noetl_core.adapters.clock import SystemClock
from noetl_core.adapters.local.catalog import SqliteExecutionIndex, SqliteGates, SqlitePlaybookCatalog
from noetl_core.adapters.local.database import MEMORY, Database
from noetl_core.adapters.local.events import SqliteEventStore
from noetl_core.adapters.local.queue import SECOND, Delivery, LocalQueue
from noetl_core.adapters.local.results import FileResultStore, LazyTempResultStore
from noetl_core.control.admit import Started, StartRequest, admit
from noetl_core.control.core import Control
from noetl_core.control.fence import boundary_of
from noetl_core.control.sweep import sweep
from noetl_core.engine.records import Boundary, Commit
from noetl_core.engine.state import State
from noetl_core.ports import ResultStore, Secrets, Unavailable
from noetl_core.tools.registry import ToolRegistry
from noetl_core.worker.service import Worker

THREADS = 16
"""Commands carried out at once; more parallel branches wait their turn."""
IDLE_LOOK_S = 1.0


class Interrupted(Exception):
    """The run was left before its end; the log keeps it, and it can be gone on with."""


class LocalWiring:
    """Everything of one local store. Close it when done.

    `store` is a database file, or `:memory:`; results lie beside the file. `durable` as in `Database`.
    """

    def __init__(
        self,
        store: str | Path = MEMORY,
        durable: Literal["process", "power"] = "process",
        secrets: Secrets | None = None,
        tools: ToolRegistry | None = None,
    ) -> None:
        os.environ.setdefault("NOETL_HTTP_ALLOW_PRIVATE", "1")  # a laptop's own services are what it is tried against
        self.database = Database(store, durable)
        self.clock = SystemClock()
        self.store = SqliteEventStore(self.database, self._woken)
        self.queue = LocalQueue(self.clock)
        kept = str(store) != MEMORY
        self.results: ResultStore = FileResultStore(Path(store).parent / "results") if kept else LazyTempResultStore()
        self.catalog = SqlitePlaybookCatalog(self.database)
        self.index = SqliteExecutionIndex(self.database)
        self.gates = SqliteGates(self.database)
        self.control = Control(self.store, self.queue, self.results, self.catalog, self.index, self.gates, self.clock)
        self.worker = Worker(
            self.store,
            self.results,
            self.gates,
            self.clock,
            playbooks=self.control.playbook,
            tools=tools or ToolRegistry(),
            secrets=secrets,
            name=f"local-{os.getpid()}",
        )
        self._wakes: deque[Commit] = deque()
        self._running = 0
        self._pool: ThreadPoolExecutor | None = None
        self._looked = 0
        self._alone = True
        self._states: dict[str, State] = {}

    def close(self) -> None:
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)
        self.worker.tools.close()
        self.database.close()

    def start(self, request: StartRequest) -> Started:
        """Admit an execution; `run` carries it out."""
        return admit(self.control, request)

    # --- carrying out ---------------------------------------------------------------------------------------------------

    def run(self, *executions: str, timeout_s: float | None = None) -> bool:
        """Carry out until all `executions` have ended, or stand still for a reason; False when `timeout_s` came first.

        Raises `Interrupted` on Ctrl-C: the log keeps the execution.
        """
        open_ones = set(executions)
        until = None if timeout_s is None else self.clock.now() + int(timeout_s * SECOND)
        self._alone = until is None  # with a timeout to keep, this thread stays free
        try:
            while True:
                open_ones = {x for x in open_ones if not self._finished(x)}
                if not open_ones:
                    return True
                if until is not None and self.clock.now() >= until:
                    return False
                if not self._act():
                    self._idle(until)
        except KeyboardInterrupt:
            raise Interrupted(", ".join(sorted(open_ones))) from None

    def _finished(self, execution_id: str) -> bool:
        state = self._states.get(execution_id)
        if state is None:
            state = self._states[execution_id] = self.control.load(execution_id)
        if state.finished:
            return True
        return state.status in ("paused", "stuck") and not self._running and not self._wakes

    def _woken(self, commit: Commit) -> None:
        self._wakes.append(commit)
        if threading.current_thread() is not threading.main_thread():
            with self.queue.changed:
                self.queue.changed.notify_all()

    def _act(self) -> bool:
        """Do one thing that can be done now."""
        if self._wakes:
            self._route()
            return True
        delivery = self.queue.receive()
        if delivery is None:
            return False
        if delivery.command is None:
            self._states[delivery.execution_id] = self.control.route(delivery.execution_id)
        elif self._alone and self._running == 0 and self.queue.next_at() is None:
            self._handle(delivery)  # the only thing to do: no thread needed
        else:
            self._submit(delivery)
        return True

    def _route(self) -> None:
        news: dict[str, list[Boundary]] = {}
        while self._wakes:
            commit = self._wakes.popleft()
            boundary = boundary_of(commit)
            if boundary is not None:
                news.setdefault(commit.stream.execution_id, []).append(boundary)
        for execution_id, boundaries in news.items():
            self._states[execution_id] = self.control.route(execution_id, boundaries)

    def _submit(self, delivery: Delivery) -> None:
        if self._pool is None:
            self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix="worker")
        self._running += 1

        def work() -> None:
            try:
                self._handle(delivery)
            finally:
                with self.queue.changed:
                    self._running -= 1
                    self.queue.changed.notify_all()

        self._pool.submit(work)

    def _handle(self, delivery: Delivery) -> None:
        assert delivery.command is not None
        try:
            handled = self.worker.handle(delivery.command)
        except Unavailable:
            self.queue.put_back(delivery, 1)
            return
        if handled.kind == "hand_back":
            self.queue.put_back(delivery, handled.seconds)

    def _idle(self, until: int | None) -> None:
        """Nothing to do now: look whether something stopped moving, then wait for news or the next timer."""
        now = self.clock.now()
        if now - self._looked >= IDLE_LOOK_S * SECOND:
            self._looked = now
            if sweep(self.control).looked:
                self._states.clear()
                return
        at = self.queue.next_at()
        wait = IDLE_LOOK_S if at is None else min(IDLE_LOOK_S, max(0.0, (at - now) / SECOND))
        if until is not None:
            wait = min(wait, max(0.0, (until - now) / SECOND))
        with self.queue.changed:
            if not self._wakes and wait > 0:
                self.queue.changed.wait(wait)

    def look_now(self, execution_id: str) -> None:
        """Make an execution due at once: what an earlier process left is found and gone on with."""
        self.index.set_due(execution_id, 0)
        self._looked = 0


def run_text(source: str, payload: Mapping[str, Any] | None = None, **wiring: Any) -> tuple[LocalWiring, State]:
    """Run a playbook's text to its end in memory; the wiring (to read results from) and the final state."""
    local = LocalWiring(**wiring)
    started = local.start(StartRequest(playbook=source, payload=payload or {}))
    local.run(started.execution_id)
    return local, local.control.load(started.execution_id)
