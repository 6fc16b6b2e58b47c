"""Computes the time and the cost of an execution as ranges: from past executions of its playbook, and for steps that none of
them has from `structure`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import exp, log, sqrt
from statistics import mean, median, stdev
from typing import Any, Final

from noetl_core.dsl.model import Playbook, Step
from noetl_core.observe.cost import WORKER_MB, Units
from noetl_core.planning.structure import NOTHING, Range, Structural, iterations_of, of_step, reached, workload_of

START: Final = Units(13, 0, 1)
"""The units of an execution besides its steps: its request, its heads, its end."""
USD_DIGITS: Final = 9
FEW: Final = 5
"""Fewer past executions than these tell no spread."""
STUDENT: Final = (
    2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23, 2.20, 2.18, 2.16, 2.14, 2.13, 2.12, 2.11, 2.10, 2.09, 2.09,
)  # fmt: skip
"""The 97.5th percentiles of Student's distribution with 4, 5, ... degrees of freedom, one fewer than executions."""
LEAST, MOST = 1e-9, 1e9
"""Bounds of what is computed, in seconds and in US dollars."""


@dataclass(frozen=True)
class PastStep:
    """A step in a past execution: its runs, the iterations and retries of all of them, their seconds and their cost."""

    runs: int
    seconds: float
    cost: float
    iterations: int | None = None
    retries: int = 0


@dataclass(frozen=True)
class PastRun:
    """A past execution that completed: its seconds, its cost in US dollars, and its steps by name."""

    seconds: float
    cost: float
    steps: Mapping[str, PastStep]


@dataclass(frozen=True)
class PlannedStep:
    """The forecast of a step. `share` is the part of the past executions that ran it; None: there is none that has it."""

    name: str
    seconds: Range
    cost: Range
    share: float | None


@dataclass(frozen=True)
class Forecast:
    """The time and the cost of an execution, with its steps and with what is assumed."""

    path: str
    runs: int
    seconds: Range
    cost: Range
    steps: Sequence[PlannedStep]
    assumes: Sequence[str] = field(default=())

    def as_dict(self) -> dict[str, Any]:
        steps = [
            {"step": s.name, "seconds": s.seconds.as_dict(3), "cost": s.cost.as_dict(USD_DIGITS), "share": s.share}
            for s in self.steps
        ]
        return {
            "path": self.path,
            "runs": self.runs,
            "seconds": self.seconds.as_dict(3),
            "cost": {"currency": "USD", **self.cost.as_dict(USD_DIGITS)},
            "steps": steps,
            "assumes": list(self.assumes),
        }


def forecast(playbook: Playbook, past: Sequence[PastRun], payload: Mapping[str, Any] | None = None) -> Forecast:
    """Return the forecast of an execution with a payload, from past executions of the playbook, which completed."""
    workload = workload_of(playbook, payload or {})
    steps, assumes = [], []
    least: dict[str, Structural] = {}
    for name, certain in reached(playbook)[0].items():
        step = playbook.by_name[name]
        seen = [run.steps[name] for run in past if name in run.steps]
        if seen:
            steps.append(_of_runs(step, seen, len(past)))
            assumes += _of_past(step, seen, len(past), _payload_iterations(step, workload, payload))
        else:
            structural = of_step(step, workload)
            least[name] = structural
            low = 1 if certain else 0
            seconds, cost = (Range(each.low * low, each.typical, each.high) for each in (structural.seconds, structural.cost))
            steps.append(PlannedStep(name, seconds, cost, None))
            if past:
                assumes.append(f"{name}: no past execution ran it")
            assumes += structural.assumes
    if past:
        seconds, cost = _of_past_runs(playbook, past, steps, workload, payload)
    else:
        seconds, cost = _of_structure(playbook, steps, least)
    if past:
        few = "from half the least to twice the most, because fewer than 5 past executions show no spread"
        how = "19 of 20 executions, by the spread of the past ones" if len(past) >= FEW else few
        assumes.append(f"range: {how}; the typical value is the median")
    else:
        assumes.append(
            "no past execution: each step at most once; the least is the shortest path, the most is all steps one after another"
        )
    assumes.append(f"prices: list prices of AWS (us-east-1), workers of {WORKER_MB} MB; {_model_prices(playbook, past)}")
    return Forecast(playbook.path, len(past), seconds, cost, steps, tuple(assumes))


def _model_prices(playbook: Playbook, past: Sequence[PastRun]) -> str:
    asks = any(task.kind == "llm" for step in playbook.steps for task in step.tasks)
    return "language models are not counted" if asks and not past else "services outside are not counted"


