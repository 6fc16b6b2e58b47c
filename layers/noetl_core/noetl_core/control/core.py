"""The shell of the control plane around `engine.decide`: load the state, decide, commit, carry out the effects
(docs/architecture.md, "The way of one step").

Admit, router, sweeper and operators all go through `Control`, on AWS and in the local runner.
"""

from __future__ import annotations

import json
import logging
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import Any

from noetl_core.control.recent import RecentCommits
from noetl_core.dsl.model import Playbook
from noetl_core.engine.deadlines import deadlines
from noetl_core.engine.decide import Decision, Fact, commands_of, decide, digest_for
from noetl_core.engine.passes import Need, NeedValues
from noetl_core.engine.reads import needs_of
from noetl_core.engine.records import Boundary, Commit, StreamId
from noetl_core.engine.snapshots import snapshot
from noetl_core.engine.state import State
from noetl_core.engine.waits import due_at, signal_name
from noetl_core.history import load_state
from noetl_core.playbooks import PlaybookCache
from noetl_core.ports import (
    Clock,
    CommandQueue,
    Conflict,
    EventStore,
    ExecutionIndex,
    Gates,
    Head,
    NotFound,
    PlaybookCatalog,
    ResultStore,
    Unavailable,
)
from noetl_core.values import Values, caller_of

log = logging.getLogger(__name__)

SECOND = 1_000_000
FIRST_RECONCILIATION_S = 90
"""When the sweeper first reconciles an execution: lease (60 s) and some."""
SNAPSHOT_EVERY = 100
"""Commits between snapshots at least; a large state waits until its tail has outgrown it."""
SNAPSHOT_EVENTS = 5_000
"""Events of one decision that nobody should have to fold again."""
COMMIT_BYTES = 512
"""About what a routing commit holds, for that comparison."""
CACHED_STATES = 256
CACHED_BOUNDARIES = 256
"""Each within the inline limit, but for the odd one that wrote much ctx."""
MAX_QUEUE_DELAY_S = 900
"""SQS DelaySeconds limit: timers beyond it wait in the due index."""
MAX_ROUNDS = 200
"""Conflicts and value fetches one routing may go through before it is handed back."""
RETENTION_S = 30 * 24 * 3600


