"""Time and cost of recorded executions: pure functions over a record, times and prices.

Percentiles are combined by a seeded simulation. A record is replayed many times. Each request and each delivery takes a time
drawn from its own distribution, independently. An invocation begins when the last request that caused it has begun and its
delivery has taken its time. Requests of one invocation follow each other.

A distribution is given by some percentiles. Between them, the logarithm of the time is linear in the normal score; beyond them
it goes on with the slope of the last piece. Two percentiles are a log-normal distribution.
"""

from __future__ import annotations

import heapq
import random
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import ceil, exp, log
from statistics import NormalDist, fmean

from bench.latency import inputs
from bench.latency.inputs import TARIFF, Time

SEED = 23
Times = Mapping[str, Time]
HOPS: Mapping[str, str] = {"stream": "stream", "queue": "queue", "timer": "queue"}
"""The delivery of each trigger; the caller delivers the others."""
KINDS: Mapping[str, str] = {"put": "put", "delete": "put", "update": "put", "get": "read", "query": "read", "send": "send"}


@dataclass(slots=True)
class Request:
    """A request of a function. `mark`: `end` is a commit that ends a run, `decision` one of the control stream. `inner` is the
    invocation that it waits for."""

    kind: str
    mark: str = ""
    write_units: float = 0.0
    read_units: float = 0.0
    inner: Invocation | None = None


@dataclass(slots=True)
class Invocation:
    """An invocation of a function, and what caused it: requests of other invocations, by position."""

    number: int
    function: str
    trigger: str
    causes: Sequence[tuple[int, int]] = ()
    requests: list[Request] = field(default_factory=list)
    runs: int = 0

    def made(self, mark: str) -> bool:
        return any(request.mark == mark for request in self.requests)


@dataclass(frozen=True, slots=True)
class Record:
    """All invocations of an execution, each after those that caused it. Nested ones are in their requests too."""

    invocations: Sequence[Invocation]
    iterations: int = 0
    """Iterations of its loop, which runs in one worker."""
    in_flight: int = 1

    @property
    def requests(self) -> Iterable[Request]:
        return (request for invocation in self.invocations for request in invocation.requests)


class Draws:
    """Times of services, drawn one after the other."""

    def __init__(self, times: Times, seed: int = SEED) -> None:
        self._random = random.Random(seed)
        self._curves = {name: _curve(time.quantiles) for name, time in times.items()}
        self._times = times

    def __call__(self, name: str) -> float:
        curve = self._curves[name]
        return self._times[name].median if curve is None else _at(curve, self._random.gauss(0.0, 1.0))


Curve = tuple[list[float], list[float]]
"""Normal scores, and the logarithms of times at them."""


def _curve(quantiles: Mapping[float, float]) -> Curve | None:
    if len(quantiles) < 2:
        return None
    shares = sorted(quantiles)
    return [NormalDist().inv_cdf(share) for share in shares], [log(quantiles[share]) for share in shares]


def _at(curve: Curve, score: float) -> float:
    scores, logs = curve
    right = min(max(bisect_left(scores, score), 1), len(scores) - 1)
    slope = (logs[right] - logs[right - 1]) / (scores[right] - scores[right - 1])
    return exp(logs[right] + slope * (score - scores[right]))


def quantile(quantiles: Mapping[float, float], share: float) -> float:
    """Return the time at a share of a distribution given by percentiles."""
    curve = _curve(quantiles)
    return quantiles[0.5] if curve is None else _at(curve, NormalDist().inv_cdf(share))


def percentile(samples: Sequence[float], share: float) -> float:
    """Return the sample below which that share of them lies."""
    return sorted(samples)[min(len(samples) - 1, int(share * len(samples)))]


# --- time -----------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Setting:
    """Memory of the functions, and how many of a queue's messages are taken side by side. `task_ms` is added to each run."""

    memory: Mapping[str, int]
    pollers: int = 1_000
    task_ms: float = 0.0


@dataclass(slots=True)
class Replay:
    """Times of one replay: when requests began and ended, and the milliseconds of each invocation."""

    begun: dict[tuple[int, int], float] = field(default_factory=dict)
    ended: dict[tuple[int, int], float] = field(default_factory=dict)
    duration: dict[int, float] = field(default_factory=dict)


def replay(record: Record, draw: Draws, setting: Setting) -> Replay:
    """Replay a record once with newly drawn times."""
    at = Replay()
    free = [0.0] * setting.pollers
    nested = {request.inner.number for request in record.requests if request.inner is not None}
    for invocation in record.invocations:
        if invocation.number in nested:
            continue
        begin = max((at.begun[cause] for cause in invocation.causes), default=0.0)
        if invocation.trigger in HOPS:
            begin += draw(HOPS[invocation.trigger])
        if invocation.trigger == "queue":
            begin = max(begin, heapq.heappop(free))
        end = _run(invocation, begin, at, draw, setting, record)
        if invocation.trigger == "queue":
            heapq.heappush(free, end)
    return at


