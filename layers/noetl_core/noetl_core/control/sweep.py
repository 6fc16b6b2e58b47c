"""The sweeper: whatever stopped moving, found by the due index, and the timer service (DESIGN section 4 "Sweeper").

With the stream and every queue message lost, executions still complete by this alone, only slower.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import reduce

from noetl_core.control.children import look_at_child
from noetl_core.control.core import SECOND, Control
from noetl_core.control.fence import boundary_of, fence
from noetl_core.control.operate import carry_through, fence_all
from noetl_core.dsl.model import Playbook
from noetl_core.engine.deadlines import deadlines
from noetl_core.engine.decide import Fact, commands_of
from noetl_core.engine.records import MAX_TAKEOVERS, Boundary, Command, Commit, StreamId, in_vain
from noetl_core.engine.state import Run, State
from noetl_core.engine.waits import due_at
from noetl_core.history import commits_of
from noetl_core.ports import CorruptLog, NotFound, PortError

log = logging.getLogger(__name__)

GRACE_S = 30
"""How long a command may stay unclaimed before it is sent again; grows with its age."""
LOOK_EVERY_S = 55
"""While something runs: a little less than the schedule's minute, so that every tick finds the execution due."""
LONGEST_LOOK_S = 3600
"""An execution that only waits is looked at when its first timer is due, at least this often."""
DEEP_QUEUE = 1000
"""With more commands waiting than this, an unclaimed one is taken to be among them."""
RUNS_PER_LOOK = 1000


@dataclass(frozen=True, slots=True)
class Swept:
    """What one sweep did, for logs and metrics."""

    looked: int = 0
    routed: int = 0
    resent: int = 0
    takeovers: int = 0
    fenced: int = 0
    broken: int = 0

    def plus(self, **more: int) -> Swept:
        return replace(self, **{k: getattr(self, k) + v for k, v in more.items()})


def sweep(control: Control, limit: int = 100, mine: Callable[[str], bool] | None = None) -> Swept:
    """Look at every execution that is due (and `mine`), at most `limit`; one that cannot be looked at never blocks the others."""
    swept = Swept()
    for execution_id in control.index.due(control.clock.now(), limit):
        if mine is not None and not mine(execution_id):
            continue
        swept = swept.plus(looked=1)
        try:
            swept = look(control, execution_id, swept)
        except (PortError, ValueError, KeyError, AssertionError, TypeError) as error:
            log.exception("sweep of execution %s failed", execution_id)
            swept = swept.plus(broken=1)
            _park(control, execution_id, error)
    return swept


