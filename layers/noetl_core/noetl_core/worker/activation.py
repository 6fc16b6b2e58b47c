"""The state that all parts of a worker share while they carry out one activation of a run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from noetl_core.dsl.model import Playbook, Step
from noetl_core.engine.loops import SpreadRule
from noetl_core.events.event import BoundaryEvent, Keys, new
from noetl_core.events.shapes import ChunkOfLoop
from noetl_core.expr import Scope
from noetl_core.log.run_history import RunHistory
from noetl_core.ports import Clock, RateLimits, ResultStore
from noetl_core.worker.claiming.journal import Journal
from noetl_core.worker.claiming.recorder import Recorder
from noetl_core.worker.claiming.run_lease import RunLease
from noetl_core.worker.run_tree import CtxLayer
from noetl_core.worker.secrets.keychain import Keychain
from noetl_core.worker.values.execution_view import Resolver, RunView
from noetl_core.worker.values.offload import Offload


@dataclass
class Activation:
    """One activation of one run: a step run, or the run of one chunk of its loop."""

    playbook: Playbook
    step: Step
    step_run: str
    view: RunView
    history: RunHistory
    keychain: Keychain
    clock: Clock
    journal: Journal
    lease: RunLease
    results: ResultStore
    resolve: Resolver
    chunk: ChunkOfLoop | None = None
    """For a chunk run: the plan of the loop, and the index of the chunk as `chunk`."""
    deadline: int | None = None
    """The instant at which the invocation ends (microseconds); None: never."""
    spread: SpreadRule | None = None
    """The rule by which a loop is handed over to other workers; None: never, where there are none."""
    rates: RateLimits | None = None
    """The rates that tasks share; None where the worker has no access to them."""
    works_outside: Callable[[str], bool] = lambda _kind: False
    """Returns whether tasks of a kind are outside work."""
    chained: bool = False
    """If true, another run of this invocation came first: the first task is not started if it may miss the deadline."""
    halt: Literal["", "pause", "deadline"] = ""
    ended: BoundaryEvent | None = None

    def __post_init__(self) -> None:
        self.execution_id = self.view.execution_id
        self.claimed_at = self.journal.seq - 1
        """Position of the claim in the stream of the run. It differs for every worker that ever held this run."""
        tainted = bool(self.playbook.keychain) or self.history.masked
        self.offload = Offload(self.results, self.resolve, self.playbook.executor, self.execution_id, tainted=tainted)
        self.recorder = Recorder(self.journal, self.clock, self.offload)
        self._names = {
            "workload": self.view.workload,
            "args": self.view.args,
            "steps": self.view.steps,
            "execution_id": self.execution_id,
            "trigger": self.view.trigger,
            "keychain": self.keychain,
        }

    def end(self, kind: Callable[Keys, Any], /, *_: Keys.args, **data: Keys.kwargs) -> None:
        """End or suspend the run with a boundary of payload type `kind`; the time is set when it is recorded."""
        self.ended = new(kind, 0, *_, **data)

    def scope(self, ctx: CtxLayer, scope_iter: dict[str, Any]) -> Scope:
        """Return what templates see, without the names of the pipeline itself."""
        return Scope(
            {"ctx": ctx.view, "iter": scope_iter},
            self._names,
            resolve=self.resolve,
            open=self.resolve.open,
            strict=self.view.strict,
        )

    def written(self, ctx: CtxLayer) -> dict[str, Any]:
        """Return the run's ctx writes for its boundary event; large values, which reducers may build, are stored behind
        references."""
        return self.offload.store_each_if_large(ctx.writes, f"values/{self.step_run}-ctx")
