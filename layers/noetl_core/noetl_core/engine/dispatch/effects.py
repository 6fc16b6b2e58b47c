"""Defines effects: the actions that follow a stored commit, as values. The control plane carries them out in their order and
decides nothing. Pure.

Effects follow from the log alone: from the events of a commit and the state after them (`effects_of`). A process that ends
between a commit and its effects therefore loses nothing, because others derive them again with the same functions: the next
router of a boundary that was already routed (`again`), and the sweeper (`commands_of`, `end_effects`, `next_reconciliation`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import field, replace
from typing import Final, TypeAlias

from noetl_core.dsl.model import Playbook
from noetl_core.engine.claims import claims_end, unclaimed
from noetl_core.engine.dispatch.commands import commands_of
from noetl_core.engine.heads import Head, head_of
from noetl_core.engine.records import Command, ControlEvent, Snapshot
from noetl_core.engine.routing.deadlines import deadlines, execution_deadlines, run_deadlines
from noetl_core.engine.snapshots import snapshot
from noetl_core.engine.state import LimitUse, State, caller_of
from noetl_core.engine.waits import due_at, signal_name
from noetl_core.engine.warnings import count_of, failure_of, warnings_of
from noetl_core.events.aggregates import Warnings
from noetl_core.events.shapes import ChildRequest, Failure, ResultPointer, Wait
from noetl_core.events.table import BEGINS, OPERATED
from noetl_core.values.frozen import frozen, mutable
from noetl_core.values.instants import SECOND

FIRST_RECONCILIATION_S: Final = 90
"""Seconds until the sweeper reconciles an execution for the first time: the lease (60 s) and a margin."""
RECONCILE_EVERY_S: Final = 55
"""The interval while something runs: a little less than the minute of the schedule, so that every sweep finds the execution
due."""
RECONCILE_AT_LEAST_EVERY_S: Final = 3600
"""An execution that only waits is reconciled when its first timer is due, at least this often."""
SNAPSHOT_EVENTS: Final = 5_000
"""Events of one decision after which a snapshot is written, so that no reader folds them again."""


@frozen
class SendCommands:
    """Ask workers to carry out runs."""

    commands: tuple[Command, ...]


@frozen
class WakeAt:
    """Route the execution again at `at`, when a timer or a deadline is due. The due index has it too, but is read only once a
    minute."""

    at: int


@frozen
class StartChild:
    """Create the execution `child` that a run of `parent` requested with `request`; `depth` is the depth of nested calls."""

    parent: str
    child: str
    run: str
    request: ChildRequest
    depth: int
    trace_id: str | None = None
    priority: float | None = None
    strict: bool = False


@frozen
class EndChild:
    """Cancels the child of the request `asked`, because no run waits for it any longer. `expires_at` is that of the parent."""

    asked: StartChild
    reason: str
    expires_at: int
    compensate: bool = False


@frozen
class AcquirePlace:
    """Ask for a place in a limit, for an execution that `run` of `parent` called, if it is a child. `holds` is true if others may
    wait for places that it has: then they may wait for each other."""

    use: LimitUse
    parent: str | None = None
    run: str | None = None
    holds: bool = False


@frozen
class ReleasePlace:
    """Free a place in a limit, or no longer wait for one."""

    key: str
    holder: str
    place: str


@frozen
class WriteHead:
    """Write the head that lists show."""

    head: Head


@frozen
class SaveSnapshot:
    """Store a snapshot of the state."""

    snapshot: Snapshot


@frozen
class TellParent:
    """Tell the execution `parent` how its child has ended; `result` is stored as in `State.result`."""

    parent: str
    child: str
    status: str
    result: ResultPointer | None = None
    error: Failure | None = None


@frozen
class HandleFailure:
    """Start the handler of an execution's failed end, if its playbook or the stack names one, and record it."""

    execution_id: str
    epoch: int
    path: str
    version: int
    digest: str
    error: Failure
    started_at: int
    at: int
    trace_id: str | None = None
    warnings: Warnings | None = None
    """The warnings of an execution that completed with warnings. Only handlers with `also: warnings` are notified of it."""
    depth: int = 0
    """The depth of nested calls. The handler's execution continues it; otherwise failures and handlers could start each other
    forever."""


@frozen
class SetDue:
    """Have the sweeper reconcile the execution at `at`."""

    at: int


@frozen
class ClearDue:
    """Remove the due item: nothing is left to reconcile."""


Effect: TypeAlias = (
    SendCommands
    | WakeAt
    | StartChild
    | EndChild
    | AcquirePlace
    | ReleasePlace
    | WriteHead
    | SaveSnapshot
    | TellParent
    | HandleFailure
    | SetDue
    | ClearDue
)


def effects_of(
    playbook: Playbook, state: State, events: Sequence[ControlEvent], now: int, *, again: bool = False
) -> tuple[Effect, ...]:
    """Return the effects of a commit of `events` decided at `now`, which led to `state`; without events, those that always hold.
    `again` says that the boundaries were already routed, so that their effects may be missing."""
    return tuple(_effects(playbook, state, events, now, again))


