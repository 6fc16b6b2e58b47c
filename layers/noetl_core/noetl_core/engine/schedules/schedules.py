"""Schedules: which occurrences start, wait, are skipped or were missed. Pure: `decide` reads a state and the time, the shell
(`control.triggers.schedules`) records each decision before it carries it out.

An occurrence is *taken* once, when its time has come. Then it starts, waits or is skipped, according to `overlap`. Occurrences
that were not taken in time are *missed*; `catch_up` decides which of them are taken afterwards.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from itertools import islice, takewhile
from typing import Any, Final

from noetl_core.dsl.model import Schedule
from noetl_core.engine.schedules.occurrences import (
    earlier_occurrences,
    name_of,
    next_occurrence,
    occurrences,
    previous_occurrence,
    spread,
)
from noetl_core.values.frozen import frozen
from noetl_core.values.instants import SECOND

GRACE_S: Final = 300
"""Seconds by which an occurrence may be late and still count as on time: the services that check for it may be slow, or in
deployment."""
MOST_CAUGHT_UP: Final = 1_000
"""With `catch_up: all`, the maximum number of missed occurrences that are taken: the newest."""
MOST_WAITING: Final = 1_000
"""Occurrences that wait for each other at most; further ones are skipped."""
MOST_AT_ONCE: Final = 10
"""Occurrences that one decision starts."""
WAITS_AGAIN_S: Final = 30
"""Seconds after which an occurrence that waits checks again whether the earlier execution has ended."""
CANCELLED_AGAIN_S: Final = 5
COUNTED: Final = 1_000
"""Missed occurrences are counted up to here."""


@frozen
class ScheduleState:
    """The progress of a schedule."""

    next_at: int | None = None
    """The first occurrence that is not taken yet; None if there are no more."""
    waiting: tuple[int, ...] = ()
    """Occurrences that are taken but not decided yet."""
    starting: tuple[int, ...] = ()
    """Occurrences that start. After a crash they are started again; no execution starts twice."""
    last_at: int | None = None
    """The occurrence that was started last."""
    execution_id: str | None = None
    """Its execution."""
    cancelled: str | None = None
    """The execution that was asked to end because a later occurrence wants to start."""
    stopped: str | None = None
    """The reason why the engine has disabled it."""

    def plain(self) -> dict[str, Any]:
        """Return the state as it is stored."""
        return {k: list(v) if isinstance(v, tuple) else v for k, v in asdict(self).items() if v not in (None, ())}

    @classmethod
    def read(cls, stored: Mapping[str, Any]) -> ScheduleState:
        values: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in stored.items()}
        return cls(**values)


def schedule_of(source: Mapping[str, Any]) -> Schedule:
    """Return the schedule that a stored trigger has."""
    return Schedule(**source)


@frozen
class Skipped:
    """An occurrence that does not start, with the reason. `missed`: no process took it in time."""

    occurrence: int
    reason: str
    missed: bool = False


@frozen
class Decided:
    """The state after a decision, with `starting`; the skipped occurrences; and the execution to cancel."""

    state: ScheduleState
    skipped: tuple[Skipped, ...] = ()
    cancel: str | None = None


def installed(schedule: Schedule, former: Schedule | None, state: ScheduleState, now: int) -> ScheduleState:
    """Return the state under a new version of the trigger. Pending occurrences stay; other times begin now."""
    if former is not None and _times(former) == _times(schedule):
        return state
    return replace(state, next_at=next_occurrence(schedule, now))


def switched_on(schedule: Schedule, state: ScheduleState, now: int) -> ScheduleState:
    """Return the state after the trigger was enabled. Occurrences from the time when it was disabled are not started."""
    return replace(state, next_at=next_occurrence(schedule, now), stopped=None)


def _times(schedule: Schedule) -> tuple[Any, ...]:
    return schedule.cron, schedule.every_s, schedule.timezone


def due_at(schedule: Schedule, key: str, state: ScheduleState, now: int) -> int | None:
    """Return when to look at it next; None: never."""
    if state.starting or (state.waiting and schedule.overlap == "allow"):
        return now
    coming = None if state.next_at is None else state.next_at + spread(schedule, key, state.next_at)
    if state.waiting:
        again = now + (CANCELLED_AGAIN_S if schedule.overlap == "cancel" else WAITS_AGAIN_S) * SECOND
        return again if coming is None else min(again, coming)
    return coming


def decide(schedule: Schedule, key: str, state: ScheduleState, now: int, *, alive: bool) -> Decided:
    """Take the occurrences whose time has come, and decide about them. `alive`: the execution started last still
    runs. Nothing of `state` may be `starting`: that comes first."""
    assert not state.starting
    taken, missed, next_at = _come(schedule, key, state.next_at, now)
    state = replace(state, next_at=next_at, waiting=(*state.waiting, *taken))
    decided = _admitted(schedule, state, alive=alive) if state.waiting else Decided(state)
    return replace(decided, skipped=(*missed, *decided.skipped))


# --- due occurrences ------------------------------------------------------------------------------------------------------


def _come(schedule: Schedule, key: str, first: int | None, now: int) -> tuple[list[int], list[Skipped], int | None]:
    """Return the occurrences to take, the missed ones, and the next occurrence that is neither."""
    if first is None or first > now:
        return [], [], first
    on_time = now - GRACE_S * SECOND - int(schedule.jitter_s * SECOND)
    begin = first if first >= on_time else next_occurrence(schedule, on_time - 1)
    taken: list[int] = []
    while begin is not None and begin + spread(schedule, key, begin) <= now:
        taken.append(begin)
        begin = next_occurrence(schedule, begin)
    if first >= on_time:
        return taken, [], begin
    last = previous_occurrence(schedule, on_time)
    assert last is not None  # `first` at the latest
    late, left = _caught_up(schedule, first, last, taken)
    return [*late, *taken], left, begin


def _caught_up(schedule: Schedule, first: int, last: int, taken: list[int]) -> tuple[list[int], list[Skipped]]:
    """Return the late occurrences from `first` to `last` that are taken, and the reasons for skipping the others."""
    if schedule.catch_up == "all":
        found = takewhile(lambda at: at >= first, earlier_occurrences(schedule, last + 1))
        *late, older = [*islice(found, MOST_CAUGHT_UP), next(found, None)]
        late.reverse()
        return late, [] if older is None else [
            _missed(schedule, first, older, f"catch_up starts {MOST_CAUGHT_UP:,} missed ones at most")
        ]
    if schedule.catch_up == "latest" and not taken:
        older = previous_occurrence(schedule, last)
        gone = older is not None and older >= first
        return [last], [_missed(schedule, first, older, "a later one is started")] if gone and older is not None else []
    why = "catch_up is none" if schedule.catch_up == "none" else "a later occurrence is on time"
    return [], [_missed(schedule, first, last, why)]


def _missed(schedule: Schedule, first: int, last: int, why: str) -> Skipped:
    if first == last:
        return Skipped(last, f"nothing could start it in time; {why}", missed=True)
    upto = takewhile(lambda at: at <= last, occurrences(schedule, first - 1))
    number = sum(1 for _ in islice(upto, COUNTED + 1))
    many = f"{number:,}" if number <= COUNTED else f"more than {COUNTED:,}"
    return Skipped(last, f"nothing could start {many} occurrences in time, from {name_of(first)} on; {why}", missed=True)


# --- starts ---------------------------------------------------------------------------------------------------------------


def _admitted(schedule: Schedule, state: ScheduleState, *, alive: bool) -> Decided:
    waiting = state.waiting
    match schedule.overlap:
        case "allow":
            return Decided(_starts(state, waiting[:MOST_AT_ONCE], waiting[MOST_AT_ONCE:]))
        case "skip":
            started, rest = ((), waiting) if alive else (waiting[:1], waiting[1:])
            running = _running(state) if alive else f"the execution of {name_of(waiting[0])} starts"
            return Decided(_starts(state, started, ()), tuple(Skipped(at, running) for at in rest))
        case "queue":
            started, rest = ((), waiting) if alive else (waiting[:1], waiting[1:])
            full = tuple(Skipped(at, f"{MOST_WAITING:,} wait before it") for at in rest[MOST_WAITING:])
            return Decided(_starts(state, started, rest[:MOST_WAITING]), full)
        case "cancel":
            newest = waiting[-1:]
            passed = tuple(Skipped(at, f"{name_of(newest[0])} takes its place") for at in waiting[:-1])
            if not alive:
                return Decided(_starts(state, newest, ()), passed)
            asked = state.execution_id if state.cancelled != state.execution_id else None
            return Decided(replace(state, waiting=newest, cancelled=state.execution_id), passed, asked)


def _starts(state: ScheduleState, started: tuple[int, ...], rest: tuple[int, ...]) -> ScheduleState:
    return replace(state, starting=started, waiting=rest)


def _running(state: ScheduleState) -> str:
    of = "" if state.last_at is None else f" of {name_of(state.last_at)}"
    return f"execution {state.execution_id}{of} still runs"


def has_started(state: ScheduleState, occurrence: int, execution_id: str | None) -> ScheduleState:
    """Return the state once an occurrence of `starting` has started as `execution_id`; None: it could not, and never will."""
    rest = tuple(at for at in state.starting if at != occurrence)
    if execution_id is None:
        return replace(state, starting=rest)
    return replace(state, starting=rest, last_at=occurrence, execution_id=execution_id, cancelled=None)
