"""Places that are taken from the oldest for those that come later (`on_limit: cancel_oldest`, docs/limits.md).

Who is displaced by whom is decided by one conditional write of the limit's record, so nobody is displaced for two, and nobody
displaces two. It is carried out afterwards, by whoever looks at the newcomer again and by the sweep of the limit, as often as
somebody dies in between. A run is ended as by a deadline: its stream's next position is taken. Where the run was first, its own
end stands.
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
"""How many of those that wait are looked at."""


class Release(Protocol):
    """Frees a place, or leaves the line."""

    def __call__(self, control: Control, freed: ReleasePlace) -> None: ...


def displace_oldest(control: Control, places: LimitPlaces, use: LimitUse, mine: LimitWaiter, release: Release) -> None:
    """Displace the oldest of those that hold a place or wait for one, if there are too many with the one that waits as `mine`:
    that one itself, should others have asked after it.

    Whom is written down. Who is chosen now is displaced when the newcomer is looked at again, which is due at once: what follows
    for the displaced one may ask for a place in turn, and must not do so within this call.
    """
    victim, is_new = mine.cancels, False
    if victim is None:
        victim, is_new = _chosen(control, places, use)
        if victim is None:
            return
        if not places.replace(use.key, replace(mine, cancels=victim)):
            is_new = True  # it has left the line meanwhile, with its place or without one: its execution finds out which
    if is_new:
        execution_id = execution_of(use.holder)
        control.index.set_due(execution_id, control.clock.now())
        control.queue.wake(execution_id)
    else:
        displace(control, use.key, victim, use.holder, release)


def _chosen(control: Control, places: LimitPlaces, use: LimitUse) -> tuple[str | None, bool]:
    """Return who is displaced for a newcomer, None for nobody, and whether that is decided just now."""

    def attempt() -> tuple[str | None, bool] | None:
        record = places.read(use.key)
        known = next((victim for victim, by in record.displaced.items() if by == use.holder), None)
        if known is not None or use.holder in record.holders:
            return known, False
        stay = _staying(control, use, record, places.waiters(use.key, MOST_WAITING))
        if len(stay) <= use.max:
            return None, False
        victim, by = stay[0], use.holder if stay[0] != use.holder else stay[-1]
        written = places.write(replace(record, displaced={**record.displaced, victim: by}), control.clock.now())
        return (victim, True) if written else None

    return retry_conflicts(attempt, f"limit {use.key}")


def _staying(control: Control, use: LimitUse, record: LimitRecord, waiting: Sequence[LimitWaiter]) -> list[str]:
    """Return those that hold places or wait, in the order in which they asked, without those that are to leave.

    What has its place since before this one asked, asked before. Of others the log says when: this one may be late, because the
    process that asked for it has died.
    """
    asked = {waiter.holder: asked_at(waiter.place) for waiter in waiting}
    for holder, since in record.holders.items():
        asked[holder] = since if since <= use.asked_at else _asked_at(control, holder, since)
    stay = [holder for holder in asked if holder not in record.displaced]
    return sorted(stay, key=lambda holder: (asked[holder], holder not in record.holders, holder))


def _asked_at(control: Control, holder: str, since: int) -> int:
    try:
        held = control.load(execution_of(holder)).limits.get(holder)
    except CorruptLog:
        return since
    return since if held is None else held.asked_at


def displace(control: Control, key: str, victim: str, by: str, release: Release) -> None:
    """End a holder of a place, or one that waits for it, because `by` came: an execution is cancelled, a run of a step fails with
    kind `limit` and code `displaced`. It is safe to repeat. Raises `Unavailable`."""
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
        log.exception("limit %s: %s cannot be displaced, its log does not read", key, victim)


def _end_run(control: Control, state: State, victim: str, error: Failure) -> None:
    """Let a run fail, whether it is under way or has not begun. Chunks of its loop that begin meanwhile are ended, too."""
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
