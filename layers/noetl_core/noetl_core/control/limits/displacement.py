"""Implements `on_limit: cancel_oldest`: a newcomer displaces the oldest holder or waiter (docs/limits.md).

One conditional write of the limit's record decides the pair, so no holder is displaced twice and no newcomer displaces two. The
next visit of the newcomer or the sweep of the limit carries it out, and repeats it after crashes. A run is ended as by a
deadline: by a commit at the next position of its stream. If the run commits first, its own end stands.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Final, Protocol

from noetl_core.control.core import Control
from noetl_core.control.fence import fence_runs
from noetl_core.control.lifecycle.operate import NotNow, cancel
from noetl_core.engine.dispatch.effects import ReleasePlace
from noetl_core.engine.routing.limit_requests import asked_at, execution_of
from noetl_core.engine.state import LimitUse, State
from noetl_core.events.event import fact
from noetl_core.events.limits import LimitRefused
from noetl_core.events.shapes import Failure
from noetl_core.ports import (
    MAX_ATTEMPTS,
    CorruptLog,
    LimitPlaces,
    LimitRecord,
    LimitWaiter,
    NotFound,
    Unavailable,
    retry_conflicts,
)

log = logging.getLogger(__name__)

MOST_WAITING: Final = 1_000
"""Maximum number of waiters examined."""


class Release(Protocol):
    """Frees a place, or leaves the queue of waiters."""

    def __call__(self, control: Control, freed: ReleasePlace) -> None: ...


def displace_oldest(control: Control, places: LimitPlaces, use: LimitUse, mine: LimitWaiter, release: Release) -> None:
    """Displace the oldest holder or waiter if there are too many with the newcomer, which waits as `mine`.

    That may be the newcomer itself, if others came later. The victim is recorded first and displaced on the next visit of the
    newcomer, which is due at once. The effects of the displacement may need a place in turn, and must not do so within this call.
    """
    victim, is_new = mine.cancels, False
    if victim is None:
        victim, is_new = _chosen(control, places, use)
        if victim is None:
            return
        if not places.replace(use.key, replace(mine, cancels=victim)):
            is_new = True  # it has left the queue in the meantime: its execution finds out whether it got a place
    if is_new:
        execution_id = execution_of(use.holder)
        control.index.set_due(execution_id, control.clock.now())
        control.queue.wake(execution_id)
    else:
        displace(control, use.key, victim, use.holder, release)


def _chosen(control: Control, places: LimitPlaces, use: LimitUse) -> tuple[str | None, bool]:
    """Return the holder to displace for a newcomer (None: nobody), and whether this call decided it."""

    def attempt() -> tuple[str | None, bool] | None:
        record = places.read(use.key)
        known = next((victim for victim, by in record.displaced.items() if by == use.holder), None)
        if known is not None or use.holder in record.holders:
            return known, False
        stay = _staying(control, use, record, places.waiters(use.key, MOST_WAITING))
        if len(stay) <= use.max:
            return None, False
        victim, by = stay[0], use.holder if stay[0] != use.holder else stay[-1]
        recorded = places.write(replace(record, displaced={**record.displaced, victim: by}), control.clock.now())
        return (victim, True) if recorded else None

    return retry_conflicts(attempt, f"limit {use.key}")


def _staying(control: Control, use: LimitUse, record: LimitRecord, waiting: Sequence[LimitWaiter]) -> list[str]:
    """Return holders and waiters in the order of their requests, without those that are leaving.

    A holder that got its place before the newcomer's request came first. For other holders, the log has the time of the request:
    this newcomer may be late, because the process that requested its place died.
    """
    requested_at = {waiter.holder: asked_at(waiter.place) for waiter in waiting}
    for holder, since in record.holders.items():
        requested_at[holder] = since if since <= use.asked_at else _asked_at(control, holder, since)
    stay = [holder for holder in requested_at if holder not in record.displaced]
    return sorted(stay, key=lambda holder: (requested_at[holder], holder not in record.holders, holder))


def _asked_at(control: Control, holder: str, since: int) -> int:
    try:
        held = control.load(execution_of(holder)).limits.get(holder)
    except CorruptLog:
        return since
    return since if held is None else held.asked_at


def displace(control: Control, key: str, victim: str, by: str, release: Release) -> None:
    """End a holder or waiter because `by` came: an execution is cancelled, a run of a step fails with kind `limit` and code
    `displaced`. Repeating it is safe. Raises `Unavailable`."""
    execution_id, newcomer = execution_of(victim), execution_of(by)
    who = "another run of this execution" if newcomer == execution_id else f"execution {newcomer}"
    reason = f"limit {key}: {who} takes its place"
    if "/" not in victim:
        with suppress(NotFound, NotNow):
            cancel(control, execution_id, reason)
        return
    try:
        state = control.load(execution_id)
        if _is_over(state, victim):
            left = state.freed.get(victim)
            release(control, ReleasePlace(key, victim, "" if left is None else left.place))
            return
        _end_run(control, state, victim, {"kind": "limit", "code": "displaced", "message": reason, "retryable": False})
    except CorruptLog:
        log.exception("limit %s: %s cannot be displaced, its log is unreadable", key, victim)


def _end_run(control: Control, state: State, victim: str, error: Failure) -> None:
    """Fail a run, in progress or not yet begun. Chunks of its loop that begin in the meantime are ended too."""
    execution_id, run_id = state.execution_id, victim.partition("/")[2]
    control.due_soon(execution_id)
    for _ in range(MAX_ATTEMPTS):
        if state.limits[victim].token in state.tokens:  # it waits, or its execution is paused; the log decides if it begins now
            refused = fact(LimitRefused, holder=victim, reason=error["message"], displaced=True)
            control.route(execution_id, facts=[refused])
        else:
            ends = [run.id for run in state.runs.values() if run.parent == run_id] or [run_id]
            control.route(execution_id, fence_runs(control, state, dict.fromkeys(ends, error)))
        state = control.load(execution_id)
        if _is_over(state, victim):
            return
    raise Unavailable(f"{victim} could not be displaced in {MAX_ATTEMPTS} tries")


def _is_over(state: State, holder: str) -> bool:
    return state.seq < 0 or state.finished or holder not in state.limits
