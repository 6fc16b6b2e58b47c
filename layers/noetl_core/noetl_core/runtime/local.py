"""Wires the local store: control plane, worker and SQLite store in one process (docs/decisions.md, "Two wirings of one engine").

`runtime.local_runner` executes with it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Literal

from noetl_core.adapters.clock import SteadyClock
from noetl_core.adapters.local.access_tokens import SqliteTokenCache
from noetl_core.adapters.local.catalog import SqliteExecutionIndex, SqliteGates, SqlitePlaybookCatalog
from noetl_core.adapters.local.database import MEMORY, Database
from noetl_core.adapters.local.events import ObservedEventStore
from noetl_core.adapters.local.home import home
from noetl_core.adapters.local.key_values import SqliteKeyValues
from noetl_core.adapters.local.keys import file_key, memory_key
from noetl_core.adapters.local.limits import SqliteLimitPlaces
from noetl_core.adapters.local.output import FileRunningOutput
from noetl_core.adapters.local.processes import has_ended, name_of
from noetl_core.adapters.local.queue import LocalQueue
from noetl_core.adapters.local.rates import SqliteRateLimits
from noetl_core.adapters.local.results import FileResultStore, LazyTempResultStore
from noetl_core.adapters.local.sealer import LocalSealer
from noetl_core.adapters.local.secrets import LocalSecrets
from noetl_core.adapters.local.triggers import SqliteTriggers
from noetl_core.adapters.marks import FileMarks
from noetl_core.control.admit import Started, StartRequest, admit
from noetl_core.control.children import SubPlaybooks
from noetl_core.control.core import Control
from noetl_core.control.deployment.inbound_sources import OnThisMachine
from noetl_core.control.limits.places import SharedLimits
from noetl_core.control.recorded_deaths import record_deaths
from noetl_core.engine.records import Commit
from noetl_core.ports import PortError, Secrets
from noetl_core.runtime.local_runner import LocalRunner
from noetl_core.tools.registry import ToolRegistry
from noetl_core.worker.claiming.gates import RecentGates
from noetl_core.worker.secrets.callback_tokens import LOCAL_URL
from noetl_core.worker.service import Worker

POOLS = frozenset({"default", "python"})
"""The pools of the template and those in `NOETL_POOLS`. This process runs the commands of all of them."""


class LocalWiring:
    """All services over one local store. Close it when done.

    `store` is a database file, or `:memory:`; results are stored beside the file. `durable` is as in `Database`. Without
    `secrets`, credentials come from `credentials.json` in `home` and from the environment. Several processes may share a
    store: each carries out its own executions, and notices commits of the others.
    """

    def __init__(
        self,
        store: str | Path = MEMORY,
        durable: Literal["process", "power"] = "process",
        secrets: Secrets | None = None,
        tools: ToolRegistry | None = None,
        clock: SteadyClock | None = None,
        runner: type[LocalRunner] = LocalRunner,
        queue: type[LocalQueue] = LocalQueue,
    ) -> None:
        os.environ.setdefault("NOETL_HTTP_ALLOW_PRIVATE", "1")  # local runs call services on the same machine
        self.database = Database(store, durable)
        self.clock = clock or SteadyClock()
        self.store = ObservedEventStore(self.database, clock=self.clock)
        self.queue = queue(self.clock)
        self.queue.after_commit = self.database.after_commit
        kept = str(store) != MEMORY
        self.results: FileResultStore = (
            FileResultStore(Path(store).parent / "results", durable) if kept else LazyTempResultStore()
        )
        if not self.database.read_only:
            self._forget_some()
        self.catalog = SqlitePlaybookCatalog(self.database)
        self.index = SqliteExecutionIndex(self.database, self.clock)
        self.gates = SqliteGates(self.database)
        beside = Path(store).parent / "callback.key"
        key = file_key(beside) if kept and (beside.exists() or not self.database.read_only) else memory_key()
        self.triggers = SqliteTriggers(self.database, self.clock)
        self.control = Control(
            self.store,
            self.queue,
            self.results,
            self.catalog,
            self.index,
            self.gates,
            self.clock,
            SubPlaybooks(),
            self.triggers,
        )
        output = FileRunningOutput(Path(store).parent / "running") if kept and not self.database.read_only else None
        self.control.output = output
        self.control.after_commit = self.database.after_commit
        rates = SqliteRateLimits(self.database)
        self.control.callback_key = key
        self.control.inbound_sources = OnThisMachine()
        self.control.limits = SharedLimits(SqliteLimitPlaces(self.database), rates)
        self.control.pools = POOLS | {name.strip() for name in os.environ.get("NOETL_POOLS", "").split(",") if name.strip()}
        self.credentials: Secrets = secrets or LocalSecrets(home() / "credentials.json")
        self.worker = Worker(
            self.store,
            self.results,
            RecentGates(self.gates, self.clock),
            self.clock,
            playbooks=self.control.playbook,
            registered=self.catalog.by_digest,
            tools=tools or ToolRegistry(),
            secrets=self.credentials,
            name=name_of(),
            gone=has_ended,
            sealer=LocalSealer(file_key(Path(store).parent / "seal.key") if kept else memory_key()),
            token_cache=SqliteTokenCache(self.database),
            rates=rates,
            callback_key=key,
            callback_url=_callback_url(),
            output=output,
        )
        self.worker.tools.packages = self._packages
        self.worker.tools.key_values = SqliteKeyValues(self.database)
        self._warmed: set[str] = set()
        """Playbooks whose tools have been warmed up."""
        self.runner = runner(self.control, self.worker, self.store, self.queue, self.clock)
        self.runner.retain = self.forget
        self._marks = FileMarks(Path(store).parent / "evaluating") if kept and not self.database.read_only else None
        self.control.marks = self._marks
        if self._marks is not None and (left := self._marks.left_behind()):
            record_deaths(self.control, left)

    def _packages(self, requirements: tuple[str, ...]) -> str:
        """Return the folder of the packages that a playbook requires, installed into `home`. Raises `MissingPackages`."""
        from noetl_core.adapters.local.packages import LocalPackages  # 10 ms: few playbooks require packages

        return LocalPackages(home())(requirements)

    def _forget_some(self, ended_before: int = 0) -> int:
        """Forget at most 100 executions; return how many."""
        expired = self.database.forget_expired(self.clock.now(), ended_before=ended_before)
        for execution_id in expired:
            self.results.forget(execution_id)
        return len(expired)

    def forget(self, ended_before: int = 0) -> dict[str, int]:
        """Delete everything whose retention has ended, executions that ended before `ended_before` (microseconds), and remains of
        killed processes. Return the number of each kind."""
        executions = 0
        while some := self._forget_some(ended_before):
            executions += some
        rows = self.database.forget_rows(self.clock.now())
        swept = self.results.sweep(time.time(), self.database.knows)
        return {"executions": executions, **rows, "drafts": swept.drafts, "orphaned results": swept.folders}

    def stop(self) -> None:
        """Stop executing. The store can be read until `close`."""
        self.runner.close()
        if self.worker.heartbeat is not None:
            self.worker.heartbeat.close()
        self.worker.close()

    def close(self, *, exits: bool = False) -> None:
        """Stop, and close the store. `exits`: the process ends next, so the store may stay open until then (`Database.leave`)."""
        self.stop()
        if self._marks is not None:
            self._marks.close()
        if exits:
            self.database.leave()
        else:
            self.database.close()

    def observe(self, observer: Callable[[Commit], None] | None) -> None:
        """Call `observer` after every commit, on the thread that wrote it."""
        self.store.observer = observer

    def start(self, request: StartRequest) -> Started:
        """Admit an execution; `run` executes it."""
        try:
            with self.database.transaction():
                started = admit(self.control, request, self.runner.own)
        except PortError:
            self.control.forget()
            raise
        self.warm(started.playbook.digest)
        return started

    def warm(self, digest: str) -> None:
        """Prepare the tools of a playbook that was started."""
        if digest not in self._warmed:
            self._warmed.add(digest)
            steps = self.control.playbook(digest).steps
            self.worker.tools.warm({task.kind for step in steps for task in step.tasks})

    def run(self, *executions: str, timeout_s: float | None = None) -> bool:
        """Execute, as `LocalRunner.run`, and execute the failure handlers too."""
        if not self.runner.run(*executions, timeout_s=timeout_s):
            return False
        failed = self.runner.failed(executions)
        handlers = [handler for execution in failed if (handler := self._handler(execution)) is not None]
        return not handlers or self.runner.run(*handlers, timeout_s=timeout_s)

    def _handler(self, execution_id: str) -> str | None:
        """Return the execution that handles the failure of this one, if there is one."""
        handled = self.control.load(execution_id).handled
        return None if handled is None else handled.get("execution_id")


def _callback_url() -> str:
    """Return the URL of callbacks: that of the API that serves this store, if `NOETL_API_URL` names one."""
    api = os.environ.get("NOETL_API_URL")
    return f"{api.rstrip('/')}/api/callbacks/{{token}}" if api else LOCAL_URL
