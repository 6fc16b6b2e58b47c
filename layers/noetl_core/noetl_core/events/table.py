"""The table of all events: the entity and the effect of each, and the reader version that introduced its present form.

CONTRIBUTING.md lists the places of a new event. Code that asks for the kind of an event uses the sets below.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

from noetl_core.events import control, limits, runs, waiting

Entity = Literal["playbook", "workflow", "step", "task", "loop", "next"]
Status = Literal["in_progress", "success", "error", "paused"]
OfRun = Literal["opens", "claims", "suspends", "releases", "ends"]

FIRST_VERSION = 1
"""The reader version that most commits require."""
SPREAD_VERSION = 2
"""The reader version that knows that the lead of a loop may run its first chunk itself. Older code would run it again."""
CURSOR_VERSION = 3
"""The reader version that knows frames of claimed rows. For older code a cursor loop would seem not to have begun."""
LIMIT_VERSION = 4
"""The reader version that knows limits. Older code would start waiting executions and runs."""
SEARCH_VERSION = 5
"""The reader version that knows search attributes and failure handlers."""
OUTSIDE_VERSION = 6
"""The reader version that knows outside work. Older code would end a run without stopping its work."""
CLAIM_VERSION = 7
"""The reader version that knows claims in schedules, and marks of evaluations. Older code would send the commands of
claimed runs to others."""


class EventType(NamedTuple):
    """One event.

    `control` and `run` are its payloads in the control stream (written by the control plane, source `server`) and in run
    streams (written by workers, source `worker`). `status` is the envelope's, unless the payload says that something failed.

    `of_run`: its effect on a step run or chunk: it opens, claims, suspends, releases or ends it. `wakes`: in a run stream it is a
    boundary, which wakes the router. `news`: it records a fact from outside the runs. `becomes`: the status of the execution
    after it. `progress`: it proves that the run does not kill its workers. `version`: the reader version that introduced its
    present form.
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
    version: int = FIRST_VERSION,
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
    _row(control=control.EvaluationMarked, entity="playbook", news=True, version=CLAIM_VERSION),
    _row(control=control.ExecutionRedriven, entity="playbook", news=True, becomes="running"),
    _row(control=control.SearchAttributesSet, entity="playbook", version=SEARCH_VERSION),
    _row(control=control.FailureHandled, entity="playbook", news=True, version=SEARCH_VERSION),
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
    _row(control=waiting.ResumeScheduled, entity="step", status="in_progress"),
    _row(control=waiting.TimerFired, entity="workflow"),
    _row(control=waiting.SignalReceived, entity="workflow", news=True),
    _row(control=waiting.SignalMatched, entity="workflow"),
    _row(control=waiting.ChildRequested, entity="workflow", status="in_progress"),
    _row(control=waiting.ChildFinished, entity="workflow", news=True),
    _row(control=control.CompensationStarted, entity="step", status="in_progress", of_run="opens"),
    _row(control=control.CompensationDone, entity="step"),
    _row(control=control.StopStarted, entity="step", status="in_progress", of_run="opens", version=OUTSIDE_VERSION),
    _row(control=control.StopDone, entity="step", version=OUTSIDE_VERSION),
    _row(control=limits.LimitRequested, entity="workflow", status="in_progress", version=LIMIT_VERSION),
    _row(control=limits.LimitGranted, entity="workflow", news=True, version=LIMIT_VERSION),
    _row(control=limits.LimitRefused, entity="workflow", status="error", news=True, version=LIMIT_VERSION),
    _row(control=limits.LimitReleased, entity="workflow", version=LIMIT_VERSION),
    _row(run=runs.StepStarted, entity="step", status="in_progress", of_run="claims"),
    _row(run=runs.StepResumed, entity="step", status="in_progress", of_run="claims"),
    _row(run=runs.StepReleased, entity="step", status="paused", of_run="releases", progress=True),
    _row(run=runs.StepSuspended, entity="step", status="paused", of_run="suspends", wakes=True),
    _row(run=runs.LoopChunkDone, entity="loop", of_run="ends", wakes=True),
    _row(run=runs.TaskStarted, entity="task", status="in_progress"),
    _row(run=runs.TaskRetried, entity="task", status="in_progress"),
    _row(run=runs.TaskProcessed, entity="task", progress=True),
    _row(run=runs.LoopCollected, entity="loop"),
    _row(run=runs.LoopFrameClaimed, entity="loop", progress=True, version=CURSOR_VERSION),
    _row(run=runs.LoopIterationStarted, entity="loop", status="in_progress"),
    _row(run=runs.LoopIterationCompleted, entity="loop", progress=True),
)

EVENTS: Mapping[str, EventType] = {row.name: row for row in _ROWS}
"""All events by name, those of the control stream first."""


def event_named(name: str) -> EventType:
    """Return the row of an event. An event that only newer code knows is shown unchanged; `engine.fold.control_stream` refuses
    it."""
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
"""Boundaries after which nothing is written to the stream."""
NEWS = frozenset(row.name for row in _ROWS if row.news)
"""Facts: news from outside the runs, which the control plane takes and records."""
LIMITS = frozenset(row.name for row in _ROWS if row.name.startswith("Limit"))
"""Places in limits that executions share."""
OPERATED = frozenset(row.name for row in _ROWS if row.news and row.becomes is not None)
"""Events that change the status of an execution, which lists must show."""
BEGINS = frozenset(row.name for row in _ROWS if row.becomes == "running")
"""Events after which the execution moves, for the first time or again."""
PROGRESS = frozenset(row.name for row in _ROWS if row.progress)
COUNTS_EVENTS = frozenset(row.name for row in _ROWS if row.has("events"))
"""Events with the number of envelopes of their run's stream, which is for summaries and not shown."""
SAYS_MASKED = frozenset(row.name for row in _ROWS if row.has("masked"))
"""Events from which another worker continues; they state whether their secrets are masked."""


def ends_run(name: str, data: Mapping[str, Any]) -> bool:
    """Return whether a control event ends the run it names: for a boundary that was routed, whether that boundary ended it."""
    return name in ENDS_RUN and data.get("name") != "StepSuspended"