def _park(control: Control, execution_id: str, error: Exception) -> None:
    """Look again later; a log that cannot be interpreted is marked stuck, with the reason, as far as that can be written."""
    control.index.set_due(execution_id, control.clock.now() + LONGEST_LOOK_S // 4 * SECOND)
    if not isinstance(error, CorruptLog):
        return
    try:
        control.route(execution_id, facts=[Fact("stuck", {"reason": f"{type(error).__name__}: {error}"})])
    except (PortError, ValueError):
        log.error("execution %s is stuck and cannot be marked so", execution_id)


def bury(control: Control, execution_id: str, what: str) -> None:
    """A queue gave up on something of this execution: mark it stuck, with the reason; `resume` tries again."""
    try:
        control.route(execution_id, facts=[Fact("stuck", {"reason": f"{what}; the functions' logs have the errors"})])
    except NotFound:
        log.error("dead letter of unknown execution %s: %s", execution_id, what)


def look(control: Control, execution_id: str, swept: Swept, *, asked: bool = False) -> Swept:
    """Everything the log says should have happened to one execution, done now. `asked`: because a person wants it to go on, so
    no run is given up for how often its workers died."""
    now = control.clock.now()
    state = control.load(execution_id)
    if state.seq < 0:
        return _look_at_nothing(control, execution_id, swept)
    if state.finished:
        control.put_head(state)
        control._finish(state)
        return swept
    playbook = control.playbook(state.digest)
    late = [d for d in deadlines(playbook, state) if d.at <= now]
    whole = next((d for d in late if d.run is None), None)
    if whole is not None and state.status != "cancelling":
        control.route(execution_id, facts=[Fact("fail", {"error": {**whole.error, "fatal": True}})])
        state = fence_all(control, execution_id, whole.error)
        swept = swept.plus(fenced=1)
    state = carry_through(control, state)
    if state.finished:
        return swept
    late = [d for d in late if d.run in state.runs]
    control.put_head(state)
    boundaries, commands, fenced, leased_until = _inspect(control, playbook, state, now, asked)
    runs = [d for d in late if d.run is not None and state.runs[d.run].loop is None]
    boundaries += [fence(control, execution_id, d.run, d.error, state.expires_at) for d in runs if d.run is not None]
    fenced += len(runs)
    if commands and state.status != "paused":
        control.queue.send(commands)
    state = control.route(execution_id, boundaries)
    for child in list(state.children):
        look_at_child(control, state, child)
    if not state.finished:
        control.index.set_due(execution_id, min(_next_look(playbook, state, now), leased_until + SECOND))
    takeovers = sum(1 for c in commands if c.mode == "takeover")
    return swept.plus(routed=len(boundaries), takeovers=takeovers, resent=len(commands) - takeovers, fenced=fenced)


def _look_at_nothing(control: Control, execution_id: str, swept: Swept) -> Swept:
    """Due, but no log: admit died before its first commit (nothing was acknowledged)."""
    control.index.clear_due(execution_id)
    return swept


def _inspect(
    control: Control, playbook: Playbook, state: State, now: int, asked: bool
) -> tuple[list[Boundary], list[Command], int, int]:
    """Boundaries nobody routed, commands to send again, how many runs were given up, and when the first live lease ends."""
    boundaries: list[Boundary] = []
    resend: list[str] = []
    takeovers: list[Command] = []
    fenced = 0
    leased_until = now + LONGEST_LOOK_S * SECOND
    for run in _some(list(state.runs.values()), now):
        tail = control.store.read(StreamId(state.execution_id, run.id), after=run.handled_seq)
        news = next((b for c in reversed(tail) if (b := boundary_of(c)) is not None), None)
        if news is not None:
            boundaries.append(news)
        elif run.status == "suspended":
            continue
        elif not tail or tail[-1].seq < run.expected_seq:
            if _forgotten(control, run, now):
                resend.append(run.id)
        elif tail[-1].lease_until < now:
            events = (e for c in commits_of(control.store, StreamId(state.execution_id, run.id)) for e in c.events)
            if not asked and reduce(in_vain, events, 0) >= MAX_TAKEOVERS:
                message = f"its worker was lost {MAX_TAKEOVERS + 1} times with nothing done in between"
                error = {"kind": "lost", "message": message, "retryable": False}
                boundaries.append(fence(control, state.execution_id, run.id, error, state.expires_at))
                fenced += 1
            else:
                takeovers.extend(_takeover(playbook, state, run, tail[-1], asked))
        else:
            leased_until = min(leased_until, tail[-1].lease_until)
    return boundaries, commands_of(playbook, state, resend) + takeovers, fenced, leased_until


def _some(runs: list[Run], now: int) -> list[Run]:
    """As many as one look can read; where there are more, the next look takes those after them."""
    if len(runs) <= RUNS_PER_LOOK:
        return runs
    first = now // (LOOK_EVERY_S * SECOND) * RUNS_PER_LOOK % len(runs)
    return (runs + runs)[first : first + RUNS_PER_LOOK]


def _forgotten(control: Control, run: Run, now: int) -> bool:
    age = now - run.scheduled_at
    return age > GRACE_S * SECOND and control.queue.depth(run.pool) < DEEP_QUEUE


def _takeover(playbook: Playbook, state: State, run: Run, last: Commit, asked: bool) -> list[Command]:
    return [replace(c, mode="takeover", expected_seq=last.seq + 1, asked=asked) for c in commands_of(playbook, state, [run.id])]


def _next_look(playbook: Playbook, state: State, now: int) -> int:
    """Soon while something runs (less often as it ages: growing backoff); else when the first wait or deadline ends."""
    first = min((max(d.at, now + SECOND) for d in deadlines(playbook, state)), default=now + LONGEST_LOOK_S * SECOND)
    if state.status == "paused":
        return min(first, now + LONGEST_LOOK_S * SECOND)
    active = [r for r in state.runs.values() if r.status == "scheduled"]
    if active:
        youngest = now - max(r.scheduled_at for r in active)
        return min(first, now + min(max(LOOK_EVERY_S * SECOND, youngest // 2), 15 * LOOK_EVERY_S * SECOND))
    times = [at for r in state.runs.values() for w in r.waits if (at := due_at(w)) is not None]
    return min([max(t, now + SECOND) for t in times] + [first, now + LONGEST_LOOK_S * SECOND])
