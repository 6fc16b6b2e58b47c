"""The examples of the specification texts, run by the real control plane and worker with scripted tools and a clock of their own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from noetl_core.dsl.model import Playbook
from noetl_core.dsl.parse import check
from noetl_core.engine.outcome import Outcome
from noetl_core.engine.records import StreamId
from noetl_core.engine.state import State
from noetl_core.log.stored_values import Values
from noetl_core.tools.base import ToolCall
from tests.sim.invariants import check as invariants
from tests.sim.world import World

FOLDER = Path(__file__).parent / "playbooks"
Script = Callable[[ToolCall], Outcome]


def source(name: str) -> str:
    return (FOLDER / f"{name}.yaml").read_text()


def model(name: str) -> Playbook:
    """The playbook, which has no errors."""
    playbook, found = check(source(name))
    assert [str(d) for d in found if d.severity == "error"] == []
    assert playbook is not None
    return playbook


def answer(status: int, data: Any = None, **headers: str) -> Outcome:
    """Return the outcome of `kind: http` for a response."""
    helper = {"status": status, "headers": {k.replace("_", "-"): v for k, v in headers.items()}}
    if status < 400:
        return Outcome.ok({"status": status, "data": data}, http=helper)
    kinds: Any = {401: "auth", 403: "auth", 404: "not_found", 429: "rate_limit"}
    kind = kinds.get(status, "server_error" if status >= 500 else "client_error")
    return Outcome.failed(kind, f"status {status}", code=status, http=helper)


def noop(call: ToolCall) -> Outcome:
    return Outcome.ok(next((call.inputs[k] for k in ("result", "data", "args") if k in call.inputs), None))


@dataclass(frozen=True)
class Played:
    """A finished execution: its state and result, the tool calls, and the tasks in the order of one run's log."""

    world: World
    state: State
    result: Any

    @property
    def calls(self) -> list[ToolCall]:
        return self.world.calls

    def called(self, task: str) -> list[ToolCall]:
        return [c for c in self.calls if c.task == task]

    @property
    def steps(self) -> list[str]:
        """The steps in the order they were scheduled."""
        return [e.data["step"] for e in self.control if e.name == "StepScheduled"]

    @property
    def control(self) -> list[Any]:
        return [e for c in self.world.store.streams[StreamId(self.state.execution_id)] for e in c.events]

    def tasks(self, path: list[int] | None = None) -> list[str]:
        """`task:directive` of every task that ended, of the iteration at `path`."""
        return [
            f"{e.data['task']}:{e.data['directive']['do']}"
            for commits in self.world.store.streams.values()
            for c in commits
            for e in c.events
            if e.name == "TaskProcessed" and (path is None or e.data.get("path") == path)
        ]


def play(name: str, script: Script = noop, payload: Mapping[str, Any] | None = None, secrets: Any = None) -> Played:
    """Run an example to its end; `script` answers every tool, `noop` ones included unless it passes them to `noop`."""
    model(name)
    world = World(tool=lambda call: noop(call) if call.kind == "noop" else script(call), secrets=secrets)
    execution_id = world.start(source(name), payload).execution_id
    state = world.run(execution_id)
    invariants(world, execution_id)
    result = Values(world.store, world.results, execution_id).at(state.result) if state.result is not None else None
    return Played(world, state, result)
