"""The sweeper: resumes whatever stopped, found by the due index, and serves as timer.

If the stream and every queue message are lost, executions still complete by the sweeper alone, only slower. Errors of one
execution do not affect the others: its due item is moved on before it is reconciled, so an execution that kills the process does
not come first again. After `MAX_ATTEMPTS` attempts that did not end, it is marked stuck; if its log cannot be read, at once. Then
nothing reconciles it until someone resumes it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from itertools import chain, islice

from noetl_core.control.core import Control
from noetl_core.control.limits.places import DUE
from noetl_core.control.sweeping.reconcile import DEEP_QUEUE, UNFINISHED_AGAIN_S, Swept, reconcile
from noetl_core.control.triggers.schedules import fire_due, give_up
from noetl_core.control.unreadable_logs import mark_head_stuck
from noetl_core.engine.dispatch.effects import RECONCILE_EVERY_S
from noetl_core.engine.ids import trigger_of
from noetl_core.events.control import ExecutionStuck
from noetl_core.events.event import fact
from noetl_core.ports import CorruptLog, Deadline, Due, NewerLog, OutOfTime, Unavailable
from noetl_core.values.instants import SECOND

__all__ = ["Swept", "reconcile", "reconcile_safely", "sweep"]

log = logging.getLogger(__name__)

MAX_ATTEMPTS = 20
"""Attempts in a row that did not end, after which an execution is marked stuck: some forty minutes."""
LONGEST_S = 10
"""Maximum time for one execution while others are due, and for the last one after `until`."""
Within = Callable[[Deadline], AbstractContextManager[Control]]
HANDED = 100
"""Executions handed to the router at a time."""


def sweep(
    control: Control, until: int | None = None, mine: Callable[[str], bool] | None = None, within: Within | None = None
) -> Swept:
    """Reconcile every execution that is due (and `mine`), the oldest first, until `until` (microseconds; None: all of them).

    `within` returns the control plane for work that must end by a deadline: with it, no execution takes longer than `LONGEST_S`.
    At half of the time, the rest is handed to the router, which scales out, unless many earlier wakes still wait there.
    Executions with an unfinished attempt come last: if one kills this process too, the others are done.
    """
    began = control.clock.now()
    all_due = control.index.due(began)
    swept = Swept()
    doubtful: list[tuple[str, int, int]] = []
    alone_until = None if until is None else began + (until - began) // 2
    for due in all_due:
        now = control.clock.now()
        if alone_until is not None and now >= alone_until:
            if control.queue.depth(None) < DEEP_QUEUE:
                swept = swept.plus(handed=_hand_over(control, chain([due], all_due), until))
                break
            alone_until = until
        if until is not None and now >= until:
            break
        if mine is not None and not mine(due.execution_id):
            continue
        again_at = now + UNFINISHED_AGAIN_S * SECOND
        attempts = control.index.claim_due(due, again_at)
        if attempts == 1:
            swept = _look(control, within, due.execution_id, swept.plus(looked=1), attempts, again_at)
        elif attempts is not None:  # None: another process has just claimed it, or it has ended
            doubtful.append((due.execution_id, attempts, again_at))
    for execution_id, attempts, again_at in doubtful:
        if until is not None and control.clock.now() >= until:
            break
        if attempts <= MAX_ATTEMPTS or execution_id.startswith(DUE):
            swept = _look(control, within, execution_id, swept.plus(looked=1), attempts, again_at)
            continue
        log.error("giving up on %s: its reconciliations do not finish", execution_id)
        why = f"{MAX_ATTEMPTS} reconciliations in a row did not finish; the functions' logs have the errors"
        _give_up(control, execution_id, why, mark_head_stuck)  # mark only the head: reading the log may kill the process
    return swept


def _look(control: Control, within: Within | None, due: str, swept: Swept, attempts: int, again_at: int) -> Swept:
    """Carry out a due item, within the time limit of one execution.

    An execution that needs more stays due, and is handed to the router, which has more time.
    """
    if within is None:
        return reconcile_safely(control, due, swept, attempts, again_at)
    try:
        with within(Deadline.after(LONGEST_S)) as limited:
            return reconcile_safely(limited, due, swept, attempts, again_at)
    except OutOfTime as late:
        log.error("reconciling %s: %s; it will be retried", due, late)
        if trigger_of(due) is None and not due.startswith(DUE):
            control.queue.wake(due)
        return swept.plus(broken=1)


def _hand_over(control: Control, rest: Iterator[Due], until: int | None) -> int:
    """Send wakes for due items. An execution stays due until the router reconciles it, so a lost wake does no harm."""
    handed = 0
    while (until is None or control.clock.now() < until) and (some := [due.execution_id for due in islice(rest, HANDED)]):
        control.queue.wake(*some)
        handed += len(some)
    return handed


def reconcile_safely(control: Control, due: str, swept: Swept, attempts: int = 1, again_at: int | None = None) -> Swept:
    """Carry out a due item; log and record its errors, and raise nothing.

    `due` is an execution, which is reconciled, a trigger, which fires, or a limit, which is swept.
    """
    trigger = trigger_of(due)
    if due.startswith(DUE):
        return _sweep_limit(control, due, swept)
    try:
        if trigger is not None:
            fire_due(control, *trigger)
            return swept
        return reconcile(control, due, swept, again_at)
    except CorruptLog as error:
        log.exception("%s is stuck: its log is unreadable", due)
        _give_up(control, due, str(error), mark_stuck)
    except NewerLog as error:
        log.warning("%s waits for the newer version that wrote its log: %s", due, error)
        control.index.set_due(due, control.clock.now() + RECONCILE_EVERY_S * SECOND)
    except Unavailable:
        log.exception("%s could not be reconciled; it will be retried", due)
        control.index.set_due(due, control.clock.now() + RECONCILE_EVERY_S * SECOND)
    except Exception as error:  # a bug, whatever it is: it affects this one, and the others continue
        log.exception("reconciling %s failed, %d time(s) in a row", due, attempts)
        if attempts >= MAX_ATTEMPTS:
            _give_up(control, due, f"{type(error).__name__}: {error}", mark_stuck)
    return swept.plus(broken=1)


def _give_up(control: Control, due: str, why: str, mark: Callable[[Control, str, str], None]) -> None:
    """Stop visits of it until someone requests them. `mark` marks an execution stuck."""
    trigger = trigger_of(due)
    if trigger is not None:
        try:
            give_up(control, *trigger, why)
        except Unavailable:
            log.exception("%s stays due", due)
        return
    mark(control, due, why)
    control.index.clear_due(due)


def _sweep_limit(control: Control, due: str, swept: Swept) -> Swept:
    try:
        assert control.limits is not None
        control.limits.sweep(control, due.removeprefix(DUE))
    except Exception:  # it stays due, and the others continue
        log.exception("looking at %s failed", due)
        return swept.plus(broken=1)
    return swept


def mark_stuck(control: Control, execution_id: str, why: str) -> None:
    """Mark an execution stuck: in its log, or in its head alone if the log accepts nothing. `resume` tries again."""
    try:
        control.route(execution_id, facts=[fact(ExecutionStuck, reason=why)])
    except Exception:  # the earlier error occurs here too
        log.exception("execution %s is marked stuck in its head alone", execution_id)
        mark_head_stuck(control, execution_id, why)
