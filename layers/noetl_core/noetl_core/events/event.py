"""The stored event, and the unions by which a type checker knows the payload of each name.

Comparing `event.name` narrows `event.data`: after `if event.name == "TokenParked":`, in `match event.name:` and after `in
("StepStarted", "StepResumed")` its keys are checked, and a name that no event has is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Generic, Literal, ParamSpec, TypeGuard, TypeVar

from noetl_core.events import control, limits, runs, waiting
from noetl_core.events.shapes import Failure
from noetl_core.events.table import (
    BOUNDARIES,
    CLAIM_VERSION,
    FIRST_VERSION,
    NEWS,
    OPENS_RUN,
    OUTSIDE_VERSION,
    SPREAD_VERSION,
    ends_run,
    event_named,
)
from noetl_core.values.frozen import frozen

Name = TypeVar("Name", covariant=True)
Data = TypeVar("Data", covariant=True)
Keys = ParamSpec("Keys")

LOG_VERSION = 7
"""The newest reader version, which is this code's. Readers refuse newer ones."""


@frozen
class Event(Generic[Name, Data]):
    """One stored state transition: its name (`StepDone`), its instant in microseconds, and the data that cannot be derived."""

    name: Name
    ts: int
    data: Data


def new(kind: Callable[Keys, Data], ts: int, /, *_: Keys.args, **data: Keys.kwargs) -> Event[Any, Data]:
    """Return an event with the payload type `kind`, whose keys are checked: `new(control.TokenParked, ts, token=...)`."""
    payload: Any = data
    return Event(kind.__name__, ts, payload)


if TYPE_CHECKING:
    ControlEvent = (
        Event[Literal["PlaybookExecutionRequested"], control.PlaybookExecutionRequested]
        | Event[Literal["PlaybookRequestEvaluated"], control.PlaybookRequestEvaluated]
        | Event[Literal["WorkflowStarted"], control.WorkflowStarted]
        | Event[Literal["WorkflowFinished"], control.WorkflowFinished]
        | Event[Literal["PlaybookProcessed"], control.PlaybookProcessed]
        | Event[Literal["ExecutionPaused"], control.ExecutionPaused]
        | Event[Literal["ExecutionResumed"], control.ExecutionResumed]
        | Event[Literal["ExecutionCancelled"], control.ExecutionCancelled]
        | Event[Literal["ExecutionFailing"], control.ExecutionFailing]
        | Event[Literal["ExecutionStuck"], control.ExecutionStuck]
        | Event[Literal["EvaluationMarked"], control.EvaluationMarked]
        | Event[Literal["ExecutionRedriven"], control.ExecutionRedriven]
        | Event[Literal["SearchAttributesSet"], control.SearchAttributesSet]
        | Event[Literal["FailureHandled"], control.FailureHandled]
        | Event[Literal["CtxPatched"], control.CtxPatched]
        | Event[Literal["TokenEnqueued"], control.TokenEnqueued]
        | Event[Literal["TokenClaimed"], control.TokenClaimed]
        | Event[Literal["TokenParked"], control.TokenParked]
        | Event[Literal["TokenExpired"], control.TokenExpired]
        | Event[Literal["StepSkipped"], control.StepSkipped]
        | Event[Literal["JoinClosed"], control.JoinClosed]
        | Event[Literal["NextEvaluated"], control.NextEvaluated]
        | Event[Literal["StepScheduled"], control.StepScheduled]
        | Event[Literal["BoundaryRouted"], control.BoundaryRouted]
        | Event[Literal["StepDone"], control.StepDone]
        | Event[Literal["StepFailed"], control.StepFailed]
        | Event[Literal["LoopStarted"], control.LoopStarted]
        | Event[Literal["LoopSliced"], control.LoopSliced]
        | Event[Literal["LoopChunkScheduled"], control.LoopChunkScheduled]
        | Event[Literal["LoopDone"], control.LoopDone]
        | Event[Literal["ResumeScheduled"], waiting.ResumeScheduled]
        | Event[Literal["TimerFired"], waiting.TimerFired]
        | Event[Literal["SignalReceived"], waiting.SignalReceived]
        | Event[Literal["SignalMatched"], waiting.SignalMatched]
        | Event[Literal["ChildRequested"], waiting.ChildRequested]
        | Event[Literal["ChildFinished"], waiting.ChildFinished]
        | Event[Literal["CompensationStarted"], control.CompensationStarted]
        | Event[Literal["CompensationDone"], control.CompensationDone]
        | Event[Literal["StopStarted"], control.StopStarted]
        | Event[Literal["StopDone"], control.StopDone]
        | Event[Literal["LimitRequested"], limits.LimitRequested]
        | Event[Literal["LimitGranted"], limits.LimitGranted]
        | Event[Literal["LimitRefused"], limits.LimitRefused]
        | Event[Literal["LimitReleased"], limits.LimitReleased]
    )
    """Every event of the control stream."""
    RunEvent = (
        Event[Literal["StepStarted"], runs.StepStarted]
        | Event[Literal["StepResumed"], runs.StepResumed]
        | Event[Literal["StepReleased"], runs.StepReleased]
        | Event[Literal["StepSuspended"], runs.StepSuspended]
        | Event[Literal["StepDone"], runs.StepDone]
        | Event[Literal["StepFailed"], runs.StepFailed]
        | Event[Literal["LoopChunkDone"], runs.LoopChunkDone]
        | Event[Literal["TaskStarted"], runs.TaskStarted]
        | Event[Literal["TaskRetried"], runs.TaskRetried]
        | Event[Literal["TaskProcessed"], runs.TaskProcessed]
        | Event[Literal["LoopCollected"], runs.LoopCollected]
        | Event[Literal["LoopFrameClaimed"], runs.LoopFrameClaimed]
        | Event[Literal["LoopIterationStarted"], runs.LoopIterationStarted]
        | Event[Literal["LoopIterationCompleted"], runs.LoopIterationCompleted]
    )
    """Every event of run streams."""
    AnyEvent = ControlEvent | RunEvent
    BoundaryEvent = (
        Event[Literal["StepDone"], runs.StepDone]
        | Event[Literal["StepFailed"], runs.StepFailed]
        | Event[Literal["StepSuspended"], runs.StepSuspended]
        | Event[Literal["LoopChunkDone"], runs.LoopChunkDone]
    )
    """Events of run streams with which an activation ends."""
    TerminalEvent = (
        Event[Literal["StepDone"], runs.StepDone]
        | Event[Literal["StepFailed"], runs.StepFailed]
        | Event[Literal["LoopChunkDone"], runs.LoopChunkDone]
    )
    """Boundaries with which the run ends."""
    OpeningEvent = (
        Event[Literal["StepScheduled"], control.StepScheduled]
        | Event[Literal["LoopChunkScheduled"], control.LoopChunkScheduled]
        | Event[Literal["CompensationStarted"], control.CompensationStarted]
        | Event[Literal["StopStarted"], control.StopStarted]
    )
    """Control events that open a run's stream."""
    EndingEvent = (
        Event[Literal["BoundaryRouted"], control.BoundaryRouted]
        | Event[Literal["StepDone"], control.StepDone]
        | Event[Literal["StepFailed"], control.StepFailed]
        | Event[Literal["LoopDone"], control.LoopDone]
    )
    """Control events with which the control plane ends a run."""
    Fact = (
        Event[Literal["ExecutionPaused"], control.ExecutionPaused]
        | Event[Literal["ExecutionResumed"], control.ExecutionResumed]
        | Event[Literal["ExecutionCancelled"], control.ExecutionCancelled]
        | Event[Literal["ExecutionFailing"], control.ExecutionFailing]
        | Event[Literal["ExecutionStuck"], control.ExecutionStuck]
        | Event[Literal["EvaluationMarked"], control.EvaluationMarked]
        | Event[Literal["ExecutionRedriven"], control.ExecutionRedriven]
        | Event[Literal["FailureHandled"], control.FailureHandled]
        | Event[Literal["SignalReceived"], waiting.SignalReceived]
        | Event[Literal["ChildFinished"], waiting.ChildFinished]
        | Event[Literal["LimitGranted"], limits.LimitGranted]
        | Event[Literal["LimitRefused"], limits.LimitRefused]
    )
    """News for the control plane from outside the runs: a signal, a finished child, an operator's request."""
    TaskEvent = Event[Literal["TaskProcessed"], runs.TaskProcessed]
