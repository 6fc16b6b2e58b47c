"""A virtual year of schedules: occurrences in several time zones over a stack that is restarted, crashes, and is down for days.

What must have started is counted by an independent clock: every minute of the year is asked, in its zone, whether it is one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from tests.properties import TIMES
from tests.sim.ports import SECOND, Faults
from tests.sim.schedules import at, playbook, register_in, started, world_at
from tests.sim.world import World

YEAR = datetime(2027, 12, 1, tzinfo=UTC), datetime(2028, 12 if TIMES else 4, 10, tzinfo=UTC)
"""With a 29th of February, and every zone's clock moved both ways; in the suite a third of it, in which clocks of the north are put
forward, and clocks of the south back (`make properties` takes the whole)."""
MINUTE = timedelta(minutes=1)
DOWN = [
    ("2028-01-10T03:17:00", "2028-01-13T15:40:00"),
    ("2028-03-25T22:00:00", "2028-03-27T04:00:30"),
    ("2028-10-29T00:10:00", "2028-10-29T02:50:00"),
]
"""The stack is down for days, and over both changes of Europe's clocks."""


def wall(zone: str) -> Iterator[tuple[datetime, datetime]]:
    """Every minute of the year, as an instant and as the clock of the zone shows it."""
    where, now = ZoneInfo(zone), YEAR[0]
    while now < YEAR[1]:
        yield now, now.astimezone(where)
        now += MINUTE


def real_time(zone: str, fits: Callable[[datetime], bool]) -> list[datetime]:
    """Return the occurrences by real time: each minute at which the clock shows such a time."""
    return [now for now, local in wall(zone) if fits(local)]


def once_a_day(zone: str, hour: int, minute: int, fits: Callable[[datetime], bool] = lambda day: True) -> list[datetime]:
    """A time of day: the first minute of the day at which the clock shows it, or is beyond it for the first time because it was
    moved over it."""
    found: dict[object, datetime] = {}
    for now, local in wall(zone):
        if local.date() not in found and (local.hour, local.minute) >= (hour, minute) and fits(local):
            found[local.date()] = now
    begins = next(wall(zone))[1]
    return [now for day, now in found.items() if day != begins.date() or (begins.hour, begins.minute) <= (hour, minute)]


SCHEDULES: dict[str, tuple[str, Callable[[], list[datetime]]]] = {
    "berlin": ('schedule: "30 2 * * *", timezone: Europe/Berlin', lambda: once_a_day("Europe/Berlin", 2, 30)),
    "howe": ('schedule: "15 2 * * *", timezone: Australia/Lord_Howe', lambda: once_a_day("Australia/Lord_Howe", 2, 15)),
    "kolkata": (
        'schedule: "0 9 * * 1-5", timezone: Asia/Kolkata',
        lambda: once_a_day("Asia/Kolkata", 9, 0, lambda d: d.weekday() < 5),
    ),
    "santiago": ('schedule: "0 0 * * *", timezone: America/Santiago', lambda: once_a_day("America/Santiago", 0, 0)),
    "hourly": (
        'schedule: "0 * * * *", timezone: America/St_Johns',
        lambda: real_time("America/St_Johns", lambda t: t.minute == 0),
    ),
    "leap": ('schedule: "0 12 29 2 *"', lambda: once_a_day("UTC", 12, 0, lambda d: (d.month, d.day) == (2, 29))),
    "rate": ("schedule: {rate: 12h}", lambda: real_time("UTC", lambda t: t.hour % 12 == 0 and t.minute == 0)),
}


def is_down(now: datetime) -> bool:
    return any(at(begin) <= now.timestamp() * SECOND < at(end) for begin, end in DOWN)


def live_through(world: World, end: datetime) -> None:
    """Let the year pass: the sweeper comes each minute in which something is due, processes are restarted now and then, and
    while the stack is down nothing happens at all."""
    last, looks = int(end.timestamp()) * SECOND, 0
    while world.clock.time < last:
        for begin, until in DOWN:
            if at(begin) <= world.clock.time < at(until):
                world.clock.time, world.next_sweep = at(until), at(until)
                world.controls = [world.new_control()]
        idle = not world.records and not world.queue.messages
        due = min(world.index.due_at.values(), default=last)
        if idle and due > world.next_sweep:
            world.next_sweep += -(-(due - world.next_sweep) // (60 * SECOND)) * 60 * SECOND
        if idle and world.next_sweep >= last:
            return
        world.step()
        looks += 1
        if looks % 997 == 0:
            world.controls = [world.new_control()]


def expected(name: str, catch_up: str) -> list[str]:
    """The occurrences that start, by the policy: all, or of each time the stack was down for longer than the grace the last."""
    times = SCHEDULES[name][1]()
    if catch_up == "none":
        times = [t for t in times if not is_down(t) or _soon_up(t)]
    elif catch_up == "latest":
        kept = []
        for begin, end in DOWN:
            missed = [t for t in times if at(begin) <= t.timestamp() * SECOND < at(end) and not _soon_up(t)]
            on_time = [t for t in times if at(begin) <= t.timestamp() * SECOND < at(end) and _soon_up(t)]
            kept += missed[-1:] if not on_time else []
        times = sorted([t for t in times if not is_down(t) or _soon_up(t)] + kept)
    return [t.strftime("%Y-%m-%dT%H:%M:%SZ") for t in times]


def _soon_up(now: datetime) -> bool:
    """Return whether the stack is up again within the time in which an occurrence counts as on time."""
    return any(at(begin) <= now.timestamp() * SECOND < at(end) <= (now.timestamp() + 300) * SECOND for begin, end in DOWN)


@pytest.mark.nightly
@pytest.mark.sized
def test_each_occurrence_of_a_year_starts_once_by_its_policy() -> None:
    world = world_at(
        "2027-12-01T00:00:00", Faults(seed=7, crash=0.002, throttle=0.002, duplicate=0.05, lose_record=0.02, delay=0.02)
    )
    world.clock.time -= 30 * SECOND
    policies = {name: ("all", "none", "latest")[n % 3] for n, name in enumerate(SCHEDULES)}
    overlap = {"all": "queue", "none": "skip", "latest": "skip"}
    triggers = [
        f"name: {name}, {SCHEDULES[name][0]}, catch_up: {policy}, overlap: {overlap[policy]}" for name, policy in policies.items()
    ]
    register_in(world, playbook(*triggers))
    live_through(world, YEAR[1])
    found: dict[str, list[str]] = {name: [] for name in SCHEDULES}
    for occurrence, name in started(world):
        found[name].append(occurrence)
    for name, policy in policies.items():
        assert found[name] == expected(name, policy), (name, policy)
    assert sum(map(len, found.values())) > (10_000 if TIMES else 3_500)
    assert world.faults.seen["crash before"] + world.faults.seen["crash after"] > (100 if TIMES else 30)
    statuses = Counter(world.state(x).status for x in {stream.execution_id for stream in world.store.streams})
    assert set(statuses) == {"completed"}
