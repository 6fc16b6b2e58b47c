"""The worker: claims a run, drives its pipeline, ends it. It runs tools; it never starts a step."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from noetl_core.dsl.kinds import WAITING_KINDS
from noetl_core.dsl.model import Playbook, Step, Task
from noetl_core.engine.dispatch.asks import only_waits
from noetl_core.engine.loops import SpreadRule
from noetl_core.engine.records import Ask, Command, Event, StreamId
from noetl_core.events.event import BoundaryEvent, new
from noetl_core.events.runs import StepFailed, StepSuspended
from noetl_core.events.shapes import ChunkOfLoop, Failure
from noetl_core.expr import TemplateError
from noetl_core.ports import (
    Clock,
    EventStore,
    Gates,
    PortError,
    RateLimits,
    ReadsSecrets,
    ResultStore,
    RunningOutput,
    Sealer,
    TokenCache,
    Unavailable,
)
from noetl_core.tools.http.execution_tokens import ExecutionTokens
from noetl_core.tools.registry import ToolRegistry
from noetl_core.values.instants import SECOND
from noetl_core.worker.activation import Activation, Invocation
from noetl_core.worker.claiming.asker import CLAIM_WITHIN_S, Asker
from noetl_core.worker.claiming.claim import Claim, Claims
from noetl_core.worker.claiming.handled import Handled
from noetl_core.worker.claiming.journal import LEASE_S, MAX_BUFFERED, Fenced
from noetl_core.worker.claiming.lease_heartbeat import LeaseHeartbeat
from noetl_core.worker.claiming.run_lease import Cancelled, RunLease
from noetl_core.worker.pipeline_passes import PipelinePasses
from noetl_core.worker.runner import Runner
from noetl_core.worker.secrets.callback_tokens import LOCAL_URL, CallbackTokens
from noetl_core.worker.secrets.credentials import PermittedCredentials, Registered
from noetl_core.worker.secrets.keychain import Keychain
from noetl_core.worker.secrets.sealing import Seals
from noetl_core.worker.tasks.tool_caller import ToolCaller
from noetl_core.worker.turns import Share, Turn
from noetl_core.worker.values.execution_view import TEMPLATE_BYTES, Resolver, Views
from noetl_core.worker.values.offload import RunValues
from noetl_core.worker.waits.stop_run import StopRun, was_ended

if TYPE_CHECKING:
    from noetl_core.tools.http.access_tokens import Tokens

log = logging.getLogger(__name__)

CHAIN_S = 30
"""Seconds after which a worker asks for no further run, so that other commands get it."""
LEAST_LEFT_S = 30
"""With less time left in its invocation a worker asks for no run."""
UNLIMITED_S = 24 * 3600
"""The remaining time of a worker without a deadline, as stated in asks."""
FEW_ITERATIONS = 100
"""The most iterations of a chunk that takes only milliseconds if its tools never block."""


@dataclass(eq=False)
class Worker:
    """The data plane over its ports. Without `heartbeat` (in the simulator), no lease is renewed while a task runs."""

    store: EventStore
    results: ResultStore
    gates: Gates
    clock: Clock
    playbooks: Callable[[str], Playbook]
    tools: ToolRegistry
    secrets: ReadsSecrets | None = None
    registered: Registered | None = None
    name: str = "worker"
    gone: Callable[[str], bool] | None = None
    """Returns whether the worker with that name is known to have ended; then its runs are taken over before their lease
    expires."""
    heartbeat: LeaseHeartbeat | None = field(default_factory=LeaseHeartbeat)
    sealer: Sealer | None = None
    token_cache: TokenCache | None = None
    """The store of access tokens that workers share."""
    spread: SpreadRule | None = None
    """The rule by which a loop without `exec` is handed over to other workers; None: never."""
    rates: RateLimits | None = None
    """The rates that tasks share; None where the worker has no access to them."""
    callback_key: Callable[[], bytes] | None = None
    callback_url: str = LOCAL_URL
    """The URL at which callbacks are answered, with `{token}` in it."""
    paths_required: bool = False
    """A credential without paths is for no playbook: on a stack."""
    output: RunningOutput | None = None
    """Publishes the output of running tasks; None: it is not published."""
    asker: Asker | None = None
    """Asks the control plane for runs that follow from ended ones; None: they come from the queue alone."""
    most_buffered: int = MAX_BUFFERED
    """The most events of a run that are buffered before a commit."""

    def __post_init__(self) -> None:
        self.views = Views(self.store, self.results, self.playbooks)
        self._at_work: dict[StreamId, RunLease] = {}
        self._lock = threading.Lock()
        self._leaving = False
        self._tokens: Tokens | None = None

    def tokens(self) -> Tokens:
        """Return the cache of access tokens of the process."""
        with self._lock:
            if self._tokens is None:
                from noetl_core.tools.http.access_tokens import Tokens  # 60 ms: only tasks and keychains with OAuth need it

                self._tokens = Tokens(cache=self.token_cache, sealer=self.sealer, key=self.callback_key, now=self.clock.now)
            return self._tokens

    def close(self) -> None:
        """Close the connections of tools and tokens."""
        self.tools.close()
        with self._lock:
            tokens, self._tokens = self._tokens, None
        if tokens is not None:
            tokens.close()

    def chain(self, command: Command, deadline: int | None = None, turn: Turn | None = None) -> Iterator[tuple[Command, Handled]]:
        """Carry out a command, and then runs that follow from it, as long as the control plane answers with some. `turn` is the
        turn in which this happens. Raises as `handle` for the first command alone."""
        until = 0 if self.asker is None else self.clock.now() + CHAIN_S * SECOND
        handled = self.handle(command, deadline, partial(self._asks, command, deadline, until))
        yield command, handled
        while (following := self._following(command, handled, deadline, turn)) is not None:
            command = following
            try:
                handled = self.handle(command, deadline, partial(self._asks, command, deadline, until))
            except Exception:  # the message of the first command is not concerned, and its run has ended
                log.exception("run %s, for which this worker had asked, failed; another worker takes it over", command.run_id)
                return
            yield command, handled

    def _asks(self, command: Command, deadline: int | None, until: int) -> bool:
        """Return whether this worker will ask about the end of a run, so that the router leaves that boundary to it for a
        moment."""
        if self.asker is None or not command.asks or self._leaving or self.asker.is_paused:
            return False
        now = self.clock.now()
        return now < until and (deadline is None or deadline - now >= LEAST_LEFT_S * SECOND)

    def _following(self, command: Command, handled: Handled, deadline: int | None, turn: Turn | None) -> Command | None:
        """Return the command of a run that follows from an ended one and is claimed for this worker; None if there is none."""
        if self.asker is None or handled.boundary is None:
            return None
        now = self.clock.now()
        ends = now + UNLIMITED_S * SECOND if deadline is None else deadline
        ask = Ask(
            id=self.clock.nonce(),
            execution_id=command.execution_id,
            run_id=command.run_id,
            seq=handled.boundary,
            seen=command.as_of,
            worker=self.name,
            pool=command.pool,
            deadline=ends,
            until=now + CLAIM_WITHIN_S * SECOND,
            computes=turn is None or turn.may_compute(),
        )
        following = self.asker.ask(ask)
        if following is not None and turn is not None:
            turn.become(self.share(following))
        return following

    def handle(self, command: Command, deadline: int | None = None, asks: Callable[[], bool] = bool) -> Handled:
        """Carry out one command. `deadline` (microseconds) is the end of the invocation. `asks` returns, when the run ends,
        whether the caller will ask about it. Raises port errors, after which the queue delivers the command again."""
        gate = self.gates.gate(command.execution_id)
        if (gate.mode == "stop" and command.undoes is None) or command.run_id in gate.stopped_runs:
            return Handled("dropped", "the execution is being stopped")
        claimed_here = command.claim is not None and not command.claim["ask"]  # it began before the pause, and ends at once
        if gate.mode == "pause" and not claimed_here:
            return Handled("dropped", "the execution is paused; resuming sends the command again")
        stream = StreamId(command.execution_id, command.run_id)
        lease = RunLease(self.gates, self.clock, command, self.output)
        with self._lock:
            if self._leaving:
                raise Unavailable("this process is about to end")
            if self._at_work.setdefault(stream, lease) is not lease:
                return Handled("hand_back", "this process is at work on it", LEASE_S)
        try:
            claims = Claims(self.store, self.clock, self.name, self.gone, self.most_buffered)
            claim = (claims.take if command.claim is None else claims.begin)(command, deadline, lease)
            if isinstance(claim, Handled):
                return claim
            if command.undoes is not None and command.undoes.get("stops"):
                return self._stop(command.undoes["run"], claim, command)
            return self._run(command, claim, deadline, asks)
        except Exception:
            if command.claim is not None:  # no queue delivers it again
                with suppress(PortError, Fenced):
                    lease.leave("its worker failed")
            raise
        finally:
            with self._lock:
                del self._at_work[stream]

    def leave(self, reason: str) -> None:
        """Shut down: take no more commands, and release every run in progress, so that another worker need not wait for its
        lease. If a release cannot be written, the lease expires."""
        with self._lock:
            self._leaving = True
            at_work = list(self._at_work.values())
        for lease in at_work:
            with suppress(PortError, Fenced):
                lease.leave(reason)

    def share(self, command: Command) -> Share:
        """Return whether the command may run at the same time as others in its process."""
        if command.mode == "takeover":
            return "alone"
        if command.undoes is not None and command.undoes.get("stops"):
            return "waits"
        step = self.playbooks(command.digest).body(command.step, undo=command.undoes is not None)
        return "waits" if only_waits(step) else "computes"

    def runs_inline(self, command: Command) -> bool:
        """Return whether a command ends within milliseconds: a step without a loop, or a chunk of a few iterations, whose tools
        never block and whose policies neither retry nor jump."""
        step = self.playbooks(command.digest).by_name[command.step]
        few = command.chunk is not None and command.loop is not None and command.loop["chunk_size"] <= FEW_ITERATIONS
        short = step.loop is None or (few and step.loop.inner is None and step.loop.cursor is None)
        return short and command.undoes is None and self.ends_at_once(step)

    def ends_at_once(self, step: Step) -> bool:
        """Return whether the tasks of a step end within milliseconds: their tools never block, and their policies neither retry
        nor jump."""
        return all(map(self._ends_at_once, step.tasks))

    def _ends_at_once(self, task: Task) -> bool:
        rules = () if task.policy is None else task.policy.rules
        straight = not any(rule.then.do in ("retry", "jump") for rule in rules)
        return straight and task.kind not in WAITING_KINDS and task.rate is None and self.tools.inline(task.kind)

    def _stop(self, ended: str, claim: Claim, command: Command) -> Handled:
        """Stop the outside work of the run `ended`."""
        with self._renewed(claim.lease):
            try:
                stop_run = StopRun(self.store, self.tools, self.clock, command, claim.lease.cancelled)
                boundary = stop_run.carry_out(ended, claim.history)
                counted: Any = {**boundary.data, "events": claim.journal.events + 1}
                claim.journal.put(replace(boundary, data=counted))
                claim.journal.close()
            except Fenced as fenced:
                return Handled("dropped", f"fenced: {fenced}")
        return Handled("suspended" if boundary.name == "StepSuspended" else "done", boundary.name)

    # --- the run --------------------------------------------------------------------------------------------------------

    def _run(self, command: Command, claim: Claim, deadline: int | None, asks: Callable[[], bool]) -> Handled:
        lease = claim.lease
        activation, runner, keychain = self._activate(command, claim, deadline)
        with self._renewed(lease):
            try:
                refused = _refused_by(keychain) if command.as_of == 0 and command.mode == "first" else None
                return _end(activation, runner.run() if refused is None else new(StepFailed, 0, error=refused), asks)
            except Fenced as fenced:
                lease.stop()
                if was_ended(self.store, StreamId(command.execution_id, command.run_id)):
                    runner.tasks.stop_begun()
                return Handled("dropped", f"fenced: {fenced}")
            except Cancelled:
                if lease.being_ended:
                    return Handled("dropped", "the control plane ends the run")
                error: Failure = {"kind": "cancelled", "message": "the execution was stopped", "retryable": False}
                try:
                    return _end(activation, new(StepFailed, 0, error=error), asks)
                except Fenced as fenced:
                    return Handled("dropped", f"fenced: {fenced}")

    @contextmanager
    def _renewed(self, lease: RunLease) -> Iterator[None]:
        """Have the heartbeat renew a lease during the block."""
        if self.heartbeat is not None:
            self.heartbeat.add(lease)
        try:
            yield
        finally:
            if self.heartbeat is not None:
                self.heartbeat.remove(lease)
            lease.hide_output()

    def _activate(self, command: Command, claim: Claim, deadline: int | None) -> tuple[Activation, Runner, Keychain]:
        """Return the activation of a claimed run, its runner, and its keychain."""
        playbook = self.playbooks(command.digest)
        step = playbook.body(command.step, undo=command.undoes is not None)
        secrets = None
        if self.secrets is not None:
            secrets = PermittedCredentials(self.secrets, command.digest, self.registered, self.paths_required)
        resolve = Resolver(
            self.store, self.results, command.execution_id, max(TEMPLATE_BYTES, playbook.executor.limits.max_input_bytes)
        )
        tokens = ExecutionTokens(self.tokens, command.execution_id, resolve.family.first)
        as_of = claim.history.as_of
        view = self.views(command, command.as_of if as_of is None else as_of)
        names = {"workload": view.workload, "execution_id": command.execution_id, "trigger": view.trigger}
        keychain = Keychain(playbook, secrets, tokens, names, resolve, strict=view.strict)
        tainted = bool(playbook.keychain) or claim.history.masked
        activation = Activation(
            playbook=playbook,
            step=step,
            step_run=command.loop["run"] if command.loop is not None else command.run_id,
            chunk=_chunk(command),
            values=RunValues(view, keychain, self.results, resolve, playbook.executor, tainted=tainted),
            claim=claim,
            clock=self.clock,
            invocation=Invocation(deadline, used=command.claim is not None),
        )
        seals = Seals(self.sealer, command.execution_id, command.run_id) if self.sealer is not None else None
        runner = Runner(
            activation,
            PipelinePasses(activation, seals),
            ToolCaller(activation, self.tools, keychain.read, tokens),
            CallbackTokens(step, command.execution_id, command.run_id, self.callback_key, self.callback_url),
            self.rates,
            None if command.undoes is not None else self.spread,
        )
        return activation, runner, keychain


def _refused_by(keychain: Keychain) -> Failure | None:
    """Return why the execution cannot continue: the first run of an execution resolves the credentials of all steps, so that a
    missing one fails it before anything is done."""
    try:
        keychain.check()
    except TemplateError as error:
        return {"kind": error.kind, "message": error.message, "retryable": False, "fatal": True}
    return None


def _chunk(command: Command) -> ChunkOfLoop | None:
    """Return the loop and the chunk of a command for a chunk run."""
    if command.loop is None or command.chunk is None:
        return None
    return {**command.loop, "chunk": command.chunk}


def _end(activation: Activation, ended: BoundaryEvent, asks: Callable[[], bool]) -> Handled:
    """Write the boundary commit. It states whether the worker asks about it."""
    counted: Any = {**ended.data, "events": activation.claim.journal.events + 1}
    spread = ended.name == "StepSuspended" and "succeeded" in ended.data
    if (ended.name != "StepSuspended" or spread) and (aggregates := activation.claim.journal.aggregates.stated()) is not None:
        counted["aggregates"] = aggregates
    boundary: Any = Event(ended.name, activation.clock.now(), counted)
    activation.recorder.put(boundary)
    asked = ended.name != "StepSuspended" and asks()
    activation.claim.journal.close(asks=asked)
    if ended.name == "StepSuspended" and spread:
        return Handled("spread", _why(ended.data))
    if ended.name == "StepSuspended":
        return Handled("suspended", ended.name)
    return Handled("done", ended.name, boundary=activation.claim.journal.seq - 1 if asked else None)


def _why(handed_over: StepSuspended) -> str:
    """Return why a loop was handed over, in words."""
    plan = handed_over["loop"]
    first, left = plan.get("first", 0), plan["total"] - plan.get("first", 0)
    return (
        f"{first} iterations took {plan.get('seconds', 0):.3g} s each; the {left} that are left go to {plan['chunks'] - 1} chunks"
    )


__all__ = ["LEASE_S", "Handled", "Worker"]
