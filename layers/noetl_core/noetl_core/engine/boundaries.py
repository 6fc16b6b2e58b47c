"""How a routing pass takes news: boundaries of run streams, and facts that reach the control plane from outside
(docs/architecture.md)."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

from noetl_core.dsl.model import Loop
from noetl_core.engine import ids
from noetl_core.engine.loops import UNREAD, CtxConflict, chunk_range, merge_ctx
from noetl_core.engine.needs import BoundaryNeed
from noetl_core.engine.passes import RoutingPass, boundary_event
from noetl_core.engine.records import Boundary
from noetl_core.engine.routing import redriven, refuse_place, take_arcs
from noetl_core.engine.state import ChunkState, LoopState, Run
from noetl_core.engine.statuses import HELD
from noetl_core.engine.waits import is_repeated_heartbeat, signal_name
from noetl_core.events import control, limits, runs
from noetl_core.events.event import Fact, TerminalEvent
from noetl_core.events.shapes import ChildRequest, ChunkDone, CommitPointer, Counts, Failure, LoopCounts, Undoes, Wait
from noetl_core.expr import TemplateError, references_in

INLINE_CHUNK_RESULT = 512
"""The most bytes of a chunk's result that the state itself keeps; a larger one is a pointer."""


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
        _chunk_done(p, run, boundary.seq, event)
    elif run.undoes is not None:
        _compensation_ended(p, run, run.undoes, boundary.seq, event)
    else:
        _run_ended(p, run, boundary.seq, event)
    return True


def _error_of(event: TerminalEvent) -> Failure | None:
    return None if event.name == "StepDone" else event.data.get("error")


def _run_ended(p: RoutingPass, run: Run, seq: int, event: TerminalEvent) -> None:
    """Process the terminal boundary of a step run: apply its ctx writes, then evaluate its arcs. A run with a loop ends with
    `loop.done` (resolution 4)."""
    step = p.playbook.by_name[run.step]
    error = _error_of(event)
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


def _compensation_ended(p: RoutingPass, run: Run, undoes: Undoes, seq: int, event: TerminalEvent) -> None:
    """A compensation has ended. That it failed is recorded; the others are undone all the same."""
    error = _error_of(event)
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
    p.emit(control.CompensationDone, run=run.id, step=run.step, of=undoes["run"], error=error)


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
            done=_done_by_lead(run, seq, data),
            aggregates=data.get("aggregates"),
        )
        advance_loop(p, run)
        return
    match_waits(p, run)


def _done_by_lead(run: Run, seq: int, data: runs.StepSuspended) -> ChunkDone | None:
    """Return the first chunk of a loop, if its lead ran it itself before it handed over the others."""
    if "succeeded" not in data:
        return None
    done: ChunkDone = {"run": run.id, "seq": seq, "succeeded": data["succeeded"], "failed": data.get("failed", 0)}
    if data.get("ctx_writes"):
        done["writes"] = True
    if _kept_inline(result := data.get("result")):
        done["result"] = result
    if (innermost := data.get("innermost")) is not None:
        done["innermost"] = innermost
    return done


def _kept_inline(result: Any) -> bool:
    """Return whether the state itself keeps the result of a chunk."""
    return isinstance(result, Mapping) or len(json.dumps(result, default=str)) <= INLINE_CHUNK_RESULT


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
            p.emit(control.TimerFired, run=run.id, wait_id=wait["wait_id"], kind=kind)
        elif kind in ("signal", "callback"):
            signal = next((s for s in p.state.signals if s["name"] == signal_name(wait)), None)
            if signal is not None:
                p.emit(
                    control.SignalMatched,
                    run=run.id,
                    wait_id=wait["wait_id"],
                    signal=signal["id"],
                    data=signal["data"],
                    error=signal.get("error"),
                )
            elif wait.get("at") is not None and wait["at"] <= p.now:
                p.emit(control.TimerFired, run=run.id, wait_id=wait["wait_id"], kind="timeout")
            elif wait.get("beat_by") is not None and wait["beat_by"] <= p.now:
                p.emit(control.TimerFired, run=run.id, wait_id=wait["wait_id"], kind="heartbeat")
    if run.ready:
        p.emit(control.ResumeScheduled, run=run.id, seq=run.expected_seq, mail=run.ready)


