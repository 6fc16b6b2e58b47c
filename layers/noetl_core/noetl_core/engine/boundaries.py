"""How a routing pass takes news: boundaries of run streams, and facts that reach the control plane from outside
(docs/architecture.md)."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from noetl_core.dsl.model import Loop
from noetl_core.engine import ids
from noetl_core.engine.loops import UNREAD, CtxConflict, merge_ctx
from noetl_core.engine.passes import RoutingPass, boundary_event
from noetl_core.engine.records import Boundary
from noetl_core.engine.routing import redriven, take_arcs
from noetl_core.engine.state import ChunkState, LoopState, Run
from noetl_core.engine.waits import is_repeated_heartbeat, signal_name
from noetl_core.events.table import News
from noetl_core.expr import TemplateError, references_in

INLINE_CHUNK_RESULT = 512
"""The most bytes of a chunk's result that the state itself keeps; a larger one is a pointer."""


CHILD_REQUEST = ("path", "version", "args", "iter", "ctx", "detach", "idempotency_key")
"""The keys of a wait that request its child."""


@dataclass(frozen=True, slots=True)
class Fact:
    """Something that happened outside the runs: a signal, a finished child, a request of an operator.

    `kind` and `data`: `signal {id, name, data | error | heartbeat: true}`; `child {child, status, result, error}`; `pause
    {}`; `resume {}`; `cancel {reason, compensate}`; `fail {error}` (lifetime or timeout); `stuck {reason}`; `redrive` (the
    data of `ExecutionRedriven`, which `engine.redrive` computes).
    """

    kind: News
    data: Mapping[str, Any]


def route_boundary(p: RoutingPass, boundary: Boundary) -> bool:
    """Process one boundary. Returns False for a duplicate: one at or below `handled_seq`, or of a run that is closed."""
    run = p.state.runs.get(boundary.run_id)
    if run is None or boundary.seq <= run.handled_seq:
        return False
    data = boundary.event.data
    if boundary.event.name == "StepSuspended":
        _suspended(p, run, boundary)
    elif run.parent is not None:
        _chunk_done(p, run, boundary)
    elif run.undoes is not None:
        _compensation_ended(p, run, boundary)
    else:
        _run_ended(p, run, boundary.event.name, boundary.seq, data)
    return True


def _run_ended(p: RoutingPass, run: Run, name: str, seq: int, data: Mapping[str, Any]) -> None:
    """Process the terminal boundary of a step run: apply its ctx writes, then evaluate its arcs. A run with a loop ends with
    `loop.done` (resolution 4)."""
    step = p.playbook.by_name[run.step]
    error = data.get("error")
    counts = {k: data[k] for k in ("total", "succeeded", "failed") if k in data} or None
    failed = name == "StepFailed" or error is not None
    undo = (bool(step.compensate) and not failed) or None
    p.emit(
        "BoundaryRouted",
        run=run.id,
        step=run.step,
        seq=seq,
        name=name,
        error=error,
        loop={**counts, "items": data["items"]} if counts and "items" in data else counts,
        undo=undo,
        events=data.get("events"),
    )
    if data.get("set_ctx"):
        p.emit("CtxPatched", run=run.id, patch=dict(data["set_ctx"]))
    at = {"run": run.id, "seq": seq}
    if name == "LoopChunkDone":
        p.emit("LoopDone", run=run.id, step=run.step, **(counts or {}), error=error)
    dotted = "step.failed" if failed else ("loop.done" if step.loop is not None else "step.done")
    take_arcs(p, step, run, boundary_event(dotted, run.step, run.id, at, error=error, loop=counts))


def _compensation_ended(p: RoutingPass, run: Run, boundary: Boundary) -> None:
    """Process the end of a compensation. A failure is recorded; the remaining compensations run all the same."""
    assert run.undoes is not None
    data = boundary.event.data
    error = data.get("error")
    p.emit(
        "BoundaryRouted",
        run=run.id,
        step=run.step,
        seq=boundary.seq,
        name=boundary.event.name,
        error=error,
        events=data.get("events"),
    )
    if data.get("set_ctx"):
        p.emit("CtxPatched", run=run.id, patch=dict(data["set_ctx"]))
    p.emit("CompensationDone", run=run.id, step=run.step, of=run.undoes["run"], error=error)


# --- suspension and the mailbox -----------------------------------------------------------------------------------------


def _suspended(p: RoutingPass, run: Run, boundary: Boundary) -> None:
    data = boundary.event.data
    waits = [dict(w) for w in data.get("waits", ())]
    p.emit(
        "BoundaryRouted",
        run=run.id,
        step=run.step,
        seq=boundary.seq,
        name="StepSuspended",
        waits=waits,
        events=data.get("events"),
    )
    if data.get("loop") is not None and run.loop is None:
        p.emit("LoopSliced", run=run.id, step=run.step, plan=dict(data["loop"]))
        advance_loop(p, run)
        return
    match_waits(p, run)


