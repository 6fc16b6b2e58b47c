"""Routes inputs: boundaries of run streams, and facts that reach the control plane from outside (docs/architecture.md)."""

from __future__ import annotations

from typing import assert_never, cast

from noetl_core.engine import ids
from noetl_core.engine.records import Boundary
from noetl_core.engine.routing.distributed_loops import advance_loop, chunk_done, done_by_lead
from noetl_core.engine.routing.passes import RoutingPass, boundary_event
from noetl_core.engine.routing.rules import redriven, refuse_place, take_arcs
from noetl_core.engine.state import Run
from noetl_core.engine.statuses import HELD
from noetl_core.engine.waits import is_repeated_heartbeat, signal_name
from noetl_core.events import control, limits, runs, waiting
from noetl_core.events.event import Fact, TerminalEvent, error_of, was_ended
from noetl_core.events.shapes import ChildRequest, CommitPointer, Counts, Failure, LoopCounts, Undoes, Wait

CHILD_REQUEST = frozenset(ChildRequest.__annotations__)
"""The keys of a wait that request its child."""


def route_boundary(p: RoutingPass, boundary: Boundary) -> bool:
    """Process one boundary. Returns False for a duplicate: one at or below `handled_seq`, or of a run that is closed."""
    run, event = p.state.runs.get(boundary.run_id), boundary.event
    if run is None or boundary.seq <= run.handled_seq:
        return False
    if event.name == "StepSuspended":
        _suspended(p, run, boundary.seq, event.data)
    elif run.parent is not None:
        chunk_done(p, run, boundary.seq, event)
    elif run.undoes is not None:
        _undoing_ended(p, run, run.undoes, boundary.seq, event)
    else:
        _run_ended(p, run, boundary.seq, event)
    if run.outside and was_ended(event):
        p.emit(control.StopStarted, run=ids.stop_run_id(p.state.execution_id, run.id), step=run.step, of=run.id, pool=run.pool)
    return True


def _run_ended(p: RoutingPass, run: Run, seq: int, event: TerminalEvent) -> None:
    """Process the terminal boundary of a step run: apply its ctx writes, then evaluate its arcs. A run with a loop ends with
    `loop.done` (resolution 4)."""
    step = p.playbook.by_name[run.step]
    error = error_of(event)
    counts: Counts | None = None
    loop: LoopCounts | None = None
    if event.name == "LoopChunkDone":
        counts = {"total": event.data["total"], "succeeded": event.data["succeeded"], "failed": event.data["failed"]}
        routed: LoopCounts = {"total": counts["total"], "succeeded": counts["succeeded"], "failed": counts["failed"]}
        if "items" in event.data:
            routed["items"] = event.data["items"]
        loop = routed
    failed = event.name == "StepFailed" or error is not None
    p.emit(
        control.BoundaryRouted,
        run=run.id,
        step=run.step,
        seq=seq,
        name=event.name,
        error=error,
        loop=loop,
        undo=(bool(step.compensate) and not failed) or None,
        events=event.data.get("events"),
        aggregates=event.data.get("aggregates"),
    )
    if writes := event.data.get("set_ctx"):
        p.emit(control.CtxPatched, run=run.id, patch=dict(writes))
    if counts is not None:
        p.emit(control.LoopDone, run=run.id, step=run.step, **counts, error=error)
    if error is not None and error.get("fatal"):
        unhandled: Failure = {**error, "step": run.step}
        p.emit(control.NextEvaluated, run=run.id, step=run.step, event="step.failed", selected=[], unhandled=unhandled)
        return
    dotted = "step.failed" if failed else ("loop.done" if step.loop is not None else "step.done")
    at: CommitPointer = {"run": run.id, "seq": seq}
    take_arcs(p, step, run, boundary_event(dotted, run.step, run.id, at, error=error, loop=counts))


def _undoing_ended(p: RoutingPass, run: Run, undoes: Undoes, seq: int, event: TerminalEvent) -> None:
    """Record the end of a compensation, or of a run that stops outside work. A failed compensation is recorded, and the other
    steps are still undone."""
    error = error_of(event)
    p.emit(
        control.BoundaryRouted,
        run=run.id,
        step=run.step,
        seq=seq,
        name=event.name,
        error=error,
        events=event.data.get("events"),
    )
    if writes := event.data.get("set_ctx"):
        p.emit(control.CtxPatched, run=run.id, patch=dict(writes))
    done = control.StopDone if undoes.get("stops") else control.CompensationDone
    p.emit(done, run=run.id, step=run.step, of=undoes["run"], error=error)


# --- suspension and the mailbox -----------------------------------------------------------------------------------------


def _suspended(p: RoutingPass, run: Run, seq: int, data: runs.StepSuspended) -> None:
    p.emit(
        control.BoundaryRouted,
        run=run.id,
        step=run.step,
        seq=seq,
        name="StepSuspended",
        waits=[wait.copy() for wait in data["waits"]],
        events=data.get("events"),
    )
    plan = data.get("loop")
    if plan is not None and run.loop is None:
        p.emit(
            control.LoopSliced,
            run=run.id,
            step=run.step,
            plan=plan.copy(),
            done=done_by_lead(run, seq, data),
            aggregates=data.get("aggregates"),
        )
        advance_loop(p, run)
        return
    match_waits(p, run)


