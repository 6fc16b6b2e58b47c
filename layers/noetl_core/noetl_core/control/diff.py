"""Two executions side by side: what `observe.diff` compares, read from their logs."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any, Final, cast

from noetl_core.control import read
from noetl_core.control.core import Control
from noetl_core.engine.records import StreamId
from noetl_core.observe.account import Account
from noetl_core.observe.diff import Side, apart, durations
from noetl_core.values import Values, at_once

if TYPE_CHECKING:
    from noetl_core.client import shapes, why_shapes

MOST: Final = 1_000
"""Differences, and durations, of one answer."""


def diff(control: Control, execution_id: str, other: str) -> why_shapes.Diff:
    """Compare two executions. Raises `NotFound`."""
    (one, a), (two, b) = _side(control, execution_id), _side(control, other)
    found = list(islice(apart(one, two), MOST + 1))
    return {
        "a": a,
        "b": b,
        "differences": found[:MOST],
        "more": len(found) > MOST,
        "durations": [
            {"step": step, "visit": visit, "a_ms": before, "b_ms": after}
            for step, visit, before, after in islice(durations(one, two), MOST)
        ],
    }


def _side(control: Control, execution_id: str) -> tuple[Side, why_shapes.Compared]:
    state = read.load(control, execution_id)
    account = Account()
    account.observe(control.store.read(StreamId(execution_id)))
    values = Values(control.store, control.results, execution_id)
    ended = [run for run in account.runs.values() if run.status == "ok" and run.boundary is not None and run.parent is None]
    results = dict(zip((r.id for r in ended), at_once(values.at, [r.boundary["at"] for r in ended if r.boundary]), strict=True))
    status = read.status_of(state)
    failure: Any = state.failure or {}
    facts = {
        "status": status,
        "playbook": state.path,
        "inputs": {**state.rendered, **state.payload},
        "result": values.at(state.result) if status == "completed" else None,
        "error": {key: failure.get(key) for key in ("kind", "message", "step", "task", "iteration") if key in failure} or None,
        "ctx": state.ctx,
    }
    took = None if state.finished_at is None else (state.finished_at - state.started_at) / 1000
    compared: why_shapes.Compared = {
        "execution_id": execution_id,
        "status": cast("shapes.ExecutionStatus", status),
        "playbook": {"path": state.path, "version": state.version, "digest": state.digest},
        "duration_ms": took,
    }
    return Side(execution_id, control.playbook(state.digest), account, facts, results), compared
