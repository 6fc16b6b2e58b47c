"""Live progress of an execution, folded from its envelopes as they come."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(slots=True)
class StepProgress:
    """One step's line: how it stands, and its loop's counters."""

    status: str = "scheduled"
    runs: int = 0
    total: int | None = None
    done: int = 0
    failed: int = 0
    tasks: int = 0
    retries: int = 0


@dataclass(slots=True)
class Progress:
    """Fold envelopes with `feed`; read `steps` in the order they were first scheduled."""

    steps: dict[str, StepProgress] = field(default_factory=dict)
    status: str = "running"
    events: int = 0

    def feed(self, envelopes: Iterable[Mapping[str, Any]]) -> None:
        for e in envelopes:
            self.events += 1
            self._apply(e)

    def _apply(self, e: Mapping[str, Any]) -> None:
        name, d = e["name"], e["data"]
        if name == "PlaybookProcessed":
            self.status = d["status"]
        if "step" not in e:
            return
        step = self.steps.setdefault(e["step"], StepProgress())
        match name:
            case "StepScheduled":
                step.status, step.runs = "scheduled", step.runs + 1
            case "StepStarted" | "StepResumed":
                step.status = "running"
            case "StepSuspended" if not d.get("loop"):
                step.status = "waiting"
            case "LoopCollected" if not e.get("iteration"):
                step.total = d["total"]
            case "LoopSliced":
                step.total = d["plan"]["total"]
            case "LoopIterationCompleted" if len(e.get("iteration", ())) == 1:
                step.done += 1
                step.failed += d["status"] == "error"
            case "TaskProcessed":
                step.tasks += 1
            case "TaskRetried":
                step.retries += 1
            case "StepDone" | "LoopDone":
                step.status = "error" if d.get("error") else "ok"
            case "StepFailed":
                step.status = "error"
            case "StepSkipped":
                step.status = "skipped"
            case _:
                pass