def _effects(playbook: Playbook, state: State, events: Sequence[ControlEvent], now: int, again: bool) -> Iterator[Effect]:
    news = _news_of(state, events)
    if news.is_first and not state.finished:
        yield WriteHead(head_of(state))
    if (news.goes_on or news.resumes or news.is_granted or news.redriven) and not state.finished:
        yield SetDue(now + FIRST_RECONCILIATION_S * SECOND)
    if news.redriven and not state.finished:  # a process that carries out the end before this may still remove the due item
        yield WakeAt(now + FIRST_RECONCILIATION_S * SECOND)
    runs = unclaimed(state, _open_runs(state) if news.goes_on or (again and not events) else news.scheduled, now)
    if commands := commands_of(playbook, state, runs):
        yield SendCommands(tuple(commands))
    if news.goes_on and (lapse := claims_end(state, now)) is not None:
        yield WakeAt(lapse)  # their workers may have dropped these runs because of the pause
    for at in dict.fromkeys(_wakes(playbook, state, news)):
        yield WakeAt(at)
    yield from orphans(state)  # sharers of a place end before others get it
    yield from places_freed(state, news.freed if events or not (again or state.finished) else state.freed)
    if news.asks or (again and not events):
        yield from places_asked(state)
    for child in news.children:
        yield child_of(state, child)
    if news.is_shown and not state.finished:
        yield WriteHead(head_of(state))
    if len(events) >= SNAPSHOT_EVENTS:
        yield SaveSnapshot(snapshot(state))
    if state.finished:
        yield from end_effects(state)


def end_effects(state: State) -> tuple[Effect, ...]:
    """Return the effects of an end: write the head, tell the parent, free places in limits, handle a failure, and only then
    remove the due item."""
    news, failed = parent_news(state), failed_end(state)
    freed = [ReleasePlace(use.key, use.holder, use.place) for use in state.limits.values() if use.shared is None]
    return (
        WriteHead(head_of(state)),
        *([news] if news is not None else ()),
        *freed,
        *([failed] if failed is not None else ()),
        ClearDue(),
    )


def places_freed(state: State, holders: Iterable[str]) -> Iterator[ReleasePlace]:
    """Return the places that runs have left, of `holders`."""
    yield from (ReleasePlace(use.key, holder, use.place) for holder in holders if (use := state.freed.get(holder)) is not None)


def places_asked(state: State) -> Iterator[AcquirePlace]:
    """Return the places that a live execution has asked for and not got."""
    if not state.finished:
        parent, run = caller_run(state)
        holds = parent is not None or any(use.held for use in state.limits.values())
        yield from (AcquirePlace(replace(use), parent, run, holds) for use in state.limits.values() if not use.held)


def caller_run(state: State) -> tuple[str | None, str | None]:
    """Return the execution that waits for this one, and its run that does."""
    parent = caller_of(state.parent)
    if parent is None or state.parent is None or state.parent.get("detached"):
        return None, None
    return parent, state.parent.get("run_id")


def failed_end(state: State) -> HandleFailure | None:
    """Return the failed end of an execution, or its end with warnings, as its handler receives it; None if nothing is left to
    handle. A child's failure is its parent's affair, and the failure of a handler is not handled itself."""
    warned = state.status == "completed" and count_of(state) > 0
    if not (state.status == "failed" or warned) or (state.handled is not None and state.handled["epoch"] == state.epoch):
        return None
    child = caller_of(state.parent) is not None and not (state.parent is not None and state.parent.get("detached"))
    if child or (state.trigger is not None and state.trigger["kind"] == "failure"):
        return None
    warnings = warnings_of(state) if warned else None
    unknown: Failure = {"kind": "unknown", "message": ""}
    error = failure_of(warnings) if warnings is not None else unknown if state.failure is None else state.failure.copy()
    return HandleFailure(
        state.execution_id,
        state.epoch,
        state.path,
        state.version,
        state.digest,
        error,
        state.started_at,
        state.finished_at or state.updated_at,
        state.trace_id,
        warnings,
        _depth(state),
    )


def parent_news(state: State) -> TellParent | None:
    """Return the end of a child for the run that waits for it; None if no run waits."""
    caller = caller_of(state.parent)
    if caller is None or (state.parent is not None and state.parent.get("detached")):
        return None
    return TellParent(caller, state.execution_id, state.status, state.result, state.failure)


def child_of(state: State, child: str) -> StartChild:
    """Return the request for a child that is not known to have ended."""
    call = state.children[child]
    depth = 1 + _depth(state)
    return StartChild(state.execution_id, child, call.run, call.request, depth, state.trace_id, state.priority, state.strict)


def _depth(state: State) -> int:
    return int(state.parent.get("depth") or 0) if state.parent is not None else 0


def orphans(state: State) -> Iterator[EndChild]:
    """Return the children whose run has ended before them: by its timeout, by a cancel, or by a redrive."""
    reason = f"the run of {state.execution_id} that called this execution has ended"
    for child, call in state.children.items():
        if call.run not in state.runs:
            yield end_of(state, child, reason)


