"""The table of all events: what each is about, what it does, and since which version logs have it.

A new event needs a row here, its payload (`control`, `runs`), its place in the unions (`event`, `envelope`) and, in the control
stream, its effect on the state (`engine.fold`). Code that asks for the kind of an event uses the sets below.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

from noetl_core.events import control, limits, runs

Entity = Literal["playbook", "workflow", "step", "task", "loop", "next"]
Status = Literal["in_progress", "success", "error", "paused"]
OfRun = Literal["opens", "claims", "suspends", "releases", "ends"]


class EventType(NamedTuple):
    """One event.

    `control` and `run` are its payloads in the control stream (the control plane writes it: source `server`) and in run
    streams (workers write it: source `worker`). `status` is the envelope's, unless the payload says that something failed.

    `of_run`: what it does to a step run or chunk: it opens it, claims it for a worker, suspends it, gives it back, or ends it.
    `wakes`: in a run stream it is a boundary, for which the router is woken. `news`: it records a fact, which came from outside
    the runs. `becomes`: the status of the execution behind it. `progress`: its worker lived and got on, so the run is not what
    kills workers. `version`: the reader version of the log that brought it in its present form.
    """

    name: str
    event_type: str
    """The dotted form, `step.done`."""
    control: type | None
    run: type | None
    entity: Entity
    status: Status
    of_run: OfRun | None
    wakes: bool
    news: bool
    becomes: str | None
    progress: bool
    version: int

    def has(self, key: str) -> bool:
        """Return whether one of its payloads has `key`."""
        return any(payload is not None and key in payload.__annotations__ for payload in (self.control, self.run))


def _row(
    *,
    control: type | None = None,
    run: type | None = None,
    entity: Entity,
    status: Status = "success",
    of_run: OfRun | None = None,
    wakes: bool = False,
    news: bool = False,
    becomes: str | None = None,
    progress: bool = False,
    version: int = 1,
) -> EventType:
    payload = control or run
    assert payload is not None
    name = payload.__name__
    return EventType(name, dotted(name), control, run, entity, status, of_run, wakes, news, becomes, progress, version)


def dotted(name: str) -> str:
    """`StepDone` -> `step.done`."""
    return "".join(f".{c.lower()}" if c.isupper() else c for c in name).removeprefix(".")


_ROWS = (
    _row(control=control.PlaybookExecutionRequested, entity="playbook", status="in_progress", becomes="running"),
    _row(control=control.PlaybookRequestEvaluated, entity="playbook"),
    _row(control=control.WorkflowStarted, entity="workflow", status="in_progress"),
    _row(control=control.WorkflowFinished, entity="workflow"),
    _row(control=control.PlaybookProcessed, entity="playbook"),
    _row(control=control.ExecutionPaused, entity="playbook", status="paused", news=True, becomes="paused"),
    _row(control=control.ExecutionResumed, entity="playbook", news=True, becomes="running"),
    _row(control=control.ExecutionCancelled, entity="playbook", news=True, becomes="cancelling"),
    _row(control=control.ExecutionFailing, entity="playbook", status="error", news=True),
    _row(control=control.ExecutionStuck, entity="playbook", status="paused", news=True, becomes="stuck"),
    _row(control=control.ExecutionRedriven, entity="playbook", news=True, becomes="running"),
    _row(control=control.SearchAttributesSet, entity="playbook", version=5),
    _row(control=control.FailureHandled, entity="playbook", news=True, version=5),
    _row(control=control.CtxPatched, entity="workflow"),
    _row(control=control.TokenEnqueued, entity="step", status="in_progress"),
    _row(control=control.TokenClaimed, entity="step"),
    _row(control=control.TokenParked, entity="step", status="paused"),
    _row(control=control.TokenExpired, entity="step", status="error"),
    _row(control=control.StepSkipped, entity="step"),
    _row(control=control.JoinClosed, entity="step"),
    _row(control=control.NextEvaluated, entity="next"),
    _row(control=control.StepScheduled, entity="step", status="in_progress", of_run="opens"),
    _row(control=control.BoundaryRouted, entity="step", of_run="ends"),
    _row(control=control.StepDone, run=runs.StepDone, entity="step", of_run="ends", wakes=True),
    _row(control=control.StepFailed, run=runs.StepFailed, entity="step", status="error", of_run="ends", wakes=True),
    _row(control=control.LoopStarted, entity="loop", status="in_progress"),
    _row(control=control.LoopSliced, entity="loop", status="in_progress"),
    _row(control=control.LoopChunkScheduled, entity="loop", status="in_progress", of_run="opens"),
    _row(control=control.LoopDone, entity="loop", of_run="ends"),
    _row(control=control.ResumeScheduled, entity="step", status="in_progress"),
    _row(control=control.TimerFired, entity="workflow"),
    _row(control=control.SignalReceived, entity="workflow", news=True),
    _row(control=control.SignalMatched, entity="workflow"),
    _row(control=control.ChildRequested, entity="workflow", status="in_progress"),
    _row(control=control.ChildFinished, entity="workflow", news=True),
    _row(control=control.CompensationStarted, entity="step", status="in_progress", of_run="opens"),
    _row(control=control.CompensationDone, entity="step"),
    _row(control=limits.LimitRequested, entity="workflow", status="in_progress", version=4),
    _row(control=limits.LimitGranted, entity="workflow", news=True, version=4),
    _row(control=limits.LimitRefused, entity="workflow", status="error", news=True, version=4),
    _row(control=limits.LimitReleased, entity="workflow", version=4),
    _row(run=runs.StepStarted, entity="step", status="in_progress", of_run="claims"),
    _row(run=runs.StepResumed, entity="step", status="in_progress", of_run="claims"),
    _row(run=runs.StepReleased, entity="step", status="paused", of_run="releases", progress=True),
    _row(run=runs.StepSuspended, entity="step", status="paused", of_run="suspends", wakes=True),
    _row(run=runs.LoopChunkDone, entity="loop", of_run="ends", wakes=True),
    _row(run=runs.TaskStarted, entity="task", status="in_progress"),
    _row(run=runs.TaskRetried, entity="task", status="in_progress"),
    _row(run=runs.TaskProcessed, entity="task", progress=True),
    _row(run=runs.LoopCollected, entity="loop"),
    _row(run=runs.LoopFrameClaimed, entity="loop", progress=True, version=3),
    _row(run=runs.LoopIterationStarted, entity="loop", status="in_progress"),
    _row(run=runs.LoopIterationCompleted, entity="loop", progress=True),
)

EVENTS: Mapping[str, EventType] = {row.name: row for row in _ROWS}
"""All events by name, those of the control stream first."""


def event_named(name: str) -> EventType:
    """Return the row of an event. An event that only newer code knows is shown to readers as it is; `engine.fold` refuses it."""
    row = EVENTS.get(name)
    if row is None:
        row = EventType(name, dotted(name), None, None, "workflow", "success", None, False, False, None, False, 0)
    return row


CONTROL_EVENTS = frozenset(row.name for row in _ROWS if row.control is not None)
RUN_EVENTS = frozenset(row.name for row in _ROWS if row.run is not None)
OPENS_RUN = frozenset(row.name for row in _ROWS if row.of_run == "opens")
"""Control events that open a run's stream: a command follows."""
CLAIMS_RUN = frozenset(row.name for row in _ROWS if row.of_run == "claims")
ENDS_RUN = frozenset(row.name for row in _ROWS if row.of_run == "ends" and row.control is not None)
"""Control events with which a run may have ended; `ends_run` says whether it has."""
BOUNDARIES = frozenset(row.name for row in _ROWS if row.wakes)
"""The last events of the commits of run streams that wake the router."""
TERMINAL = frozenset(name for name in BOUNDARIES if EVENTS[name].of_run == "ends")
"""Boundaries behind which nothing is written to the stream."""
NEWS = frozenset(row.name for row in _ROWS if row.news)
"""Facts: what came from outside the runs, and is told to the control plane before it stands in the log."""
LIMITS = frozenset(row.name for row in _ROWS if row.name.startswith("Limit"))
"""Places in limits that executions share."""
OPERATED = frozenset(row.name for row in _ROWS if row.news and row.becomes is not None)
"""The execution's status changed while it was kept: lists must show it."""
BEGINS = frozenset(row.name for row in _ROWS if row.becomes == "running")
"""From here on the execution moves, for the first time or again."""
PROGRESS = frozenset(row.name for row in _ROWS if row.progress)
COUNTS_EVENTS = frozenset(row.name for row in _ROWS if row.has("events"))
"""Say how many envelopes their run's stream has, which is for the summary and not shown."""
SAYS_MASKED = frozenset(row.name for row in _ROWS if row.has("masked"))
"""A successor goes on from them, so they say when the log hides secrets of them."""


def ends_run(name: str, data: Mapping[str, Any]) -> bool:
    """Return whether a control event ends the run it names: for a boundary that was routed, whether that boundary ended it."""
    return name in ENDS_RUN and data.get("name") != "StepSuspended"
