"""Divides executions in progress into running, waiting and retrying.

Heads are recorded at the start, at the end and at changes of status only. Finer states come from the state, which is read for
executions that are listed or counted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any, Final

from noetl_core.control.core import Control
from noetl_core.engine.records import StreamId
from noetl_core.engine.state import State
from noetl_core.events.event import AnyEvent
from noetl_core.log.concurrent_reads import read_concurrently
from noetl_core.ports import CorruptLog, Head, NewerLog
from noetl_core.values.frozen import frozen
from noetl_core.values.instants import to_rfc3339
from noetl_core.views.executions import executions
from noetl_core.views.executions.shared_limits import awaited_by, waiting_executions

ACTIVITIES: Final = ("running", "waiting", "retrying")
"""Statuses of an execution whose head has the status `running`."""
STATES_READ: Final = 100
"""Maximum number of states read for one page, batch or count."""
RUNS: Final = 10
"""Maximum number of open runs examined for each execution."""
WAITS: Final = 5
"""Maximum number of waits shown for each execution."""
ATTEMPT: Final = ("TaskStarted", "TaskRetried", "TaskProcessed")


@frozen
class Activity:
    """The activity of an execution, and its waits."""

    status: str
    waiting_for: Sequence[Mapping[str, Any]] = ()


def activities_of(control: Control, heads: Sequence[Head], most: int | None = None) -> dict[str, Activity]:
    """Return the activity of each execution of `heads` whose status is `running`.

    At most `most` states are read (`STATES_READ` by default); the other executions count as running, or as waiting if they wait
    for a limit.
    """
    most = STATES_READ if most is None else most
    running = [head for head in heads if head.status == "running"]
    looked = list(read_concurrently(lambda head: _looked_at(control, head), running[:most]))
    states = {state.execution_id: state for state, _ in looked if state is not None}
    limits = awaited_by(control, states)
    found = dict.fromkeys((head.execution_id for head in running), Activity("running"))
    if len(running) > most:
        found |= {id: Activity("waiting") for id in waiting_executions(control) if id in found}
    for head, (state, waits) in zip(running, looked, strict=False):
        found[head.execution_id] = Activity("running") if state is None else _activity_of(state, waits, limits)
    return found


def _activity_of(state: State, waits: Sequence[Mapping[str, Any]], limits: Mapping[str, Sequence[Mapping[str, Any]]]) -> Activity:
    status = "retrying" if any(wait["kind"] == "retry" for wait in waits) else executions.status_of(state)
    if status not in ACTIVITIES[1:]:
        return Activity(status)
    return Activity(status, [*limits.get(state.execution_id, ()), *waits][:WAITS])


def _looked_at(control: Control, head: Head) -> tuple[State | None, list[Mapping[str, Any]]]:
    """Return the state and the waits of open runs; None and no waits if the log is unreadable."""
    try:
        state = control.load(head.execution_id)
        return state, list(_waits(control, state))
    except (CorruptLog, NewerLog):
        return None, []


def _waits(control: Control, state: State) -> list[Mapping[str, Any]]:
    """Return the waits of open runs, the next attempts of tasks first."""
    retries: list[Mapping[str, Any]] = []
    waits: list[Mapping[str, Any]] = []
    for run in islice(state.runs.values(), RUNS):
        last = control.store.last(StreamId(state.execution_id, run.id))
        if last is None:
            continue
        since = {"step": run.step, "since": to_rfc3339(last.ts)}
        waits_of_run = [executions.wait_view(wait) for wait in run.waits]
        retried = _retried(last.events)
        if retried is None:
            waits += [{**wait, **since} for wait in waits_of_run]
        else:
            timer = next((wait for wait in waits_of_run if wait["kind"] == "timer"), {"wait_id": run.id})
            retries.append({**timer, "kind": "retry", "task": retried, **since})
    return [*retries, *waits]


def _retried(events: Sequence[AnyEvent]) -> str | None:
    """Return the task that is being retried: a retry is the last event of the run, or the run waits for one."""
    for event in reversed(events):
        if event.name in ATTEMPT:
            return event.data["task"] if event.name == "TaskRetried" else None
    return None