def _request_children(p: RoutingPass, run: Run) -> None:
    """Request the child executions for which a run waits."""
    for wait in run.waits:
        if wait["kind"] == "child" and wait["child"] not in p.state.children and not _delivered(run, wait):
            request = cast("ChildRequest", {key: value for key, value in wait.items() if key in CHILD_REQUEST})
            p.emit(control.ChildRequested, child=wait["child"], run=run.id, wait_id=wait["wait_id"], request=request)


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
            p.emit(control.SignalReceived, **fact.data)
        case "ChildFinished":
            if fact.data["child"] not in s.children:
                return False
            p.emit(control.ChildFinished, **fact.data)
        case "LimitGranted":
            use = s.limits.get(fact.data["holder"])
            if use is None or use.held:
                return False
            p.emit(limits.LimitGranted, **fact.data)
        case "LimitRefused":
            use = s.limits.get(fact.data["holder"])
            if use is None or use.held:
                return False
            refuse_place(p, use, fact.data)
        case "ExecutionPaused":
            if s.status != "running":
                return False
            p.emit(control.ExecutionPaused)
        case "ExecutionResumed":
            if s.status not in HELD:
                return False
            p.emit(control.ExecutionResumed)
        case "ExecutionCancelled":
            if s.status == "cancelling" and (fact.data.get("compensate") or not s.undo):
                return False  # it can only be asked for less: to leave what is not undone yet
            p.emit(control.ExecutionCancelled, **fact.data)
        case "ExecutionFailing":
            if s.failure is not None:
                return False
            p.emit(control.ExecutionFailing, **fact.data)
        case "ExecutionStuck":
            if s.status == "stuck":
                return False
            p.emit(control.ExecutionStuck, **fact.data)
    return True


def _failure_handled(p: RoutingPass, handled: control.FailureHandled) -> bool:
    """Record what was done about the failed end at which the execution still is; where its handler could not be started, and then
    was, also that."""
    s = p.state
    if s.status != "failed" or s.epoch != handled["epoch"]:
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


# --- distributed loops --------------------------------------------------------------------------------------------------


def advance_loop(p: RoutingPass, lead: Run) -> None:
    """Keep the window of a distributed loop full, starting with the lowest chunk that has not started, and close the loop
    when all chunks are done."""
    loop = lead.loop
    assert loop is not None
    stop = loop.broke or loop.error is not None or _too_many_failed(p, lead, loop) is not None
    while not stop and p.may_schedule and loop.next_chunk < loop.plan["chunks"] and len(loop.open) < loop.plan["window"]:
        chunk = next((c for c in range(loop.next_chunk, loop.plan["chunks"]) if str(c) not in loop.done), None)
        if chunk is None:
            break  # the last ones were kept by a redrive
        run_id = ids.chunk_run_id(p.state.execution_id, lead.id, chunk, p.state.epoch)
        p.emit(control.LoopChunkScheduled, run=run_id, step=lead.step, parent=lead.id, chunk=chunk)
    if not loop.open and (stop or len(loop.done) == loop.plan["chunks"]):
        _close_loop(p, lead, loop)


def _too_many_failed(p: RoutingPass, lead: Run, loop: LoopState) -> Failure | None:
    """Return the error of a `fail_fast` loop whose chunks together exceed the tolerated failures, though each chunk is within
    them (resolution 9)."""
    plan = p.playbook.by_name[lead.step].loop
    failed, allowed = sum(c.failed for c in loop.done.values()), loop.plan.get("tolerated", 0)
    if plan is None or plan.failure_mode != "fail_fast" or failed <= allowed:
        return None
    return {"kind": "unknown", "message": f"{failed} iterations failed, {allowed} are tolerated", "retryable": False}


def _chunk_done(p: RoutingPass, run: Run, seq: int, event: TerminalEvent) -> None:
    lead = p.state.runs.get(run.parent or "")
    if event.name == "LoopChunkDone":
        data = event.data
        result = data["result"]
        p.emit(
            control.BoundaryRouted,
            run=run.id,
            step=run.step,
            seq=seq,
            name=event.name,
            succeeded=data["succeeded"],
            failed=data["failed"],
            innermost=data.get("innermost"),
            error=data.get("error"),
            broke=data.get("broke") or None,
            writes=bool(data.get("ctx_writes")) or None,
            result=result if _kept_inline(result) else None,
            events=data.get("events"),
            aggregates=data.get("aggregates"),
        )
    else:  # it could not begin, or the control plane ended it
        p.emit(
            control.BoundaryRouted,
            run=run.id,
            step=run.step,
            seq=seq,
            name=event.name,
            succeeded=0,
            failed=0,
            error=_error_of(event),
            events=event.data.get("events"),
            aggregates=event.data.get("aggregates"),
        )
    if lead is not None and lead.loop is not None:
        advance_loop(p, lead)


