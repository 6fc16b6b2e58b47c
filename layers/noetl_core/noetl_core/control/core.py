"""The control plane's shell around `engine.decide`: load, decide, commit, then carry out the effects.

Admit, router, sweeper and operators all go through `Control`, on AWS and in the local runner.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from copy import copy
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Protocol, assert_never

from noetl_core.control.cached_states import CachedStates
from noetl_core.control.deaths import attempt_over, given_up, is_doubtful, next_attempt, stuck_by_deaths
from noetl_core.control.deployment.inbound_sources import InboundSources
from noetl_core.control.deployment.worker_tools import WorkerTools
from noetl_core.control.recent_registrations import RecentRegistrations
from noetl_core.dsl.model import OnFailure
from noetl_core.engine.decide import Decision, decide, digest_for
from noetl_core.engine.dispatch.effects import (
    FIRST_RECONCILIATION_S,
    AcquirePlace,
    ClearDue,
    Effect,
    EndChild,
    HandleFailure,
    ReleasePlace,
    SaveSnapshot,
    SendCommands,
    SetDue,
    StartChild,
    TellParent,
    WakeAt,
    WriteHead,
)
from noetl_core.engine.needs import Need, NeedValues
from noetl_core.engine.reads import needs_of
from noetl_core.engine.records import Ask, Boundary, Command, Commit, OwnWorker, StreamId
from noetl_core.engine.state import State
from noetl_core.events.event import Fact, fact, version_of
from noetl_core.events.shapes import By
from noetl_core.events.waiting import ChildFinished
from noetl_core.log.decoded_commits import RecentCommits
from noetl_core.log.history import caught_up, load_state
from noetl_core.log.stored_values import Values
from noetl_core.playbooks.parsed import PlaybookCache
from noetl_core.ports import (
    NEVER,
    Clock,
    CommandQueue,
    Conflict,
    Deadline,
    EvaluationMarks,
    EventStore,
    ExecutionIndex,
    Gates,
    LimitPlaces,
    NotFound,
    PlaybookCatalog,
    PortError,
    RateLimits,
    ResultStore,
    RunningOutput,
    TriggerStore,
    Unavailable,
)
from noetl_core.values.instants import SECOND

log = logging.getLogger(__name__)

MAX_QUEUE_DELAY_S = 900
"""The limit of SQS DelaySeconds: timers beyond it wait in the due index."""
MAX_ROUNDS = 200
"""The most conflicts and value requests of one routing before it is given back to the queue."""
MAX_ASK_CONFLICTS = 3
"""The most positions that the decision on an ask may lose; then the boundary is left to the stream."""
RETRY_AFTER_S = 5
"""The delay of a wake for effects that could not be carried out."""
RETENTION_S = 30 * 24 * 3600


class Children(Protocol):
    """Starts and ends executions on behalf of others: child executions, and handlers of failures. The implementation needs a
    control plane, and a control plane needs it for its effects."""

    def start(self, control: Control, wanted: StartChild) -> None:
        """Create the child. It is safe to repeat. A child that cannot be created counts as failed. Raises `Unavailable`."""
        ...

    def end(self, control: Control, wanted: EndChild) -> None:
        """Cancel the child. It is safe to repeat. Raises `Unavailable`."""
        ...

    def handle_failure(self, control: Control, ended: HandleFailure) -> None:
        """Start the handler of a failed end, and record it. It is safe to repeat. Raises `Unavailable`."""
        ...


class Limits(Protocol):
    """Assigns places in limits that executions share. Like `Children`, it needs a control plane."""

    @property
    def places(self) -> LimitPlaces: ...

    @property
    def rates(self) -> RateLimits: ...

    def acquire(self, control: Control, execution_id: str, wanted: AcquirePlace) -> None:
        """Get a place, or wait for one; a fact tells the execution when it has the place. It is safe to repeat. Raises
        `Unavailable`."""
        ...

    def release(self, control: Control, freed: ReleasePlace) -> None:
        """Free a place, and give it to the next. It is safe to repeat. Raises `Unavailable`."""
        ...

    def sweep(self, control: Control, key: str) -> None:
        """Free the places of ended holders, and give free places to waiters. Raises `Unavailable`."""
        ...


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
    children: Children
    triggers: TriggerStore
    retention_s: int = RETENTION_S
    callback_key: Callable[[], bytes] | None = None
    """The key that signs callback tokens."""
    strict: bool = False
    """The default of `strict` for playbooks that do not set it."""
    on_end: Callable[[State], None] = lambda _: None
    """Called once with the state of an execution that ends."""
    on_failure: OnFailure | None = None
    """The default handler of failures."""
    link: str = ""
    """The address of an execution's page for people, with `{execution_id}` in it; empty: none."""
    pools: frozenset[str] | None = None
    """The pools in which steps may run; None: any."""
    inbound_sources: InboundSources | None = None
    """The sources from which triggers can receive something; None: unknown."""
    worker_tools: WorkerTools | None = None
    """The tools that the workers have; None: unknown."""
    limits: Limits | None = None
    output: RunningOutput | None = None
    """The output of running tasks, where it is readable; else None."""
    by: By | None = None
    """The caller; None if the engine acts by itself."""
    marks: EvaluationMarks | None = None
    risked: set[str] | None = None
    """Executions whose templates this process evaluates although they have ended a process; None: all. Others get a wake."""
    postponed: Callable[[str], None] | None = None
    """Takes executions that are not risked, instead of a wake."""
    deadline: Deadline = NEVER
    """The deadline of its work."""
    after_commit: Callable[[Callable[[], None]], None] = lambda call: call()
    """Calls a function when the transaction of its caller is committed: nobody decides on a state that may be taken back."""
    asks: bool = False
    """If true, the stack has an ask function: commands then state when their worker may call it."""
    registrations: RecentRegistrations = field(default_factory=RecentRegistrations)
    """Registrations that this process has just made or found; by default, starts by text always read the catalog."""

    # --- playbooks and states -------------------------------------------------------------------------------------------

    def __post_init__(self) -> None:
        self.states = CachedStates(self.store)
        self.playbook = PlaybookCache(self.catalog)
        self.recent = RecentCommits(self.store)

    def on_behalf_of(self, by: By | None) -> Control:
        """Return this control plane, with its caches, for the caller `by`, who is recorded as the author."""
        if by == self.by:
            return self
        other = copy(self)
        other.by = by
        return other

    def within(self, deadline: Deadline) -> Control:
        """Return this control plane, with its caches, for work that must end by `deadline`: its rounds, decisions and effects
        raise `OutOfTime` after that."""
        other = copy(self)
        other.deadline = deadline
        return other

    def load(self, execution_id: str, upto: int | None = None) -> State:
        """Return the state of an execution from its log (`log.history.load_state`)."""
        return load_state(self.store, execution_id, upto)

    def latest(self, execution_id: str) -> State:
        """Return the state of an execution, to be read before the next decision: that of the last decision where this process
        has it, otherwise from the log."""
        return self.states.get(execution_id) or self.load(execution_id)

    def forget(self) -> None:
        """Drop what was cached of commits that were taken back."""
        self.states.forget_taken_back()

    def _keep(self, state: State) -> None:
        if not state.finished:  # otherwise no further delivery is likely
            self.after_commit(partial(self.states.put, state))

    # --- routing --------------------------------------------------------------------------------------------------------

    def route(
        self,
        execution_id: str,
        boundaries: Sequence[Boundary] = (),
        facts: Sequence[Fact] = (),
        own: OwnWorker | None = None,
    ) -> State:
        """Process the inputs of one execution and carry out their effects. Without inputs: fire timers that are due, and evaluate
        tokens again. Runs that `own` accepts are claimed for it. It is safe to repeat. Raises `NotFound`, `Unavailable` (try
        again; `NewerLog`: with newer code) and `CorruptLog` (an operator must act)."""
        return self._route(execution_id, boundaries, facts, own=own).state

    def answer(self, ask: Ask, boundary: Boundary) -> Command | None:
        """Route the boundary of a worker that asks, and claim one of the runs that follow for it. Returns the command of the
        claimed run, if there is one. If the boundary was routed before, nothing is done.

        The stream delivers the boundary, too, so nothing is lost if this raises. Raises as `route`, and `Unavailable` if other
        writers were first `MAX_ASK_CONFLICTS` times, or the execution's templates have ended a process.
        """
        answer = self._route(ask.execution_id, (boundary,), (), ask).answer
        return None if answer is None else self.addressed([answer])[0]

    def record(self, execution_id: str, fact: Fact) -> tuple[State, bool]:
        """Route one fact, and return the state after it and whether the log has it from this call. False means that the fact is a
        duplicate or came too late: then the caller must find it in the state before acknowledging it. Raises as
        `route`."""
        decision = self._route(execution_id, (), (fact,))
        return decision.state, all(decision.recorded)

    def _route(
        self,
        execution_id: str,
        boundaries: Sequence[Boundary],
        facts: Sequence[Fact],
        ask: Ask | None = None,
        own: OwnWorker | None = None,
    ) -> Decision:
        values: dict[Need, Any] = {(("boundary", b.run_id, b.seq)): b.event.data for b in boundaries}
        fetch = Values(self.store, self.results, execution_id)
        attempt: Sequence[Fact] = ()
        asked = len(facts)
        left_to_ask = any(boundary.asks for boundary in boundaries)  # another process has probably routed it
        conflicts = 0
        current: State | None = None
        for _ in range(MAX_ROUNDS):
            self.deadline.check()
            state, fresh = (
                self.states.take(execution_id, None if ask is None else ask.seen) if current is None else (current, True)
            )
            current = None
            if state.seq < ask.seen if ask is not None else left_to_ask and not fresh:
                state, fresh = caught_up(self.store, state), True
            if state.seq < 0:
                raise NotFound(f"there is no execution {execution_id}")
            doubtful = not attempt and is_doubtful(state, facts)
            if ask is not None and doubtful:
                self._keep(state)
                raise Unavailable(
                    f"templates of execution {execution_id} have ended a process: the execution is left to the router"
                )
            if doubtful and given_up(state):
                facts, doubtful = (*facts, stuck_by_deaths()), False
            elif doubtful and (self.risked is None or execution_id in self.risked):
                attempt = self._attempt(state)
                continue
            playbook = self.playbook(digest_for(state, facts))
            for need in needs_of(playbook, state, boundaries):
                if need not in values:
                    values[need] = self.states.remembered(execution_id, need) or fetch(need)
            try:
                with nullcontext() if attempt else self.evaluating(execution_id):  # an attempt is recorded already
                    now = self.clock.now()
                    inputs = (*attempt, *facts)
                    decision = decide(playbook, state, boundaries, inputs, now, values, self.deadline.check, ask, own)
            except NeedValues as missing:
                fetch.supply(values, missing)
                continue
            if not decision.events and not fresh:
                # a decision to do nothing is never taken from a cache: the next round has read the log's tail
                current = caught_up(self.store, decision.state)
                continue
            if decision.events:
                try:
                    self.commit(decision)
                except Conflict:
                    conflicts += 1
                    if ask is not None and conflicts == MAX_ASK_CONFLICTS:
                        raise Unavailable(f"execution {execution_id} is contended: the boundary is left to the stream") from None
                    continue
            self.states.remember(execution_id, boundaries)
            if ask is not None:
                self._conclude_ask(decision, ask)
                return decision
            self.conclude(decision)
            if doubtful:
                (self.postponed or self.queue.wake)(execution_id)
            recorded = decision.recorded[len(attempt) : len(attempt) + asked]
            return decision if recorded == decision.recorded else replace(decision, recorded=recorded)
        raise Unavailable(f"execution {execution_id} is contended: {MAX_ROUNDS} rounds were not enough")

    def evaluating(self, execution_id: str) -> AbstractContextManager[None]:
        """Mark the execution while the block evaluates its templates, so that the end of this process can be attributed to it."""
        return nullcontext() if self.marks is None else self.marks.mark(execution_id)

    def _attempt(self, state: State) -> Sequence[Fact]:
        """Record the attempt to evaluate templates that have ended a process. Returns the fact that removes the mark; None if
        another process was first."""
        playbook = self.playbook(state.digest)
        try:
            self.commit(decide(playbook, state, (), [next_attempt(state)], self.clock.now(), {}))
        except Conflict:
            return ()
        return (attempt_over(),)

    def conclude(self, decision: Decision) -> None:
        """Keep the state of a decision that is committed, and carry out its effects. The next decision then owns the state,
        so read it before."""
        effects = (*decision.effects, *self.states.outgrown(decision))
        self._keep(decision.state)
        self.carry_out(decision.state.execution_id, effects)

    def _conclude_ask(self, decision: Decision, ask: Ask) -> None:
        """Like `conclude`, but effects that cannot be carried out are left to a wake, and the worker is answered. If the boundary
        was routed before, its router carries out the effects."""
        if not decision.events:
            self._keep(decision.state)
            return
        try:
            self.conclude(decision)
        except PortError:
            log.exception("the effects of an ask are left to a wake of execution %s", ask.execution_id)
            self._wake_later(ask.execution_id)

    def _wake_later(self, execution_id: str) -> None:
        try:
            self.index.set_due(execution_id, self.clock.now())
            self.queue.wake(execution_id, delay_s=RETRY_AFTER_S)
        except PortError:
            log.exception("execution %s could not be woken; it stays due", execution_id)

    def commit(self, decision: Decision) -> None:
        """Write the events of a decision. Raises `Conflict` when another writer was first."""
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
                v=version_of(decision.events),
            )
        )
        if decision.ends:
            self.on_end(state)

    def due_soon(self, execution_id: str, now: int | None = None) -> None:
        """Make an execution due before the commit that starts it: if this process ends after the commit, the sweeper finds it."""
        now = self.clock.now() if now is None else now
        self.index.set_due(execution_id, now + FIRST_RECONCILIATION_S * SECOND)

    def carry_out(self, execution_id: str, effects: Iterable[Effect]) -> None:
        """Carry out effects in their order. Raises `Unavailable` when one fails, and `OutOfTime`. The next router of the same
        inputs, or the sweeper, derives the failed effect and the later ones again."""
        for effect in effects:
            self.deadline.check()
            match effect:
                case SendCommands():
                    self._send(execution_id, effect.commands)
                case WakeAt():
                    self._wake(execution_id, effect.at)
                case StartChild():
                    self.children.start(self, effect)
                case EndChild():
                    self.children.end(self, effect)
                case AcquirePlace():
                    assert self.limits is not None, "the wiring gives no limits"
                    self.limits.acquire(self, execution_id, effect)
                case ReleasePlace():
                    assert self.limits is not None, "the wiring gives no limits"
                    self.limits.release(self, effect)
                case WriteHead():
                    self.index.put_head(effect.head)
                case SaveSnapshot():
                    self.states.save(effect.snapshot)
                case TellParent():
                    self.tell_parent(effect)
                case HandleFailure():
                    self.children.handle_failure(self, effect)
                case SetDue():
                    self.index.set_due(execution_id, effect.at)
                case ClearDue():
                    self.index.clear_due(execution_id)
                case _:
                    assert_never(effect)

    def _send(self, execution_id: str, commands: Sequence[Command]) -> None:
        unsent = self.queue.send(self.addressed(commands))
        if unsent:
            raise Unavailable(f"{len(unsent)} of {len(commands)} commands of execution {execution_id} were not sent")

    def addressed(self, commands: Sequence[Command]) -> Sequence[Command]:
        """Return commands in their sent form: without an ask function, no command allows its worker to ask."""
        return commands if self.asks else [replace(command, asks=False) if command.asks else command for command in commands]

    def _wake(self, execution_id: str, at: int) -> None:
        """Send a delayed wake if the queue allows so long a delay. The sweeper finds due items in any case."""
        delay = max(0, -(-(at - self.clock.now()) // SECOND))
        if delay <= MAX_QUEUE_DELAY_S:
            self.queue.wake(execution_id, delay_s=int(delay))

    def tell_parent(self, news: TellParent) -> None:
        """Record the end of a child as a fact in the control stream of its parent (mailbox rule)."""
        told: ChildFinished = {"child": news.child, "status": news.status}
        if news.status == "completed" and news.result is not None:
            result = Values(self.store, self.results, news.child).at(news.result)
            if result is not None:
                told["result"] = result
        if news.error is not None:
            told["error"] = news.error
        try:
            self.route(news.parent, facts=[fact(ChildFinished, **told)])
        except NotFound:
            log.warning("parent %s of execution %s is gone", news.parent, news.child)
