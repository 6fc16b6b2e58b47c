"""Reads executions: summary, lists, state (docs/looking.md). `pages` reads histories."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from noetl_core.api.refused import BadCursor
from noetl_core.control import unreadable_logs
from noetl_core.control.callbacks import form_of
from noetl_core.control.core import Control
from noetl_core.dsl.reading.diagnostics import InvalidPlaybook
from noetl_core.engine.fold.control_stream import fold
from noetl_core.engine.records import StreamId, control_events
from noetl_core.engine.state import Run, State, StepState
from noetl_core.engine.statuses import TERMINAL
from noetl_core.engine.warnings import warnings_of
from noetl_core.engine.workload import workload_of
from noetl_core.events.shapes import Wait
from noetl_core.expr import is_reference
from noetl_core.log.concurrent_reads import read_concurrently
from noetl_core.log.stored_values import Values
from noetl_core.ports import CorruptLog, Head, NotFound, PlaybookVersion
from noetl_core.values.instants import to_rfc3339
from noetl_core.views.executions.shared_limits import awaited
from noetl_core.views.reading.cursor import EventPlace, place_of
from noetl_core.views.reading.newest_first import routing_of
from noetl_core.views.reading.run_progress import LOOKED, run_at

if TYPE_CHECKING:
    from noetl_core.api.shapes import catalog as catalog_shapes
    from noetl_core.dsl.model import Playbook

__all__ = ["BadCursor", "error_of", "head_as_dict", "load", "state_at", "status_of", "summary", "wait_view", "waiting_for"]

WAITING_FOR = ("kind", "signal", "child", "limit", "task", "iteration", "description", "wait_id")
BEGINNING_BYTES = 2_000
"""Bytes of an error's large details that a summary shows."""


def load(control: Control, execution_id: str) -> State:
    """Return the state of an execution. Raises `NotFound`."""
    state = control.load(execution_id)
    if state.seq < 0:
        raise NotFound(f"there is no execution {execution_id}")
    return state


def status_of(state: State) -> str:
    """Return the status. A running execution is `waiting` if all its open runs are suspended, or if it waits for a limit."""
    runs = [r for r in state.runs.values() if r.loop is None]
    if state.status == "running" and (runs or state.awaits_limit) and all(r.status == "suspended" for r in runs):
        return "waiting"
    return state.status


def summary(control: Control, execution_id: str) -> dict[str, Any]:
    """Return the summary that `noetl run --output json` prints. Raises `NotFound`."""
    try:
        state = load(control, execution_id)
    except CorruptLog as error:
        return unreadable_logs.summary(control, execution_id, str(error))
    values = Values(control.store, control.results, execution_id)
    status = status_of(state)
    if status == "cancelling" and (head := control.index.head(execution_id)) is not None and head.status in TERMINAL:
        state = load(control, execution_id)  # the head is updated after the log, unless the execution was closed alone
        status = status_of(state)
        if not state.finished:
            return unreadable_logs.summary(control, execution_id, "the log of one of its runs is unreadable")
    finished = state.finished_at
    out: dict[str, Any] = {
        "execution_id": execution_id,
        "status": status,
        "playbook": {"path": state.path, "version": state.version, "digest": state.digest},
        "input": input_of(control, state),
        "result": values.at(state.result) if state.status == "completed" else None,
        "ctx": state.ctx,
        "error": error_of(control, state, values),
        "steps": _steps(state, values),
        "started_at": to_rfc3339(state.started_at),
        "finished_at": to_rfc3339(finished) if finished else None,
        "duration_ms": ((finished or control.clock.now()) - state.started_at) // 1000,
        "events": state.events,
    }
    out |= redrive_of(state.redriven_at, finished or control.clock.now())
    if status == "waiting":
        out["waiting_for"] = [*awaited(control, state), *waiting_for(state)]
    if state.stuck:
        out["reason"] = state.stuck
    if state.parent:
        out["parent"] = state.parent
    if state.trigger is not None:
        out["trigger"] = state.trigger
    if state.handled is not None:
        out["on_failure"] = state.handled
    if state.search is not None:
        out["search"] = state.search["attributes"]
        if left_out := state.search.get("left_out"):
            out["search_left_out"] = left_out
    if state.labels:
        out["labels"] = state.labels
    if state.priority is not None:
        out["priority"] = state.priority
    if (warnings := warnings_of(state))["count"]:
        out["warnings"] = warnings
    if state.strict:
        out["strict"] = True
    if state.by:
        out["by"] = state.by
    return out


