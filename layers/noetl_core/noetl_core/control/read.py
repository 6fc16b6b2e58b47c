"""Reading executions: the summary, lists, histories, state (CONTRACT "HTTP API")."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from typing import Any

from noetl_core.control.core import Control
from noetl_core.control.cursor import BadCursor, Position, envelopes, history
from noetl_core.control.envelopes import expand, instant
from noetl_core.engine.records import StreamId
from noetl_core.engine.state import State, fold
from noetl_core.ports import Head, NotFound
from noetl_core.values import Values

__all__ = ["MAX_PAGE", "BadCursor", "events", "head_as_dict", "load", "state_at", "status_of", "summary"]

MAX_PAGE = 1_000


def load(control: Control, execution_id: str) -> State:
    """The state; raises `NotFound`."""
    state = control.load(execution_id)
    if state.seq < 0:
        raise NotFound(f"there is no execution {execution_id}")
    return state


def status_of(state: State) -> str:
    """`waiting` is a running execution all of whose open runs are suspended."""
    runs = [r for r in state.runs.values() if r.loop is None]
    if state.status == "running" and runs and all(r.status == "suspended" for r in runs):
        return "waiting"
    return state.status


def summary(control: Control, execution_id: str, *, events: bool = True) -> dict[str, Any]:
    """The object `noetl run --output json` prints. Raises `NotFound`."""
    state = load(control, execution_id)
    values = Values(control.store, control.results, execution_id)
    finished = state.finished_at
    status = status_of(state)
    out: dict[str, Any] = {
        "execution_id": execution_id,
        "status": status,
        "playbook": {"path": state.path, "version": state.version, "digest": state.digest},
        "result": values.at(state.result) if state.status == "completed" else None,
        "ctx": state.ctx,
        "error": _error(state),
        "steps": {name: _step(state, name, values) for name in state.steps},
        "started_at": instant(state.started_at),
        "finished_at": instant(finished) if finished else None,
        "duration_ms": ((finished or control.clock.now()) - state.started_at) // 1000,
        "events": sum(1 for _ in expand(history(control.store, execution_id), execution_id)) if events else None,
    }
    if status == "waiting":
        waits = [w for r in state.runs.values() for w in r.waits]
        out["waiting_for"] = [
            {k: w[k] for k in ("kind", "signal", "child", "task", "wait_id") if k in w} | _when(w) for w in waits
        ]
    if state.stuck:
        out["reason"] = state.stuck
    if state.parent:
        out["parent"] = state.parent
    return out


def _when(wait: Mapping[str, Any]) -> dict[str, str]:
    return {"until": instant(wait["at"])} if wait.get("at") else {}


def _error(state: State) -> dict[str, Any] | None:
    if state.failure is None:
        return None
    return {k: state.failure[k] for k in ("kind", "message", "step", "task", "code", "retryable") if k in state.failure}


def _step(state: State, name: str, values: Values) -> dict[str, Any]:
    step = state.steps[name]
    open_runs = [r for r in state.runs.values() if r.step == name and r.parent is None]
    out: dict[str, Any] = {
        "status": step.status or ("running" if open_runs else "skipped"),
        "runs": step.visits,
        "result": values.at(step.at) if step.status == "ok" else None,
    }
    if step.loop is not None:
        out["loop"] = step.loop
    for run in open_runs:
        if run.loop is not None:
            done = run.loop.done.values()
            counts = {"succeeded": sum(c.succeeded for c in done), "failed": sum(c.failed for c in done)}
            out["loop"] = {"total": run.loop.plan["total"], **counts}
    return out


def head_as_dict(head: Head) -> dict[str, Any]:
    """An execution as lists show it."""
    return {
        "execution_id": head.execution_id,
        "status": head.status,
        "playbook": {"path": head.path, "version": head.version, "digest": head.digest},
        "started_at": instant(head.started_at),
        "finished_at": instant(head.finished_at) if head.finished_at else None,
        "duration_ms": (head.finished_at - head.started_at) // 1000 if head.finished_at else None,
        "error": head.error,
        "parent": head.parent,
    }


def events(
    control: Control,
    execution_id: str,
    *,
    name: str | None = None,
    after: str | None = None,
    limit: int | None = None,
    key: bytes = b"",
) -> tuple[list[dict[str, Any]], str | None]:
    """Envelopes in causal order, and the cursor to go on after the last one (None at the end of a finished execution).

    `name` filters by either form; `after` is a cursor given here or an event id. Raises `NotFound`, `BadCursor`.
    """
    state = load(control, execution_id)
    position = Position()
    if after is not None and not after.startswith(f"{execution_id}."):
        position = Position.open(after, execution_id, key)
    found = envelopes(control.store, execution_id, position, state.trace_id)
    if after is not None and after.startswith(f"{execution_id}.") and not any(e["event_id"] == after for e in found):
        raise BadCursor(f"there is no event {after}")
    matching = (e for e in found if name is None or name in (e["name"], e["event_type"]))
    page = list(islice(matching, limit))
    over = state.finished and (limit is None or len(page) < limit)
    return page, (None if over else position.seal(execution_id, key))


def state_at(control: Control, execution_id: str, event_id: str | None = None) -> dict[str, Any]:
    """ctx, status, tokens and open runs now, or just after the control event `event_id`. Raises `NotFound`, `BadCursor`."""
    state = load(control, execution_id)
    if event_id is not None:
        state = State(execution_id)
        for commit in control.store.read(StreamId(execution_id)):
            for place, event in enumerate(commit.events):
                fold(state, event, commit.seq)
                if f"{execution_id}.control.{commit.seq}.{place}" == event_id:
                    return _state(state)
        raise BadCursor(f"there is no control event {event_id}")
    return _state(state)


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