def _of_runs(step: Step, seen: Sequence[PastStep], runs: int) -> PlannedStep:
    seconds, cost = _range([one.seconds for one in seen]), _range([one.cost for one in seen])
    return PlannedStep(step.name, seconds, cost, round(len(seen) / runs, 3))


def _of_past(step: Step, seen: Sequence[PastStep], runs: int, iterations: int | None) -> list[str]:
    """Return what is assumed of a step that past executions ran."""
    last = f"the last {runs} runs" if runs > 1 else "the last run"
    found = []
    if len(seen) < runs:
        found.append(f"{step.name}: in {len(seen)} of {runs} runs")
    if iterations is not None:
        found.append(f"{step.name}: {_count(iterations, 'iteration')}, as the payload says")
    else:
        found += _counted(step.name, "iteration", [one.iterations for one in seen if one.iterations is not None], last)
    found += _counted(step.name, "run", [one.runs for one in seen], last) if any(one.runs != 1 for one in seen) else []
    found += _counted(step.name, "retry", [one.retries for one in seen], last) if any(one.retries for one in seen) else []
    return found


def _counted(name: str, what: str, numbers: Sequence[int], last: str) -> list[str]:
    if not numbers:
        return []
    usual, low, high = int(median(numbers)), min(numbers), max(numbers)
    return [f"{name}: {_count(usual, what)}, as in {last}" + (f": {low}..{high}" if low < high else "")]


def _count(number: int, what: str) -> str:
    return f"{number} {what if number == 1 else 'retries' if what == 'retry' else what + 's'}"


def _payload_iterations(step: Step, workload: Mapping[str, Any], payload: Mapping[str, Any] | None) -> int | None:
    """Return the iterations of a loop over what the payload gives."""
    return None if step.loop is None or not payload else iterations_of(step.loop, workload, frozenset(payload))


def _of_structure(playbook: Playbook, steps: Sequence[PlannedStep], least: Mapping[str, Structural]) -> tuple[Range, Range]:
    """Return the time and the cost of all steps; the least are those of the shortest way."""
    way = [least[name] for name in reached(playbook)[1]]
    seconds, cost = NOTHING, Range(START.cost, START.cost, START.cost)
    for step in steps:
        seconds, cost = seconds.plus(step.seconds), cost.plus(step.cost)
    shortest = sum(one.seconds.low for one in way), START.cost + sum(one.cost.low for one in way)
    return Range(shortest[0], seconds.typical, seconds.high), Range(shortest[1], cost.typical, cost.high)


def _of_past_runs(
    playbook: Playbook,
    past: Sequence[PastRun],
    steps: Sequence[PlannedStep],
    workload: Mapping[str, Any],
    payload: Mapping[str, Any] | None,
) -> tuple[Range, Range]:
    """Return the time and the cost of past executions, without steps that were removed, with those that are new, and with the
    iterations that the payload gives."""
    iterations = {step.name: n for step in playbook.steps if (n := _payload_iterations(step, workload, payload)) is not None}
    times, costs = [], []
    for run in past:
        time, price = run.seconds, run.cost
        for name, one in run.steps.items():
            if name not in playbook.by_name:  # it was removed
                time, price = time - one.seconds, price - one.cost
            elif name in iterations and one.iterations:
                factor = iterations[name] / one.iterations - 1
                time, price = time + one.seconds * factor, price + one.cost * factor
        times.append(max(time, 0.0))
        costs.append(max(price, START.cost))
    more_time, more_cost = NOTHING, NOTHING
    for step in (step for step in steps if step.share is None):
        more_time, more_cost = more_time.plus(step.seconds), more_cost.plus(step.cost)
    return _range(times).plus(more_time), _range(costs).plus(more_cost)


def _range(values: Sequence[float]) -> Range:
    """Return the median, with bounds between which 19 of 20 further values lie if they are spread as these: a prediction
    interval of their logarithms, and at least the least and the most of them. `FEW` tell no spread: half and twice."""
    if len(values) < FEW:
        return Range(min(values) / 2, median(values), max(values) * 2)
    logs = [log(max(value, LEAST)) for value in values]
    number = len(logs)
    width = STUDENT[min(number - FEW, len(STUDENT) - 1)] * stdev(logs) * sqrt(1 + 1 / number)
    low, high = (exp(min(mean(logs) + sign * width, log(MOST))) for sign in (-1, 1))
    return Range(min(low, *values), median(values), max(high, *values))
