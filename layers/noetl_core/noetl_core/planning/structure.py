"""Computes the time and the cost of steps from their playbook alone, with defaults for each kind of task."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from noetl_core.dsl.kinds import WAITING_KINDS
from noetl_core.dsl.model import Loop, Playbook, Step, Task
from noetl_core.dsl.numbers import WAIT, BadNumber, duration
from noetl_core.expr import Scope, TemplateError, referenced, render
from noetl_core.observe.cost import ROUTER_MB, ROUTER_MS, WORKER_MB, WORKER_MS, Units
from noetl_core.values.frozen import frozen
from noetl_core.values.mappings import deep_merge

FAST: Final = (0.001, 0.01, 0.1)
SERVICE: Final = (0.05, 0.5, 10.0)
WORK: Final = (0.01, 0.5, 60.0)
LONG: Final = (30.0, 120.0, 3600.0)
SECONDS: Final[Mapping[str, tuple[float, float, float]]] = {
    **dict.fromkeys(("noop", "store", "kv", "artifact", "secrets"), FAST),
    **dict.fromkeys(("postgres", "duckdb", "snowflake", "python", "shell"), WORK),
    "llm": (1.0, 5.0, 60.0),
    "playbook": (0.1, 1.0, 60.0),
    "transfer": (0.1, 5.0, 600.0),
    **dict.fromkeys(("container", "quantum"), LONG),
}
"""The least, usual and most seconds of a call; those of `SERVICE` for other kinds."""
ITERATIONS: Final = (1, 10, 100)
"""The iterations of a loop whose collection is not known."""
HOP_S: Final = 0.25
"""The most seconds between a step and the next, which the stream takes on AWS."""
WRITES, READS, REQUESTS, ITERATION_WRITES = 3, 1, 3, 0.1
"""The units of a run of a step with one task, and the write units of an iteration."""


@frozen
class Range:
    """The least, the usual and the most of something."""

    low: float
    typical: float
    high: float

    def plus(self, other: Range) -> Range:
        return Range(self.low + other.low, self.typical + other.typical, self.high + other.high)

    def as_dict(self, digits: int) -> dict[str, float]:
        return {name: round(getattr(self, name), digits) for name in ("low", "typical", "high")}


NOTHING: Final = Range(0, 0, 0)


@frozen
class Structural:
    """The seconds and the cost of one run of a step, and the assumptions behind them."""

    seconds: Range
    cost: Range
    assumes: tuple[str, ...]


def iterations_of(loop: Loop, workload: Mapping[str, Any], names: frozenset[str] | None = None) -> int | None:
    """Return the number of iterations of a loop whose collection is written in the playbook, or is read from the workload alone;
    with `names`, from one of these keys. None where it is not known before the execution."""
    source = loop.in_
    if loop.cursor is not None:
        return None
    if isinstance(source, str):
        paths = referenced(source)
        keys = {path[1] if path[0] == "workload" and len(path) > 1 else path[0] for path in paths}
        if not paths or not keys <= workload.keys() or (names is not None and not keys & names):
            return None
        try:
            source = render(source, Scope({"workload": workload}))
        except TemplateError:
            return None
    elif names is not None:
        return None
    return len(source) if source and isinstance(source, list | dict) else None  # an empty default is replaced


def workload_of(playbook: Playbook, payload: Mapping[str, Any]) -> dict[str, Any]:
    """Return the defaults with the payload merged over them."""
    return deep_merge(dict(playbook.workload), payload)


def of_step(step: Step, workload: Mapping[str, Any]) -> Structural:
    """Return the time and the cost of one run of a step."""
    assumes: list[str] = []
    seconds, busy = NOTHING, NOTHING
    for task in step.tasks:
        one, assumed = _of_task(task)
        seconds = seconds.plus(one)
        busy = busy.plus(NOTHING if task.kind in WAITING_KINDS else one)
        assumes.append(f"{step.name}: {task.name} ({task.kind}) {assumed}")
    known = None if step.loop is None else iterations_of(step.loop, workload)
    numbers = (1, 1, 1) if step.loop is None else ITERATIONS if known is None else (known, known, known)
    if step.loop is not None:
        low, usual, most = numbers
        how = f"{usual} iterations, as the workload says" if known is not None else f"{low} to {most} iterations, by default"
        assumes.append(f"{step.name}: {how}")
    concurrency = _concurrency(step.loop)
    counts = Range(*map(float, numbers))
    lasting = Range(
        *(getattr(seconds, part) * max(1.0, getattr(counts, part) / concurrency) for part in ("low", "typical", "high"))
    )
    cost = Range(*(_cost(getattr(busy, part), getattr(counts, part)) for part in ("low", "typical", "high")))
    return Structural(Range(lasting.low, lasting.typical, lasting.high + HOP_S), cost, tuple(assumes))


def reached(playbook: Playbook) -> tuple[dict[str, bool], list[str]]:
    """Return the steps that an execution may run, each with True if it certainly does, and the steps of the shortest way to an
    end."""
    found: dict[str, bool] = {playbook.entry_step: True}
    ways: dict[str, list[str]] = {playbook.entry_step: [playbook.entry_step]}
    queue, shortest = [playbook.entry_step], None
    while queue:
        name = queue.pop(0)
        arcs, router = _arcs(playbook.by_name[name]), playbook.by_name[name].router
        if shortest is None and (not arcs or all(arc.when is not None for arc in arcs)):
            shortest = ways[name]
        for number, arc in enumerate(arcs):
            every = router is not None and router.mode == "inclusive"
            certain = found[name] and arc.when is None and (every or number == 0)
            if arc.step not in found:
                queue.append(arc.step)
                ways[arc.step] = [*ways[name], arc.step]
            found[arc.step] = found.get(arc.step, False) or certain
    return found, shortest or [playbook.entry_step]


def _arcs(step: Step) -> tuple[Any, ...]:
    return () if step.router is None else step.router.arcs


def _of_task(task: Task) -> tuple[Range, str]:
    """Return the seconds of a task, retries included, and how they are assumed."""
    if task.kind == "wait":
        try:
            value = task.inputs.get("duration", task.inputs.get("seconds"))
            waits = duration(value, WAIT, "duration")
            return Range(waits, waits, waits), f"waits {waits:g} s"
        except BadNumber:
            return NOTHING, "waits for a time that is not known in advance and is not counted"
    if task.kind == "callback":
        return NOTHING, "waits for an answer, which is not counted"
    low, usual, most = SECONDS.get(task.kind, SERVICE)
    if isinstance(task.timeout_s, int | float):
        most = min(most, float(task.timeout_s))
    low, usual = min(low, most), min(usual, most)
    attempts, pause = max(_retries(task), default=(1, 0.0))
    text = f"takes {low:g} to {most:g} s, by default"
    if attempts > 1:
        text += f", and up to {attempts} attempts"
    if any(rule.then.do == "jump" for rule in (() if task.policy is None else task.policy.rules)):
        text += "; its jumps are not counted"
    return Range(low, usual, most * attempts + pause * (attempts - 1)), text


def _retries(task: Task) -> Iterator[tuple[int, float]]:
    """Yield the attempts of each rule that retries, and its delay in seconds, where they are written."""
    for rule in () if task.policy is None else task.policy.rules:
        if rule.then.do == "retry" and isinstance(rule.then.attempts, int):
            delay = rule.then.max_delay if rule.then.max_delay is not None else rule.then.delay
            yield rule.then.attempts, float(delay) if isinstance(delay, int | float) else 0.0


def _concurrency(loop: Loop | None) -> float:
    if loop is None or loop.mode != "parallel":
        return 1.0
    return float(loop.max_in_flight) if isinstance(loop.max_in_flight, int) else 1.0


def _cost(seconds: float, iterations: float) -> float:
    """Return the cost in US dollars of one run of a step, whose worker works for `seconds` in each of its iterations."""
    units = Units(WRITES + ITERATION_WRITES * iterations, READS, REQUESTS)
    units.invoked(1, seconds * 1000 * iterations + WORKER_MS, WORKER_MB)
    units.invoked(1, ROUTER_MS, ROUTER_MB)
    return units.cost
