"""Folds the events of an execution as a whole into its state: its request, its ctx, its statuses, its end, a redrive."""

from __future__ import annotations

from noetl_core.engine.fold import branch_places
from noetl_core.engine.fold.table import Folds
from noetl_core.engine.records import ControlEvent
from noetl_core.engine.state import State
from noetl_core.engine.statuses import HELD, MAX_ATTEMPTS
from noetl_core.engine.warnings import added, of_blank
from noetl_core.events import control
from noetl_core.events.shapes import By

folds = Folds()


def record_author(s: State, what: str, by: By | str | None) -> None:
    """Record the author of an operation, if the event names one."""
    if by is not None and not isinstance(by, str):  # a text in older logs
        s.by[what] = by


@folds(control.PlaybookExecutionRequested)
def _requested(s: State, e: ControlEvent, d: control.PlaybookExecutionRequested, seq: int) -> None:
    s.path, s.version, s.digest = d["path"], d["version"], d["digest"]
    s.payload = dict(d.get("payload") or {})
    s.rendered = dict(d.get("rendered") or {})
    s.ctx = dict(d.get("ctx") or {})
    s.parent = d.get("parent")
    s.trace_id = d.get("trace_id")
    s.key = d.get("key")
    s.trigger = d.get("trigger")
    s.labels = dict(d.get("labels") or {})
    s.priority = d.get("priority")
    s.strict = bool(d.get("strict"))
    s.warnings = added(s.warnings, map(of_blank, d.get("undefined") or ()))
    record_author(s, "start", d.get("by"))
    s.started_at = e.ts


@folds(control.WorkflowStarted)
def _started(s: State, e: ControlEvent, d: control.WorkflowStarted, seq: int) -> None:
    s.timeout_s = d.get("timeout_s")


@folds(control.CtxPatched)
def _ctx_patched(s: State, e: ControlEvent, d: control.CtxPatched, seq: int) -> None:
    s.ctx.update(d["patch"])
    s.ctx_version += 1


@folds(control.FailureHandled)
def _failure_handled(s: State, e: ControlEvent, d: control.FailureHandled, seq: int) -> None:
    s.handled = {**d}


@folds(control.SearchAttributesSet)
def _search_attributes_set(s: State, e: ControlEvent, d: control.SearchAttributesSet, seq: int) -> None:
    s.search = {**d}


@folds(control.ExecutionPaused)
def _paused(s: State, e: ControlEvent, d: control.ExecutionPaused, seq: int) -> None:
    s.status, s.paused_by = "paused", d.get("parent")
    record_author(s, "pause", d.get("by"))


@folds(control.ExecutionResumed)
def _resumed(s: State, e: ControlEvent, d: control.ExecutionResumed, seq: int) -> None:
    s.status, s.stuck, s.paused_by = "running", None, None
    record_author(s, "resume", d.get("by"))
    s.attempts = min(s.attempts, MAX_ATTEMPTS - 1)  # an operator may have it tried once more


@folds(control.EvaluationMarked)
def _marked(s: State, e: ControlEvent, d: control.EvaluationMarked, seq: int) -> None:
    s.attempts = d["attempts"]


@folds(control.ExecutionCancelled)
def _cancelling(s: State, e: ControlEvent, d: control.ExecutionCancelled, seq: int) -> None:
    s.status, s.undo = "cancelling", bool(d.get("compensate"))
    s.cancelled_for = d.get("reason") or s.cancelled_for
    record_author(s, "cancel", d.get("by"))


@folds(control.ExecutionFailing)
def _failing(s: State, e: ControlEvent, d: control.ExecutionFailing, seq: int) -> None:
    s.failure = failure = s.failure or d["error"].copy()
    if failure.get("fatal") and s.status in HELD:
        s.status, s.stuck = "running", None  # it ends now, even if paused or stuck


@folds(control.ExecutionStuck)
def _stuck(s: State, e: ControlEvent, d: control.ExecutionStuck, seq: int) -> None:
    s.status, s.stuck = "stuck", d.get("reason", "")


@folds(control.WorkflowFinished)
def _finished(s: State, e: ControlEvent, d: control.WorkflowFinished, seq: int) -> None:
    s.status = d["status"]
    s.finished_at = e.ts
    s.warnings = added(s.warnings, map(of_blank, d.get("undefined") or ()))


@folds(control.PlaybookProcessed)
def _processed(s: State, e: ControlEvent, d: control.PlaybookProcessed, seq: int) -> None:
    s.result = d.get("result")


@folds(control.ExecutionRedriven)
def _redriven(s: State, e: ControlEvent, d: control.ExecutionRedriven, seq: int) -> None:
    """Set the state back to before the runs that are repeated. The tokens that run it again follow in the same commit."""
    s.status, s.epoch, s.redriven_at = "running", d["epoch"], e.ts
    record_author(s, "redrive", d.get("by"))
    s.failure = s.finished_at = s.result = s.stuck = None
    s.attempts = 0
    s.cancelled_for, s.undo, s.not_undone, s.children, s.rounds = "", False, [], {}, {}
    s.limits, s.admitted_at = {}, 0
    branch_places.put_back(s, (t["token"] for t in d["tokens"]))
    s.version, s.digest = d.get("version", s.version), d.get("digest", s.digest)
    if "digest" in d:
        s.rendered = dict(d.get("rendered") or {})
    s.ctx = dict(d["ctx"])
    s.ctx_version += 1
    for name, stood in d.get("steps", {}).items():
        step = s.step(name)
        step.status, step.at, step.loop = stood.get("status"), stood.get("at"), stood.get("loop")
        step.warnings = None
    s.last_result = d.get("last_result")
    s.joins_fired = [key for key in s.joins_fired if key.partition("@")[0] not in d.get("joins", ())]
    s.completed = [c for c in s.completed if c["run"] not in d.get("forgotten", ())]
    s.tokens_carried_over = {t["token"]: t["prior"] for t in d["tokens"] if t.get("prior")}
