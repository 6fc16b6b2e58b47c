"""Answers a worker's ask in the decision that it leads to: marks the boundary, and claims one of the runs that the decision
schedules (docs/decisions.md, "Eager dispatch"). Pure."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from noetl_core.dsl.kinds import WAITING_KINDS
from noetl_core.dsl.model import Playbook, Step
from noetl_core.engine.claims import claimed_for, mark_asked
from noetl_core.engine.dispatch.commands import commands_of
from noetl_core.engine.records import Ask, Command, Event, OwnWorker
from noetl_core.engine.routing.passes import RoutingPass
from noetl_core.engine.state import Run
from noetl_core.events.shapes import RunClaim
from noetl_core.values.instants import SECOND

CLAIM_S: Final = 20
"""Seconds that a claim lives, at most until the worker's deadline."""
TASK_S: Final = 60
"""The time that a task without a timeout of its own may need."""
TASK_SPARE_S: Final = 15
"""The time that a run needs beside the timeouts of its tasks."""

WAITS: Final = WAITING_KINDS | {"noop", "http", "postgres", "secrets", "store"}
"""Kinds whose tasks wait for other systems rather than compute."""


def only_waits(step: Step) -> bool:
    """Return whether the tasks of a step only wait, so that it needs no processor of its own."""
    return step.loop is None and all(task.kind in WAITS for task in step.tasks)


def claim_run(p: RoutingPass, ask: Ask) -> None:
    """Mark the boundary of `ask` in the events of a pass, and claim one of the runs that these events schedule. If the pass did
    not route the boundary, nothing is marked or claimed."""
    if not _mark(p, ask):
        return
    until = min(p.now + CLAIM_S * SECOND, ask.deadline)
    if p.now >= ask.until or until <= p.now:
        return
    for place, event in enumerate(p.events):
        run = p.state.runs.get(event.data["run"]) if event.name == "StepScheduled" else None
        if run is not None and _fits(p.playbook, run, ask, p.now):
            run.claim = RunClaim(worker=ask.worker, ask=ask.id, until=until)
            p.events[place] = _with(event, claim=run.claim)
            return


def claim_own(p: RoutingPass, worker: OwnWorker) -> None:
    """Claim the runs that the events of a pass schedule and that the worker of this process accepts."""
    until = p.now + CLAIM_S * SECOND
    for place, event in enumerate(p.events):
        run = p.state.runs.get(event.data["run"]) if event.name == "StepScheduled" else None
        if run is None or not _is_new(run):
            continue
        step = p.playbook.by_name[run.step]
        if step.loop is None and worker.accepts(step):
            run.claim = RunClaim(worker=worker.name, ask="", until=until)
            p.events[place] = _with(event, claim=run.claim)


def own_commands(p: RoutingPass) -> list[Command]:
    """Return the commands of the runs that `claim_own` claimed in this pass."""
    claimed = [e.data["run"] for e in p.events if e.name == "StepScheduled" and "claim" in e.data]
    return commands_of(p.playbook, p.state, claimed, claimed=True)


def answer_of(p: RoutingPass, ask: Ask) -> Command | None:
    """Return the command of the run that is claimed for `ask`, by this pass or by an earlier decision; None if there is none."""
    runs = [] if p.state.finished else claimed_for(p.state, ask.id, p.now)
    commands = commands_of(p.playbook, p.state, runs[:1])
    return replace(commands[0], claim=p.state.runs[runs[0]].claim) if commands else None


def _mark(p: RoutingPass, ask: Ask) -> bool:
    for place, event in enumerate(p.events):
        if event.name == "BoundaryRouted" and event.data["run"] == ask.run_id and event.data["seq"] == ask.seq:
            p.events[place] = _with(event, asked=True)
            mark_asked(p.state, ask.run_id, ask.seq)
            return True
    return False


def _with(event: Any, **more: Any) -> Any:
    return Event(event.name, event.ts, {**event.data, **more})


def _is_new(run: Run) -> bool:
    return run.status == "scheduled" and run.mode == "first" and run.carried_over is None


def _fits(playbook: Playbook, run: Run, ask: Ask, now: int) -> bool:
    """Return whether the worker that asks can carry out the run at once: of its pool, with the time and the processor for it.
    Steps with loops are excluded: a loop may be handed over to other workers, under keys that depend on a claim in its stream."""
    step = playbook.by_name[run.step]
    if not _is_new(run) or run.pool != ask.pool or step.loop is not None or not (ask.computes or only_waits(step)):
        return False
    timeouts = [task.timeout_s if isinstance(task.timeout_s, int | float) else TASK_S for task in step.tasks]
    return now + int((max(timeouts, default=0) + TASK_SPARE_S) * SECOND) <= ask.deadline
