"""A stack under load with the limits of the services: the real admission, router, worker and sweeper over `tests.sim.limited_ports`.

Every execution is checked when it has ended and is at rest, and then dropped, so that hundreds of thousands fit into memory: one
execution for each key, one end, each step run once, each task called once; one in `whole_every` against all invariants.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from random import Random
from types import SimpleNamespace
from typing import Any, cast

from noetl_core.adapters.aws.events import partition
from noetl_core.control.admit import StartRequest, admit, register
from noetl_core.control.children import SubPlaybooks
from noetl_core.control.core import Control
from noetl_core.control.fence import boundary_of
from noetl_core.control.sweeping.sweep import Swept, reconcile_safely, sweep
from noetl_core.engine.ids import execution_id_from_key
from noetl_core.engine.outcome import Outcome
from noetl_core.engine.records import Boundary, Command, StreamId
from noetl_core.ports import Backlog, PortError, Waiting
from noetl_core.tools.base import ToolCall
from noetl_core.tools.registry import ToolRegistry
from noetl_core.worker.claiming.gates import RecentGates
from noetl_core.worker.service import Worker
from tests.sim import invariants
from tests.sim.catalog import SimCatalog
from tests.sim.limited_ports import (
    SEND_S,
    LimitedIndex,
    LimitedStore,
    Limits,
    Partitions,
    Throughput,
    TimedGates,
    TimedResults,
    quiet,
)
from tests.sim.limits_services import Account, Function, Queue, Queued, Record, Stream, Timeline
from tests.sim.ports import SECOND, SimClock
from tests.sim.triggers import SimTriggers

PROCESSES = 8
"""Control planes and workers with caches of their own; each environment uses one of them."""
LATEST_ANSWER_S = 29
"""The timeout after which the API answers 504 (seconds)."""
ADMIT_S, ROUTE_S, WORK_S = 0.005, 0.004, 0.003
"""Processor time of an invocation for one execution. Assumed."""
RETRY_AFTER_S, HAND_BACK_S = 5, 30
SWEEP_EVERY_S, SWEEP_S = 60, 40


@dataclass
class Seen:
    """Counts by second, from the first start on."""

    admitted: Counter[int] = field(default_factory=Counter)
    ended: Counter[int] = field(default_factory=Counter)
    waiting: dict[int, int] = field(default_factory=dict)
    unrouted: dict[int, int] = field(default_factory=dict)
    running: dict[int, dict[str, int]] = field(default_factory=dict)
    refused: dict[int, int] = field(default_factory=dict)
    partitions: dict[int, int] = field(default_factory=dict)


@dataclass
class _Sending:
    """The `CommandQueue` of the control plane."""

    world: LimitedWorld

    def send(self, commands: Sequence[Command], delay_s: int = 0) -> Sequence[Command]:
        world = self.world
        world.clock.sleep(SEND_S * -(-len(commands) // 10))
        for command in commands:
            world.pending[command.execution_id] += 1
            world.sent[command.execution_id].append(command)
            world.commands.send(Queued(command.execution_id, command, world.clock.time), delay_s)
        return []

    def wake(self, *executions: str, delay_s: int = 0) -> None:
        world = self.world
        world.clock.sleep(SEND_S * -(-len(executions) // 10))
        for execution_id in executions:
            world.pending[execution_id] += 1
            world.wakes.send(Queued(execution_id, None, world.clock.time), delay_s)

    def backlog(self) -> Backlog:
        return Backlog({"default": Waiting(self.depth("default"))}, Waiting(), {})

    def depth(self, pool: str | None) -> int:
        return len((self.world.wakes if pool is None else self.world.commands).ready)


@dataclass
class _Tool:
    world: LimitedWorld
    kind: str = "noop"
    inline: bool = True

    def run(self, call: ToolCall) -> Outcome:
        self.world.calls[call.execution_id] += 1
        if call.step == "make":
            return Outcome.ok(list(range(self.world.items)))
        self.world.clock.sleep(self.world.task_s)
        return Outcome.ok(call.inputs.get("result"))


class _NoHeartbeat:
    """No heartbeat, because no task here takes longer than a lease."""

    def add(self, holder: Any) -> None:
        del holder

    remove = add


class LimitedWorld:
    """A stack with `limits`; a task takes `task_s`. The step `make` returns a list of `items`."""

    items = 0

    def __init__(
        self, limits: Limits, source: str, *, seed: int = 0, task_s: float = 0.05, batch: int = 1, whole_every: int = 50
    ) -> None:
        self.limits, self.task_s, self.random, self.whole_every = limits, task_s, Random(seed), whole_every
        self.clock = SimClock()
        self.began = self.clock.time
        self.timeline = Timeline(self.clock)
        account = Account(limits)
        self.functions = {name: Function(self.timeline, account) for name in ("admit", "router", "worker", "sweeper")}
        faults = quiet()
        self.throughput = Throughput(self.clock, limits.partition_writes, self.random)
        self.stream = Stream(self.timeline, self.functions["router"], self._route_batch)
        self.partitions = Partitions(limits.log_partitions, limits.split_after_s, self.stream.split)
        self.throughput.on_refusal = self._refused
        self.store = LimitedStore(
            faults, lambda commit: None, throughput=self.throughput, partitions=self.partitions, on_written=self._written
        )
        self.index = LimitedIndex(faults, throughput=self.throughput, partitions=limits.index_partitions)
        self.results = TimedResults(faults, clock=self.clock)
        gates = TimedGates(faults, clock=self.clock)
        catalog = SimCatalog()
        self.queue = _Sending(self)
        self.controls = [
            Control(
                self.store, self.queue, self.results, catalog, self.index, gates, self.clock, SubPlaybooks(), SimTriggers(quiet())
            )
            for _ in range(PROCESSES)
        ]
        self.workers = [
            Worker(
                self.store,
                self.results,
                RecentGates(gates, self.clock),
                self.clock,
                playbooks=control.playbook,
                tools=ToolRegistry({"noop": _Tool(self)}),
                name=f"w{n}",
                heartbeat=cast("Any", _NoHeartbeat()),
            )
            for n, control in enumerate(self.controls)
        ]
        queue = partial(Queue, self.timeline, failures=(PortError,), on_gone=self._gone)
        self.commands = queue(
            function=self.functions["worker"],
            handle=self._work,
            batch=batch,
            pollers_at_most=limits.worker_concurrency,
            again_s=HAND_BACK_S,
        )
        self.wakes = queue(
            function=self.functions["router"], handle=self._wake, batch=10, pollers_at_most=1_000, again_s=RETRY_AFTER_S
        )
        self.playbook, _ = register(self.controls[0], source)
        self.pending: Counter[str] = Counter()
        self.sent: dict[str, list[Command]] = _Lists()
        self.calls: Counter[str] = Counter()
        self.live: set[str] = set()
        self.asked: set[str] = set()
        """Requested executions, by the ids of their keys."""
        self.checked: Counter[str] = Counter()
        """Executions that have ended and passed the checks, by status."""
        self.seen = Seen()
        self.tried_again: Counter[str] = Counter()
        self.routing_failed = 0
        self.swept = Swept()
        self._tokens, self._filled = float(limits.api_burst), self.clock.time
        self._until = 0

    # --- clients --------------------------------------------------------------------------------------------------------

    def start_many(self, rate: int, seconds: int) -> None:
        """Start `rate` executions a second, each with a key of its own; clients retry until they get an answer."""
        for n in range(rate * seconds):
            self.timeline.at(self.began + n * SECOND // rate, partial(self._start, f"{n}", 0))
            self.asked.add(execution_id_from_key(f"{n}"))

    def _start(self, key: str, attempt: int) -> None:
        again = partial(self._start, key, attempt + 1)
        pause = 1 + self.random.random() * min(20, 2**attempt)
        refused = None if self._api_takes() else "429 of the API"
        if refused is None:
            answered: list[str] = []
            if not self.functions["admit"].invoke(partial(self._admit, key, answered), lambda: None):
                refused = "503: no invocation"
            elif answered:
                refused = answered[0]
        if refused is not None:
            self.tried_again[refused] += 1
            self.timeline.after(pause, again)

    def _api_takes(self) -> bool:
        now = self.clock.time
        self._tokens = min(self.limits.api_burst, self._tokens + (now - self._filled) / SECOND * self.limits.api_rate)
        self._filled = now
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True

    def _admit(self, key: str, refused: list[str]) -> None:
        began = self.clock.time
        self.clock.sleep(ADMIT_S)
        execution_id = execution_id_from_key(key)
        known = execution_id in self.live or execution_id not in self.asked
        try:
            started = admit(self._control(), StartRequest(path=self.playbook.path, version=1, idempotency_key=key))
        except PortError:
            refused.append("503: the log or the index refused")
        else:
            assert started.execution_id == execution_id
            self.seen.admitted[self._second()] += started.created
            if self.clock.time - began > LATEST_ANSWER_S * SECOND:
                refused.append("504: too late")
        if not known and (StreamId(execution_id) in self.store.streams):
            self.live.add(execution_id)

    def _control(self) -> Control:
        return self.random.choice(self.controls)

    def _second(self) -> int:
        return (self.clock.time - self.began) // SECOND

    # --- the stack ------------------------------------------------------------------------------------------------------

    def _written(self, commit: Any, key: str) -> None:
        self.pending[commit.stream.execution_id] += 1
        self.stream.put(commit, key, self.partitions.of(key))

    def _refused(self, place: str, second: int) -> None:
        kind, _, name = place.partition("#")
        if kind == "log":
            self.partitions.refused(int(name), second)

    def _route_batch(self, batch: Sequence[Record]) -> None:
        """Route like the router function: one execution after the other; a failed one gets a wake."""
        news: dict[str, list[Boundary]] = {}
        for record in batch:
            boundary = boundary_of(record.commit)
            assert boundary is not None
            news.setdefault(record.commit.stream.execution_id, []).append(boundary)
        for execution_id, boundaries in news.items():
            self.clock.sleep(ROUTE_S)
            try:
                self._control().route(execution_id, boundaries)
            except PortError:
                self.routing_failed += 1
                self._later(execution_id)
        for record in batch:
            execution_id = record.commit.stream.execution_id
            self.timeline.at(self.clock.time, partial(self._settle, execution_id))

    def _later(self, execution_id: str) -> None:
        try:
            self.index.set_due(execution_id, self.clock.time)
        except PortError:
            self.tried_again["a batch of the stream"] += 1  # Lambda would redeliver it; here the wake does
        self.queue.wake(execution_id, delay_s=RETRY_AFTER_S)

    def _work(self, message: Queued) -> None:
        self.clock.sleep(WORK_S)
        assert message.command is not None
        self.random.choice(self.workers).handle(message.command)

    def _wake(self, message: Queued) -> None:
        self.clock.sleep(ROUTE_S)
        reconcile_safely(self._control(), message.execution_id, Swept())

    def _gone(self, message: Queued) -> None:
        self._settle(message.execution_id)

    def _sweep(self) -> None:
        self.timeline.after(SWEEP_EVERY_S, self._sweep)

        def work() -> None:
            try:
                swept = sweep(self._control(), self.clock.time + SWEEP_S * SECOND)
            except PortError:
                self.tried_again["a sweep"] += 1
                return
            self.swept = Swept(*(getattr(self.swept, f) + getattr(swept, f) for f in Swept.__dataclass_fields__))

        self.functions["sweeper"].invoke(work, lambda: None)

    # --- ended executions -----------------------------------------------------------------------------------------------

    def _settle(self, execution_id: str) -> None:
        """Check and drop an execution if it has ended and its last message has arrived."""
        self.pending[execution_id] -= 1
        if self.pending[execution_id] > 0 or execution_id in self.index.due_at or execution_id not in self.live:
            return
        control = self.store.streams[StreamId(execution_id)]
        if control[-1].events[-1].name != "PlaybookProcessed":
            return
        self._check(execution_id)

    def _check(self, execution_id: str) -> None:
        names = Counter(event.name for commit in self.store.streams[StreamId(execution_id)] for event in commit.events)
        assert names["PlaybookExecutionRequested"] == names["PlaybookProcessed"] == 1, names
        head = self.index.all_heads.pop(execution_id)
        streams = {stream: self.store.streams[stream] for stream in self.store.runs[execution_id]}
        runs = Counter(e.name for stream, held in streams.items() if stream.run_id for c in held for e in c.events)
        if not names["LoopSliced"]:
            assert names["StepScheduled"] == runs["StepDone"] == len(streams) - 1, (names, runs)
        assert self.calls[execution_id] == runs["TaskProcessed"], f"{execution_id}: a task was called twice"
        if int(execution_id) % self.whole_every == 0:
            whole = SimpleNamespace(
                store=SimpleNamespace(
                    streams=streams, snapshots=self.store.snapshots, read=self.store.read, body=self.store.body
                ),
                queue=SimpleNamespace(sent=self.sent[execution_id]),
                faults=self.store.faults,
                violations=[],
                asking=SimpleNamespace(asked=[], replies=[]),
                state=lambda one: self.controls[0].load(one),
            )
            invariants.check(cast("Any", whole), execution_id)
            self.checked["against all invariants"] += 1
        self.checked[head.status] += 1
        self.checked["tasks called"] += self.calls[execution_id]
        self.seen.ended[self._second()] += 1
        for stream in streams:
            self.stream.forget(partition(stream))
        self.store.forget(execution_id)
        for held in (self.pending, self.sent, self.calls):
            held.pop(execution_id, None)
        self.live.discard(execution_id)
        self.asked.discard(execution_id)

    # --- the loop -------------------------------------------------------------------------------------------------------

    def _sample(self) -> None:
        second = self._second()
        self.seen.waiting[second] = len(self.commands.ready) + self.commands.in_flight
        self.seen.unrouted[second] = self.stream.waiting
        self.seen.running[second] = {name: function.running for name, function in self.functions.items()}
        self.seen.refused[second] = sum(self.throughput.refused.values())
        self.seen.partitions[second] = len(self.partitions.names)
        self.throughput.forget(self.clock.time // SECOND - 1)
        self.timeline.after(1, self._sample)

    def run(self, limit_s: int = 3_600) -> None:
        """Run until all requested executions have ended and were checked, at most for `limit_s`."""
        self.timeline.after(0, self._sample)
        self.timeline.after(SWEEP_EVERY_S, self._sweep)
        self.timeline.run(self.began + limit_s * SECOND, lambda: not self.asked)


class _Lists(dict[str, list[Command]]):
    def __missing__(self, key: str) -> list[Command]:
        self[key] = []
        return self[key]
