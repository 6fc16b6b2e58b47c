"""The fold of the control stream: the effect of each event on the state of an execution.

Every event name that the control plane writes is handled here, and an unknown name raises an error: a reader that skips
unknown events would decide on incomplete information.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from noetl_core.engine import aggregates, places
from noetl_core.engine.records import Commit, ControlEvent, control_events
from noetl_core.engine.state import Child, ChunkState, LoopState, Run, State, Token
from noetl_core.engine.statuses import HELD
from noetl_core.engine.waits import beat_by, signal_name
from noetl_core.events import control
from noetl_core.events.shapes import Counts, Mail, ResultPointer, Signal

REDUCER = 5
"""Version of this fold, stored in snapshots. A snapshot of another version is ignored, and the log is folded again."""


class UnknownEvent(Exception):
    """The control stream contains an event that this reader does not know; deploy the newer code. Who acts: the operator."""


def fold(state: State, event: ControlEvent, seq: int) -> State:
    """Apply one control event of commit `seq`; return the same, changed state. Raises `UnknownEvent`."""
    apply = _FOLD.get(event.name)
    if apply is None:
        raise UnknownEvent(f"event {event.name} at {state.execution_id}/{seq} is not known to this version")
    aggregates.observe(state, event)  # before the run is closed
    apply(state, event, event.data, seq)
    state.updated_at = event.ts
    state.events += 1
    return state


def fold_commits(state: State, commits: Iterable[Commit]) -> State:
    """Apply whole commits in order."""
    for commit in commits:
        for event in control_events(commit):
            fold(state, event, commit.seq)
        state.seq = commit.seq
        state.expires_at = commit.expires_at
    return state


D = TypeVar("D")
_Fold = Callable[[State, ControlEvent, D, int], None]
_FOLD: dict[str, Callable[[State, ControlEvent, Any, int], None]] = {}


def folds(kind: Callable[..., D]) -> Callable[[_Fold[D]], _Fold[D]]:
    """The decorated function is the effect of the event with payload `kind`."""

    def register(apply: _Fold[D]) -> _Fold[D]:
        _FOLD[kind.__name__] = apply
        return apply

    return register


@folds(control.PlaybookExecutionRequested)
def _requested(s: State, e: ControlEvent, d: control.PlaybookExecutionRequested, seq: int) -> None:
    s.path, s.version, s.digest = d["path"], d["version"], d["digest"]
    s.payload = dict(d.get("payload") or {})
    s.rendered = dict(d.get("rendered") or {})
    s.ctx = dict(d.get("ctx") or {})
    s.parent = d.get("parent")
    s.trace_id = d.get("trace_id")
    s.key = d.get("key")
    s.started_at = e.ts


def _nothing(s: State, e: ControlEvent, d: object, seq: int) -> None:
    pass


folds(control.PlaybookRequestEvaluated)(_nothing)
folds(control.LoopStarted)(_nothing)


@folds(control.WorkflowStarted)
def _started(s: State, e: ControlEvent, d: control.WorkflowStarted, seq: int) -> None:
    s.timeout_s = d.get("timeout_s")


@folds(control.TokenEnqueued)
def _token_enqueued(s: State, e: ControlEvent, d: control.TokenEnqueued, seq: int) -> None:
    joined = d.get("joined")
    places.place_token(s, d["token"], d.get("run"), d.get("arc"), joined)
    for token in joined or ():
        s.tokens.pop(token, None)
    s.tokens[d["token"]] = Token(
        d["token"],
        d["step"],
        dict(d.get("args") or {}),
        d.get("run"),
        d.get("arc"),
        d.get("event"),
        joined=joined is not None,
        rounds=dict(d.get("rounds") or {}),
        priority=d.get("priority") or 0,
    )
    if (key := d.get("key")) is not None:
        s.deduplicated[key] = d["token"]


@folds(control.TokenParked)
def _token_parked(s: State, e: ControlEvent, d: control.TokenParked, seq: int) -> None:
    s.tokens[d["token"]].parked = True


@folds(control.TokenExpired)
def _token_gone(s: State, e: ControlEvent, d: control.TokenExpired, seq: int) -> None:
    _remove_token(s, d["token"])


def _remove_token(s: State, token: str) -> None:
    s.tokens.pop(token, None)
    places.gone(s, token)


@folds(control.TokenClaimed)
def _token_claimed(s: State, e: ControlEvent, d: control.TokenClaimed, seq: int) -> None:
    places.claimed(s, d["tokens"], d["run"])
    for token in d["tokens"]:
        claimed = s.tokens.pop(token, None)
        if claimed is not None and claimed.rounds:
            s.rounds[d["run"]] = claimed.rounds


@folds(control.StepSkipped)
def _step_skipped(s: State, e: ControlEvent, d: control.StepSkipped, seq: int) -> None:
    _remove_token(s, d["token"])
    step = s.step(d["step"])
    step.status = step.status or "skipped"


@folds(control.JoinClosed)
def _join_closed(s: State, e: ControlEvent, d: control.JoinClosed, seq: int) -> None:
    key = round_key(d["step"], d.get("round") or 0)
    if d["fired"]:
        s.joins_fired.append(key)
    else:
        s.joins_fired.remove(key)


def round_key(join: str, number: int) -> str:
    """Return the name of a round of a join in `joins_fired`."""
    return f"{join}@{number}" if number else join


@folds(control.StepScheduled)
def _step_scheduled(s: State, e: ControlEvent, d: control.StepScheduled, seq: int) -> None:
    s.runs[d["run"]] = Run(
        id=d["run"],
        step=d["step"],
        args=dict(d.get("args") or {}),
        scheduled_at=e.ts,
        opened_at=e.ts,
        as_of=seq,
        scheduled_seq=seq,
        pool=d["pool"],
        tokens=list(d["tokens"]),
        limits=_limits(d) if "timeout_s" in d or "deadline_s" in d else {},
        carried_over=next((s.tokens_carried_over.pop(t) for t in d["tokens"] if t in s.tokens_carried_over), None),
    )
    s.step(d["step"]).visits += 1


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
        as_of=parent.as_of,
        scheduled_seq=seq,
        pool=parent.pool,
        limits=parent.limits,
        chunk=d["chunk"],
        parent=parent.id,
    )
    parent.loop.open[d["run"]] = d["chunk"]
    parent.loop.next_chunk = max(parent.loop.next_chunk, d["chunk"] + 1)


@folds(control.CtxPatched)
def _ctx_patched(s: State, e: ControlEvent, d: control.CtxPatched, seq: int) -> None:
    s.ctx.update(d["patch"])
    s.ctx_version += 1


@folds(control.BoundaryRouted)
def _boundary_routed(s: State, e: ControlEvent, d: control.BoundaryRouted, seq: int) -> None:
    run = s.runs[d["run"]]
    run.handled_seq = d["seq"]
    written = d.get("events")
    if written is not None:
        s.events, run.events = s.events + written - run.events, written
    name = d["name"]
    if name == "StepSuspended":
        run.status, run.expected_seq = "suspended", d["seq"] + 1
        run.waits, run.mail = [w.copy() for w in d.get("waits", ())], []
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
    parent.loop.done[str(index)] = ChunkState(
        run.id, d["seq"], d.get("succeeded", 0), d.get("failed", 0), bool(d.get("writes")), d.get("result"), d.get("innermost")
    )
    parent.loop.broke = parent.loop.broke or bool(d.get("broke"))
    if (error := d.get("error")) and parent.loop.error is None:
        parent.loop.error = error.copy()


def _close_run(
    s: State, run: Run, *, ok: bool, at: ResultPointer | None, loop: Counts | control.LoopDone | None, undo: bool = False
) -> None:
    s.runs.pop(run.id, None)
    if run.undoes is not None:
        return  # what undoes a step is no run of it
    step = s.step(run.step)
    step.runs += 1
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


@folds(control.NextEvaluated)
def _next_evaluated(s: State, e: ControlEvent, d: control.NextEvaluated, seq: int) -> None:
    s.rounds.pop(d["run"], None)
    places.branches(s, d["run"], [arc["arc"] for arc in d["selected"]])
    if (unhandled := d.get("unhandled")) and s.failure is None:
        s.failure = unhandled.copy()


@folds(control.LoopSliced)
def _loop_sliced(s: State, e: ControlEvent, d: control.LoopSliced, seq: int) -> None:
    run = s.runs[d["run"]]
    run.loop, run.status = LoopState(plan=d["plan"].copy()), "suspended"
    if run.carried_over is not None and "loop" in run.carried_over:
        run.loop.done = {index: ChunkState(**done) for index, done in run.carried_over["loop"]["done"].items()}


@folds(control.LoopDone)
def _loop_done(s: State, e: ControlEvent, d: control.LoopDone, seq: int) -> None:
    run = s.runs.get(d["run"])
    if run is not None:
        _close_run(s, run, ok=not d.get("error"), at={"value": d.get("result")}, loop=d, undo=bool(d.get("undo")))


@folds(control.ResumeScheduled)
def _resume_scheduled(s: State, e: ControlEvent, d: control.ResumeScheduled, seq: int) -> None:
    run = s.runs[d["run"]]
    run.status, run.mode, run.expected_seq = "scheduled", "resume", d["seq"]
    run.mail = [m.copy() for m in d["mail"]]
    run.ready, run.waits = [], []
    run.scheduled_at, run.scheduled_seq = e.ts, seq


@folds(control.TimerFired)
def _timer_fired(s: State, e: ControlEvent, d: control.TimerFired, seq: int) -> None:
    _deliver(s, d["run"], {"wait_id": d["wait_id"], "kind": d["kind"]})


def _deliver(s: State, run_id: str, mail: Mail) -> None:
    run = s.runs.get(run_id)
    if run is not None:
        run.ready.append(mail)


@folds(control.SignalReceived)
def _signal_received(s: State, e: ControlEvent, d: control.SignalReceived, seq: int) -> None:
    if d.get("heartbeat"):
        for wait in (w for run in s.runs.values() for w in run.waits if "heartbeat" in w and signal_name(w) == d["name"]):
            wait["beat_by"] = beat_by(wait["heartbeat"], e.ts)
        return
    received: Signal = {"id": d["id"], "name": d["name"], "data": d.get("data")}
    if "error" in d:
        received["error"] = d["error"]
    s.signals.append(received)
    s.seen_signals.append(d["id"])


@folds(control.SignalMatched)
def _signal_matched(s: State, e: ControlEvent, d: control.SignalMatched, seq: int) -> None:
    s.signals = [x for x in s.signals if x["id"] != d["signal"]]
    mail: Mail = {"wait_id": d["wait_id"], "kind": "signal", "data": d.get("data")}
    if (error := d.get("error")) is not None:
        mail["error"] = error
    _deliver(s, d["run"], mail)


@folds(control.ChildRequested)
def _child_requested(s: State, e: ControlEvent, d: control.ChildRequested, seq: int) -> None:
    s.children[d["child"]] = Child(d["run"], d["wait_id"], d["request"].copy())


@folds(control.ChildFinished)
def _child_finished(s: State, e: ControlEvent, d: control.ChildFinished, seq: int) -> None:
    child = s.children.pop(d["child"], None)
    if child is not None:
        data = {k: d[k] for k in ("status", "result", "error", "execution_id") if k in d}
        _deliver(s, child.run, {"wait_id": child.wait_id, "kind": "child", "data": data})


@folds(control.ExecutionPaused)
def _paused(s: State, e: ControlEvent, d: control.ExecutionPaused, seq: int) -> None:
    s.status = "paused"


@folds(control.ExecutionResumed)
def _resumed(s: State, e: ControlEvent, d: control.ExecutionResumed, seq: int) -> None:
    s.status, s.stuck = "running", None


@folds(control.ExecutionCancelled)
def _cancelling(s: State, e: ControlEvent, d: control.ExecutionCancelled, seq: int) -> None:
    s.status, s.undo = "cancelling", bool(d.get("compensate"))
    s.cancelled_for = d.get("reason") or s.cancelled_for


@folds(control.ExecutionFailing)
def _failing(s: State, e: ControlEvent, d: control.ExecutionFailing, seq: int) -> None:
    s.failure = failure = s.failure or d["error"].copy()
    if failure.get("fatal") and s.status in HELD:
        s.status, s.stuck = "running", None  # it ends now, whoever held it


@folds(control.ExecutionStuck)
def _stuck(s: State, e: ControlEvent, d: control.ExecutionStuck, seq: int) -> None:
    s.status, s.stuck = "stuck", d.get("reason", "")


@folds(control.WorkflowFinished)
def _finished(s: State, e: ControlEvent, d: control.WorkflowFinished, seq: int) -> None:
    s.status = d["status"]
    s.finished_at = e.ts


@folds(control.PlaybookProcessed)
def _processed(s: State, e: ControlEvent, d: control.PlaybookProcessed, seq: int) -> None:
    s.result = d.get("result")


@folds(control.CompensationStarted)
def _compensation_started(s: State, e: ControlEvent, d: control.CompensationStarted, seq: int) -> None:
    done = next(c for c in s.completed if c["run"] == d["of"])
    s.completed.remove(done)
    s.runs[d["run"]] = Run(
        id=d["run"],
        step=d["step"],
        args=done["args"],
        scheduled_at=e.ts,
        opened_at=e.ts,
        as_of=seq,
        scheduled_seq=seq,
        pool=done["pool"],
        undoes={"run": done["run"], "at": done["at"], "loop": done["loop"]},
    )


@folds(control.CompensationDone)
def _compensation_done(s: State, e: ControlEvent, d: control.CompensationDone, seq: int) -> None:
    if error := d.get("error"):
        s.not_undone.append({"step": d["step"], "kind": error.get("kind"), "message": error.get("message")})


@folds(control.ExecutionRedriven)
def _redriven(s: State, e: ControlEvent, d: control.ExecutionRedriven, seq: int) -> None:
    """Set the state back to before what is run again. The tokens that run it again follow in the same commit."""
    s.status, s.epoch, s.redriven_at = "running", d["epoch"], e.ts
    s.failure = s.finished_at = s.result = s.stuck = None
    s.cancelled_for, s.undo, s.not_undone, s.children, s.rounds = "", False, [], {}, {}
    places.put_back(s, (t["token"] for t in d["tokens"]))
    s.version, s.digest = d.get("version", s.version), d.get("digest", s.digest)
    if "digest" in d:
        s.rendered = dict(d.get("rendered") or {})
    s.ctx = dict(d["ctx"])
    s.ctx_version += 1
    for name, stood in d.get("steps", {}).items():
        step = s.step(name)
        step.status, step.at, step.loop = stood.get("status"), stood.get("at"), stood.get("loop")
    s.last_result = d.get("last_result")
    s.joins_fired = [key for key in s.joins_fired if key.partition("@")[0] not in d.get("joins", ())]
    s.completed = [c for c in s.completed if c["run"] not in d.get("forgotten", ())]
    s.tokens_carried_over = {t["token"]: t["prior"] for t in d["tokens"] if t.get("prior")}
