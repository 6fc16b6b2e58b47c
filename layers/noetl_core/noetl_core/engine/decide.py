"""Implements `decide`, the control plane's one decision function: from inputs to events and effects.

It is pure. `control.core` loads the state, calls `decide`, commits `Decision.events` at position `state.seq + 1` with optimistic
concurrency, and carries out `Decision.effects` after that. Lost effects do no harm, because all of them can be derived again from
the log (`engine.dispatch.effects`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Any

from noetl_core.dsl.model import Playbook
from noetl_core.engine import ids
from noetl_core.engine.claims import was_asked
from noetl_core.engine.dispatch import asks
from noetl_core.engine.dispatch.effects import Effect, SendCommands, effects_of
from noetl_core.engine.needs import Need
from noetl_core.engine.records import Ask, Boundary, Command, ControlEvent, OwnWorker
from noetl_core.engine.routing.boundaries import match_waits, route_boundary, take_fact
from noetl_core.engine.routing.deadlines import execution_limit
from noetl_core.engine.routing.distributed_loops import advance_loop
from noetl_core.engine.routing.limit_requests import ask_for_execution
from noetl_core.engine.routing.passes import RoutingPass
from noetl_core.engine.routing.rules import settle
from noetl_core.engine.routing.search_attributes import record_search
from noetl_core.engine.state import State
from noetl_core.events import control
from noetl_core.events.event import Fact
from noetl_core.events.shapes import Blank, By, Parent, RequestKey, Triggered
from noetl_core.values.frozen import frozen

__all__ = ["Decision", "NewExecution", "decide", "digest_for", "start"]


@frozen
class Decision:
    """The result of a decision: `objects` to store, then `events` to commit at `seq` (none: nothing to do), then `effects`.

    `state` is the state of the execution once the commit is stored at `seq`; the effects share nothing with it that a later
    decision changes.
    """

    seq: int
    events: tuple[ControlEvent, ...]
    objects: tuple[tuple[str, bytes], ...]
    effects: tuple[Effect, ...]
    state: State
    recorded: tuple[bool, ...] = ()
    """For each fact whether it is among the events: False for a duplicate, and for one that comes too late."""
    answer: Command | None = None
    """The command of the run that is claimed for the worker that asks."""

    @property
    def ends(self) -> bool:
        """Return whether the execution ends with these events."""
        return any(event.name == "WorkflowFinished" for event in self.events)


@frozen
class NewExecution:
    """An admitted request to start an execution (formal specification 4.1)."""

    execution_id: str
    path: str
    version: int
    payload: Mapping[str, Any]
    ctx: Mapping[str, Any]
    rendered: Mapping[str, Any] = field(default_factory=dict)
    """The values of templates among the workload's defaults. They are recorded, so that nothing renders them again."""
    parent: Parent | None = None
    key: RequestKey | None = None
    """`{key, fingerprint}` of an idempotent request; they are compared when the same key comes again."""
    trace_id: str | None = None
    expires_at: int = 0
    """The instant until which the log is kept (seconds)."""
    trigger: Triggered | None = None
    """The trigger that started the execution; None if a caller started it."""
    labels: Mapping[str, str] = field(default_factory=dict)
    priority: float | None = None
    """The priority of the request, if it has one."""
    strict: bool = False
    undefined: Sequence[Blank] = ()
    """The undefined names that defaults of the workload were rendered without."""
    by: By | None = None


def start(
    playbook: Playbook,
    request: NewExecution,
    now: int,
    values: Mapping[Need, Any] | None = None,
    check: Callable[[], None] | None = None,
    own: OwnWorker | None = None,
) -> Decision:
    """Decide the first commit: the request, its evaluation, the start token, and the first routing pass. `check` and `own` as in
    `decide`."""
    state = State(request.execution_id, expires_at=request.expires_at)
    p = RoutingPass(playbook, state, now, 0, values or {}, check)
    p.emit(
        control.PlaybookExecutionRequested,
        path=request.path,
        version=request.version,
        digest=playbook.digest,
        payload=dict(request.payload) or None,
        rendered=dict(request.rendered) or None,
        ctx=dict(request.ctx) or None,
        parent=request.parent,
        key=request.key,
        trace_id=request.trace_id,
        trigger=request.trigger,
        labels=dict(request.labels) or None,
        priority=request.priority,
        strict=request.strict or None,
        undefined=list(request.undefined) or None,
        by=request.by,
    )
    p.emit(control.PlaybookRequestEvaluated, digest=playbook.digest)
    timeout, wrong = execution_limit(p)
    p.emit(control.WorkflowStarted, entry=playbook.entry_step, timeout_s=timeout)
    if wrong is not None:
        p.fail(wrong.kind, str(wrong))
    ask_for_execution(p)
    p.emit(control.TokenEnqueued, token=ids.token_id(request.execution_id, None, 0), step=playbook.entry_step)
    settle(p)
    if own is not None:
        asks.claim_own(p, own)
    return _decision(p, own=own)