def _close_loop(p: RoutingPass, lead: Run, loop: LoopState) -> None:
    """Close a loop whose chunks are all done: merge their ctx writes in index order, build the manifest of results, and route
    `loop.done` or the failure."""
    step = p.playbook.by_name[lead.step]
    assert step.loop is not None
    chunks = [loop.done[k] for k in sorted(loop.done, key=int)]
    counts = loop.counts
    error: Failure | None = loop.error or _too_many_failed(p, lead, loop)
    patch: dict[str, Any] = {}
    try:
        patch = p.carried(_merged_writes(p, step.loop, chunks), f"{lead.id}-merged")
    except CtxConflict as conflict:
        error = error or {"kind": "ctx_conflict", "message": str(conflict), "retryable": False}
    except TemplateError as wrong:
        error = error or {"kind": wrong.kind, "message": f"ctx of the loop: {wrong}", "retryable": False}
    if patch:
        p.emit(control.CtxPatched, run=lead.id, patch=patch)
    result = None if error else _results(p, lead, loop, chunks)
    undo = (bool(step.compensate) and not error) or None
    p.emit(control.LoopDone, run=lead.id, step=lead.step, **counts, result=result, error=error, undo=undo)
    dotted = "step.failed" if error else "loop.done"
    take_arcs(p, step, lead, boundary_event(dotted, lead.step, lead.id, {"value": result}, error=error, loop=counts))


def _merged_writes(p: RoutingPass, loop: Loop, chunks: list[ChunkState]) -> dict[str, Any]:
    needs: list[BoundaryNeed] = [("writes", chunk.run, chunk.seq) for chunk in chunks if chunk.writes]
    p.require(needs)
    writes = [(index, patch) for need in needs for index, patch in p.value(need)]
    p.prefetch(ref for ref in _read_by_merge(writes, loop.reducers))
    return merge_ctx(writes, loop.reducers, p.state.ctx, p.behind)


def _read_by_merge(writes: Sequence[tuple[Any, Mapping[str, Any]]], reducers: Mapping[str, str]) -> Iterator[Mapping[str, Any]]:
    """Return the references that the merge must read: values of keys that a reducer combines, or that several iterations
    wrote."""
    writers = Counter(key for _, patch in writes for key in patch)
    for _, patch in writes:
        for key, value in patch.items():
            if reducers.get(key, "last" if writers[key] == 1 else "") not in UNREAD:
                yield from (ref for _, ref in references_in(value))


def _results(p: RoutingPass, lead: Run, loop: LoopState, chunks: list[ChunkState]) -> Any:
    """Return the loop's results in index order, as a local loop gives them (resolution 23): the list itself when it is small,
    otherwise a reference to the manifest of its chunks. Iterations that a break left out are null."""
    left_out = [None] * (loop.plan["total"] - chunk_range(loop.plan, len(chunks) - 1).stop if chunks else loop.plan["total"])
    if all(isinstance(c.result, list) for c in chunks):
        whole = [item for c in chunks for item in c.result] + left_out
        if len(json.dumps(whole, separators=(",", ":"))) <= p.playbook.executor.limits.max_payload_bytes:
            return whole
    parts: list[dict[str, Any]] = [{"result": c.result} if c.result is not None else {"run": c.run, "seq": c.seq} for c in chunks]
    return _manifest(p, lead, [*parts, {"result": left_out}] if left_out else parts)


def _manifest(p: RoutingPass, lead: Run, parts: list[dict[str, Any]]) -> dict[str, Any]:
    """Return a reference to the list of the chunks' results."""
    body = json.dumps(parts, separators=(",", ":")).encode()
    return p.stored(f"loops/{lead.id}/manifest-{p.state.epoch}.json", body, "manifest")
