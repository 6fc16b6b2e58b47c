"""A worker process of the simulated world: the real worker, with scripted tools and no heartbeat thread of its own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from noetl_core.engine.outcome import Outcome
from noetl_core.engine.records import Command
from noetl_core.tools.base import ToolCall
from noetl_core.tools.registry import ToolRegistry
from noetl_core.worker.claiming.asker import Asker
from noetl_core.worker.claiming.handled import Handled
from noetl_core.worker.service import Worker
from tests.sim.ports import SECOND, SimClock

if TYPE_CHECKING:
    from noetl_core.worker.claiming.lease_heartbeat import LeaseHeartbeat
    from tests.sim.world import World

SCRIPTED = ("http", "python", "postgres", "duckdb", "noop", "store")


@dataclass
class ScriptedTool:
    """Answers from `World.tool`, or with its own `result` input; records every call."""

    world: World
    kind: str
    inline: bool = True

    def run(self, call: ToolCall) -> Outcome:
        self.world.calls.append(call)
        if self.world.asks:
            self.world.check_holder()
            if self.world.faults.hits("freeze", self.world.faults.freeze):
                self.world.freeze()
        if self.world.tool is not None:
            return self.world.tool(call)
        return Outcome.ok(call.inputs.get("result", call.inputs.get("args")))


def registry(world: World) -> ToolRegistry:
    """Every kind scripted."""
    return ToolRegistry({kind: ScriptedTool(world, kind) for kind in SCRIPTED} | dict(world.tools))


class WorkerClock(SimClock):
    """The clock of a worker: it differs from that of the world by up to `World.skew_s`, and while one of several workers sleeps,
    the others go on."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._skew = int(world.random.uniform(-world.skew_s, world.skew_s) * SECOND) if world.skew_s else 0

    def now(self) -> int:
        return self._world.clock.now() + self._skew

    def sleep(self, seconds: float) -> None:
        self._world.take(seconds)

    def nonce(self) -> str:
        return self._world.clock.nonce()


class WatchedWorker(Worker):
    """A worker that tells its world which command it is at."""

    world: World

    def handle(self, command: Command, deadline: int | None = None, asks: Callable[[], bool] = bool) -> Handled:
        at_work = self.world.at_work
        at_work.append((self.name, command))
        try:
            return super().handle(command, deadline, asks)
        finally:
            at_work.remove((self.name, command))


class SimWorker:
    """One process handling one command at a time."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.worker = WatchedWorker(
            world.store,
            world.results,
            world.gates,
            world.clock if world.concurrency is None and not world.skew_s else WorkerClock(world),
            playbooks=world.controls[0].playbook,
            tools=registry(world),
            name=f"w{world.clock.nonce()}",
            heartbeat=None if world.concurrency is None else cast("LeaseHeartbeat", world.workers),
            secrets=world.secrets,
            sealer=world.sealer,
            callback_key=world.controls[0].callback_key,
            spread=world.spread,
            rates=world.rates,
            asker=Asker(world.asking, world.clock) if world.asks else None,
        )
        self.worker.world = world

    def __call__(self, command: Command) -> None:
        for following, handled in self.worker.chain(command):
            self.world.handled.append((following, handled))


def sim_worker(world: World) -> Any:
    """A fresh worker process."""
    return SimWorker(world)