else:
    ControlEvent = RunEvent = AnyEvent = BoundaryEvent = TerminalEvent = OpeningEvent = EndingEvent = Fact = TaskEvent = Event


def fact(kind: Callable[Keys, Data], /, *_: Keys.args, **data: Keys.kwargs) -> Event[Any, Data]:
    """Return a fact for the control plane, dated when it is recorded: `fact(control.ExecutionStuck, reason=...)`."""
    payload: Any = data
    return Event(kind.__name__, 0, payload)


def is_fact(event: AnyEvent) -> TypeGuard[Fact]:
    """Return whether a control event records a fact."""
    return event.name in NEWS


def is_boundary(event: AnyEvent) -> TypeGuard[BoundaryEvent]:
    """Return whether an event of a run stream wakes the router."""
    return event.name in BOUNDARIES


def opens_run(event: AnyEvent) -> TypeGuard[OpeningEvent]:
    """Return whether a control event opens a run's stream."""
    return event.name in OPENS_RUN


def closes_run(event: AnyEvent) -> TypeGuard[EndingEvent]:
    """Return whether a control event ends the run that it names (`table.ends_run`)."""
    return ends_run(event.name, event.data)


def was_ended(event: BoundaryEvent) -> bool:
    """Return whether a run was ended before its pipeline, so that its outside work may be in progress."""
    return event.name == "StepFailed" and (event.data.get("source") == "server" or event.data["error"]["kind"] == "cancelled")


def error_of(event: TerminalEvent) -> Failure | None:
    """Return the error with which a run ended; None if it succeeded."""
    return None if event.name == "StepDone" else event.data.get("error")


def version_of(events: Iterable[AnyEvent]) -> int:
    """Return `v` of a commit of `events`: the lowest reader version that may interpret it."""
    return max((FIRST_VERSION, *map(_version_of, events)))


def _version_of(event: AnyEvent) -> int:
    """Return the version of the event's row, or that of a key which older code would overlook."""
    if (event.name == "StepScheduled" and "claim" in event.data) or (event.name == "BoundaryRouted" and "asked" in event.data):
        return CLAIM_VERSION
    if event.name in ("StepSuspended", "BoundaryRouted") and any("outside" in wait for wait in event.data.get("waits", ())):
        return OUTSIDE_VERSION
    if (event.name == "StepSuspended" and "succeeded" in event.data) or (event.name == "LoopSliced" and "done" in event.data):
        return SPREAD_VERSION
    return event_named(event.name).version
