"""Places in limits that executions share: who gets one, who waits, and who is next (docs/limits.md).

A limit has a record of those that hold a place, and those that wait stand in order beside it. Whoever frees a place gives it to
the next and wakes it, so nobody asks again while it waits. Two rules let no place be lost, whoever dies when:

* Who waits is written down before `waiting` of the record is read, and `waiting` is cleared only on the record that was read
  before nobody was found. So of one that frees a place and one that begins to wait, the later one sees the other.
* Who got a place is removed from those that wait only after it was woken. So where a process died in between, the next one to
  look finds a waiter that holds a place, and wakes it again.

The limit has a due item while somebody waits: the sweeper frees places whose holders are over.
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
"""What the ids of due items of limits begin with; ids of executions are numbers."""
LOOK: Final = 50
"""How many of those that wait are read at a time."""
CHECKED: Final = 25
"""How many holders one sweep of a limit looks at."""
GRACE_S: Final = 60
"""How long a holder is not looked at: it may be about to hear of its place."""
MAX_DEPTH: Final = 20


class SharedLimits(Limits):
    """`Limits` over the records of limits."""

    def __init__(self, places: LimitPlaces, rates: RateLimits) -> None:
        self._places, self._rates = places, rates

    @property
    def places(self) -> LimitPlaces:
        return self._places

    @property
    def rates(self) -> RateLimits:
        """Rates, which workers keep and lists show."""
        return self._rates

    # --- asking ---------------------------------------------------------------------------------------------------------

    def acquire(self, control: Control, execution_id: str, wanted: AcquirePlace) -> None:
        """As `Limits.acquire`. Without anybody waiting: one read and one write."""
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
        """End the deadlock that this wait has brought about, if it has. What others may wait for is all that can."""
        if wanted.holds:
            end_deadlock(control, self.places, wanted.use.key)

    def _taken(self, control: Control, use: LimitUse) -> bool:
        """Return whether it has a place, maybe since just now."""

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
        """Tell an execution that it has its place. Whom it displaced may wait still, as another has left its place to it."""
        control.route(execution_id, facts=[fact(LimitGranted, holder=use.holder)])
        if use.on_limit == "cancel_oldest":
            for victim, by in self.places.read(use.key).displaced.items():
                if by == use.holder:
                    displace(control, use.key, victim, by, self.release)

    # --- freeing --------------------------------------------------------------------------------------------------------

    def release(self, control: Control, freed: ReleasePlace) -> None:
        """As `Limits.release`. Without anybody waiting: one read and one write."""

        def attempt() -> LimitRecord | None:
            record = self.places.read(freed.key)
            if freed.holder not in record.holders and freed.holder not in record.displaced:
                return record
            left = {holder: since for holder, since in record.holders.items() if holder != freed.holder}
            displaced = {holder: by for holder, by in record.displaced.items() if holder != freed.holder}
            written = self.places.write(replace(record, holders=left, displaced=displaced), control.clock.now())
            return record if written else None

        if retry_conflicts(attempt, f"limit {freed.key}").waiting:
            self.places.dequeue(freed.key, freed.place)
            self._grant(control, freed.key)

    def _grant(self, control: Control, key: str, but: str = "") -> Sequence[str]:
        """Give free places to those that wait, in order, and wake all but `but`. Returns who has one now."""
        got: list[str] = []

        def attempt() -> Sequence[str] | None:
            record, waiting = self.places.read(key), self.places.waiters(key, LOOK)
            now = control.clock.now()
            given, holders = _next(record, waiting, now)
            after = replace(record, holders=holders, waiting=bool(waiting), most=waiting[0].most if waiting else record.most)
            changed = after != record
            if changed and not self.places.write(after, now):
                return None
            for waiter in given:
                if waiter.holder != but:
                    execution_id = execution_of(waiter.holder)
                    control.index.set_due(execution_id, now)
                    control.queue.wake(execution_id)
                self.places.dequeue(key, waiter.place)
                got.append(waiter.holder)
            return got if not given or len(given) < len(waiting) else None  # None: the next of those that wait

        return retry_conflicts(attempt, f"limit {key}")

    # --- sweeping -------------------------------------------------------------------------------------------------------

    def sweep(self, control: Control, key: str) -> None:
        """As `Limits.sweep`: a few reads, and the logs of some holders."""
        now, record = control.clock.now(), self.places.read(key)
        old = sorted(holder for holder, since in record.holders.items() if since < now - GRACE_S * SECOND)
        first = now // (RECONCILE_EVERY_S * SECOND) * CHECKED % len(old) if len(old) > CHECKED else 0
        goes_on = len(old) < len(record.holders)
        for holder in (old + old)[first : first + min(CHECKED, len(old))]:
            use, over, blocked = _standing(control, holder)
            goes_on = goes_on or not blocked
            if over:
                log.warning("limit %s: the place of %s is freed, which is over", key, holder)
                self.release(control, ReleasePlace(key, holder, "" if use is None else use.place))
            elif use is not None and not use.held:
                control.queue.wake(execution_of(holder))  # it has not heard of it
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
    """Return who is next, those included that have a place already and were perhaps not woken; and who holds places then. The
    first that finds no place keeps those behind it from overtaking; one that is to leave does not."""
    holders, given = dict(record.holders), []
    for waiter in waiting:
        if waiter.holder not in holders:
            if waiter.holder in record.displaced:
                continue
            if len(holders) >= waiter.most:
                break
            holders[waiter.holder] = now
        given.append(waiter)
    return given, holders


def _held_above(control: Control, wanted: AcquirePlace) -> str | None:
    """Return the place that a parent, or its run that calls the child, has in the same limit: the child shares it, for they wait
    for the child. The places of other runs are theirs: they end without it."""
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
    """Return what a holder's execution says of its place, whether it is over, and whether it waits for what may not come."""
    try:
        state = control.load(execution_of(holder))
    except PortError:
        return None, False, False  # a log that does not read says nothing: somebody must act, and `cancel` closes it
    use = state.limits.get(holder)
    return use, state.seq < 0 or state.finished or use is None, waits(state)