def _run(invocation: Invocation, begin: float, at: Replay, draw: Draws, setting: Setting, record: Record) -> float:
    stretch = max(1.0, inputs.WHOLE_PROCESSOR_MB / setting.memory[invocation.function])
    now = begin
    if invocation.function in ("admit", "router", "ask"):
        decides = invocation.made("decision")
        now += stretch * draw("admit" if invocation.function == "admit" else "router" if decides else "stale")
    for position, request in enumerate(invocation.requests):
        if request.mark == "end":
            waves = max(1, ceil(record.iterations / record.in_flight))
            now += waves * setting.task_ms + stretch * (draw("worker") + record.iterations * draw("iteration"))
        at.begun[invocation.number, position] = now
        if request.inner is not None:
            overhead = draw("invoke")
            now = _run(request.inner, now + overhead / 2, at, draw, setting, record) + overhead / 2
        else:
            now += draw(KINDS[request.kind])
        at.ended[invocation.number, position] = now
    at.duration[invocation.number] = now - begin
    return now


def ends(record: Record) -> list[tuple[int, int]]:
    """Return the commits that end runs, in the order of the record."""
    found = [
        (invocation.number, position)
        for invocation in record.invocations
        for position, request in enumerate(invocation.requests)
        if request.mark == "end"
    ]
    return sorted(found)


def step_times(record: Record, times: Times, setting: Setting, replays: int, skipped: int = 2) -> list[float]:
    """Return milliseconds between the ends of steps that follow each other, of a chain; the first steps are skipped."""
    draw = Draws(times)
    order = ends(record)[skipped:]
    samples: list[float] = []
    for _ in range(replays):
        at = replay(record, draw, setting)
        samples += [at.ended[after] - at.ended[before] for before, after in pairwise(order)]
    return samples


def whole_times(record: Record, times: Times, setting: Setting, replays: int) -> list[float]:
    """Return milliseconds from the end of the first step to that of the last one."""
    draw = Draws(times)
    first, *_, last = ends(record)
    replayed = (replay(record, draw, setting) for _ in range(replays))
    return [at.ended[last] - at.ended[first] for at in replayed]


def late_times(record: Record, times: Times, setting: Setting, replays: int) -> list[float]:
    """Return milliseconds from the moment at which a timer is due to the end of the run that waited for it."""
    draw = Draws(times)
    (timer,) = (invocation for invocation in record.invocations if invocation.trigger == "timer")
    (cause,) = timer.causes
    waited = next(end for end in ends(record) if end[0] > timer.number)
    replayed = (replay(record, draw, setting) for _ in range(replays))
    return [at.ended[waited] - at.begun[cause] for at in replayed]


# --- cost -----------------------------------------------------------------------------------------------------------------


def units(record: Record, times: Times, setting: Setting, replays: int = 20) -> dict[str, float]:
    """Return what an execution takes, by the units that are paid. Durations are means of some replays."""
    taken: dict[str, float] = defaultdict(float)
    for request in record.requests:
        taken["dynamodb_write_units"] += request.write_units
        taken["dynamodb_read_units"] += request.read_units
        taken["sqs_requests"] += request.kind == "send"
    for invocation in record.invocations:
        taken["lambda_invocations"] += 1
        taken["api_requests"] += invocation.trigger == "api"
        taken["sqs_requests"] += 2 * (invocation.trigger in ("queue", "timer"))  # received and deleted
    draw = Draws(times)
    replayed = [replay(record, draw, setting) for _ in range(replays)]
    for invocation in record.invocations:
        ms = fmean(at.duration[invocation.number] for at in replayed)
        taken["lambda_gb_seconds"] += ms / 1000 * setting.memory[invocation.function] / 1024
    return dict(taken)


def usd(taken: Mapping[str, float]) -> float:
    return sum(number * TARIFF[name].usd for name, number in taken.items())


def task_function(task_ms: float, memory_mb: int) -> dict[str, float]:
    """Return what a function takes that does a task and nothing else."""
    return {"lambda_invocations": 1.0, "lambda_gb_seconds": task_ms / 1000 * memory_mb / 1024}


def standard(steps: int, task_ms: float, memory_mb: int) -> float:
    """Return dollars of an execution of Step Functions Standard: a transition for each step, each a function."""
    return usd({"transitions": steps}) + steps * usd(task_function(task_ms, memory_mb))


def express(steps: int, at_once: int, task_ms: float, memory_mb: int, state_ms: float = inputs.EXPRESS_STATE_MS) -> float:
    """Return dollars of an execution of Step Functions Express, whose steps run `at_once` side by side."""
    ms = ceil(steps / at_once) * (task_ms + state_ms)
    charged_s = ceil(ms / inputs.EXPRESS_STEP_MS) * inputs.EXPRESS_STEP_MS / 1000
    taken = {"express_requests": 1.0, "express_gb_seconds": charged_s * inputs.EXPRESS_MB / 1024}
    return usd(taken) + steps * usd(task_function(task_ms, memory_mb))


def durable(
    steps: int, at_once: int, task_ms: float, memory_mb: int, times: Times, operations: float = inputs.DURABLE_OPERATIONS
) -> float:
    """Return dollars of an execution of a durable function. A checkpoint takes as long as a synchronous invocation."""
    ms = ceil(steps / at_once) * (task_ms + times["invoke"].median)
    taken = {
        "durable_operations": 1 + steps * operations,
        "lambda_invocations": 1.0,
        "lambda_gb_seconds": ms / 1000 * memory_mb / 1024,
    }
    return usd(taken)
