"""One session: every side is asked in turn, round by round, so that other load on the machine affects all of them. The processes
of the sides that are not asked are stopped meanwhile."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, field

from bench.peers.cases import HELLO, Case
from bench.peers.driver import END_S, Driver, Failed, TooLong, environment
from bench.peers.installs import NotRun
from bench.peers.place import Place
from bench.peers.sides import ROOT, Command, Side
from bench.processes import Peak, peak_of, with_descendants

CASE_S = 60
"""The time limit of one repetition."""
MEMORY_EVERY_S = 0.2
"""The interval of measurements of memory."""
SETTLE_S = 0.3
"""The time between the moment a side's processes go on and the moment it is asked: expired timers fire in it."""
SPENT_S = 15
"""A side that has taken this long for a case is not asked for it again."""


@dataclass(slots=True)
class Measured:
    """The times of a side in a case: the seconds by round, or the reason why there are none."""

    side: str
    case: str
    rounds: dict[int, float] = field(default_factory=dict)
    why: str = ""
    memory_mb: float = 0.0
    """The most that its processes took in the round for warming up."""


@dataclass(slots=True)
class Outcome:
    """The results of a session. `about` has each driver's report of its versions; `not_run` the reason why a side has no
    driver."""

    measured: list[Measured] = field(default_factory=list)
    about: dict[str, Mapping[str, str]] = field(default_factory=dict)
    not_run: dict[str, str] = field(default_factory=dict)


Watch = Callable[[str], AbstractContextManager[Peak]]
"""Measures the memory of a side, by its name."""


def unwatched(name: str) -> AbstractContextManager[Peak]:
    return nullcontext(Peak())


def rounds(
    case: Case,
    asked: Mapping[str, Callable[[float], float]],
    times: int,
    now: Callable[[], float],
    end: float,
    watch: Watch = unwatched,
) -> list[Measured]:
    """Ask every side `times` times, in turn. The first time is for warming up, and memory is measured in it. It counts where
    there is no second one.

    A side that fails is not asked again, and one that has taken `SPENT_S` neither, nor any after `end`.
    """
    found = {name: Measured(name, case.name) for name in asked}
    spent = dict.fromkeys(asked, 0.0)
    for number in range(times + 1):
        for name, ask in asked.items():
            entry = found[name]
            if entry.why or (entry.rounds and spent[name] > SPENT_S):
                continue
            left = end - now()
            if left <= 0:
                if not entry.rounds:
                    entry.why = "the session's time was over"
                continue
            began = now()
            try:
                with unwatched(name) if number else watch(name) as most:
                    entry.rounds[number] = ask(min(CASE_S, left))
                entry.memory_mb = max(entry.memory_mb, most.mb)
            except Failed as failed:
                if not (entry.rounds and isinstance(failed, TooLong) and left < CASE_S):  # else the session ended it
                    entry.why = str(failed)
                    entry.rounds.clear()
            spent[name] += now() - began
    for entry in found.values():
        if len(entry.rounds) > 1:
            entry.rounds.pop(0, None)
    return list(found.values())


def hold(
    sides: Sequence[Side], cases: Sequence[Case], times: int, end: float, place: Place, url: str, say: Callable[[str], None]
) -> Outcome:
    """Measure `cases` of `sides`, which are those of one process or those of the emulated AWS."""
    outcome = Outcome()
    running = Running(place)
    try:
        for side in sides:
            try:
                running.prepare(side)
            except (NotRun, Failed) as reason:
                outcome.not_run[side.name] = str(reason)
                say(f"{side.name}: not run: {reason}")
        outcome.about = {name: driver.about for name, driver in running.drivers.items()}
        for name in running.commands:
            running.stop(name)
        for case in cases:
            say(case.title)
            if case.name == HELLO:
                asked = {name: running.process(name) for name, command in running.commands.items() if command.hello}
            else:
                ask = {"case": case.name, "url": url, **case.ask}
                asked = {name: running.case(name, ask) for name in running.commands}
            asked = {name: running.alone(name, ask) for name, ask in asked.items()}
            watch = unwatched if case.name == HELLO else running.watched
            outcome.measured += rounds(case, asked, times, time.monotonic, end, watch)
    finally:
        running.close()
    return outcome


class Running:
    """The drivers of some sides. One that answered too late is ended, and another one takes its place. A driver has `end_s`
    seconds to end. A stopped side is given `settle_s` seconds before it is asked."""

    def __init__(self, place: Place, end_s: float = END_S, settle_s: float = SETTLE_S) -> None:
        self.place, self._end_s, self._settle_s = place, end_s, settle_s
        self.commands: dict[str, Command] = {}
        self.drivers: dict[str, Driver] = {}

    def prepare(self, side: Side) -> None:
        command = side.prepare(self.place)
        self.drivers[side.name] = self._start(side.name, command)
        self.commands[side.name] = command

    def _env(self, command: Command) -> dict[str, str]:
        """Temporary files are the session's too, and go with it."""
        return {**command.env, "TMPDIR": str(self.place.folder("temporary"))}

    def _start(self, name: str, command: Command) -> Driver:
        log = self.place.root / f"{name}.log".replace("/", "_")
        return Driver(command.driver, self._env(command), log, end_s=self._end_s)

    def case(self, name: str, ask: Mapping[str, object]) -> Callable[[float], float]:
        def measure(limit_s: float) -> float:
            if name not in self.drivers:
                self.drivers[name] = self._start(name, self.commands[name])
            try:
                return self.drivers[name].seconds(ask, limit_s)
            except TooLong:
                self.drivers.pop(name).close()
                raise

        return measure

    def alone(self, name: str, ask: Callable[[float], float]) -> Callable[[float], float]:
        """Let the processes of a side run while it is asked, and stop them again."""

        def measure(limit_s: float) -> float:
            self._signal(name, signal.SIGCONT)
            time.sleep(self._settle_s)
            try:
                return ask(limit_s)
            finally:
                self.stop(name)

        return measure

    def stop(self, name: str) -> None:
        self._signal(name, signal.SIGSTOP)

    def _signal(self, name: str, number: signal.Signals) -> None:
        for process in with_descendants(self._roots(name)):
            with suppress(ProcessLookupError):  # it has ended meanwhile
                os.kill(process, number)

    def _roots(self, name: str) -> list[int]:
        """Return the ids of the driver and of what works for it and is not its child."""
        driver = self.drivers.get(name)
        return [*([] if driver is None else [driver.pid]), *self.commands[name].beside()]

    def watched(self, name: str) -> AbstractContextManager[Peak]:
        """Measure the driver, what it started, and what works for it beside that."""
        return peak_of(lambda: self._roots(name), MEMORY_EVERY_S)

    def process(self, name: str) -> Callable[[float], float]:
        command = self.commands[name]

        def measure(limit_s: float) -> float:
            began = time.perf_counter()
            try:
                subprocess.run(
                    command.hello, env=environment(self._env(command)), cwd=ROOT, capture_output=True, timeout=limit_s, check=True
                )
            except subprocess.TimeoutExpired as error:
                raise TooLong(f"not within {limit_s:.0f} s") from error
            except (OSError, subprocess.SubprocessError) as error:
                raise Failed(str(error)[:200]) from error
            return time.perf_counter() - began

        return measure

    def close(self) -> None:
        for name in self.commands:
            self._signal(name, signal.SIGCONT)
        for driver in self.drivers.values():
            driver.close()
        self.drivers.clear()
