"""Event envelopes (`views.reading.envelopes` creates them), typed for code that folds them.

Comparing `envelope["name"]` narrows `envelope["data"]`. Keys of a payload that are fields of the envelope itself are not in its
`data` (`schema.lifted`). `schema.event_schema` is the schema for clients.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, Literal, NotRequired

if TYPE_CHECKING:
    from typing import TypedDict

    from noetl_core.events import control, limits, runs, waiting
    from noetl_core.events.event import Data, Name
    from noetl_core.events.table import Entity, Status

    class Of(TypedDict, Generic[Name, Data]):
        """The envelope of one event."""

        event_id: str
        execution_id: str
        timestamp: str
        source: Literal["server", "worker"]
        name: Name
        event_type: str
        entity: Entity
        entity_id: str
        status: Status
        data: Data
        step: NotRequired[str]
        step_run_id: NotRequired[str]
        task: NotRequired[str]
        task_run_id: NotRequired[str]
        iteration: NotRequired[list[int]]
        attempt: NotRequired[int]
        parent_id: NotRequired[str]
        trace_id: NotRequired[str]

    Envelope = (
        Of[Literal["PlaybookExecutionRequested"], control.PlaybookExecutionRequested]
        | Of[Literal["PlaybookRequestEvaluated"], control.PlaybookRequestEvaluated]
        | Of[Literal["WorkflowStarted"], control.WorkflowStarted]
        | Of[Literal["WorkflowFinished"], control.WorkflowFinished]
        | Of[Literal["PlaybookProcessed"], control.PlaybookProcessed]
        | Of[Literal["ExecutionPaused"], control.ExecutionPaused]
        | Of[Literal["ExecutionResumed"], control.ExecutionResumed]
        | Of[Literal["ExecutionCancelled"], control.ExecutionCancelled]
        | Of[Literal["ExecutionFailing"], control.ExecutionFailing]
        | Of[Literal["ExecutionStuck"], control.ExecutionStuck]
        | Of[Literal["EvaluationMarked"], control.EvaluationMarked]
        | Of[Literal["ExecutionRedriven"], control.ExecutionRedriven]
        | Of[Literal["SearchAttributesSet"], control.SearchAttributesSet]
        | Of[Literal["FailureHandled"], control.FailureHandled]
        | Of[Literal["CtxPatched"], control.CtxPatched]
        | Of[Literal["TokenEnqueued"], control.TokenEnqueued]
        | Of[Literal["TokenClaimed"], control.TokenClaimed]
        | Of[Literal["TokenParked"], control.TokenParked]
        | Of[Literal["TokenExpired"], control.TokenExpired]
        | Of[Literal["StepSkipped"], control.StepSkipped]
        | Of[Literal["JoinClosed"], control.JoinClosed]
        | Of[Literal["NextEvaluated"], control.NextEvaluated]
        | Of[Literal["StepScheduled"], control.StepScheduled]
        | Of[Literal["BoundaryRouted"], control.BoundaryRouted]
        | Of[Literal["LoopStarted"], control.LoopStarted]
        | Of[Literal["LoopSliced"], control.LoopSliced]
        | Of[Literal["LoopChunkScheduled"], control.LoopChunkScheduled]
        | Of[Literal["LoopDone"], control.LoopDone]
        | Of[Literal["ResumeScheduled"], waiting.ResumeScheduled]
        | Of[Literal["TimerFired"], waiting.TimerFired]
        | Of[Literal["SignalReceived"], waiting.SignalReceived]
        | Of[Literal["SignalMatched"], waiting.SignalMatched]
        | Of[Literal["ChildRequested"], waiting.ChildRequested]
        | Of[Literal["ChildFinished"], waiting.ChildFinished]
        | Of[Literal["CompensationStarted"], control.CompensationStarted]
        | Of[Literal["CompensationDone"], control.CompensationDone]
        | Of[Literal["StopStarted"], control.StopStarted]
        | Of[Literal["StopDone"], control.StopDone]
        | Of[Literal["LimitRequested"], limits.LimitRequested]
        | Of[Literal["LimitGranted"], limits.LimitGranted]
        | Of[Literal["LimitRefused"], limits.LimitRefused]
        | Of[Literal["LimitReleased"], limits.LimitReleased]
        | Of[Literal["StepStarted"], runs.StepStarted]
        | Of[Literal["StepResumed"], runs.StepResumed]
        | Of[Literal["StepReleased"], runs.StepReleased]
        | Of[Literal["StepSuspended"], runs.StepSuspended]
        | Of[Literal["LoopChunkDone"], runs.LoopChunkDone]
        | Of[Literal["TaskStarted"], runs.TaskStarted]
        | Of[Literal["TaskRetried"], runs.TaskRetried]
        | Of[Literal["TaskProcessed"], runs.TaskProcessed]
        | Of[Literal["LoopCollected"], runs.LoopCollected]
        | Of[Literal["LoopFrameClaimed"], runs.LoopFrameClaimed]
        | Of[Literal["LoopIterationStarted"], runs.LoopIterationStarted]
        | Of[Literal["LoopIterationCompleted"], runs.LoopIterationCompleted]
        | Of[Literal["StepDone"], control.StepDone | runs.StepDone]
        | Of[Literal["StepFailed"], control.StepFailed | runs.StepFailed]
    )
else:
    Envelope = dict[str, Any]
