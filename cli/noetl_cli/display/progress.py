"""The progress of an execution, folded from its envelopes: the one model for every progress display."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field
from typing import Any, cast

from noetl_core.events.envelope import Envelope
from noetl_core.events.table import EVENTS, OPERATED, ends_run
from noetl_core.values.frozen import mutable
from noetl_core.values.instants import from_text


@mutable
class StepProgress:
    """One step with all its runs. `began`, `ended`: seconds since the epoch. Counters are those of
    the innermost loop of its runs, as in summaries."""

    name: str
    runs: int = 0
    open: set[str] = field(default_factory=set)
    status: str = "running"
    """`running`, `waiting` (suspended), `undoing`, `ok`, `error` or `skipped`."""
    total: int | None = None
    frames: int = 0
    """Frames that cursor loops have claimed; `total` counts the rows in them."""
    done: int = 0
    failed: int = 0
    tasks: int = 0
    retries: int = 0
    task: str | None = None
    began: float = 0.0
    ended: float | None = None

    def seconds(self, now: float) -> float:
        return max(0.0, (self.ended if self.ended is not None else now) - self.began)


@mutable
class Progress:
    """The fold. Envelopes of concurrent streams may come in any order, each once."""

    steps: dict[str, StepProgress] = field(default_factory=dict)
    status: str = "running"
    limit: str = ""
    """The limit that the execution as a whole waits for."""
    events: int = 0
    began: float | None = None
    ended: float | None = None

    def observe(self, envelopes: Iterable[Mapping[str, Any]]) -> list[StepProgress]:
        """Apply envelopes; return the steps that ended with them, each once however often it ran."""
        ended: dict[str, StepProgress] = {}
        for envelope in cast("Iterable[Envelope]", envelopes):
            self.events += 1
            at = from_text(envelope["timestamp"]).timestamp()
            if self.began is None:
                self.began = at
            step = self._apply(envelope, at)
            if step is not None and step.ended is not None:
                ended[step.name] = step
        return [step for step in ended.values() if step.ended is not None]

    def _apply(self, e: Envelope, at: float) -> StepProgress | None:
        name = e["name"]
        if name in OPERATED:
            self.status = EVENTS[name].becomes or self.status
        self._apply_to_execution(e, at)
        of_step = _step_of(e)
        if of_step is None:
            return None
        step = self.steps.get(of_step)
        if step is None:
            step = self.steps[of_step] = StepProgress(of_step, began=at)
        return self._apply_step(step, e, at)

    def _apply_to_execution(self, e: Envelope, at: float) -> None:
        match e["name"]:
            case "ExecutionRedriven":
                self.ended = None
                for again in (self.steps[name] for name in e["data"].get("steps", ()) if name in self.steps):
                    again.done, again.failed = again.done - again.failed, 0  # failed iterations run again
            case "WorkflowFinished":
                self.status, self.ended, self.limit = e["data"]["status"], at, ""
            case "LimitRequested" if "step" not in e:
                self.limit = e["data"]["key"]
            case "LimitGranted" if "/" not in e["data"]["holder"]:
                self.limit = ""

    def _apply_step(self, step: StepProgress, e: Envelope, at: float) -> StepProgress | None:
        run = e.get("step_run_id", "")
        match e["name"]:
            case "StepScheduled":
                step.runs += 1
                step.open.add(run)
                step.status, step.ended = "running", None
            case "CompensationStarted" | "StopStarted":
                step.open.add(run)
                step.status, step.ended = "undoing", None
            case "LimitRequested":
                step.status = "waiting"
            case "StepSkipped":
                step.status, step.ended = "skipped", at
                return step
            case "StepSuspended":
                if e["data"].get("loop") is None:
                    step.status = "waiting"
            case "StepResumed" | "StepStarted":
                step.status = "running"
            case "LoopCollected":
                step.total = (step.total or 0) + e["data"]["total"] - (1 if e.get("iteration") else 0)
            case "LoopFrameClaimed" if e["data"]["keys"]:
                step.total, step.frames = (step.total or 0) + len(e["data"]["keys"]), step.frames + 1
            case "LoopSliced" if step.total is None:
                step.total = e["data"]["plan"]["total"]
            case "LoopIterationCompleted" if "loop" not in e["data"]:
                step.done = min(step.done + 1, step.total or step.done + 1)  # a redriven iteration was already counted
                step.failed += e["status"] == "error"
            case "TaskProcessed":
                step.tasks += 1
                step.task = _task_of(e)
            case "TaskRetried":
                step.retries += 1
            case "BoundaryRouted" | "LoopDone" | "StepDone" | "StepFailed":
                return self._ended(step, run, e, at)
        return None

    def _ended(self, step: StepProgress, run: str, e: Mapping[str, Any], at: float) -> StepProgress | None:
        """Apply the end of a run as the control plane records it; the run's own terminal event only announces it."""
        if run not in step.open or e["source"] != "server" or not ends_run(e["name"], e["data"]):
            return None
        step.open.discard(run)
        if not step.open:
            failed = e["status"] == "error" or (e["name"] == "BoundaryRouted" and e["data"]["name"] == "StepFailed")
            step.status, step.ended = ("error" if failed else "ok"), at
            return step
        return None


def _task_of(envelope: Mapping[str, Any]) -> str | None:
    data = envelope["data"]
    return str(data["authored"]["label"]) if "authored" in data else envelope.get("task")


def _step_of(envelope: Mapping[str, Any]) -> str | None:
    """Return the step whose progress the event is about. Of a plain mapping: mypy takes seconds to narrow the union."""
    if "step" not in envelope or envelope["entity"] == "next" or envelope["name"].startswith("Token"):
        return None
    return str(envelope["step"])
