"""Reconcile one execution: do now everything that its log says should have happened."""

from __future__ import annotations

from dataclasses import replace

from noetl_core.control.children import reconcile_child
from noetl_core.control.core import Control
from noetl_core.control.fence import boundary_of, fence_runs
from noetl_core.control.lifecycle.operate import complete_operation, fence_all
from noetl_core.dsl.model import Playbook
from noetl_core.engine.claims import is_claimed
from noetl_core.engine.dispatch.commands import commands_of
from noetl_core.engine.dispatch.effects import (
    RECONCILE_AT_LEAST_EVERY_S,
    RECONCILE_EVERY_S,
    end_effects,
    next_reconciliation,
    places_asked,
    places_freed,
)
from noetl_core.engine.heads import head_of
from noetl_core.engine.records import MAX_TAKEOVERS, Boundary, Command, Commit, StreamId
from noetl_core.engine.routing.deadlines import deadlines
from noetl_core.engine.state import Run, State
from noetl_core.events.control import ExecutionFailing
from noetl_core.events.event import fact
from noetl_core.events.shapes import Failure
from noetl_core.log.history import tally_of
from noetl_core.values.frozen import frozen
from noetl_core.values.instants import SECOND

GRACE_S = 30
"""Seconds for which a command may stay unclaimed before it is sent again. The time grows with the command's age."""
DEEP_QUEUE = 1000
"""With more waiting commands than this, an unclaimed command is assumed to be among them."""
RUNS_PER_RECONCILIATION = 1000
UNFINISHED_AGAIN_S = 90
"""Seconds after which an execution whose reconciliation never ends is due again: at the second sweep after this one."""


@frozen
class Swept:
    """Counts of the repairs by reconciliations, for logs and metrics."""

    looked: int = 0
    handed: int = 0
    """Executions handed to the router, because no time was left."""
    routed: int = 0
    resent: int = 0
    takeovers: int = 0
    fenced: int = 0
    broken: int = 0

    def plus(self, **more: int) -> Swept:
        return replace(self, **{k: getattr(self, k) + v for k, v in more.items()})


def reconcile(control: Control, execution_id: str, swept: Swept, again_at: int | None = None, *, asked: bool = False) -> Swept:
    """Repeat the effects that should have happened according to the log, and record when the next reconciliation is due.

    `again_at` is when the execution is due if this call never ends, when that was recorded already. `asked` says that a
    person wants the execution to continue: then no run is given up because its workers died too often. Raises as
    `Control.route`.
    """
    now = control.clock.now()
    if again_at is None:
        again_at = now + UNFINISHED_AGAIN_S * SECOND
        control.index.set_due(execution_id, again_at)
    state = control.load(execution_id)
    if state.seq < 0:
        return _reconcile_without_log(control, execution_id, swept)
    if state.finished:
        control.carry_out(execution_id, [*places_freed(state, state.freed), *end_effects(state)])
        return swept
    if state.status == "stuck":
        return _leave_stuck(control, state, swept)
    playbook = control.playbook(state.digest)
    late = [d for d in deadlines(playbook, state) if d.at <= now]
    whole = next((d for d in late if d.run is None), None)
    if whole is not None and state.status != "cancelling":
        control.route(execution_id, facts=[fact(ExecutionFailing, error={**whole.error, "fatal": True})])
        state = fence_all(control, execution_id, whole.error)
        swept = swept.plus(fenced=1)
    state = complete_operation(control, state)
    if state.finished:
        return swept
    late = [d for d in late if d.run in state.runs]
    control.index.put_head(head_of(state))
    boundaries, commands, lost, held_until = _inspect(control, playbook, state, now, asked)
    overdue = {d.run: d.error for d in late if d.run is not None and state.runs[d.run].loop is None}
    boundaries += fence_runs(control, state, {**lost, **overdue})
    if commands and state.status != "paused":
        control.queue.send(control.addressed(commands))
    state = control.route(execution_id, boundaries)
    control.carry_out(execution_id, [*places_freed(state, state.freed), *places_asked(state)])
    for child in list(state.children):
        reconcile_child(control, state, child)
    if state.status == "stuck":
        return _leave_stuck(control, state, swept)
    if not state.finished:
        control.index.set_due(execution_id, min(next_reconciliation(playbook, state, now), held_until + SECOND), seen=again_at)
    takeovers = sum(1 for c in commands if c.mode == "takeover")
    return swept.plus(routed=len(boundaries), takeovers=takeovers, resent=len(commands) - takeovers, fenced=len(lost | overdue))