def end_of(state: State, child: str, reason: str, *, compensate: bool = False) -> EndChild:
    """Return the effect that ends a child whose parent no longer needs it."""
    return EndChild(child_of(state, child), reason, state.expires_at, compensate)


def next_reconciliation(playbook: Playbook, state: State, now: int) -> int:
    """Return when to reconcile next: soon while commands wait for workers (with growing delay), otherwise when the first wait
    or deadline ends."""
    latest = now + RECONCILE_AT_LEAST_EVERY_S * SECOND
    first = min((max(d.at, now + SECOND) for d in deadlines(playbook, state)), default=latest)
    if state.status == "paused":
        return min(first, latest)
    claimable = [run for run in state.runs.values() if run.status == "scheduled"]
    if claimable:
        youngest = now - max(run.scheduled_at for run in claimable)
        return min(first, now + min(max(RECONCILE_EVERY_S * SECOND, youngest // 2), 15 * RECONCILE_EVERY_S * SECOND))
    return min([max(at, now + SECOND) for at in _times(_open_waits(state))] + [first, latest])


def next_instant(playbook: Playbook, state: State) -> int | None:
    """Return when the first wait or deadline of an execution ends (microseconds); None if it has none, or has ended."""
    if state.finished:
        return None
    waits = [] if state.status == "paused" else _times(_open_waits(state))
    return min([*(deadline.at for deadline in deadlines(playbook, state)), *waits], default=None)


@mutable
class _News:
    """The effects that the events of one commit require."""

    scheduled: list[str] = field(default_factory=list)
    """Runs that need a worker, in the order they were scheduled."""
    waits: list[list[Wait]] = field(default_factory=list)
    """Waits whose time begins, by the event that began it."""
    children: list[str] = field(default_factory=list)
    asks: bool = False
    """True if the commit requests a place in a limit."""
    freed: list[str] = field(default_factory=list)
    """Holders of places that are free now."""
    is_granted: bool = False
    """True if a place was granted. If it is the place of the execution itself, the time of the execution begins."""
    is_first: bool = False
    begins: bool = False
    """True if the execution moves from here on, for the first time or again. Its time begins."""
    goes_on: bool = False
    """Resumed after a pause, or after it was stuck."""
    redriven: bool = False
    resumes: bool = False
    """True if a suspended run continues."""
    is_shown: bool = False
    """Lists show it differently now."""


def _news_of(state: State, events: Iterable[ControlEvent]) -> _News:
    news = _News()
    for event in events:
        news.begins |= event.name in BEGINS
        news.is_shown |= event.name in OPERATED
        match event.name:
            case "StepScheduled" | "LoopChunkScheduled" | "CompensationStarted" | "StopStarted" | "ResumeScheduled":
                news.scheduled.append(event.data["run"])  # a step without tasks has already ended: no command
                news.resumes |= event.name == "ResumeScheduled"
            case "BoundaryRouted":
                if event.data["run"] in state.runs:  # a wait that ended at once is included: its run is then reconciled soon
                    news.waits.append(event.data.get("waits", []))
            case "SignalReceived":
                if event.data.get("heartbeat"):
                    name = event.data["name"]
                    news.waits.append([wait for wait in _open_waits(state) if signal_name(wait) == name])
            case "ChildRequested":
                news.children.append(event.data["child"])
            case "LimitRequested":
                news.asks = True
            case "LimitReleased":
                news.freed.append(event.data["holder"])
            case "LimitRefused" if event.data.get("deadlock") or event.data.get("displaced"):
                news.freed.append(event.data["holder"])
            case "LimitGranted":
                news.is_granted = True
            case "PlaybookExecutionRequested":
                news.is_first = True
            case "SearchAttributesSet":
                news.is_shown |= not news.is_first
            case "ExecutionRedriven":
                news.redriven = True
            case "ExecutionResumed":
                news.goes_on = True
                news.waits.append(list(_open_waits(state)))
    return news


def _wakes(playbook: Playbook, state: State, news: _News) -> Iterator[int]:
    """Return when deadlines and waits that begin now are due. Of the waits of one event only the first counts; it leads to
    the next."""
    if (news.scheduled or news.begins or news.is_granted) and not state.finished:
        begun = state.runs.values() if news.goes_on else [state.runs[run] for run in news.scheduled if run in state.runs]
        if news.begins or news.is_granted:
            yield from (deadline.at for deadline in execution_deadlines(playbook, state))
        yield from (deadline.at for deadline in run_deadlines(playbook, state, begun))
    for waits in news.waits:
        if times := _times(waits):
            yield min(times)


def _times(waits: Iterable[Wait]) -> list[int]:
    return [at for wait in waits if (at := due_at(wait)) is not None]


def _open_waits(state: State) -> Iterator[Wait]:
    return (wait for run in state.runs.values() for wait in run.waits)


def _open_runs(state: State) -> list[str]:
    return [run.id for run in state.runs.values() if run.status == "scheduled"]
