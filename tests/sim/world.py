"""The simulated world: control plane and workers over `tests.sim.ports` and `tests.sim.catalog`, driven by a seed."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from noetl_core.adapters.local.sealer import LocalSealer
from noetl_core.control.admit import Started, StartRequest, admit
from noetl_core.control.asks import head_start
from noetl_core.control.children import SubPlaybooks
from noetl_core.control.core import Control
from noetl_core.control.fence import boundary_of
from noetl_core.control.limits.places import SharedLimits
from noetl_core.control.sweeping.dead_letters import handle_dead_letter
from noetl_core.control.sweeping.sweep import Swept, reconcile, reconcile_safely, sweep
from noetl_core.engine.fold.control_stream import fold_commits
from noetl_core.engine.loops import SpreadRule
from noetl_core.engine.outcome import Outcome
from noetl_core.engine.records import Command, Commit, StreamId
from noetl_core.engine.state import State
from noetl_core.engine.statuses import TERMINAL
from noetl_core.ports import DeadLetter, EventStore, PortError, Sealer
from noetl_core.tools.base import Tool
from tests.sim.catalog import SimCatalog, SimIndex
from tests.sim.concurrent_workers import BusyWorkers
from tests.sim.faulty_asks import SimAsks, freeze
from tests.sim.ports import (
    MAX_RECEIVES,
    SECOND,
    Crash,
    Faults,
    Message,
    OfVersion,
    SimClock,
    SimGates,
    SimQueue,
    SimResults,
    SimStore,
)
from tests.sim.shared_limits import SimPlaces, SimRates
from tests.sim.triggers import SimTriggers

VISIBILITY_S = 120
"""Seconds after which an unacknowledged message is delivered again."""
SPARE_S = 10
SWEEPER_S = 55
"""Seconds that an invocation of the sweeper may take."""
SWEEP_EVERY_S = 60
KEY = b"sim" * 11
"""The key of callback tokens."""


@dataclass
class Record:
    """A stream record on its way to the router."""

    commit: Commit
    at: int


@dataclass
class World:
    """Everything there is. `tool` scripts what tasks do: (kind, inputs, task_run_id, attempt) -> Outcome."""

    faults: Faults = field(default_factory=Faults)
    tool: Callable[[Any], Outcome] | None = None
    stream_on: bool = True
    routers: int = 1
    clock: SimClock = field(default_factory=SimClock)
    secrets: Any = None
    sealer: Sealer | None = field(default_factory=lambda: LocalSealer(lambda: KEY[:32]))
    spread: SpreadRule | None = None
    """The rule by which a worker hands over the rest of a loop; None: never."""
    concurrency: int | None = None
    """The number of workers at the same time, each with a thread of its own: tasks then take the time in `take`. None: one after
    the other, each in no time."""

    skew_s: float = 0
    """Seconds by which the clock of each worker may be ahead of or behind that of the control plane."""

    asks: bool = False
    """If true, workers ask for the next runs."""

    tools: Mapping[str, Tool] = field(default_factory=dict)
    """Kinds besides the scripted ones, as plugins bring them."""

    def __post_init__(self) -> None:
        assert not (self.faults.calls or self.faults.quiet), "a world needs faults of its own: these are used up"
        self.random = random.Random(self.faults.seed)
        self.records: list[Record] = []
        self.store = SimStore(self.faults, self._streamed)
        self.queue = SimQueue(self.faults, self.clock)
        self.results = SimResults(self.faults)
        self.catalog = SimCatalog()
        self.index = SimIndex(self.faults)
        self.gates = SimGates(self.faults)
        self.triggers = SimTriggers(self.faults)
        self.rates = SimRates(self.faults)
        self.places = SimPlaces(self.faults)
        self.next_sweep = self.clock.time + SWEEP_EVERY_S * SECOND
        self.asking = SimAsks(self)
        self.later: list[Callable[[], None]] = []
        """Calls that are on their way."""
        self.in_flight: list[Callable[[], None]] = []
        """Asks that are carried out while a router leaves their boundaries to them."""
        self.at_work: list[tuple[str, Command]] = []
        """The workers that carry out a command, with it; the last one acts."""
        self.violations: list[str] = []
        """Actions of workers without the right to them."""
        self.calls: list[Any] = []
        """Every tool call made, in order: for exactly-once and at-least-once checks."""
        self.handled: list[Any] = []
        self._folded: dict[str, tuple[State, int]] = {}
        self.controls = [self.new_control() for _ in range(self.routers)]
        self.faults.clock = self.clock
        self.workers = BusyWorkers(self.clock)

    def new_control(self, version: int | None = None) -> Control:
        """A control plane process with a cold cache, of a version of the code that writes commits for readers of that version."""
        store: EventStore = self.store if version is None else OfVersion(self.store, version)
        return Control(
            store,
            self.queue,
            self.results,
            self.catalog,
            self.index,
            self.gates,
            self.clock,
            SubPlaybooks(),
            self.triggers,
            callback_key=lambda: KEY,
            asks=self.asks,
            limits=SharedLimits(self.places, self.rates),
        )

    def new_worker(self) -> Any:
        """A worker process; kept apart so that tests may freeze one and thaw it later."""
        from tests.sim.workers import sim_worker

        return sim_worker(self)

    # --- events ---------------------------------------------------------------------------------------------------------

    def _streamed(self, commit: Commit) -> None:
        if not self.stream_on or self.faults.hits("lost record", self.faults.lose_record):
            return
        for _ in range(2 if self.faults.hits("duplicate record", self.faults.duplicate) else 1):
            late = self.random.uniform(0, 20) if self.faults.hits("late record", self.faults.delay) else 0
            self.records.append(Record(commit, self.clock.time + int(late * SECOND)))

    def start(self, source: str, payload: Mapping[str, Any] | None = None, **more: Any) -> Started:
        """A client that retries until it has its answer, with one idempotency key."""
        request = StartRequest(playbook=source, payload=payload or {}, idempotency_key=more.pop("idempotency_key", "key"), **more)
        while True:
            try:
                return admit(self.random.choice(self.controls), request)
            except (Crash, PortError):
                self._restart_control()

    def _restart_control(self) -> None:
        place = self.random.randrange(len(self.controls))
        store = self.controls[place].store
        self.controls[place] = self.new_control(store.version if isinstance(store, OfVersion) else None)

    def route(self, execution_id: str, commits: Sequence[Commit] = ()) -> None:
        boundaries = [b for c in commits if (b := boundary_of(c)) is not None]
        self.random.choice(self.controls).route(execution_id, boundaries)

    def deliver_record(self, record: Record) -> None:
        """At least once: a failing delivery is retried."""
        self.records.remove(record)
        self._leave_to_ask(record.commit)
        try:
            self.route(record.commit.stream.execution_id, [record.commit])
        except (Crash, PortError):
            self._restart_control()
            self.records.append(Record(record.commit, self.clock.time + SECOND))

    def _leave_to_ask(self, commit: Commit) -> None:
        """Wait as the router function does, and let asks arrive meanwhile."""
        if left_s := head_start(commit, self.clock.now()):
            self.clock.sleep(left_s)
            while self.in_flight:
                self.in_flight.pop()()

    def deliver_message(self, message: Message) -> None:
        if message.receives >= MAX_RECEIVES:
            self.queue.messages.remove(message)
            self.queue.letters.append(message)
            return
        message.receives += 1
        if self.concurrency is not None and message.command is not None:
            message.visible_at = self.clock.time + 5_400 * SECOND
            self.workers.begin(lambda: self.carry_out(message))
        else:
            self.carry_out(message)

    def carry_out(self, message: Message) -> None:
        if self.asks:  # others go on while a call is frozen
            message.visible_at = self.clock.time + VISIBILITY_S * SECOND
        try:
            if message.command is None:
                reconcile_safely(self.random.choice(self.controls), message.execution_id, Swept())
            else:
                self.handle(message.command)
            if message in self.queue.messages:
                self.queue.messages.remove(message)
        except (Crash, PortError):
            self._restart_control()
            message.visible_at = self.clock.time + VISIBILITY_S * SECOND

    def handle(self, command: Command) -> None:
        """Run a command in a fresh worker."""
        self.new_worker()(command)

    # --- the loop -------------------------------------------------------------------------------------------------------

    def step(self) -> bool:
        """Do one thing that can happen now, or let time pass; False when nothing can ever happen again."""
        now = self.clock.time
        records = [r for r in self.records if r.at <= now]
        full = self.concurrency is not None and len(self.workers) >= self.concurrency
        messages = [m for m in self.queue.messages if m.visible_at <= now and not (full and m.command is not None)]
        others: list[Callable[[], None]] = [*self.workers.ready(), *(partial(self._arrive, call) for call in self.later)]
        if now >= self.next_sweep:
            others.append(self._sweep)
        if count := len(records) + len(messages) + len(others):
            self._do(self.random.choice(range(count)), records, messages, others)
            return True
        times = [r.at for r in self.records] + [m.visible_at for m in self.queue.messages if m.visible_at > now]
        times += self.workers.times()
        if self.index.due_at:
            times.append(self.next_sweep)
        if not times:
            return False
        self.clock.time = max(now, min(times))
        return True

    def _arrive(self, call: Callable[[], None]) -> None:
        self.later.remove(call)
        call()

    def freeze(self) -> None:
        """Let time pass while a call is frozen, and let others go on."""
        freeze(self)

    def check_holder(self) -> None:
        """Note a violation if the worker that calls a tool does not hold its run: by a claim that lives, or by the newest claim in the
        stream of the run."""
        if not self.asks or not self.at_work:
            return
        name, command = self.at_work[-1]
        stream = StreamId(command.execution_id, command.run_id)
        started = [
            e.data["worker"]
            for c in self.store.streams.get(stream, [])
            for e in c.events
            if e.name in ("StepStarted", "StepResumed")
        ]
        scheduled = self.state(command.execution_id).runs.get(command.run_id)
        claim = scheduled.claim if scheduled is not None else command.claim
        claimed = claim is not None and claim["worker"] == name and self.clock.time < claim["until"]
        if started[-1:] != [name] if started else not claimed:
            self.violations.append(f"{name} calls a tool for {stream}, which {started[-1:] or claim} holds")

    def act_now(self) -> None:
        """Do one thing that can happen now, if there is one."""
        now = self.clock.time
        records = [r for r in self.records if r.at <= now]
        messages = [m for m in self.queue.messages if m.visible_at <= now and self.concurrency is None]
        others: list[Callable[[], None]] = [self._sweep] if now >= self.next_sweep else []
        if count := len(records) + len(messages) + len(others):
            self._do(self.random.randrange(count), records, messages, others)

    def _do(self, n: int, records: list[Record], messages: list[Message], others: list[Callable[[], None]]) -> None:
        """The `n`-th of what can happen."""
        if n < len(records):
            self.deliver_record(records[n])
        elif (n := n - len(records)) < len(messages):
            self.deliver_message(messages[n])
        else:
            others[n - len(messages)]()

    def _sweep(self) -> None:
        """As the sweeper function does: within its time, or dead."""
        self.next_sweep = self.clock.time + SWEEP_EVERY_S * SECOND
        self.faults.dies_at = self.clock.time + SWEEPER_S * SECOND
        control = self.random.choice(self.controls)
        until = self.faults.dies_at - SPARE_S * SECOND
        try:
            sweep(control, until)
            self._bury_all(control)
        except (Crash, PortError):
            self._restart_control()
        finally:
            self.faults.dies_at = None

    def _bury_all(self, control: Control) -> None:
        for letter in list(self.queue.letters):
            command = letter.command
            try:
                if command is None:
                    handle_dead_letter(control, DeadLetter(letter.execution_id))
                else:
                    handle_dead_letter(
                        control, DeadLetter(letter.execution_id, command.run_id, command.step, command.expected_seq)
                    )
            except PortError:
                continue
            self.queue.letters.remove(letter)

    def meanwhile(self) -> None:
        """Advance the control plane while a worker works. Called by a tool."""
        if self.clock.time >= self.next_sweep:
            self._sweep()
        for record in [r for r in self.records if r.at <= self.clock.time]:
            self.deliver_record(record)
        for message in [m for m in self.queue.messages if m.command is None and m.visible_at <= self.clock.time]:
            self.deliver_message(message)

    def take(self, seconds: float) -> None:
        """A task takes its time; its worker's lease is kept meanwhile."""
        if self.concurrency is None:
            self.clock.sleep(seconds)
        else:
            self.workers.take(seconds)

    def deliver_all(self) -> None:
        """Whatever can be delivered now, once, in the order in which it came: thousands of messages in one go."""
        now, records, messages = self.clock.time, self.records, self.queue.messages
        self.records, self.queue.messages = [r for r in records if r.at > now], []
        for record in (r for r in records if r.at <= now):
            self.route(record.commit.stream.execution_id, [record.commit])
        for message in messages:
            if message.visible_at > now:
                self.queue.messages.append(message)
            elif message.command is None:
                reconcile(self.random.choice(self.controls), message.execution_id, Swept())
            else:
                self.handle(message.command)

    def run(self, execution_id: str, limit: int = 20_000, until: Callable[[], bool] | None = None) -> State:
        """Until the execution ends (or `until`); faults stop after half of `limit`. Fails when it stands still."""
        for n in range(limit):
            if n == limit // 2:
                self.faults.quiet = True
            if until() if until else self._status(execution_id) in TERMINAL:
                break
            if not self.step():
                break
        return self.state(execution_id)

    def drain(self, limit: int = 5_000) -> None:
        """Let everything that is still on its way arrive."""
        for _ in range(limit):
            if not self.step():
                return

    def _status(self, execution_id: str) -> str:
        """Return what `state` has, folding only what the log has gained since the last call."""
        commits = self.store.streams.get(StreamId(execution_id), [])
        state, folded = self._folded.get(execution_id, (State(execution_id), 0))
        if folded > len(commits):  # a test has cut the log
            state, folded = State(execution_id), 0
        fold_commits(state, commits[folded:])
        self._folded[execution_id] = state, len(commits)
        return state.status

    def state(self, execution_id: str) -> State:
        """The fold of the log, without faults."""
        return fold_commits(State(execution_id), self.store.streams.get(StreamId(execution_id), []))

    def names(self, execution_id: str, run_id: str | None = None) -> list[str]:
        return [e.name for c in self.store.streams.get(StreamId(execution_id, run_id), []) for e in c.events]
