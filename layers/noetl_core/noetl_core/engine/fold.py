"""The fold of the control stream: the effect of each event on the state of an execution.

Every event name that the control plane writes is handled here, and an unknown name raises an error: a reader that skips
unknown events would decide on incomplete information.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from noetl_core.engine import places
from noetl_core.engine.records import Commit, Event
from noetl_core.engine.state import Child, ChunkState, LoopState, Run, State, Token
from noetl_core.engine.waits import beat_by, signal_name

REDUCER = 4
"""Version of this fold, stored in snapshots. A snapshot of another version is ignored, and the log is folded again."""


class UnknownEvent(Exception):
    """The control stream contains an event that this reader does not know; deploy the newer code. Who acts: the operator."""


def fold(state: State, event: Event, seq: int) -> State:
    """Apply one control event of commit `seq`; return the same, changed state. Raises `UnknownEvent`."""
    apply = _FOLD.get(event.name)
    if apply is None:
        raise UnknownEvent(f"event {event.name} at {state.execution_id}/{seq} is not known to this version")
    apply(state, event, event.data, seq)
    state.updated_at = event.ts
    state.events += 1
    return state


def fold_commits(state: State, commits: Iterable[Commit]) -> State:
    """Apply whole commits in order."""
    for commit in commits:
        for event in commit.events:
            fold(state, event, commit.seq)
        state.seq = commit.seq
        state.expires_at = commit.expires_at
    return state


_Apply = Callable[[State, Event, Mapping[str, Any], int], None]


def _requested(s: State, e: Event, d: Mapping[str, Any], seq: int) -> None:
    s.path, s.version, s.digest = d["path"], d["version"], d["digest"]
    s.payload = dict(d.get("payload") or {})
    s.rendered = dict(d.get("rendered") or {})
    s.ctx = dict(d.get("ctx") or {})
    s.parent = d.get("parent")
    s.trace_id = d.get("trace_id")
    s.key = d.get("key")
    s.started_at = e.ts


def _nothing(s: State, e: Event, d: Mapping[str, Any], seq: int) -> None:
    pass


def _started(s: State, e: Event, d: Mapping[str, Any], seq: int) -> None:
    s.timeout_s = d.get("timeout_s")


def _token_enqueued(s: State, e: Event, d: Mapping[str, Any], seq: int) -> None:
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
        priority=d.get("priority", 0),
    )
    if "key" in d:
        s.deduplicated[d["key"]] = d["token"]


def _token_parked(s: State, e: Event, d: Mapping[str, Any], seq: int) -> None:
    s.tokens[d["token"]].parked = True


def _token_gone(s: State, e: Event, d: Mapping[str, Any], seq: int) -> None:
    s.tokens.pop(d["token"], None)
    places.gone(s, d["token"])


def _token_claimed(s: State, e: Event, d: Mapping[str, Any], seq: int) -> None:
    places.claimed(s, d["tokens"], d["run"])
    for token in d["tokens"]:
        claimed = s.tokens.pop(token, None)
        if claimed is not None and claimed.rounds:
            s.rounds[d["run"]] = claimed.rounds


def _step_skipped(s: State, e: Event, d: Mapping[str, Any], seq: int) -> None:
    _token_gone(s, e, d, seq)
    step = s.step(d["step"])
    step.status = step.status or "skipped"


def _join_closed(s: State, e: Event, d: Mapping[str, Any], seq: int) -> None:
    key = round_key(d["step"], d.get("round", 0))
    if d["fired"]:
        s.joins_fired.append(key)
    else:
        s.joins_fired.remove(key)


def round_key(join: str, number: int) -> str:
    """Return the name of a round of a join in `joins_fired`."""
    return f"{join}@{number}" if number else join


def _step_scheduled(s: State, e: Event, d: Mapping[str, Any], seq: int) -> None:
    s.runs[d["run"]] = Run(
        id=d["run"],
        step=d["step"],
        args=dict(d.get("args") or {}),
        scheduled_at=e.ts,
        opened_at=e.ts,
        as_of=seq,
        scheduled_seq=seq,
        pool=d.get("pool", "default"),
        tokens=list(d.get("tokens", ())),
        event=d.get("event"),
        limits={k: d[k] for k in ("timeout_s", "deadline_s") if k in d},
        carried_over=next((s.tokens_carried_over.pop(t) for t in d.get("tokens", ()) if t in s.tokens_carried_over), None),
    )
    s.step(d["step"]).visits += 1


def _chunk_scheduled(s: State, e: Event, d: Mapping[str, Any], seq: int) -> None:
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


def _ctx_patched(s: State, e: Event, d: Mapping[str, Any], seq: int) -> None:
    s.ctx.update(d["patch"])
    s.ctx_version += 1


def _boundary_routed(s: State, e: Event, d: Mapping[str, Any], seq: int) -> None:
    run = s.runs[d["run"]]
    run.handled_seq = d["seq"]
    written = d.get("events", run.events)
    s.events, run.events = s.events + written - run.events, written
    name = d["name"]
    if name == "StepSuspended":
        run.status, run.expected_seq = "suspended", d["seq"] + 1
        run.waits, run.mail = [dict(w) for w in d.get("waits", ())], []
    elif run.parent is not None:
        _chunk_done(s, run, d)
    else:
        ok = name != "StepFailed" and not d.get("error")
        _close_run(s, run, ok=ok, at={"run": run.id, "seq": d["seq"]}, loop=d.get("loop"), undo=d.get("undo", False))


def _chunk_done(s: State, run: Run, d: Mapping[str, Any]) -> None:
    parent = s.runs.get(run.parent or "")
    s.runs.pop(run.id)
    if parent is None or parent.loop is None:
        return
    index = parent.loop.open.pop(run.id)
    parent.loop.done[str(index)] = ChunkState(
        run.id, d["seq"], d.get("succeeded", 0), d.get("failed", 0), bool(d.get("writes")), d.get("result"), d.get("innermost")
    )
    parent.loop.broke = parent.loop.broke or bool(d.get("broke"))
    if d.get("error") and parent.loop.error is None:
        parent.loop.error = dict(d["error"])


def _close_run(
    s: State, run: Run, *, ok: bool, at: dict[str, Any] | None, loop: Mapping[str, int] | None, undo: bool = False
) -> None:
    s.runs.pop(run.id, None)
    if run.undoes is not None:
        return  # what undoes a step is no run of it
    step = s.step(run.step)
    step.runs += 1
    step.status = "ok" if ok else "error"
    step.at = at
    if loop is not None:
        step.loop = {k: int(loop.get(k, 0)) for k in ("total", "succeeded", "failed")}
    if ok:
        s.last_result = at
    if undo:
        s.completed.append(
            {"run": run.id, "step": run.step, "args": run.args, "at": at, "loop": step.loop if loop else None, "pool": run.pool}
        )


def _server_done(s: State, e: Event, d: Mapping[str, Any], seq: int) -> None:
    _close_run(s, s.runs[d["run"]], ok=e.name == "StepDone", at={"value": None}, loop=None, undo=d.get("undo", False))


def _next_evaluated(s: State, e: Event, d: Mapping[str, Any], seq: int) -> None:
    s.rounds.pop(d["run"], None)
    places.branches(s, d["run"], [arc["arc"] for arc in d["selected"]])
    if d.get("unhandled") and s.failure is None:
        s.failure = dict(d["unhandled"])


def _loop_sliced(s: State, e: Event, d: Mapping[str, Any], seq: int) -> None:
    run = s.runs[d["run"]]
    run.loop, run.status = LoopState(plan=dict(d["plan"])), "suspended"
    if run.carried_over is not None and "loop" in run.carried_over:
        run.loop.done = {index: ChunkState(**done) for index, done in run.carried_over["loop"]["done"].items()}


def _loop_done(s: State, e: Event, d: Mapping[str, Any], seq: int) -> None:
    run = s.runs.get(d["run"])
    if run is not None:
        undo = d.get("undo", False)
        _close_run(s, run, ok=not d.get("error"), at={"value": d.get("result")}, loop=d, undo=undo)


def _resume_scheduled(s: State, e: Event, d: Mapping[str, Any], seq: int) -> None:
    run = s.runs[d["run"]]
    run.status, run.mode, run.expected_seq = "scheduled", "resume", d["seq"]
    run.mail = [dict(m) for m in d.get("mail", ())]
    run.ready, run.waits = [], []
    run.scheduled_at, run.scheduled_seq = e.ts, seq


def _timer_fired(s: State, e: Event, d: Mapping[str, Any], seq: int) -> None:
    _deliver(s, d["run"], {"wait_id": d["wait_id"], "kind": d.get("kind", "timer")})


def _deliver(s: State, run_id: str, mail: dict[str, Any]) -> None:
    run = s.runs.get(run_id)
    if run is not None:
        run.ready.append(mail)


def _signal_received(s: State, e: Event, d: Mapping[str, Any], seq: int) -> None:
    if d.get("heartbeat"):
        for wait in (w for run in s.runs.values() for w in run.waits if "heartbeat" in w and signal_name(w) == d["name"]):
            wait["beat_by"] = beat_by(wait["heartbeat"], e.ts)
        return
    s.signals.append({k: d.get(k) for k in ("id", "name", "data", "error") if k in d or k == "data"})
    s.seen_signals.append(d["id"])


def _signal_matched(s: State, e: Event, d: Mapping[str, Any], seq: int) -> None:
    s.signals = [x for x in s.signals if x["id"] != d["signal"]]
    error = {"error": d["error"]} if "error" in d else {}
    _deliver(s, d["run"], {"wait_id": d["wait_id"], "kind": "signal", "data": d.get("data"), **error})


def _child_requested(s: State, e: Event, d: Mapping[str, Any], seq: int) -> None:
    s.children[d["child"]] = Child(d["run"], d["wait_id"], dict(d["request"]))


def _child_finished(s: State, e: Event, d: Mapping[str, Any], seq: int) -> None:
    child = s.children.pop(d["child"], None)
    if child is not None:
        data = {k: d[k] for k in ("status", "result", "error", "execution_id") if k in d}
        _deliver(s, child.run, {"wait_id": child.wait_id, "kind": "child", "data": data})


def _paused(s: State, e: Event, d: Mapping[str, Any], seq: int) -> None:
    s.status = "paused"


def _resumed(s: State, e: Event, d: Mapping[str, Any], seq: int) -> None:
    s.status, s.stuck = "running", None


def _cancelling(s: State, e: Event, d: Mapping[str, Any], seq: int) -> None:
    s.status, s.undo = "cancelling", bool(d.get("compensate"))
    s.cancelled_for = d.get("reason", s.cancelled_for)


def _failing(s: State, e: Event, d: Mapping[str, Any], seq: int) -> None:
    s.failure = s.failure or dict(d["error"])
    if s.failure.get("fatal") and s.status in ("paused", "stuck"):
        s.status, s.stuck = "running", None  # it ends now, whoever held it


def _stuck(s: State, e: Event, d: Mapping[str, Any], seq: int) -> None:
    s.status, s.stuck = "stuck", d.get("reason", "")


def _finished(s: State, e: Event, d: Mapping[str, Any], seq: int) -> None:
    s.status = d["status"]
    s.finished_at = e.ts


def _processed(s: State, e: Event, d: Mapping[str, Any], seq: int) -> None:
    s.result = d.get("result")


def _compensation_started(s: State, e: Event, d: Mapping[str, Any], seq: int) -> None:
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


def _compensation_done(s: State, e: Event, d: Mapping[str, Any], seq: int) -> None:
    if d.get("error"):
        s.not_undone.append({"step": d["step"], **{k: d["error"].get(k) for k in ("kind", "message")}})


def _redriven(s: State, e: Event, d: Mapping[str, Any], seq: int) -> None:
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


_FOLD: Mapping[str, _Apply] = {
    "PlaybookExecutionRequested": _requested,
    "PlaybookRequestEvaluated": _nothing,
    "WorkflowStarted": _started,
    "TokenEnqueued": _token_enqueued,
    "TokenClaimed": _token_claimed,
    "TokenParked": _token_parked,
    "TokenExpired": _token_gone,
    "StepSkipped": _step_skipped,
    "JoinClosed": _join_closed,
    "StepScheduled": _step_scheduled,
    "LoopChunkScheduled": _chunk_scheduled,
    "BoundaryRouted": _boundary_routed,
    "CtxPatched": _ctx_patched,
    "StepDone": _server_done,
    "StepFailed": _server_done,
    "NextEvaluated": _next_evaluated,
    "LoopStarted": _nothing,
    "LoopSliced": _loop_sliced,
    "LoopDone": _loop_done,
    "ResumeScheduled": _resume_scheduled,
    "TimerFired": _timer_fired,
    "SignalReceived": _signal_received,
    "SignalMatched": _signal_matched,
    "ChildRequested": _child_requested,
    "ChildFinished": _child_finished,
    "ExecutionPaused": _paused,
    "ExecutionResumed": _resumed,
    "ExecutionCancelled": _cancelling,
    "ExecutionFailing": _failing,
    "ExecutionStuck": _stuck,
    "ExecutionRedriven": _redriven,
    "CompensationStarted": _compensation_started,
    "CompensationDone": _compensation_done,
    "WorkflowFinished": _finished,
    "PlaybookProcessed": _processed,
}
