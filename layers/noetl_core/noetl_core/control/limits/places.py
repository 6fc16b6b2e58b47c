"""Grants places in limits that executions share (docs/limits.md).

A limit has a record of its holders; its waiters are stored in order beside it. The process that frees a place grants it to the
next waiter and wakes it, so waiters need not ask again. Two rules prevent lost places, whichever process dies, and whenever:

* A waiter is recorded before `waiting` of the record is read. `waiting` is cleared only on the record that was read before no
  waiter was found. So if one process frees a place while another begins to wait, the later one sees the other.
* A waiter that got a place is removed only after it was woken. So if a process died in between, the next one finds a waiter that
  holds a place, and wakes it again.

The limit has a due item while it has waiters: the sweeper frees places whose holders have ended.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from noetl_core.control.core import Control, Limits
from noetl_core.control.limits.deadlocks import end_deadlock, waits
from noetl_core.control.limits.displacement import MOST_WAITING, displace, displace_oldest
from noetl_core.engine.dispatch.effects import RECONCILE_EVERY_S, AcquirePlace, ReleasePlace, caller_run
from noetl_core.engine.routing.limit_requests import execution_of, run_holder
from noetl_core.engine.state import LimitUse
from noetl_core.events.event import fact
from noetl_core.events.limits import LimitGranted, LimitRefused
from noetl_core.ports import LimitPlaces, LimitRecord, LimitWaiter, PortError, RateLimits, retry_conflicts
from noetl_core.values.instants import SECOND

log = logging.getLogger(__name__)

DUE: Final = "limit:"
"""Prefix of the ids of limits' due items; ids of executions are numbers."""
LOOK: Final = 50
"""Waiters that are read at a time."""
CHECKED: Final = 25
"""Maximum number of holders that one sweep of a limit examines."""
GRACE_S: Final = 60
"""A sweep skips holders newer than this: they may not know of their place yet."""
MAX_DEPTH: Final = 20