def _delivered(run: Run, wait: Mapping[str, Any]) -> bool:
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
            p.emit("TimerFired", run=run.id, wait_id=wait["wait_id"], kind=kind)
        elif kind in ("signal", "callback"):
            signal = next((s for s in p.state.signals if s["name"] == signal_name(wait)), None)
            if signal is not None:
                answer = {"data": signal["data"], "error": signal.get("error")}
                p.emit("SignalMatched", run=run.id, wait_id=wait["wait_id"], signal=signal["id"], **answer)
            elif wait.get("at") is not None and wait["at"] <= p.now:
                p.emit("TimerFired", run=run.id, wait_id=wait["wait_id"], kind="timeout")
            elif wait.get("beat_by") is not None and wait["beat_by"] <= p.now:
                p.emit("TimerFired", run=run.id, wait_id=wait["wait_id"], kind="heartbeat")
    if run.ready:
        p.emit("ResumeScheduled", run=run.id, seq=run.expected_seq, mail=run.ready)


def _request_children(p: RoutingPass, run: Run) -> None:
    """Request the child executions for which a run waits."""
    for wait in run.waits:
        if wait["kind"] == "child" and wait["child"] not in p.state.children and not _delivered(run, wait):
            request = {k: wait[k] for k in CHILD_REQUEST if k in wait}
            p.emit("ChildRequested", child=wait["child"], run=run.id, wait_id=wait["wait_id"], request=request)


def take_fact(p: RoutingPass, fact: Fact) -> bool:
    """Record a fact in the control stream. Returns False when it changes nothing, because it is a duplicate or comes too
    late."""
    s, d = p.state, fact.data
    if fact.kind == "redrive":
        return redriven(p, d)
    if s.finished:
        return False
    match fact.kind:
        case "signal":
            if d["id"] in s.seen_signals or (d.get("heartbeat") and not _prolongs_callback(p, d["name"])):
                return False
            p.emit("SignalReceived", **d)
        case "child":
            if d["child"] not in s.children:
                return False
            p.emit("ChildFinished", **d)
        case "pause":
            if s.status != "running":
                return False
            p.emit("ExecutionPaused", **d)
        case "resume":
            if s.status not in ("paused", "stuck"):
                return False
            p.emit("ExecutionResumed", **d)
        case "cancel":
            if s.status == "cancelling" and (d.get("compensate") or not s.undo):
                return False  # it can only be asked for less: to leave what is not undone yet
            p.emit("ExecutionCancelled", **d)
        case "fail":
            if s.failure is not None:
                return False
            p.emit("ExecutionFailing", **d)
        case "stuck":
            if s.status == "stuck":
                return False
            p.emit("ExecutionStuck", **d)
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
        p.emit("LoopChunkScheduled", run=run_id, step=lead.step, parent=lead.id, chunk=chunk)
    if not loop.open and (stop or len(loop.done) == loop.plan["chunks"]):
        _close_loop(p, lead, loop)


def _too_many_failed(p: RoutingPass, lead: Run, loop: LoopState) -> dict[str, Any] | None:
    """Return the error of a `fail_fast` loop whose chunks together exceed the tolerated failures, though each chunk is within
    them (resolution 9)."""
    plan = p.playbook.by_name[lead.step].loop
    failed, allowed = sum(c.failed for c in loop.done.values()), loop.plan.get("tolerated", 0)
    if plan is None or plan.failure_mode != "fail_fast" or failed <= allowed:
        return None
    return {"kind": "unknown", "message": f"{failed} iterations failed, {allowed} are tolerated", "retryable": False}


def _chunk_done(p: RoutingPass, run: Run, boundary: Boundary) -> None:
    lead = p.state.runs.get(run.parent or "")
    data = boundary.event.data
    result = data.get("result")
    inline = isinstance(result, Mapping) or len(json.dumps(result, default=str)) <= INLINE_CHUNK_RESULT
    p.emit(
        "BoundaryRouted",
        run=run.id,
        step=run.step,
        seq=boundary.seq,
        name=boundary.event.name,
        succeeded=data.get("succeeded", 0),
        failed=data.get("failed", 0),
        innermost=data.get("innermost"),
        error=data.get("error"),
        broke=data.get("broke") or None,
        writes=bool(data.get("ctx_writes")) or None,
        result=result if inline else None,
        events=data.get("events"),
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
    error = loop.error or _too_many_failed(p, lead, loop)
    patch: dict[str, Any] = {}
    try:
        patch = p.carried(_merged_writes(p, step.loop, chunks), f"{lead.id}-merged")
    except CtxConflict as conflict:
        error = error or {"kind": "ctx_conflict", "message": str(conflict), "retryable": False}
    except TemplateError as wrong:
        error = error or {"kind": wrong.kind, "message": f"ctx of the loop: {wrong}", "retryable": False}
    if patch:
        p.emit("CtxPatched", run=lead.id, patch=patch)
    result = None if error else _results(p, lead, loop, chunks)
    undo = (bool(step.compensate) and not error) or None
    p.emit("LoopDone", run=lead.id, step=lead.step, **counts, result=result, error=error, undo=undo)
    dotted = "step.failed" if error else "loop.done"
    take_arcs(p, step, lead, boundary_event(dotted, lead.step, lead.id, {"value": result}, error=error, loop=counts))


def _merged_writes(p: RoutingPass, loop: Loop, chunks: list[ChunkState]) -> dict[str, Any]:
    needs = [("writes", chunk.run, chunk.seq) for chunk in chunks if chunk.writes]
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
    left_out = [None] * max(0, loop.plan["total"] - len(chunks) * loop.plan["chunk_size"])
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
