"""Folds the events of step runs into the state: scheduled, suspended, resumed, ended; loops and their chunks; compensation."""

from __future__ import annotations

from noetl_core.engine.claims import mark_asked
from noetl_core.engine.done_chunks import DoneChunks, Origin
from noetl_core.engine.fold.table import Folds
from noetl_core.engine.records import ControlEvent
from noetl_core.engine.state import LoopState, Run, State
from noetl_core.engine.warnings import added, of_blank
from noetl_core.events import control, waiting
from noetl_core.events.shapes import ChunkDone, Counts, ResultPointer

folds = Folds()


@folds(control.StepScheduled)
def _step_scheduled(s: State, e: ControlEvent, d: control.StepScheduled, seq: int) -> None:
    s.runs[d["run"]] = Run(
        id=d["run"],
        step=d["step"],
        args=dict(d.get("args") or {}),
        scheduled_at=e.ts,
        opened_at=e.ts,
        began_at=e.ts,
        as_of=seq,
        scheduled_seq=seq,
        pool=d["pool"],
        tokens=list(d["tokens"]),
        limits=_limits(d) if "timeout_s" in d or "deadline_s" in d else {},
        carried_over=next((s.tokens_carried_over.pop(t) for t in d["tokens"] if t in s.tokens_carried_over), None),
        claim=d.get("claim"),
    )
    step = s.step(d["step"])
    step.visits += 1
    step.opened += 1
    if undefined := d.get("undefined"):
        step.warnings = added(step.warnings, map(of_blank, undefined))


def _limits(d: control.StepScheduled) -> dict[str, float]:
    limits = {}
    if (timeout := d.get("timeout_s")) is not None:
        limits["timeout_s"] = timeout
    if (deadline := d.get("deadline_s")) is not None:
        limits["deadline_s"] = deadline
    return limits


@folds(control.LoopChunkScheduled)
def _chunk_scheduled(s: State, e: ControlEvent, d: control.LoopChunkScheduled, seq: int) -> None:
    parent = s.runs[d["parent"]]
    assert parent.loop is not None
    s.runs[d["run"]] = Run(
        id=d["run"],
        step=parent.step,
        args=parent.args,
        scheduled_at=e.ts,
        opened_at=parent.opened_at,
        began_at=e.ts,
        as_of=parent.as_of,
        scheduled_seq=seq,
        pool=parent.pool,
        limits=parent.limits,
        chunk=d["chunk"],
        parent=parent.id,
    )
    s.step(parent.step).opened += 1
    parent.loop.open[d["run"]] = d["chunk"]
    parent.loop.next_chunk = max(parent.loop.next_chunk, d["chunk"] + 1)


@folds(control.BoundaryRouted)
def _boundary_routed(s: State, e: ControlEvent, d: control.BoundaryRouted, seq: int) -> None:
    run = s.runs[d["run"]]
    s.step(run.step).commits += d["seq"] - run.handled_seq
    run.handled_seq = d["seq"]
    if d.get("asked"):
        mark_asked(s, d["run"], d["seq"])
    written = d.get("events")
    if written is not None:
        s.events, run.events = s.events + written - run.events, written
    name = d["name"]
    if name == "StepSuspended":
        run.status, run.expected_seq = "suspended", d["seq"] + 1
        run.waits, run.mail = [w.copy() for w in d.get("waits", ())], []
        run.outside = run.outside or any("outside" in wait for wait in run.waits)
    elif run.parent is not None:
        _chunk_done(s, run, d)
    else:
        ok = name != "StepFailed" and not d.get("error")
        _close_run(s, run, ok=ok, at={"run": run.id, "seq": d["seq"]}, loop=d.get("loop"), undo=bool(d.get("undo")))


def _chunk_done(s: State, run: Run, d: control.BoundaryRouted) -> None:
    parent = s.runs.get(run.parent or "")
    s.runs.pop(run.id)
    if parent is None or parent.loop is None:
        return
    index = parent.loop.open.pop(run.id)
    done: ChunkDone = {
        "run": run.id,
        "seq": d["seq"],
        "succeeded": d.get("succeeded", 0),
        "failed": d.get("failed", 0),
        "writes": bool(d.get("writes")),
        "result": d.get("result"),
        "innermost": d.get("innermost"),
    }
    parent.loop.done.add(index, done)
    parent.loop.broke = parent.loop.broke or bool(d.get("broke"))
    if (error := d.get("error")) and parent.loop.error is None:
        parent.loop.error = error.copy()


