"""Compares two executions (`observe.diff`) by their logs.

In long logs, some visits are compared one by one; all are compared by the counts in the states.
"""

from __future__ import annotations

from itertools import chain, islice
from typing import TYPE_CHECKING, Any, Final, cast

from noetl_core.control.core import Control
from noetl_core.engine.state import State
from noetl_core.log.concurrent_reads import read_concurrently
from noetl_core.log.stored_values import Values
from noetl_core.observe.account import Moment, RunAccount
from noetl_core.observe.diff import Side, Totals, apart, counted, durations, totals_of
from noetl_core.views.executions import executions
from noetl_core.views.explain.visits import Numbered, Visits, align
from noetl_core.views.reading.log_parts import LIMITS, ReadLimits

if TYPE_CHECKING:
    from noetl_core.api.shapes import executions as shapes
    from noetl_core.api.shapes import why as why_shapes

MOST: Final = 1_000
"""Maximum number of differences, and of durations, in one answer."""
MOST_COMPARED: Final = 400
"""Maximum number of visits compared if not all were found: failed ones, then as many from the beginning as from the end."""


def diff(control: Control, execution_id: str, other: str, limits: ReadLimits = LIMITS) -> why_shapes.Diff:
    """Compare two executions. Raises `NotFound`."""
    a, b = executions.load(control, execution_id), executions.load(control, other)
    visits = [Visits(control, each, control.playbook(each.digest), limits) for each in (a, b)]
    align(*visits)
    runs = _common(*visits)
    one, two = _side(control, a, visits[0].counts, runs[0]), _side(control, b, visits[1].counts, runs[1])
    totals = [*totals_of(one, a.steps, two, b.steps)]
    found = list(islice(chain(apart(one, two), counted(totals)), MOST + 1))
    answer: why_shapes.Diff = {
        "a": _compared(a),
        "b": _compared(b),
        "differences": found[:MOST],
        "more": len(found) > MOST,
        "durations": [
            {"step": step, "visit": visit, "a_ms": before, "b_ms": after}
            for step, visit, before, after in islice(durations(one, two), MOST)
        ],
    }
    if not all(each.complete for each in visits):
        answer["partial"] = _partial(totals)
    return answer


def _common(one: Visits, other: Visits) -> tuple[Numbered, Numbered]:
    """Return visits that both executions have, and visits that only one has; at most `MOST_COMPARED`, unless both logs were read
    whole.
    """
    runs_of = one.runs(), other.runs()
    sides: list[dict[str, dict[int, RunAccount]]] = [{}, {}]
    at: dict[tuple[str, int], tuple[bool, Moment]] = {}
    for runs, others, counts in ((runs_of[0], runs_of[1], other.counts), (runs_of[1], runs_of[0], one.counts)):
        for step, known in runs.items():
            found = (n for n in known if n in others.get(step, {}) or n > counts.get(step, 0))
            for number in found:
                well = known[number].error is None and at.get((step, number), (True,))[0]
                at[step, number] = well, known[number].at
    chosen = sorted(at, key=lambda each: at[each])  # failed visits first
    if len(chosen) > MOST_COMPARED and not (one.complete and other.complete):
        chosen = chosen[: MOST_COMPARED // 2] + chosen[-MOST_COMPARED // 2 :]
    for step, number in sorted(chosen):
        for side, runs in zip(sides, runs_of, strict=True):
            if number in runs.get(step, {}):
                side.setdefault(step, {})[number] = runs[step][number]
    return sides[0], sides[1]


def _side(control: Control, state: State, counts: dict[str, int], runs: Numbered) -> Side:
    values = Values(control.store, control.results, state.execution_id)
    every = [run for of_step in runs.values() for run in of_step.values()]
    ended = [run for run in every if run.status == "ok" and run.boundary is not None]
    contents = read_concurrently(values.at, [r.boundary["at"] for r in ended if r.boundary])
    results = dict(zip((r.id for r in ended), contents, strict=True))
    status = executions.status_of(state)
    failure: Any = state.failure or {}
    facts = {
        "status": status,
        "playbook": state.path,
        "inputs": {**state.rendered, **state.payload},
        "result": values.at(state.result) if status == "completed" else None,
        "error": {key: failure.get(key) for key in ("kind", "message", "step", "task", "iteration") if key in failure} or None,
        "ctx": state.ctx,
    }
    return Side(state.execution_id, control.playbook(state.digest), runs, counts, facts, results)


def _compared(state: State) -> why_shapes.Compared:
    return {
        "execution_id": state.execution_id,
        "status": cast("shapes.ExecutionStatus", executions.status_of(state)),
        "playbook": {"path": state.path, "version": state.version, "digest": state.digest},
        "duration_ms": None if state.finished_at is None else (state.finished_at - state.started_at) / 1000,
    }


def _is_whole(totals: Totals) -> bool:
    """Return whether all common visits of a step were compared."""
    return totals.compared == min(totals.a["visits"], totals.b["visits"])


def _partial(totals: list[Totals]) -> why_shapes.PartlyCompared:
    return {
        "visits": sum(min(each.a["visits"], each.b["visits"]) for each in totals),
        "compared": sum(each.compared for each in totals),
        "steps": [{"step": t.step, "compared": t.compared, "a": t.a, "b": t.b} for t in sorted(totals, key=_is_whole)[:MOST]],
    }