def input_of(control: Control, state: State) -> dict[str, Any]:
    """Return the workload with the payload of the request."""
    try:
        return workload_of(control.playbook(state.digest), state)
    except InvalidPlaybook:  # accepted by an older version
        return {**state.rendered, **state.payload}


def waiting_for(state: State) -> list[dict[str, Any]]:
    """Return the waits of open runs; those for an answer with its form."""
    return [wait_view(wait) | form_of(wait) for run in state.runs.values() for wait in run.waits]


def wait_view(wait: Wait) -> dict[str, Any]:
    """Return a wait without its internal keys."""
    fields: Mapping[str, Any] = wait
    until = {"until": to_rfc3339(wait["at"])} if wait.get("at") else {}
    return {key: fields[key] for key in WAITING_FOR if key in fields} | until


def error_of(control: Control, state: State, values: Values) -> dict[str, Any] | None:
    """Return the error with which the execution failed, or the failures of its compensations."""
    if state.failure is None and not state.not_undone:
        return None
    failure = state.failure or {"kind": "cancelled", "message": state.cancelled_for or "the execution was cancelled"}
    error: dict[str, Any] = {k: failure[k] for k in ("kind", "message", "step", "task", "code", "retryable") if k in failure}
    if failure.get("details") is not None:
        error["details"] = _details(control, failure["details"], values)
    return {**error, "not_undone": state.not_undone} if state.not_undone else error


def _details(control: Control, details: Any, values: Values) -> Any:
    """Return the details of an error.

    Return the beginning of details that are stored outside the log, and a reference to all of them.
    """
    if not is_reference(details) or not values.family.owns(details):
        return details
    try:
        beginning = values.beginning(details, BEGINNING_BYTES)
    except NotFound:
        beginning = ""
    return {"beginning": beginning, "size": details.get("size"), "all": control.results.url(details["key"])}


def _steps(state: State, values: Values) -> dict[str, dict[str, Any]]:
    """Return every step for the summary. Results are read in parallel."""
    open_runs: dict[str, list[Run]] = {}
    for run in state.runs.values():
        if run.parent is None:
            open_runs.setdefault(run.step, []).append(run)
    ended = [name for name, step in state.steps.items() if step.status == "ok"]
    results = dict(zip(ended, read_concurrently(values.at, [state.steps[name].at for name in ended]), strict=True))
    return {name: _step(step, open_runs.get(name, []), results.get(name)) for name, step in state.steps.items()}


def _step(step: StepState, open_runs: list[Run], result: Any) -> dict[str, Any]:
    out: dict[str, Any] = {
        "status": step.status or ("running" if open_runs else "skipped"),
        "runs": step.visits,
        "result": result,
    }
    if step.loop is not None:
        out["loop"] = step.loop
    for run in open_runs:
        if run.loop is not None:
            out["loop"] = run.loop.counts
    return out


def head_as_dict(head: Head) -> dict[str, Any]:
    """Return a head in the form of lists."""
    return {
        "execution_id": head.execution_id,
        "status": head.status,
        "playbook": {"path": head.path, "version": head.version, "digest": head.digest},
        "started_at": to_rfc3339(head.started_at),
        "finished_at": to_rfc3339(head.finished_at) if head.finished_at else None,
        "duration_ms": (head.finished_at - head.started_at) // 1000 if head.finished_at else None,
        "error": head.error,
        "parent": head.parent,
        "trigger": head.trigger,
        **({} if head.search is None else {"search": head.search}),
        "labels": dict(head.labels),
        "warnings": head.warnings,
        **redrive_of(head.redriven_at, head.finished_at),
    }


