"""What executions do whose heads say `running`: they run, wait, or try a task again. Heads are written at the start, at changes
of status and at the end alone; what lies between is in the state, which is read for those that are listed or counted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any, Final

from noetl_core.control.core import Control
from noetl_core.engine.records import StreamId
from noetl_core.engine.state import State
from noetl_core.events.event import AnyEvent
from noetl_core.log.concurrent_reads import at_once
from noetl_core.ports import CorruptLog, Head, NewerLog
from noetl_core.values.frozen import frozen
from noetl_core.values.instants import to_rfc3339
from noetl_core.views.executions import executions
from noetl_core.views.executions.shared_limits import awaited_by, waiting_executions

DOING: Final = ("running", "waiting", "retrying")
"""What an execution may do whose head says `running`."""
STATES_READ: Final = 100
"""Executions whose states one page, batch or count reads."""
RUNS: Final = 10
"""Open runs of an execution that are looked at."""
WAITS: Final = 5
"""Waits of an execution that are shown."""
ATTEMPT: Final = ("TaskStarted", "TaskRetried", "TaskProcessed")


@frozen
class Doing:
    """What an execution does, and what it waits for."""

    status: str
    waiting_for: Sequence[Mapping[str, Any]] = ()


def doing(control: Control, heads: Sequence[Head], most: int | None = None) -> dict[str, Doing]:
    """Return what those of `heads` do that say `running`, by execution. The states of `most` are read (`STATES_READ` by default);
    the others run, as far as is known, or wait for a limit."""
    most = STATES_READ if most is None else most
    running = [head for head in heads if head.status == "running"]
    looked = list(at_once(lambda head: _looked_at(control, head), running[:most]))
    states = {state.execution_id: state for state, _ in looked if state is not None}
    limits = awaited_by(control, states)
    found = dict.fromkeys((head.execution_id for head in running), Doing("running"))
    if len(running) > most:
        found |= {id: Doing("waiting") for id in waiting_executions(control) if id in found}
    for head, (state, waits) in zip(running, looked, strict=False):
        found[head.execution_id] = Doing("running") if state is None else _said(state, waits, limits)
    return found


def _said(state: State, waits: Sequence[Mapping[str, Any]], limits: Mapping[str, Sequence[Mapping[str, Any]]]) -> Doing:
    status = "retrying" if any(wait["kind"] == "retry" for wait in waits) else executions.status_of(state)
    if status not in DOING[1:]:
        return Doing(status)
    return Doing(status, [*limits.get(state.execution_id, ()), *waits][:WAITS])


def _looked_at(control: Control, head: Head) -> tuple[State | None, list[Mapping[str, Any]]]:
    """Return the state, and what open runs wait for; None: of a log that does not read nothing can be said."""
    try:
        state = control.load(head.execution_id)
        return state, list(_waits(control, state))
    except (CorruptLog, NewerLog):
        return None, []


def _waits(control: Control, state: State) -> list[Mapping[str, Any]]:
    """Return what open runs wait for, the next attempts of tasks first."""
    retries: list[Mapping[str, Any]] = []
    waits: list[Mapping[str, Any]] = []
    for run in islice(state.runs.values(), RUNS):
        last = control.store.last(StreamId(state.execution_id, run.id))
        if last is None:
            continue
        since = {"step": run.step, "since": to_rfc3339(last.ts)}
        shown = [executions.shown_wait(wait) for wait in run.waits]
        retried = _retried(last.events)
        if retried is None:
            waits += [{**wait, **since} for wait in shown]
        else:
            timer = next((wait for wait in shown if wait["kind"] == "timer"), {"wait_id": run.id})
            retries.append({**timer, "kind": "retry", "task": retried, **since})
    return [*retries, *waits]


def _retried(events: Sequence[AnyEvent]) -> str | None:
    """Return the task that is tried again, where that is what a run did last, or for which it waits."""
    for event in reversed(events):
        if event.name in ATTEMPT:
            return event.data["task"] if event.name == "TaskRetried" else None
    return None
