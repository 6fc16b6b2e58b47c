"""Redrives ended executions: from their failure, or from any step, task or iteration (docs/redriving.md; `engine.redrive.plan`
plans it). The due item and the gate are written first, then the one commit that makes the execution run again. If the process
dies in between, the execution is still ended and is reconciled once more."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from noetl_core.control.admit import check_pools, loading, pin, register, settled_inputs, validated
from noetl_core.control.catalog.versions import resolve
from noetl_core.control.core import Control
from noetl_core.control.lifecycle.backfill import BACKFILL_PATH
from noetl_core.control.lifecycle.operate import NotNow
from noetl_core.dsl.model import Playbook
from noetl_core.dsl.versions import Version
from noetl_core.engine.loops import chunk_range
from noetl_core.engine.pipelines.pipeline import Pipeline, fold
from noetl_core.engine.records import StreamId
from noetl_core.engine.redrive.lineage import RunLineage, lineage_of
from noetl_core.engine.redrive.plan import BadRedrive, Plan, Redrive, plan
from noetl_core.engine.state import State
from noetl_core.events.control import ExecutionRedriven
from noetl_core.events.event import fact
from noetl_core.events.redrives import Rerun
from noetl_core.log.carry_over import carried_over, visits_before
from noetl_core.log.stored_values import Values
from noetl_core.ports import Gate, NotFound
from noetl_core.values.frozen import frozen
from noetl_core.values.instants import DAY_S, SECOND

SHOWN = 50
"""Maximum number of ranges of iterations in a preview."""


@frozen
class Redriven:
    """The execution after a redrive, or unchanged after a preview; and a description of the repeated runs, for people and
    programs."""

    state: State
    description: dict[str, Any]


def redrive(
    control: Control,
    execution_id: str,
    selection: Redrive,
    *,
    source: str | None = None,
    version: Version = None,
    preview: bool = False,
    registers: bool = True,
) -> Redriven:
    """Run an ended execution again, with the playbook `source`, or `version` of its playbook, if there is one.

    `registers` is as in `StartRequest`. `preview` writes nothing. Raises `NotFound`, `UnknownPool`, `NotNow` (it has not ended,
    or its log ends soon), `BadRedrive`, `BadWorkload`, `InvalidPlaybook`.
    """
    state = control.load(execution_id)
    if state.seq < 0:
        raise NotFound(f"there is no execution {execution_id}")
    if not state.finished:
        raise NotNow(f"execution {execution_id} is {state.status}; only ended executions can be redriven (cancel it first)")
    if state.expires_at and state.expires_at - control.clock.now() // SECOND < DAY_S:
        raise NotNow(f"the log of execution {execution_id} is about to expire; start a new execution")
    old = control.playbook(state.digest)
    new, number = _playbook(control, state, old, source, version, preview=preview, registers=registers)
    check_pools(control, new)
    lineage = lineage_of(control.store.read(StreamId(execution_id)))
    if state.path == BACKFILL_PATH and state.version == 0:
        selection = replace(selection, iterations=True)  # it failed after its loop, some of whose iterations failed
    planned = plan(state, lineage, old, new, selection)
    description = _description(control, state, planned, old, new)
    if preview:
        return Redriven(state, description)
    data = planned.data.copy()
    data["by"] = control.by
    if number is not None:
        data["version"] = number
    if new is not old:
        read = loading(Values(control.store, control.results, execution_id))
        if rendered := settled_inputs(new, state.payload, execution_id, read, state.trigger, strict=state.strict):
            data["rendered"] = rendered
    control.due_soon(execution_id)
    control.gates.set_gate(execution_id, Gate("run", expires_at=state.expires_at))
    after, redriven = control.record(execution_id, fact(ExecutionRedriven, **data))
    if not redriven:
        raise NotNow(
            f"execution {execution_id} was redriven by another request at the same time; inspect it before redriving it again"
        )
    return Redriven(after, description)


def _playbook(
    control: Control, state: State, old: Playbook, source: str | None, version: Version, *, preview: bool, registers: bool
) -> tuple[Playbook, int | None]:
    """Return the playbook with which to continue, and its version if it is a different one."""
    if source is None and version is None:
        return old, None
    if source is None:
        found = resolve(control, state.path, version, state.execution_id)
        return control.playbook(found.digest), found.version
    source, new = validated(control, source)
    if new.path != state.path:
        raise BadRedrive(f"the passed playbook is {new.path}, but execution {state.execution_id} runs {state.path}")
    if preview:
        return new, None
    return new, (register(control, source)[1] if registers else pin(control, source, new)).version


# --- preview ---------------------------------------------------------------------------------------------------------


def _description(control: Control, state: State, planned: Plan, old: Playbook, new: Playbook) -> dict[str, Any]:
    """Return a description of the runs that are repeated and of those that are kept. Raises `BadRedrive` if the new playbook
    cannot keep the finished runs."""
    again = [_rerun(control, state.execution_id, planned, run, spec, old, new) for run, spec in planned.reruns]
    taken = {run.step for run, _ in planned.reruns} | {run.step for run in planned.followers}
    tokens = [token.data["step"] for token in planned.put_back] + [arcs["step"] for arcs in planned.data.get("arcs", ())]
    return {
        "epoch": planned.data["epoch"],
        "again": again,
        "then": sorted({run.step for run in planned.followers} - {run.step for run, _ in planned.reruns}),
        "waiting": sorted(set(tokens)),
        "kept": [name for name, step in state.steps.items() if step.at is not None and name not in taken],
        "ctx": planned.data["ctx"],
    }


def _rerun(
    control: Control, execution_id: str, planned: Plan, run: RunLineage, spec: Rerun | None, old: Playbook, new: Playbook
) -> dict[str, Any]:
    """Return for one run the tasks, or the iterations, that run again, and those that are kept, as the worker will find them."""
    out: dict[str, Any] = {"step": run.step, "run": run.id}
    tasks = [t.name for t in new.by_name[run.step].tasks]
    if spec is None:
        return {**out, "tasks": tasks}
    kept = next(t["prior"] for t in planned.data["tokens"] if t["of"] == run.token)
    chunks = kept["loop"]["chunks"].values() if "loop" in kept else [kept]
    histories = [carried_over(control.store, execution_id, chunk) for chunk in chunks]
    begun = {event.data["task"] for history in histories for events in history.tasks.values() for event in events}
    _same_places(run.step, begun, old, new)
    if new.by_name[run.step].loop is None:
        (history,) = histories
        if "visit" in spec:
            _check_visit(run.step, spec, visits_before(control.store, execution_id, kept, spec["task"]))
        done = Pipeline(run.id)
        for event in history.tasks.get((), ()):
            fold(done, old.by_name[run.step].tasks, event)
        visits = {"kept_visits": dict(done.visits)} if any(n > 1 for n in done.visits.values()) else {}
        return {**out, "tasks": tasks[done.pc :], "kept_tasks": list(done.visits), **visits}
    finished = {index for history in histories for index in history.finished.get((), ())}
    if run.plan is not None:
        total = run.plan["total"]
        finished.update(i for n in map(int, kept["loop"]["done"]) for i in chunk_range(run.plan, n))
    else:
        total = next((history.collections[()]["total"] for history in histories if () in history.collections), 0)
    return {
        **out,
        **({"tasks": tasks[tasks.index(spec["task"]) :]} if spec.get("task") else {}),
        "iterations": _ranges(n for n in range(total) if n not in finished),
        "kept_iterations": len(finished),
    }


def _check_visit(step: str, spec: Rerun, visits: int) -> None:
    task, visit = spec["task"], spec["visit"]
    if visits == 0:
        raise BadRedrive(f"task {task!r} of step {step!r} has not run in this execution, so it has no visit {visit}")
    if not 1 <= visit <= visits:
        counted = f"{visits} visits, 1 to {visits}" if visits > 1 else "one visit, 1"
        raise BadRedrive(f"task {task!r} of step {step!r} has {counted}; there is no {step}/{task}@{visit}")


def _same_places(step: str, kept: set[str], old: Playbook, new: Playbook) -> None:
    """Check that kept tasks have the same places in the new pipeline, because the run continues after them."""
    before = [t.name for t in old.by_name[step].tasks] if step in old.by_name else []
    now = [t.name for t in new.by_name[step].tasks]
    for name in sorted(kept):
        if name not in now or name not in before or now.index(name) != before.index(name):
            raise BadRedrive(
                f"task {name!r} of step {step!r} ran and has another place in this version, so it cannot be kept;"
                f" --from {step} runs all of the step"
            )


def _ranges(numbers: Iterator[int]) -> list[str]:
    """Return `0-4`, `7`, ... for a set of indexes; only the first ranges."""
    out: list[list[int]] = []
    for n in numbers:
        if out and out[-1][1] == n - 1:
            out[-1][1] = n
        else:
            out.append([n, n])
    words = [str(a) if a == b else f"{a}-{b}" for a, b in out]
    return words if len(words) <= SHOWN else [*words[:SHOWN], f"... {len(words) - SHOWN} more"]
