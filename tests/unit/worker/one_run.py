"""One step run on ports in memory: the real worker, scripted tools, a clock that only tests move. No control plane."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import yaml

from noetl_core.dsl.model import Playbook
from noetl_core.dsl.parse import parse_playbook
from noetl_core.engine import ids
from noetl_core.engine.loops import SpreadRule
from noetl_core.engine.outcome import Outcome
from noetl_core.engine.records import Command, Commit, StreamId
from noetl_core.ports import NotFound
from noetl_core.tools.base import ToolCall
from noetl_core.tools.registry import ToolRegistry
from noetl_core.worker.claiming.journal import MAX_BUFFERED
from noetl_core.worker.service import Handled, Worker
from tests.raw_events import Stored, stored
from tests.sim.ports import SECOND, Faults, SimClock, SimGates, SimResults, SimStore

RUN = "r1"
Script = Callable[[ToolCall], Outcome]


def echo(call: ToolCall) -> Outcome:
    """The `result` input comes back."""
    return Outcome.ok(call.inputs.get("result", call.inputs.get("args")))


def fail_at(*indexes: int) -> Any:
    """Fails the iterations whose `result` input is one of `indexes`."""
    return lambda call: (
        Outcome.failed("server_error", f"no {call.inputs['result']}") if call.inputs["result"] in indexes else echo(call)
    )


@dataclass
class Scripted:
    """A tool that calls a function, and notes the call."""

    run_it: Script
    calls: list[ToolCall]
    kind: str = "noop"
    inline: bool = True

    def run(self, call: ToolCall) -> Outcome:
        self.calls.append(call)
        return self.run_it(call)


class Credentials:
    """`Secrets` in memory."""

    def __init__(self, held: Mapping[str, Mapping[str, Any]]) -> None:
        self.held = held

    def get(self, name: str) -> Mapping[str, Any]:
        if name not in self.held:
            raise NotFound(f"there is no credential {name!r}")
        return self.held[name]


def playbook_of(step: Mapping[str, Any], **root: Any) -> Playbook:
    """A playbook of the one step `work` (and what `root` adds)."""
    document = {
        "apiVersion": "noetl.io/v2",
        "kind": "Playbook",
        "metadata": {"name": "t", "path": "t"},
        "workflow": [{"step": "work", **step}],
        **root,
    }
    return parse_playbook(yaml.safe_dump(document, sort_keys=False))


@dataclass
class OneRun:
    """The run `RUN` of step `work`. `script` answers kinds http (in threads) and noop (inline)."""

    step: Mapping[str, Any]
    script: Script = echo
    root: Mapping[str, Any] = field(default_factory=dict)
    workload: Mapping[str, Any] = field(default_factory=dict)
    ctx: Mapping[str, Any] = field(default_factory=dict)
    args: Mapping[str, Any] = field(default_factory=dict)
    credentials: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    run_id: str = RUN
    spread: SpreadRule | None = None
    most_buffered: int = MAX_BUFFERED

    def __post_init__(self) -> None:
        self.playbook = playbook_of(self.step, **self.root)
        self.clock = SimClock()
        self.faults = Faults()
        self.woken: list[Commit] = []
        self.store = SimStore(self.faults, self.woken.append)
        self.results = SimResults(self.faults)
        self.gates = SimGates(self.faults)
        self.calls: list[ToolCall] = []

    def worker(self) -> Worker:
        tools: dict[str, Any] = {
            "noop": Scripted(self.script, self.calls),
            "http": Scripted(self.script, self.calls, "http", inline=False),
            "python": Scripted(self.script, self.calls, "python", inline=False),
        }
        return Worker(
            self.store,
            self.results,
            self.gates,
            self.clock,
            playbooks=lambda digest: self.playbook,
            tools=ToolRegistry(tools),
            secrets=Credentials(self.credentials),
            name=f"w{self.clock.nonce()}",
            heartbeat=None,
            spread=self.spread,
            most_buffered=self.most_buffered,
        )

    def command(self, mode: str = "first", seq: int = 0, **more: Any) -> Command:
        context: Any = {"workload": self.workload, "ctx": dict(self.ctx), "args": self.args, "steps": {}}
        return Command("7", more.pop("run_id", self.run_id), "work", seq, mode, 3, "d", context=context, **more)

    def handle(self, mode: str = "first", seq: int = 0, deadline: int | None = None, **more: Any) -> Handled:
        return self.worker().handle(self.command(mode, seq, **more), deadline)

    def resume(self, *answers: Mapping[str, Any], **more: Any) -> Handled:
        """Resume with `answers` for the waits of the last suspension, in order (`{}` fires a timer)."""
        waits = self.last.data["waits"]
        mail = tuple({"wait_id": w["wait_id"], "kind": "timer", **a} for w, a in zip(waits, answers, strict=False))
        return self.handle("resume", len(self.commits), mail=mail, **more)

    @property
    def commits(self) -> list[Commit]:
        return self.store.streams.get(StreamId("7", self.run_id), [])

    @property
    def events(self) -> list[Stored]:
        return [e for c in self.commits for e in c.events]

    @property
    def names(self) -> list[str]:
        return [e.name for e in self.events]

    @property
    def last(self) -> Stored:
        """Without its count of events, which the simulator checks."""
        last = self.events[-1]
        shown: Stored = stored(last.name, last.ts, {k: v for k, v in last.data.items() if k not in ("events", "aggregates")})
        return shown

    def named(self, name: str) -> list[Mapping[str, Any]]:
        return [e.data for e in self.events if e.name == name]

    def value(self, stored: Any) -> Any:
        """A stored result, read as templates read it."""
        from noetl_core.log.stored_values import Values

        if isinstance(stored, Mapping) and stored.get("kind") == "result_ref":
            return Values(self.store, self.results, "7", limit=None).reference(stored)
        return stored

    def wait(self, seconds: float) -> None:
        self.clock.time += int(seconds * SECOND)

    def fence(self, kind: str = "cancelled") -> None:
        """The control plane wins the next position."""
        event = stored("StepFailed", self.clock.now(), {"error": {"kind": kind, "message": kind}, "source": "server"})
        self.store.append(Commit(StreamId("7", self.run_id), len(self.commits), self.clock.now(), "control", (event,), wake=True))

    def key(self, task: str, visit: int = 1, path: tuple[int, ...] = ()) -> str:
        return ids.task_run_id(self.run_id, path, task, visit)


def task(name: str, *rules: Mapping[str, Any], kind: str = "noop", **inputs: Any) -> dict[str, Any]:
    """A task; `rules` are entries of its policy."""
    spec = {"spec": {"policy": {"rules": list(rules)}}} if rules else {}
    return {"name": name, "kind": kind, **inputs, **spec}


def on_error(do: str, **then: Any) -> dict[str, Any]:
    return {"when": "{{ outcome.status == 'error' }}", "then": {"do": do, **then}}


def otherwise(do: str = "continue", **then: Any) -> dict[str, Any]:
    return {"else": {"then": {"do": do, **then}}}


def loop(collection: Any, mode: str = "parallel", inner: Any = None, **spec: Any) -> dict[str, Any]:
    """A `loop` block over `iter.i`."""
    out: dict[str, Any] = {"in": collection, "iterator": spec.pop("iterator", "i"), "spec": {"mode": mode, **spec}}
    return {**out, "loop": inner} if inner else out