def _delivered(run: Run, wait: Wait) -> bool:
    return any(m["wait_id"] == wait["wait_id"] for m in run.ready)


def match_waits(p: RoutingPass, run: Run) -> None:
    """Match the waits of a suspended run with the mailbox and with the time: events that already happened, and timers that
    are due, answer the waits. Then resume the run."""
    if run.status != "suspended" or run.loop is not None or not p.goes_on(run):
        return
    _request_children(p, run)
    for wait in run.waits:
        if _delivered(run, wait):
            continue
        kind = wait["kind"]
        if (kind in ("timer", "deadline") and wait.get("at", 0) <= p.now) or kind == "pause":
            p.emit(waiting.TimerFired, run=run.id, wait_id=wait["wait_id"], kind=kind)
        elif kind in ("signal", "callback"):
            signal = next((s for s in p.state.signals if s["name"] == signal_name(wait)), None)
            if signal is not None:
                p.emit(
                    waiting.SignalMatched,
                    run=run.id,
                    wait_id=wait["wait_id"],
                    signal=signal["id"],
                    data=signal["data"],
                    error=signal.get("error"),
                )
            elif wait.get("at") is not None and wait["at"] <= p.now:
                p.emit(waiting.TimerFired, run=run.id, wait_id=wait["wait_id"], kind="timeout")
            elif wait.get("beat_by") is not None and wait["beat_by"] <= p.now:
                p.emit(waiting.TimerFired, run=run.id, wait_id=wait["wait_id"], kind="heartbeat")
    if run.ready:
        p.emit(waiting.ResumeScheduled, run=run.id, seq=run.expected_seq, mail=run.ready)


def _request_children(p: RoutingPass, run: Run) -> None:
    """Request the child executions for which a run waits."""
    for wait in run.waits:
        if wait["kind"] == "child" and wait["child"] not in p.state.children and not _delivered(run, wait):
            request = cast("ChildRequest", {key: value for key, value in wait.items() if key in CHILD_REQUEST})
            p.emit(waiting.ChildRequested, child=wait["child"], run=run.id, wait_id=wait["wait_id"], request=request)


def take_fact(p: RoutingPass, fact: Fact) -> bool:
    """Record a fact in the control stream. Returns False when it changes nothing, because it is a duplicate or comes too
    late."""
    s = p.state
    if fact.name == "ExecutionRedriven":
        return redriven(p, fact.data)
    if fact.name == "FailureHandled":
        return _failure_handled(p, fact.data)
    if s.finished:
        return False
    match fact.name:
        case "SignalReceived":
            if fact.data["id"] in s.seen_signals or (fact.data.get("heartbeat") and not _prolongs_callback(p, fact.data["name"])):
                return False
            p.emit(waiting.SignalReceived, **fact.data)
        case "ChildFinished":
            if fact.data["child"] not in s.children:
                return False
            p.emit(waiting.ChildFinished, **fact.data)
        case "LimitGranted":
            use = s.limits.get(fact.data["holder"])
            if use is None or use.held:
                return False
            p.emit(limits.LimitGranted, **fact.data)
        case "LimitRefused":
            use = s.limits.get(fact.data["holder"])
            if use is None or (use.held and not (fact.data.get("displaced") and use.token in s.tokens)):
                return False  # a holder may be displaced while its run has not begun
            refuse_place(p, use, fact.data)
        case "ExecutionPaused":
            if s.status != "running":
                return False
            p.emit(control.ExecutionPaused, **fact.data)
        case "ExecutionResumed":
            if s.status not in HELD:
                return False
            p.emit(control.ExecutionResumed, **fact.data)
        case "ExecutionCancelled":
            if s.status == "cancelling" and (fact.data.get("compensate") or not s.undo):
                return False  # a repeated cancellation can only drop the remaining compensations
            p.emit(control.ExecutionCancelled, **fact.data)
        case "ExecutionFailing":
            if s.failure is not None:
                return False
            p.emit(control.ExecutionFailing, **fact.data)
        case "EvaluationMarked":
            if s.attempts == fact.data["attempts"]:
                return False
            p.emit(control.EvaluationMarked, **fact.data)
        case "ExecutionStuck":
            if s.status == "stuck":
                return False
            p.emit(control.ExecutionStuck, **fact.data)
        case _:
            assert_never(fact.name)
    return True


def _failure_handled(p: RoutingPass, handled: control.FailureHandled) -> bool:
    """Record the handling of the failed end at which the execution still is. If its handler first could not be started and later
    was, record both."""
    s = p.state
    if s.status not in ("failed", "completed") or s.epoch != handled["epoch"]:
        return False
    known = s.handled if s.handled is not None and s.handled["epoch"] == s.epoch else None
    if known is not None and ("error" not in known or "error" in handled):
        return False
    p.emit(control.FailureHandled, **handled)
    return True


def _prolongs_callback(p: RoutingPass, name: str) -> bool:
    """Return whether a heartbeat prolongs an open callback."""
    for run in p.state.runs.values():
        for wait in run.waits:
            if "heartbeat" in wait and signal_name(wait) == name:
                return not _delivered(run, wait) and not is_repeated_heartbeat(wait, p.now)
    return False