class SharedLimits(Limits):
    """Implements `Limits` with the records of limits."""

    def __init__(self, places: LimitPlaces, rates: RateLimits) -> None:
        self._places, self._rates = places, rates

    @property
    def places(self) -> LimitPlaces:
        return self._places

    @property
    def rates(self) -> RateLimits:
        """Return the rates, which workers keep and lists show."""
        return self._rates

    # --- requests -------------------------------------------------------------------------------------------------------

    def acquire(self, control: Control, execution_id: str, wanted: AcquirePlace) -> None:
        """Grant a place or begin to wait, as `Limits.acquire`. Without waiters, this takes one read and one write."""
        use = wanted.use
        shared = _held_above(control, wanted)
        if shared is not None:
            control.route(execution_id, facts=[fact(LimitGranted, holder=use.holder, shared=shared)])
        elif self._taken(control, use):
            self._begin(control, execution_id, use)
        elif use.on_limit == "skip":
            reason = f"limit {use.key} is full: {use.max} of {use.max} are taken, and on_limit is skip"
            control.route(execution_id, facts=[fact(LimitRefused, holder=use.holder, reason=reason)])
        else:
            self._wait(control, execution_id, use)
            self._closes_circle(control, wanted)

    def _closes_circle(self, control: Control, wanted: AcquirePlace) -> None:
        """End the deadlock that this wait has caused, if any. Only a wait that others may depend on can cause one."""
        if wanted.holds:
            end_deadlock(control, self.places, wanted.use.key)

    def _taken(self, control: Control, use: LimitUse) -> bool:
        """Return whether the execution has a place, perhaps a new one."""

        def attempt() -> bool | None:
            record = self.places.read(use.key)
            if use.holder in record.holders:
                return True
            if record.waiting or len(record.holders) >= use.max:
                return False
            now = control.clock.now()
            held = replace(record, holders={**record.holders, use.holder: now}, most=use.max)
            return True if self.places.write(held, now) else None

        return retry_conflicts(attempt, f"limit {use.key}")

    def _wait(self, control: Control, execution_id: str, use: LimitUse) -> None:
        due = DUE + use.key
        control.index.set_due(due, control.clock.now() + RECONCILE_EVERY_S * SECOND)
        mine = LimitWaiter(use.holder, use.place, use.max)
        if use.on_limit == "cancel_oldest":
            mine = next((w for w in self.places.waiters(use.key, MOST_WAITING) if w.holder == use.holder), mine)
        self.places.enqueue(use.key, mine)
        if use.holder in self._grant(control, use.key, but=use.holder):
            self._begin(control, execution_id, use)
        elif use.on_limit == "cancel_oldest":
            displace_oldest(control, self.places, use, mine, self.release)

    def _begin(self, control: Control, execution_id: str, use: LimitUse) -> None:
        """Tell an execution that it has its place.

        The execution that it displaced may still wait, if another one has left its place to it.
        """
        control.route(execution_id, facts=[fact(LimitGranted, holder=use.holder)])
        if use.on_limit == "cancel_oldest":
            for victim, by in self.places.read(use.key).displaced.items():
                if by == use.holder:
                    displace(control, use.key, victim, by, self.release)

    # --- freeing --------------------------------------------------------------------------------------------------------

    def release(self, control: Control, freed: ReleasePlace) -> None:
        """Free a place, as `Limits.release`. Without waiters, this takes one read and one write."""

        def attempt() -> LimitRecord | None:
            record = self.places.read(freed.key)
            if freed.holder not in record.holders and freed.holder not in record.displaced:
                return record
            left = {holder: since for holder, since in record.holders.items() if holder != freed.holder}
            displaced = {holder: by for holder, by in record.displaced.items() if holder != freed.holder}
            recorded = self.places.write(replace(record, holders=left, displaced=displaced), control.clock.now())
            return record if recorded else None

        if retry_conflicts(attempt, f"limit {freed.key}").waiting:
            self.places.dequeue(freed.key, freed.place)
            self._grant(control, freed.key)

    def _grant(self, control: Control, key: str, but: str = "") -> Sequence[str]:
        """Give free places to waiters, in order, and wake all but `but`. Return the new holders."""
        got: list[str] = []

        def attempt() -> Sequence[str] | None:
            record, waiting = self.places.read(key), self.places.waiters(key, LOOK)
            now = control.clock.now()
            chosen, holders = _next(record, waiting, now)
            after = replace(record, holders=holders, waiting=bool(waiting), most=waiting[0].most if waiting else record.most)
            changed = after != record
            if changed and not self.places.write(after, now):
                return None
            for waiter in chosen:
                if waiter.holder != but:
                    execution_id = execution_of(waiter.holder)
                    control.index.set_due(execution_id, now)
                    control.queue.wake(execution_id)
                self.places.dequeue(key, waiter.place)
                got.append(waiter.holder)
            return got if not chosen or len(chosen) < len(waiting) else None  # None: continue with the next waiters

        return retry_conflicts(attempt, f"limit {key}")

    # --- sweeping -------------------------------------------------------------------------------------------------------

    def sweep(self, control: Control, key: str) -> None:
        """Free places of ended holders, as `Limits.sweep`: a few reads, and the logs of some holders."""
        now, record = control.clock.now(), self.places.read(key)
        old = sorted(holder for holder, since in record.holders.items() if since < now - GRACE_S * SECOND)
        first = now // (RECONCILE_EVERY_S * SECOND) * CHECKED % len(old) if len(old) > CHECKED else 0
        goes_on = len(old) < len(record.holders)
        for holder in (old + old)[first : first + min(CHECKED, len(old))]:
            use, over, blocked = _standing(control, holder)
            goes_on = goes_on or not blocked
            if over:
                log.warning("limit %s: the place of %s is freed, because it has ended", key, holder)
                self.release(control, ReleasePlace(key, holder, "" if use is None else use.place))
            elif use is not None and not use.held:
                control.queue.wake(execution_of(holder))  # it does not know of its place yet
        for victim, by in list(record.displaced.items())[:CHECKED]:
            displace(control, key, victim, by, self.release)
        self._grant(control, key)
        after = self.places.read(key)
        if after.waiting or after.displaced:
            control.index.set_due(DUE + key, now + RECONCILE_EVERY_S * SECOND)
            if not goes_on and not record.displaced:
                end_deadlock(control, self.places, key)
        else:
            control.index.clear_due(DUE + key)


def _next(record: LimitRecord, waiting: Sequence[LimitWaiter], now: int) -> tuple[list[LimitWaiter], dict[str, int]]:
    """Return the next waiters, including those that have a place already and were perhaps not woken, and the new holders.

    The first waiter without a place keeps later ones from overtaking it; a waiter that is leaving does not.
    """
    holders, chosen = dict(record.holders), []
    for waiter in waiting:
        if waiter.holder not in holders:
            if waiter.holder in record.displaced:
                continue
            if len(holders) >= waiter.most:
                break
            holders[waiter.holder] = now
        chosen.append(waiter)
    return chosen, holders


def _held_above(control: Control, wanted: AcquirePlace) -> str | None:
    """Return the place that a parent, or its run that calls the child, has in the same limit.

    The child shares it, because they wait for the child. Places of other runs are not shared: those runs end without the child.
    """
    parent, run = wanted.parent, wanted.run
    for _ in range(MAX_DEPTH):
        if parent is None:
            break
        state = control.load(parent)
        calling = state.runs.get(run or "")
        lead = None if calling is None else calling.parent
        own = {state.holder, *(run_holder(parent, name) for name in (run, lead) if name is not None)}
        for use in state.limits.values():
            if use.key == wanted.use.key and use.held and use.holder in own:
                return use.holder
        parent, run = caller_run(state)
    return None


def _standing(control: Control, holder: str) -> tuple[LimitUse | None, bool, bool]:
    """Return a holder's place according to its execution's log, whether the holder has ended, and whether it waits for an input
    that may never come."""
    try:
        state = control.load(execution_of(holder))
    except PortError:
        return None, False, False  # an unreadable log says nothing: someone must act, and `cancel` closes it
    use = state.limits.get(holder)
    return use, state.seq < 0 or state.finished or use is None, waits(state)
