"""The commands of scheduled runs. They are derived from the state, so they can be sent again at any time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from noetl_core.dsl.model import Playbook
from noetl_core.engine.claims import ASKED_RUNS
from noetl_core.engine.reads import steps_read
from noetl_core.engine.records import Command
from noetl_core.engine.routing.passes import StepsView
from noetl_core.engine.state import Run, State
from noetl_core.engine.workload import workload_of
from noetl_core.events.shapes import CommandContext, LoopCommand, StepSeen


def commands_of(playbook: Playbook, state: State, runs: Sequence[str], *, claimed: bool = False) -> list[Command]:
    """Return the commands of scheduled runs. `claimed`: each is for the worker that has the claim to its run. That worker asks
    for nothing, because its process routes the boundary."""
    out: list[Command] = []
    if not runs:
        return out
    workload = workload_of(playbook, state)
    few = len(state.runs) <= ASKED_RUNS
    for run_id in runs:
        run = state.runs.get(run_id)
        if run is None or run.status != "scheduled":
            continue
        current = run.as_of == state.seq  # a later state must not replace the one on which the run was scheduled
        context: CommandContext | None = None
        if current:
            context = context_of(playbook, state, run, workload)
        loop: LoopCommand | None = None
        carried_over = run.carried_over
        if run.parent is not None:
            lead = state.runs[run.parent]
            assert lead.loop is not None
            loop = {**lead.loop.plan, "run": lead.id}
            kept = lead.carried_over.get("loop") if lead.carried_over is not None else None
            carried_over = kept["chunks"].get(str(run.chunk)) if kept is not None else None
        asks = few and not claimed and run.mode == "first" and run.parent is None and run.undoes is None
        out.append(
            Command(
                execution_id=state.execution_id,
                run_id=run.id,
                step=run.step,
                expected_seq=run.expected_seq,
                mode=run.mode,
                as_of=run.as_of,
                digest=state.digest,
                pool=run.pool,
                chunk=run.chunk,
                loop=loop,
                mail=tuple(run.mail),
                context=context,
                expires_at=state.expires_at,
                carried_over=carried_over,
                undoes=run.undoes,
                asks=asks,
                claim=run.claim if claimed else None,
            )
        )
    return out


def context_of(playbook: Playbook, state: State, run: Run, workload: dict[str, Any] | None = None) -> CommandContext:
    """Return the values for the templates of a run, as its command carries them; `state` is the state on which it was
    scheduled."""
    context: CommandContext = {
        "workload": workload_of(playbook, state) if workload is None else workload,
        "ctx": dict(state.ctx),
        "args": run.args,
        "steps": steps_seen(playbook, state, run),
    }
    if state.trace_id is not None:
        context["trace_id"] = state.trace_id
    if state.trigger is not None:
        context["trigger"] = state.trigger
    if state.strict:
        context["strict"] = True
    return context


def steps_seen(playbook: Playbook, state: State, run: Run) -> dict[str, StepSeen]:
    """Return the finished steps that the templates of a run may read, as its command carries them. A compensation sees its
    own step as the run that it undoes left it."""
    seen = StepsView(state.steps).plain(steps_read(playbook, run.step))
    if run.undoes is not None:
        seen[run.step] = {"status": "ok", "at": run.undoes["at"], "loop": run.undoes["loop"]}
    return seen