def _close_run(
    s: State, run: Run, *, ok: bool, at: ResultPointer | None, loop: Counts | control.LoopDone | None, undo: bool = False
) -> None:
    s.runs.pop(run.id, None)
    if run.undoes is not None:
        return  # a compensation does not count as a run of its step
    step = s.step(run.step)
    step.runs += 1
    step.last_run = run.id
    step.status = "ok" if ok else "error"
    step.at = at
    if loop is not None:
        step.loop = {"total": loop.get("total", 0), "succeeded": loop.get("succeeded", 0), "failed": loop.get("failed", 0)}
    if ok:
        s.last_result = at
    if undo:
        s.completed.append(
            {"run": run.id, "step": run.step, "args": run.args, "at": at, "loop": step.loop if loop else None, "pool": run.pool}
        )


@folds(control.StepDone)
def _step_done(s: State, e: ControlEvent, d: control.StepDone, seq: int) -> None:
    _close_run(s, s.runs[d["run"]], ok=True, at={"value": None}, loop=None, undo=bool(d.get("undo")))


@folds(control.StepFailed)
def _step_failed(s: State, e: ControlEvent, d: control.StepFailed, seq: int) -> None:
    _close_run(s, s.runs[d["run"]], ok=False, at={"value": None}, loop=None)


@folds(control.LoopSliced)
def _loop_sliced(s: State, e: ControlEvent, d: control.LoopSliced, seq: int) -> None:
    run = s.runs[d["run"]]
    plan = d["plan"].copy()
    chunks = DoneChunks(s.execution_id, plan["chunks"], [Origin(run.id, s.epoch)])
    run.loop, run.status = LoopState(plan, chunks), "suspended"
    if (done := d.get("done")) is not None:
        chunks.add(0, done)
        run.loop.aggregates = d.get("aggregates")
    if run.carried_over is not None and "loop" in run.carried_over:
        kept = run.carried_over["loop"]
        chunks.take_over(kept["done"], kept["plan"].get("slices", run.id))
        run.carried_over = {**run.carried_over, "loop": {**kept, "done": {}}}  # the loop has them now


@folds(control.LoopDone)
def _loop_done(s: State, e: ControlEvent, d: control.LoopDone, seq: int) -> None:
    run = s.runs.get(d["run"])
    if run is not None:
        _close_run(s, run, ok=not d.get("error"), at={"value": d.get("result")}, loop=d, undo=bool(d.get("undo")))


@folds(waiting.ResumeScheduled)
def _resume_scheduled(s: State, e: ControlEvent, d: waiting.ResumeScheduled, seq: int) -> None:
    run = s.runs[d["run"]]
    run.status, run.mode, run.expected_seq = "scheduled", "resume", d["seq"]
    run.mail = [m.copy() for m in d["mail"]]
    run.ready, run.waits, run.claim = [], [], None
    run.scheduled_at, run.scheduled_seq = e.ts, seq


@folds(control.CompensationStarted)
def _compensation_started(s: State, e: ControlEvent, d: control.CompensationStarted, seq: int) -> None:
    s.step(d["step"]).opened += 1
    done = next(c for c in s.completed if c["run"] == d["of"])
    s.completed.remove(done)
    s.runs[d["run"]] = Run(
        id=d["run"],
        step=d["step"],
        args=done["args"],
        scheduled_at=e.ts,
        opened_at=e.ts,
        began_at=e.ts,
        as_of=seq,
        scheduled_seq=seq,
        pool=done["pool"],
        undoes={"run": done["run"], "at": done["at"], "loop": done["loop"]},
    )


@folds(control.CompensationDone)
def _compensation_done(s: State, e: ControlEvent, d: control.CompensationDone, seq: int) -> None:
    if error := d.get("error"):
        s.not_undone.append({"step": d["step"], "kind": error.get("kind"), "message": error.get("message")})


@folds(control.StopStarted)
def _stop_started(s: State, e: ControlEvent, d: control.StopStarted, seq: int) -> None:
    s.step(d["step"]).opened += 1
    s.runs[d["run"]] = Run(
        id=d["run"],
        step=d["step"],
        args={},
        scheduled_at=e.ts,
        opened_at=e.ts,
        began_at=e.ts,
        as_of=seq,
        scheduled_seq=seq,
        pool=d["pool"],
        undoes={"run": d["of"], "at": None, "loop": None, "stops": True},
    )


@folds(control.StopDone)
def _stop_done(s: State, e: ControlEvent, d: control.StopDone, seq: int) -> None:
    """The run that stopped was closed by its boundary."""
