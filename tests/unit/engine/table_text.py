"""Events and effects as the lines that tables of the core show."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from noetl_core.engine.dispatch.effects import (
    AcquirePlace,
    ClearDue,
    Effect,
    EndChild,
    HandleFailure,
    ReleasePlace,
    SaveSnapshot,
    SendCommands,
    SetDue,
    StartChild,
    TellParent,
    WakeAt,
    WriteHead,
)
from noetl_core.expr import is_reference
from tests.raw_events import Stored

SECOND = 1_000_000
START = 1_800_000_000 * SECOND
DAY_S = 24 * 3600


def event_line(event: Stored, labels: Mapping[str, str]) -> str:
    """An event as a row of a table has it: what is of interest, runs and tokens by their names."""
    d = event.data
    named = {k: labels.get(d[k], d[k]) for k in ("run", "token", "of") if isinstance(d.get(k), str)}
    about = named.get("run", d.get("step", ""))
    parts: list[Any]
    match event.name:
        case "TokenEnqueued":
            met = "joined" if d.get("joined") else ""
            parts = [d["step"], d.get("args"), met, _if("priority", d.get("priority"))]
        case "TokenClaimed" | "CtxPatched":
            parts = [about if event.name == "TokenClaimed" else "", d.get("patch")]
        case "TokenParked" | "StepSkipped":
            parts = [named["token"]]
        case "TokenExpired":
            parts = [named["token"], f"({d['code']})"]
        case "BoundaryRouted":
            waits = " ".join(w["kind"] for w in d.get("waits", ()))
            parts = [about, {"StepSuspended": "waits", "LoopChunkDone": "loop"}.get(d["name"], "ok"), waits, _error(d)]
            parts = [about, "failed", _error(d)] if d["name"] == "StepFailed" else [*parts, "undoable" if d.get("undo") else ""]
        case "NextEvaluated":
            to = ", ".join(arc["step"] for arc in d["selected"]) or "nothing"
            parts = [about, "->", to, _if("unhandled", (d.get("unhandled") or {}).get("kind")), _if("error", d.get("error"))]
        case "StepScheduled":
            parts = [about, d.get("args"), *(_if(k, d.get(k)) for k in ("timeout_s", "deadline_s"))]
        case "LoopDone":
            counts = "{total}/{succeeded}/{failed}".format(**d) if "total" in d else ""
            parts = [about, counts, "a reference" if is_reference(d.get("result")) else d.get("result"), _error(d)]
        case "JoinClosed":
            parts = [d["step"], "fired" if d["fired"] else "open again", _if("round", d.get("round"))]
        case "ResumeScheduled":
            parts = [about, ", ".join(m["kind"] for m in d["mail"])]
        case "TimerFired":
            parts = [about, d["kind"]]
        case "SignalReceived":
            parts = [d["name"], "heartbeat" if d.get("heartbeat") else d.get("data")]
        case "SignalMatched":
            parts = [about, d.get("data")]
        case "ChildRequested" | "ChildFinished":
            parts = [d["child"], d.get("status", about and f"for {about}")]
        case "CompensationStarted" | "CompensationDone" | "StopStarted" | "StopDone":
            parts = [about, _error(d)]
        case "FailureHandled":
            parts = [d["handler"], d.get("execution_id") or d.get("error")]
        case "ExecutionCancelled" | "ExecutionStuck":
            parts = [d.get("reason"), "compensate" if d.get("compensate") else ""]
        case "ExecutionFailing":
            parts = [_error(d), "fatal" if d["error"].get("fatal") else ""]
        case "ExecutionRedriven":
            parts = [_if("again", ", ".join(labels[run] for run in d["again"])), _if("ctx", d["ctx"] or None)]
        case "WorkflowStarted":
            parts = [d["entry"], _if("timeout_s", d.get("timeout_s"))]
        case "WorkflowFinished":
            parts = [d["status"], _error(d), _if("not_undone", [x["step"] for x in d.get("not_undone", ())] or None)]
        case "PlaybookProcessed":
            parts = [d["status"], _pointer(d.get("result"), labels)]
        case "PlaybookExecutionRequested":
            parts = [d["path"], d.get("payload")]
        case "PlaybookRequestEvaluated" | "ExecutionPaused" | "ExecutionResumed":
            parts = []
        case _:
            parts = [about]
    return " ".join(str(part) for part in (event.name, *parts) if part not in (None, "", {}))


def effect_line(effect: Effect, labels: Mapping[str, str]) -> str:
    """An effect as a row of a table has it."""
    match effect:
        case SendCommands(commands):
            return "send " + ", ".join(
                labels[c.run_id] + (f" ({c.mode})" if c.mode != "first" else "") + ("" if c.context else " without context")
                for c in commands
            )
        case WakeAt(when):
            return f"wake at {_seconds(when)}"
        case StartChild():
            return f"start child {effect.child} for {labels[effect.run]}, depth {effect.depth}"
        case EndChild():
            return f"end child {effect.asked.child}" + (" and undo" if effect.compensate else "")
        case AcquirePlace(use):
            return f"acquire {use.key}"
        case ReleasePlace(key):
            return f"release {key}"
        case WriteHead(head):
            return f"head {head.status}" + (f": {head.error['kind']}" if head.error else "")
        case SaveSnapshot(snap):
            return f"snapshot at {snap.seq}"
        case TellParent():
            outcome = _pointer(effect.result, labels) or (effect.error["kind"] if effect.error is not None else "")
            return f"tell {effect.parent}: {effect.status} {outcome}".strip()
        case HandleFailure():
            return "handle the failure"
        case SetDue(when):
            return f"due at {_seconds(when)}"
        case ClearDue():
            return "not due"


def _seconds(when: int) -> str:
    seconds = (when - START) / SECOND
    return f"{seconds:g} s" if seconds < DAY_S else f"day {seconds / DAY_S:g}"


def _if(name: str, value: Any) -> str:
    return "" if value is None or value == "" else f"{name}={value}"


def _error(d: Mapping[str, Any]) -> str:
    return str((d.get("error") or {}).get("kind", ""))


def _pointer(pointer: Mapping[str, Any] | None, labels: Mapping[str, str]) -> str:
    if pointer is None:
        return ""
    return repr(pointer["value"]) if "value" in pointer else f"the result of {labels[pointer['run']]}"
