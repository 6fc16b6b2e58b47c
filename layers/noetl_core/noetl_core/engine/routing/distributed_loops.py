"""Distributed loops in a routing pass: chunks are scheduled, their ends counted, and the loop is closed when all are done."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from noetl_core.dsl.model import Loop
from noetl_core.engine import ids
from noetl_core.engine.done_chunks import DoneChunk, DoneChunks
from noetl_core.engine.loops import UNREAD, CtxConflict, chunk_range, merge_ctx
from noetl_core.engine.needs import BoundaryNeed
from noetl_core.engine.routing.passes import RoutingPass, boundary_event
from noetl_core.engine.routing.rules import take_arcs
from noetl_core.engine.state import LoopState, Run
from noetl_core.events import control, runs
from noetl_core.events.event import TerminalEvent, error_of
from noetl_core.events.shapes import ChunkDone, Failure
from noetl_core.expr import TemplateError, references_in

INLINE_CHUNK_RESULT = 512
"""The most bytes of a chunk's result that the state itself keeps; a larger one is a pointer."""
Chunks = Sequence[tuple[int, DoneChunk]]
"""The chunks that are done, by index, in order."""


def advance_loop(p: RoutingPass, lead: Run) -> None:
    """Keep the window of a distributed loop full, starting with the lowest chunk that has not started, and close the loop
    when all chunks are done."""
    loop = lead.loop
    assert loop is not None
    stop = loop.broke or loop.error is not None or _too_many_failed(p, lead, loop) is not None
    while not stop and p.may_schedule and loop.next_chunk < loop.plan["chunks"] and len(loop.open) < loop.plan["window"]:
        chunk = loop.done.next_missing(loop.next_chunk)
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
    failed, allowed = loop.done.failed, loop.plan.get("tolerated", 0)
    if plan is None or plan.failure_mode != "fail_fast" or failed <= allowed:
        return None
    return {"kind": "unknown", "message": f"{failed} iterations failed, {allowed} are tolerated", "retryable": False}


def chunk_done(p: RoutingPass, run: Run, seq: int, event: TerminalEvent) -> None:
    lead = p.state.runs.get(run.parent or "")
    done = event.data if event.name == "LoopChunkDone" else None  # otherwise it could not begin, or the control plane ended it
    p.emit(
        control.BoundaryRouted,
        run=run.id,
        step=run.step,
        seq=seq,
        name=event.name,
        succeeded=done["succeeded"] if done else 0,
        failed=done["failed"] if done else 0,
        innermost=done.get("innermost") if done else None,
        error=error_of(event),
        broke=(done.get("broke") or None) if done else None,
        writes=(bool(done.get("ctx_writes")) or None) if done else None,
        result=done["result"] if done and kept_inline(done["result"]) else None,
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
    chunks = list(loop.done.in_order())
    counts = loop.counts
    error: Failure | None = loop.error or _too_many_failed(p, lead, loop)
    patch: dict[str, Any] = {}
    try:
        patch = p.carried(_merged_writes(p, step.loop, loop.done, chunks), f"{lead.id}-merged")
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


def _merged_writes(p: RoutingPass, loop: Loop, done: DoneChunks, chunks: Chunks) -> dict[str, Any]:
    needs: list[BoundaryNeed] = [("writes", done.run_of(n, chunk), chunk.seq) for n, chunk in chunks if chunk.writes]
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


def _results(p: RoutingPass, lead: Run, loop: LoopState, chunks: Chunks) -> Any:
    """Return the loop's results in index order, as a local loop gives them (resolution 23): the list itself when it is small,
    otherwise a reference to the manifest of its chunks. Iterations that a break left out are null."""
    left_out = [None] * (loop.plan["total"] - chunk_range(loop.plan, len(chunks) - 1).stop if chunks else loop.plan["total"])
    if all(isinstance(c.result, list) for _, c in chunks):
        whole = [item for _, c in chunks for item in c.result] + left_out
        if len(json.dumps(whole, separators=(",", ":"))) <= p.playbook.executor.limits.max_payload_bytes:
            return whole
    parts: list[dict[str, Any]] = [
        {"result": c.result} if c.result is not None else {"run": loop.done.run_of(n, c), "seq": c.seq} for n, c in chunks
    ]
    return _manifest(p, lead, [*parts, {"result": left_out}] if left_out else parts)


def _manifest(p: RoutingPass, lead: Run, parts: list[dict[str, Any]]) -> dict[str, Any]:
    """Return a reference to the list of the chunks' results."""
    body = json.dumps(parts, separators=(",", ":")).encode()
    return p.stored(f"loops/{lead.id}/manifest-{p.state.epoch}.json", body, "manifest")


def done_by_lead(run: Run, seq: int, data: runs.StepSuspended) -> ChunkDone | None:
    """Return the first chunk of a loop, if its lead ran it itself before it handed over the others."""
    if "succeeded" not in data:
        return None
    done: ChunkDone = {"run": run.id, "seq": seq, "succeeded": data["succeeded"], "failed": data.get("failed", 0)}
    if data.get("ctx_writes"):
        done["writes"] = True
    if kept_inline(result := data.get("result")):
        done["result"] = result
    if (innermost := data.get("innermost")) is not None:
        done["innermost"] = innermost
    return done


def kept_inline(result: Any) -> bool:
    """Return whether the state itself keeps the result of a chunk."""
    return isinstance(result, Mapping) or len(json.dumps(result, default=str)) <= INLINE_CHUNK_RESULT