def redrive_of(at: int, until: int | None) -> dict[str, Any]:
    """Return `redrive`: the instant of the newest redrive, and the time since it; empty if there was none."""
    took = None if until is None else (until - at) // 1000
    return {"redrive": {"at": to_rfc3339(at), "duration_ms": took}} if at else {}


def version_as_dict(v: PlaybookVersion) -> catalog_shapes.PlaybookVersion:
    """Return a version of a playbook in the form of answers."""
    return {"path": v.path, "version": v.version, "digest": v.digest}


def playbook_source(control: Control, version: PlaybookVersion) -> catalog_shapes.PlaybookSource:
    """Return a version with its text and its inputs: the defaults and the schema of the workload.

    If this version of NoETL rejects a text that an older one accepted, return the text alone.
    """
    found: catalog_shapes.PlaybookSource = {
        "path": version.path,
        "version": version.version,
        "digest": version.digest,
        "source": version.source,
    }
    try:
        playbook = control.playbook(version.digest)
    except InvalidPlaybook:
        return found
    return {**found, **inputs_of(playbook)}


def inputs_of(playbook: Playbook) -> catalog_shapes.PlaybookInputs:
    """Return the defaults of a playbook's workload, and their schema."""
    return {"workload": dict(playbook.workload), "inputs": None if playbook.inputs is None else dict(playbook.inputs)}


def state_at(control: Control, execution_id: str, event_id: str | None = None, most: int = LOOKED) -> dict[str, Any]:
    """Return ctx, status, tokens and open runs, now or just after the event `event_id`.

    Raises `NotFound`, `BadCursor`. For an event of a run, it is the state of the control plane at that time; `run` has the
    progress of the run, for which `most` of its events are examined.
    """
    state, where = state_just_after(control, execution_id, event_id)
    if where is None or where.run is None:
        return _state(state)
    return {**_state(state), "run": run_at(control.recent, StreamId(execution_id, where.run), where, most)}


def state_just_after(control: Control, execution_id: str, event_id: str | None) -> tuple[State, EventPlace | None]:
    """Return the state of the control plane just after an event, and the event's position; without an event, the current state.

    Raises `NotFound`, `BadCursor`.
    """
    if event_id is None:
        return load(control, execution_id), None
    where = place_of(event_id, execution_id)
    first = control.store.read(StreamId(execution_id), limit=1)
    if not first:
        raise NotFound(f"there is no execution {execution_id}")
    stream, seq = where.run, where.seq
    place = where.place - where.derived
    if stream is not None:
        held = control.store.read(StreamId(execution_id, stream), after=seq - 1, limit=1)
        if not held or place >= len(held[0].events):
            raise BadCursor(f"there is no event {event_id}")
        state = control.load(execution_id)
        routed = routing_of(control, state, held[0])
        return (state if routed is None else control.load(execution_id, routed.seq - 1)), where
    state = control.load(execution_id, seq - 1) if seq else State(execution_id)
    commits = control.store.read(StreamId(execution_id), after=seq - 1, limit=1)
    if state.seq != seq - 1 or not commits or place >= len(commits[0].events):
        raise BadCursor(f"there is no event {event_id}")
    for event in control_events(commits[0])[: place + 1]:
        fold(state, event, seq)
    return state, where


def _state(state: State) -> dict[str, Any]:
    return {
        "execution_id": state.execution_id,
        "status": status_of(state),
        "ctx": state.ctx,
        "tokens": [{"token": t.id, "step": t.step, "args": t.args, "parked": t.parked} for t in state.tokens.values()],
        "runs": [
            {"run": r.id, "step": r.step, "status": r.status, "waits": r.waits, "chunk": r.chunk} for r in state.runs.values()
        ],
        "steps": {n: {"status": s.status, "runs": s.runs, "visits": s.visits} for n, s in state.steps.items()},
    }