@dataclass
class Control:
    """The control plane over its ports. Thread-safe. States are cached by control position."""

    store: EventStore
    queue: CommandQueue
    results: ResultStore
    catalog: PlaybookCatalog
    index: ExecutionIndex
    gates: Gates
    clock: Clock
    retention_s: int = RETENTION_S
    callback_key: Callable[[], bytes] | None = None
    """What callback tokens are made with."""
    pools: frozenset[str] | None = None
    """Where steps may ask to run; None: anywhere."""
    _states: OrderedDict[str, State] = field(default_factory=OrderedDict)
    _snapshots: dict[str, int] = field(default_factory=dict)
    """Execution -> the position from which on its state is worth keeping again."""
    _seen: dict[tuple[Any, ...], Mapping[str, Any]] = field(default_factory=dict)
    """Data of recent boundaries, by execution and need."""
    _lock: Lock = field(default_factory=Lock)

    # --- playbooks and states -------------------------------------------------------------------------------------------

    def __post_init__(self) -> None:
        self.playbook = PlaybookCache(self.catalog)
        self.recent = RecentCommits(self.store)

    def load(self, execution_id: str, upto: int | None = None) -> State:
        """Return the state of an execution from its log (`history.load_state`)."""
        return load_state(self.store, execution_id, upto)

    def _take(self, execution_id: str) -> tuple[State, bool]:
        """Return the cached state or a newly loaded one, and whether it is newly loaded. The caller owns it until `_keep`."""
        with self._lock:
            state = self._states.pop(execution_id, None)
        return (state, False) if state is not None else (self.load(execution_id), True)

    def _keep(self, state: State) -> None:
        with self._lock:
            self._states[state.execution_id] = state
            self._states.move_to_end(state.execution_id)
            while len(self._states) > CACHED_STATES:
                gone, _ = self._states.popitem(last=False)
                self._snapshots.pop(gone, None)

    def _remember(self, execution_id: str, boundaries: Sequence[Boundary]) -> None:
        """Cache the data of recent boundaries: guards of later steps read their results."""
        with self._lock:
            for b in boundaries:
                if b.event.name != "StepSuspended" and "ctx_writes" not in b.event.data:
                    self._seen[(execution_id, "boundary", b.run_id, b.seq)] = b.event.data
            while len(self._seen) > CACHED_BOUNDARIES:
                self._seen.pop(next(iter(self._seen)))

    # --- routing --------------------------------------------------------------------------------------------------------

    def route(self, execution_id: str, boundaries: Sequence[Boundary] = (), facts: Sequence[Fact] = ()) -> State:
        """Process news of one execution and carry out what follows. Without news: fire timers that are due, and evaluate
        tokens again.

        It is safe to repeat. Raises `NotFound`, `Unavailable` (try again; `NewerLog`: with newer code) and `CorruptLog` (an
        operator must act).
        """
        values: dict[Need, Any] = {(("boundary", b.run_id, b.seq)): b.event.data for b in boundaries}
        fetch = Values(self.store, self.results, execution_id)
        for _ in range(MAX_ROUNDS):
            state, fresh = self._take(execution_id)
            if state.seq < 0:
                raise NotFound(f"there is no execution {execution_id}")
            playbook = self.playbook(digest_for(state, facts))
            for need in needs_of(playbook, state, boundaries):
                if need not in values:
                    values[need] = self._seen.get((execution_id, *need)) or fetch(need)
            try:
                decision = decide(playbook, state, boundaries, facts, self.clock.now(), values)
            except NeedValues as missing:
                fetch.supply(values, missing)
                continue
            if not decision.events and not fresh:
                continue  # a decision to do nothing is never taken from a cache: the next round reads the log
            if decision.events:
                try:
                    self._commit(decision)
                except Conflict:
                    continue
            self._keep(decision.state)
            self._remember(execution_id, boundaries)
            self._after(playbook, decision)
            return decision.state
        raise Unavailable(f"execution {execution_id} is contended: {MAX_ROUNDS} rounds were not enough")

    def admitted(self, playbook: Playbook, decision: Decision) -> None:
        """Carry out the effects of a first commit."""
        self._keep(decision.state)
        self._after(playbook, decision)

    def _commit(self, decision: Decision) -> None:
        for key, body in decision.objects:
            self.results.put(key, body)
        state = decision.state
        self.store.append(
            Commit(
                stream=StreamId(state.execution_id),
                seq=decision.seq,
                ts=self.clock.now(),
                writer=self.clock.nonce(),
                events=decision.events,
                expires_at=state.expires_at,
            )
        )

    def _after(self, playbook: Playbook, decision: Decision) -> None:
        """Carry out the effects of a decision that is committed. Each can be derived again, so a crash in between loses
        nothing."""
        state = decision.state
        names = {e.name for e in decision.events}
        if "ResumeScheduled" in names or "ExecutionResumed" in names:
            self.index.set_due(state.execution_id, self.clock.now() + FIRST_RECONCILIATION_S * SECOND)
        again = {(b.run_id, b.seq) for b in decision.duplicates}
        runs = list(decision.scheduled)
        if "ExecutionResumed" in names or (again and not decision.events):
            runs = [r.id for r in state.runs.values() if r.status == "scheduled"]
        self.send(playbook, state, runs)
        self._set_timers(playbook, state, decision)
        for event in decision.events:
            if event.name == "ChildRequested" and event.data["child"] in state.children:
                self.start_child(state, event.data["child"])
        self.end_orphans(state)
        if names & {"ExecutionPaused", "ExecutionResumed", "ExecutionCancelled", "ExecutionStuck", "ExecutionRedriven"}:
            self.put_head(state)
        long = len(decision.events) >= SNAPSHOT_EVENTS
        if long or (not state.finished and state.seq >= self._snapshots.get(state.execution_id, SNAPSHOT_EVERY)):
            self._snapshot(state)
        if state.finished:
            self._finish(state)

    def send(self, playbook: Playbook, state: State, runs: Sequence[str]) -> None:
        """Send the commands of scheduled runs. Raises `Unavailable` when some could not be sent; a redelivery sends them
        again."""
        if not runs:
            return
        commands = commands_of(playbook, state, runs)
        unsent = self.queue.send(commands)
        if unsent:
            raise Unavailable(f"{len(unsent)} of {len(commands)} commands of execution {state.execution_id} were not sent")

    def _set_timers(self, playbook: Playbook, state: State, decision: Decision) -> None:
        """Send a delayed wake for every timer or deadline within the queue's longest delay. The sweeper finds all others by
        the due index."""
        now = self.clock.now()
        names = {e.name for e in decision.events}
        begun = not names.isdisjoint({"PlaybookExecutionRequested", "ExecutionRedriven", "ExecutionResumed"})
        if decision.scheduled or begun:
            fresh = set(decision.scheduled)
            for deadline in deadlines(playbook, state):
                if deadline.run in fresh or (begun and deadline.run is None) or "ExecutionResumed" in names:
                    self._wake_at(state.execution_id, deadline.at, now)
        for event in decision.events:
            waits: Sequence[Mapping[str, Any]] = ()
            if event.name == "BoundaryRouted" and event.data["run"] in state.runs:
                waits = event.data.get("waits", ())
            elif event.name == "ExecutionResumed":
                waits = [w for r in state.runs.values() for w in r.waits]
            elif event.name == "SignalReceived" and event.data.get("heartbeat"):
                waits = [w for r in state.runs.values() for w in r.waits if signal_name(w) == event.data["name"]]
            times = [at for w in waits if (at := due_at(w)) is not None]
            if times:
                self._wake_at(state.execution_id, min(times), now)

    def _wake_at(self, execution_id: str, at: int, now: int) -> None:
        delay = max(0, -(-(at - now) // SECOND))
        if delay <= MAX_QUEUE_DELAY_S:
            self.queue.wake(execution_id, delay_s=int(delay))

    def _finish(self, state: State) -> None:
        """End an execution: tell the parent, write the head, and only then remove the due item."""
        self.put_head(state)
        caller = caller_of(state.parent)
        if caller is not None and not (state.parent or {}).get("detached"):
            data = {"child": state.execution_id, "status": state.status, "result": state.result, "error": state.failure}
            self.tell_parent(caller, data)
        self.index.clear_due(state.execution_id)

    def tell_parent(self, parent: str, data: Mapping[str, Any]) -> None:
        """Record the end of a child as a fact in the control stream of its parent (mailbox rule)."""
        data = dict(data)
        result = data.get("result")
        if data["status"] == "completed" and result is not None:
            data["result"] = Values(self.store, self.results, data["child"]).at(result)
        else:
            data.pop("result", None)
        try:
            self.route(parent, facts=[Fact("child", {k: v for k, v in data.items() if v is not None})])
        except NotFound:
            log.warning("parent %s of execution %s is gone", parent, data["child"])

    def start_child(self, state: State, child: str) -> None:
        """Create the child that an execution requested. Its id is derived, so it is created once."""
        from noetl_core.control.children import start_child  # children stand on this module

        asked = state.children[child]
        start_child(self, state, child, asked.run, asked.request)

    def end_orphans(self, state: State) -> None:
        """Cancel children whose run has ended before them: by its timeout, by a cancel, or by a redrive."""
        for child, asked in list(state.children.items()):
            if asked.run not in state.runs:
                from noetl_core.control.children import end_child

                end_child(self, state, child, f"the run of {state.execution_id} that asked for it has ended")

    def put_head(self, state: State) -> None:
        """Write the summary that lists show. It can be rebuilt from the log at any time."""
        self.index.put_head(
            Head(
                execution_id=state.execution_id,
                status=state.status,
                path=state.path,
                version=state.version,
                digest=state.digest,
                started_at=state.started_at,
                updated_at=state.updated_at,
                finished_at=state.finished_at,
                error={k: v for k, v in state.failure.items() if k != "fatal"} if state.failure else None,
                parent=state.parent,
                expires_at=state.expires_at,
            )
        )

    def _snapshot(self, state: State) -> None:
        """Store a snapshot of the state, and the position at which the next one is due: after as much log as the state is
        large, so that the cost per commit stays constant."""
        snap = snapshot(state)
        self.store.save_snapshot(snap)
        size = len(json.dumps(snap.state, default=str))
        self._snapshots[state.execution_id] = state.seq + max(SNAPSHOT_EVERY, size // COMMIT_BYTES)