def decide(
    playbook: Playbook,
    state: State,
    boundaries: Sequence[Boundary],
    facts: Sequence[Fact],
    now: int,
    values: Mapping[Need, Any],
    check: Callable[[], None] | None = None,
    ask: Ask | None = None,
    own: OwnWorker | None = None,
) -> Decision:
    """Route `boundaries` and `facts`, fire timers that are due, then move tokens until none can move. One of
    the runs that follow is claimed for `ask`, the request of the worker that wrote the boundary; or those that `own`, the worker
    of this process, ends at once are claimed for it.

    Owns and changes `state`: after an error the caller loads it again. Raises `NeedValues` for values that it needs. `check` is
    called before each token that moves and each template; an exception ends the decision.
    """
    p = RoutingPass(playbook, state, now, state.seq + 1, values, check)
    ctx_version = state.ctx_version
    if state.finished and not any(fact.name == "ExecutionRedriven" for fact in facts):
        late = [take_fact(p, fact) for fact in facts]  # nothing moves any more; only the handling of a failure is recorded
        return _decision(p, recorded=late)
    recorded = [take_fact(p, fact) for fact in facts]
    if not (p.evaluates or p.is_ending):
        # boundaries stay in their streams; the next reconciliation that may evaluate finds them
        return _decision(p, recorded=recorded)
    routed = [route_boundary(p, boundary) for boundary in boundaries]
    if facts or not boundaries:
        _match_all_waits(p)
    else:
        p.judged = ctx_version
    limit = playbook.executor.limits.max_commits
    if p.seq >= limit and p.may_schedule:
        remedy = "if that is meant, raise executor.spec.policy.limits.max_commits"
        p.fail("limit", f"the execution made {limit} commits; {remedy}")
    p.arcs = 0  # arcs of incoming boundaries are bounded; only `settle` can run away
    settle(p)
    while p.advance:
        advance_loop(p, state.runs[p.advance.pop()])
        settle(p)
    again = any(not done and not was_asked(state, b.run_id, b.seq) for b, done in zip(boundaries, routed, strict=True))
    if ask is not None:
        asks.claim_run(p, ask)
    elif own is not None:
        asks.claim_own(p, own)
    return _decision(p, again=again, recorded=recorded, ask=ask, own=own)


def _match_all_waits(p: RoutingPass) -> None:
    """Process inputs from outside the runs: any suspended run may have its answer now, and any loop may continue."""
    for run in list(p.state.runs.values()):
        if run.loop is not None:
            advance_loop(p, run)
        elif run.status == "suspended":
            match_waits(p, run)


def digest_for(state: State, facts: Sequence[Fact]) -> str:
    """Return the digest of the playbook that decides: the one that the execution pins, or the one to which a redrive changes
    it."""
    return next((f.data["digest"] for f in facts if f.name == "ExecutionRedriven" and "digest" in f.data), state.digest)


def _decision(
    p: RoutingPass, *, again: bool = False, recorded: Sequence[bool] = (), ask: Ask | None = None, own: OwnWorker | None = None
) -> Decision:
    """`again`: some boundary was routed before, and not because its worker asked."""
    if p.events:
        if not p.state.finished:
            record_search(p)
        p.state.seq = p.seq
    effects = effects_of(p.playbook, p.state, p.events, p.now, again=again)
    if own is not None and (commands := asks.own_commands(p)):
        effects = (*effects, SendCommands(tuple(commands)))
    answer = None if ask is None else asks.answer_of(p, ask)
    return Decision(p.seq, tuple(p.events), tuple(p.objects), effects, p.state, tuple(recorded), answer)