def _leave_stuck(control: Control, state: State, swept: Swept) -> Swept:
    """Reconcile a stuck execution no more, until an operator acts."""
    control.index.put_head(head_of(state))
    control.index.clear_due(state.execution_id)
    return swept


def _reconcile_without_log(control: Control, execution_id: str, swept: Swept) -> Swept:
    """Remove a due item that has no log: admission died before its first commit, so nothing was acknowledged."""
    control.index.clear_due(execution_id)
    return swept


def _inspect(
    control: Control, playbook: Playbook, state: State, now: int, asked: bool
) -> tuple[list[Boundary], list[Command], dict[str, Failure], int]:
    """Return boundaries that were not routed, commands to send again, runs to give up with their errors, and the instant at which
    the first live lease ends or a worker should have taken over.

    The newest commit of a run's stream is enough: after a boundary nobody writes until it was routed.
    """
    boundaries: list[Boundary] = []
    resend: list[str] = []
    takeovers: list[Command] = []
    lost: dict[str, Failure] = {}
    held_until = now + RECONCILE_AT_LEAST_EVERY_S * SECOND
    queues = _Queues(control)
    for run in _some(list(state.runs.values()), now):
        last = control.store.last(StreamId(state.execution_id, run.id))
        news = boundary_of(last) if last is not None and last.seq > run.handled_seq else None
        if news is not None:
            boundaries.append(news)
        elif run.status == "suspended":
            continue
        elif last is None or last.seq < run.expected_seq:
            if run.claim is not None and is_claimed(run, now):
                held_until = min(held_until, run.claim["until"])
            elif _is_lost(run, now, queues):
                resend.append(run.id)
        elif last.lease_until >= now:
            held_until = min(held_until, last.lease_until)
        elif not asked and tally_of(control.store, last).takeovers_without_progress >= MAX_TAKEOVERS:
            message = f"its worker was lost {MAX_TAKEOVERS + 1} times with nothing done in between"
            lost[run.id] = {"kind": "lost", "message": message, "retryable": False}
        else:
            takeovers.extend(_takeover(playbook, state, run, last, asked))
            abandoned = now - max(last.lease_until, last.ts)  # not the age of the run
            held_until = min(held_until, now + max(RECONCILE_EVERY_S * SECOND, abandoned // 2) - SECOND)
    return boundaries, commands_of(playbook, state, resend) + takeovers, lost, held_until


def _is_lost(run: Run, now: int, queues: _Queues) -> bool:
    """Return whether to send again the command of a run that no worker has begun. That of a run whose claim has lapsed is in no
    queue, however deep that is."""
    return run.claim is not None or (now - run.scheduled_at > GRACE_S * SECOND and not queues.deep(run.pool))


class _Queues:
    """The depth of each pool's queue, read at most once per reconciliation."""

    def __init__(self, control: Control) -> None:
        self._control = control
        self._deep: dict[str, bool] = {}

    def deep(self, pool: str) -> bool:
        if pool not in self._deep:
            self._deep[pool] = self._control.queue.depth(pool) >= DEEP_QUEUE
        return self._deep[pool]


def _some(runs: list[Run], now: int) -> list[Run]:
    """Return as many runs as one reconciliation can read; when there are more, the next one reads those after them."""
    if len(runs) <= RUNS_PER_RECONCILIATION:
        return runs
    first = now // (RECONCILE_EVERY_S * SECOND) * RUNS_PER_RECONCILIATION % len(runs)
    return (runs + runs)[first : first + RUNS_PER_RECONCILIATION]


def _takeover(playbook: Playbook, state: State, run: Run, last: Commit, asked: bool) -> list[Command]:
    return [replace(c, mode="takeover", expected_seq=last.seq + 1, asked=asked) for c in commands_of(playbook, state, [run.id])]
