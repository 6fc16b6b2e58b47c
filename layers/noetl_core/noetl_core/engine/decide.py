"""`decide`: the one decision function of the control plane. It takes news and returns the events to commit and the effects to
carry out afterwards (docs/architecture.md, "The way of one step").

It is pure. `control.core` loads the state, calls `decide`, commits `Decision.events` at position `state.seq + 1` with
optimistic concurrency, and carries out the effects after that. All effects can be derived again from the state
(`commands_of`), so nothing is lost when they are lost.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from noetl_core.dsl.model import Playbook
from noetl_core.engine import ids
from noetl_core.engine.boundaries import Fact, advance_loop, match_waits, route_boundary, take_fact
from noetl_core.engine.deadlines import execution_limit
from noetl_core.engine.passes import Need, RoutingPass, StepsView
from noetl_core.engine.reads import steps_read
from noetl_core.engine.records import Boundary, Command, Event
from noetl_core.engine.routing import settle
from noetl_core.engine.state import Run, State
from noetl_core.engine.workload import workload_of

__all__ = ["Decision", "Fact", "NewExecution", "commands_of", "decide", "digest_for", "start", "steps_seen"]


@dataclass(frozen=True, slots=True)
class Decision:
    """The result of a decision: `events` to commit at `seq` (none: nothing to do), runs whose commands are to be sent, and
    objects to store before the commit.

    `duplicates` are boundaries that were already routed; their commands are sent again. `state` is the state of the execution
    once the commit is stored at `seq`.
    """

    seq: int
    events: tuple[Event, ...]
    scheduled: tuple[str, ...]
    objects: tuple[tuple[str, bytes], ...]
    duplicates: tuple[Boundary, ...]
    state: State


@dataclass(frozen=True, slots=True)
class NewExecution:
    """An admitted request to start an execution (formal specification 4.1)."""

    execution_id: str
    path: str
    version: int
    payload: Mapping[str, Any]
    ctx: Mapping[str, Any]
    rendered: Mapping[str, Any] = field(default_factory=dict)
    """What templates among the workload's defaults gave: recorded, so that nothing renders them again."""
    parent: Mapping[str, str] | None = None
    key: Mapping[str, str] | None = None
    """`{key, fingerprint}` of an idempotent request, compared when the same key comes again."""
    trace_id: str | None = None


def start(playbook: Playbook, request: NewExecution, now: int, values: Mapping[Need, Any] | None = None) -> Decision:
    """Decide the first commit: the request, its evaluation, the start token, and the first routing pass."""
    state = State(request.execution_id)
    p = RoutingPass(playbook, state, now, 0, values or {})
    p.emit(
        "PlaybookExecutionRequested",
        path=request.path,
        version=request.version,
        digest=playbook.digest,
        payload=dict(request.payload) or None,
        rendered=dict(request.rendered) or None,
        ctx=dict(request.ctx) or None,
        parent=request.parent,
        key=request.key,
        trace_id=request.trace_id,
    )
    p.emit("PlaybookRequestEvaluated", digest=playbook.digest)
    timeout, wrong = execution_limit(p)
    p.emit("WorkflowStarted", entry=playbook.entry_step, timeout_s=timeout)
    if wrong is not None:
        p.fail(wrong.kind, str(wrong))
    p.emit("TokenEnqueued", token=ids.token_id(request.execution_id, None, 0), step=playbook.entry_step)
    settle(p)
    return _decision(p, ())


def decide(
    playbook: Playbook,
    state: State,
    boundaries: Sequence[Boundary],
    facts: Sequence[Fact],
    now: int,
    values: Mapping[Need, Any],
) -> Decision:
    """Route `boundaries` and `facts`, fire timers that are due, then move tokens until none can move.

    Owns and changes `state`: after an error the caller loads it again. Raises `NeedValues` for values that it needs.
    """
    p = RoutingPass(playbook, state, now, state.seq + 1, values)
    ctx_version = state.ctx_version
    if state.finished and not any(fact.kind == "redrive" for fact in facts):
        return _decision(p, tuple(boundaries))
    for fact in facts:
        take_fact(p, fact)
    duplicates = tuple(b for b in boundaries if not route_boundary(p, b))
    if facts or not boundaries:
        _look_at_waits(p)
    else:
        p.judged = ctx_version
    limit = playbook.executor.limits.max_commits
    if p.seq >= limit and p.may_schedule:
        remedy = "if that is meant, raise executor.spec.policy.limits.max_commits"
        p.fail("limit", f"the execution made {limit} commits; {remedy}")
    p.arcs = 0  # those of boundaries that came in are as many as came: what may run away begins here
    settle(p)
    while p.advance:
        advance_loop(p, state.runs[p.advance.pop()])
        settle(p)
    return _decision(p, duplicates)


def _look_at_waits(p: RoutingPass) -> None:
    """Process news from outside the runs: any suspended run may have its answer now, and any loop may go on."""
    for run in list(p.state.runs.values()):
        if run.loop is not None:
            advance_loop(p, run)
        elif run.status == "suspended":
            match_waits(p, run)


def digest_for(state: State, facts: Sequence[Fact]) -> str:
    """Return the digest of the playbook that decides: the one that the execution pins, or the one to which a redrive changes
    it."""
    return next((f.data["digest"] for f in facts if f.kind == "redrive" and "digest" in f.data), state.digest)


def _decision(p: RoutingPass, duplicates: tuple[Boundary, ...]) -> Decision:
    if p.events:
        p.state.seq = p.seq
    return Decision(p.seq, tuple(p.events), tuple(p.scheduled), tuple(p.objects), duplicates, p.state)


def commands_of(playbook: Playbook, state: State, runs: Sequence[str]) -> list[Command]:
    """Return the commands of scheduled runs. They are derived from the state, so they can be sent again at any time."""
    out = []
    workload = workload_of(playbook, state)
    for run_id in runs:
        run = state.runs.get(run_id)
        if run is None or run.status != "scheduled":
            continue
        current = run.as_of == state.seq  # a later state must not be taken for the one the run was scheduled on
        context: dict[str, Any] | None = None
        if current:
            read = steps_seen(playbook, state, run)
            context = {"workload": workload, "ctx": dict(state.ctx), "args": run.args, "steps": read}
            if state.trace_id is not None:
                context["trace_id"] = state.trace_id
        loop, carried_over = None, run.carried_over
        if run.parent is not None:
            lead = state.runs[run.parent]
            assert lead.loop is not None
            loop = {**lead.loop.plan, "run": lead.id}
            carried_over = (lead.carried_over or {}).get("loop", {}).get("chunks", {}).get(str(run.chunk))
        out.append(
            Command(
                execution_id=state.execution_id,
                run_id=run.id,
                step=run.step,
                expected_seq=run.expected_seq,
                mode=run.mode,
                as_of=run.as_of,
                digest=state.digest,
                pool=run.pool,
                chunk=run.chunk,
                loop=loop,
                mail=tuple(run.mail),
                context=context,
                expires_at=state.expires_at,
                carried_over=carried_over,
                undoes=run.undoes,
            )
        )
    return out


def steps_seen(playbook: Playbook, state: State, run: Run) -> dict[str, Any]:
    """Return the finished steps that the templates of a run may read, as its command carries them. A compensation sees its
    own step as the run that it undoes left it."""
    seen = StepsView(state.steps).plain(steps_read(playbook, run.step))
    if run.undoes is not None:
        seen[run.step] = {"status": "ok", "at": run.undoes["at"], "loop": run.undoes["loop"]}
    return seen
