"""Computes the cost of an execution (`observe.cost`).

Short logs are metered whole. Longer logs are sampled at equal distances and scaled by the commit counts in the state.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, cast

from noetl_core.control.core import Control
from noetl_core.engine.records import Commit, StreamId
from noetl_core.engine.state import State
from noetl_core.log.concurrent_reads import read_concurrently
from noetl_core.log.history import counted
from noetl_core.values.frozen import frozen
from noetl_core.views.executions import executions
from noetl_core.views.reading.cursor import history
from noetl_core.views.reading.newest_first import ends_of

if TYPE_CHECKING:
    from noetl_core.api.shapes import views as view_shapes
    from noetl_core.observe.cost import Units

READ = 1_000
"""Maximum number of commits metered."""
PARTS, PART = 12, 8
"""Parts of a stream that are metered, and commits of each part. Slightly longer streams are metered whole."""
RUNS, RUNS_OF_STEP = 96, 24
"""Maximum number of runs whose streams are metered: in total, and for each step."""
RUN_PARTS = 4
"""Parts of a run's stream that are metered between its beginning and its end."""


@frozen
class Part:
    """Commits of a stream from `first` up to `end` (exclusive); they represent `weight` times as many."""

    first: int
    end: int
    weight: float = 1


def parts_of(length: int, most: int) -> Sequence[Part]:
    """Return the beginning and the end of a stream of length `length`, and at most `most` parts between them at equal distances;
    the complete stream if it is not longer.
    """
    if length <= (most + 2) * PART:
        return (Part(0, length),)
    left = length - 2 * PART
    firsts = [PART + round(number * (left - PART) / max(most - 1, 1)) for number in range(most)]
    between = [Part(first, first + PART, left / (most * PART)) for first in firsts]
    return (Part(0, PART), *between, Part(length - PART, length))


def cost(control: Control, execution_id: str, worker_mb: int | None = None) -> view_shapes.Cost:
    """Return metered units and list prices, by step; `worker_mb` is the memory of a worker. Raises `NotFound`."""
    from noetl_core.observe.cost import WORKER_MB, Meter, priced  # 3 ms: short runs request no view

    state = counted(control.store, executions.load(control, execution_id))
    memory = worker_mb or WORKER_MB
    found = {"execution_id": execution_id, "status": executions.status_of(state)}
    sample = Sampled(control, state, memory)
    if sample.commits <= READ and len(state.runs) <= RUNS:
        meter = Meter(execution_id, worker_mb=memory)
        meter.observe(history(control.recent, execution_id))
        return cast("view_shapes.Cost", {**found, **meter.as_dict()})
    by_step = sample.units()  # before `commits` is read
    runs = {name: step.visits for name, step in state.steps.items()}
    counts = {"commits": sample.commits, "read": sample.read}
    return cast("view_shapes.Cost", {**found, **priced(by_step, runs), "estimated": counts})


class Sampled:
    """A sample of the commits of an execution."""

    def __init__(self, control: Control, state: State, worker_mb: int) -> None:
        self._control, self._state, self._worker_mb = control, state, worker_mb
        self.read = 0
        """The number of metered commits."""
        self._runs: dict[str, tuple[str, int]] = {}
        """Runs that may be metered: the step, and the number of commits in the stream."""
        self._behind: dict[str, int] = {}
        """Commits of open runs after the newest boundaries that were routed, by step."""
        looked_at = list(state.runs.values())[:RUNS]
        ends = ends_of(control.store, state, [run.id for run in looked_at])
        for run in looked_at:
            length = ends[run.id].seq + 1 if run.id in ends else 0
            self._runs[run.id] = run.step, length
            behind = (length - run.handled_seq - 1) * len(state.runs) // len(looked_at)
            self._behind[run.step] = self._behind.get(run.step, 0) + behind

    @property
    def commits(self) -> int:
        """Return the number of commits in the execution; an estimate if very many runs are open."""
        return self._state.seq + 1 + sum(self._commit_count(name) for name in self._state.steps)

    def _commit_count(self, step: str) -> int:
        return self._state.steps[step].commits + self._behind.get(step, 0)

    def units(self) -> Mapping[str, Units]:
        """Return the usage of the execution by step, scaled from the sample."""
        from noetl_core.observe.cost import EXECUTION, Units  # 3 ms, as above

        found = self._of_control_stream()
        by_step = {EXECUTION: found.pop(EXECUTION, Units())}
        routing = _together(found.values())
        of_runs, metered = self._of_runs()
        every, all_metered = _together(of_runs.values()), sum(metered.values())
        opened = sum(step.opened for step in self._state.steps.values())
        for name, step in self._state.steps.items():
            own, count = (of_runs[name], metered[name]) if metered.get(name) else (every, all_metered)
            by_step[name] = routing.times(step.opened / max(opened, 1)).plus(own.times(self._commit_count(name) / max(count, 1)))
        return by_step

    def _of_control_stream(self) -> dict[str, Units]:
        """Return the usage of routing, by step. Runs whose boundaries are in the sample become eligible for metering."""
        stream = StreamId(self._state.execution_id)
        found: dict[str, Units] = {}
        parts = parts_of(self._state.seq + 1, PARTS)
        for part, commits in zip(parts, read_concurrently(lambda part: self._read(stream, part), parts), strict=True):
            self._meter(found, part, commits)
            for event in (event for commit in commits for event in commit.events):
                if event.name == "BoundaryRouted":
                    self._runs.setdefault(event.data["run"], (event.data["step"], event.data["seq"] + 1))
        return found

    def _of_runs(self) -> tuple[dict[str, Units], dict[str, int]]:
        """Return the usage of some runs by step, and their numbers of commits."""
        found: dict[str, Units] = {}
        metered: dict[str, int] = {}
        taken: dict[str, int] = {}
        chosen: list[tuple[StreamId, Part]] = []
        for run, (step, length) in self._runs.items():
            if length and taken.get(step, 0) < RUNS_OF_STEP and len(chosen) < RUNS:
                taken[step] = taken.get(step, 0) + 1
                metered[step] = metered.get(step, 0) + length
                chosen += [(StreamId(self._state.execution_id, run), part) for part in parts_of(length, RUN_PARTS)]
        for (_, part), commits in zip(chosen, read_concurrently(lambda each: self._read(*each), chosen), strict=True):
            self._meter(found, part, commits)
        return found, metered

    def _read(self, stream: StreamId, part: Part) -> Sequence[Commit]:
        """Return the commits of a part; for a run, also the commit before it."""
        before = 1 if stream.run_id is not None and part.first > 0 else 0
        return self._control.recent.read(stream, after=part.first - before - 1, limit=part.end - part.first + before)

    def _meter(self, found: dict[str, Units], part: Part, commits: Sequence[Commit]) -> None:
        """Add the usage of a part, multiplied by its weight."""
        from noetl_core.observe.cost import Meter, Units  # 3 ms, as above

        meter = Meter(self._state.execution_id, self._worker_mb)
        for commit in commits:
            run = commit.stream.run_id
            if run is not None:
                meter.of_step(run, self._runs[run][0])
            if commit.seq < part.first:
                meter.goes_on(commit)
            else:
                meter.observe((commit,))
                self.read += 1
        for name, units in meter.by_step.items():
            found[name] = found.get(name, Units()).plus(units.times(part.weight))


def _together(some: Iterable[Units]) -> Units:
    from noetl_core.observe.cost import Units  # 3 ms, as above

    whole = Units()
    for units in some:
        whole = whole.plus(units)
    return whole
