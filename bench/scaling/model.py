"""Computes the executions a second that each service allows, and their cost: pure functions over counted units, published limits
and the template's parameters.

A stack is as fast as its lowest ceiling. Ceilings are means over seconds; what a burst beyond them does is the simulator's
subject (`tests/sim/limited_ports.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import ceil

from bench.scaling import counted, limits

from noetl_core.adapters.aws.events import SPREAD
from noetl_core.observe.cost import PRICES, ROUTER_MB, ROUTER_MS, WORKER_MB, WORKER_MS, Units

ADMIT_MB = 512
MONTH_S = 30 * 24 * 3600


@dataclass(frozen=True, slots=True)
class Stack:
    """The template's parameters that affect a ceiling, and the account's quotas."""

    api_rate: float
    index_partitions: int
    router_parallelization: int
    worker_concurrency: int
    worker_batch: int = 1
    """The most commands that a worker's invocation runs side by side, if enough of them wait."""
    api: float = limits.API.value
    concurrency: float = limits.CONCURRENCY.value
    table_writes: float = limits.TABLE_WRITES.value
    warm_writes: float = limits.TABLE_WRITES.value
    """Writes a second that the tables accept immediately: as many as they have had before, or were warmed for."""

    @classmethod
    def of(cls, parameters: Mapping[str, float]) -> Stack:
        """A stack with parameters of the template, by their names there."""
        return cls(
            api_rate=parameters["ApiRate"],
            index_partitions=int(parameters["IndexPartitions"]),
            router_parallelization=int(parameters["RouterParallelization"]),
            worker_concurrency=int(parameters["WorkerConcurrency"]),
            worker_batch=int(parameters["WorkerBatchSize"]),
        )


@dataclass(frozen=True, slots=True)
class Load:
    """Executions of one playbook: their steps, the duration of a task, and the length of the playbook's names."""

    steps: int = 1
    task_ms: float = 50.0
    playbook_kb: float = 2.0
    """Compressed, as the catalog stores it."""
    by_version: bool = False
    """Starts name a version or a digest, not just the path."""


@dataclass(frozen=True, slots=True)
class Ceiling:
    """The ceiling of one resource in executions a second, and the means that raise it."""

    what: str
    per_s: float
    why: str
    raised_by: str


def ceilings(load: Load, stack: Stack) -> list[Ceiling]:
    """Return every ceiling, the lowest first."""
    found = [*_api(stack), *_catalog(load, stack), *_log(load, stack), *_functions(load, stack)]
    return sorted(found, key=lambda ceiling: ceiling.per_s)


def _api(stack: Stack) -> list[Ceiling]:
    return [
        Ceiling("the API's own rate", stack.api_rate, "1 request", "`ApiRate`, `ApiBurst`; uploads and schedules bypass it"),
        Ceiling("API Gateway, all APIs of the account", stack.api, "1 request", "the quota"),
    ]


def _catalog(load: Load, stack: Stack) -> list[Ceiling]:
    keys, writes = stack.index_partitions, limits.PARTITION_WRITES.value
    new = min(stack.warm_writes, stack.table_writes)
    found = [
        Ceiling("due items", keys * writes / counted.DUE, _on(counted.DUE, keys), "`IndexPartitions`"),
        Ceiling("list of one path", keys * writes / counted.BY_PATH, _on(counted.BY_PATH, keys), "`IndexPartitions`, more paths"),
        Ceiling("list of the running", keys * writes / counted.RUNNING, _on(counted.RUNNING, keys), "`IndexPartitions`"),
        Ceiling("list of the completed", keys * writes / counted.ENDED, _on(counted.ENDED, keys), "`IndexPartitions`"),
        Ceiling(
            "catalog table and its indexes, quota", stack.table_writes / counted.CATALOG, _units(counted.CATALOG), "the quota"
        ),
        Ceiling("catalog table, new", new / counted.TABLE, _units(counted.TABLE), "earlier traffic; warm throughput"),
    ]
    if not load.by_version:
        reads = ceil(load.playbook_kb / 4)
        per_s = limits.PARTITION_READS.value / reads
        found.append(
            Ceiling(
                "latest version of one path",
                per_s,
                f"{reads} read unit{'s' * (reads > 1)}, 1 key",
                "naming a version or a digest",
            )
        )
    return found


def _log(load: Load, stack: Stack) -> list[Ceiling]:
    units = log_units(load)
    routed = limits.PARTITION_WRITES.value / units * load.steps
    allowed = stack.router_parallelization / (ROUTER_MS / 1000)
    shards = stack.table_writes / limits.PARTITION_WRITES.value
    return [
        Ceiling("log table, quota", stack.table_writes / units, _units(units), "the quota"),
        Ceiling(
            "log table, new",
            min(stack.warm_writes, stack.table_writes) / units,
            _units(units),
            "earlier traffic; warm throughput",
        ),
        Ceiling(
            "routing, a stream shard for each partition of the log",
            min(1.0, allowed / routed) * shards * limits.PARTITION_WRITES.value / units,
            f"{load.steps} x {ROUTER_MS:.0f} ms, {shards:.0f} shards x {stack.router_parallelization}",
            "`RouterParallelization`; the quota, which brings shards",
        ),
    ]


def _functions(load: Load, stack: Stack) -> list[Ceiling]:
    worker_s = (WORKER_MS + load.task_ms) / 1000 * load.steps
    at_once = min(stack.worker_concurrency, limits.POLLERS.value) * stack.worker_batch
    busy = busy_s(load, stack)
    return [
        Ceiling(
            "workers of a pool", at_once / worker_s, f"{worker_s * 1000:.0f} ms", "`WorkerConcurrency` (1,000 at most), pools"
        ),
        Ceiling("invocations of the account", stack.concurrency / busy, f"{busy * 1000:.0f} ms in all", "the quota"),
    ]


def _on(units: int, keys: int) -> str:
    return f"{_units(units)}, {keys} keys"


def _units(units: float) -> str:
    return f"{units:g} write unit{'' if units == 1 else 's'}"


def log_units(load: Load) -> int:
    """Return the write units of an execution in the log."""
    return counted.LOG_OF_EXECUTION + counted.LOG_OF_STEP * load.steps


def busy_s(load: Load, stack: Stack) -> float:
    """Return the seconds of invocations of an execution: admission, its share of full batches of workers, router."""
    worker_ms = (WORKER_MS + load.task_ms) / stack.worker_batch
    return (counted.ADMIT_MS + load.steps * (worker_ms + ROUTER_MS)) / 1000


def first_bends(load: Load, stack: Stack, goal: float) -> list[Ceiling]:
    """Return what is to be raised for `goal` executions a second, in the order in which it is met."""
    return [ceiling for ceiling in ceilings(load, stack) if ceiling.per_s < goal]


def keys_for(per_s: float) -> int:
    """Return the least `IndexPartitions` for `per_s` executions a second of one path: a power of two, 8 at least."""
    keys = 8
    while keys * limits.PARTITION_WRITES.value / counted.DUE < per_s:
        keys *= 2
    return keys


# --- time until the services are as wide as they can be ----------------------------------------------------------------


def pollers_after(seconds: float, stack: Stack) -> float:
    """Return how many batches of a queue Lambda takes at a time after so long under load."""
    grown = limits.POLLERS_AT_FIRST.value + limits.POLLERS_PER_MINUTE.value * seconds / 60
    return min(grown, stack.worker_concurrency, limits.POLLERS.value)


def backlog_after(seconds: int, rate: float, load: Load, stack: Stack, lasting: int) -> float:
    """Return the number of commands that wait after `seconds` of a load that lasts `lasting` seconds and found no pollers."""
    waits = 0.0
    taken_s = (WORKER_MS + load.task_ms) / 1000
    for second in range(seconds):
        arrives = rate * load.steps if second < lasting else 0.0
        waits = max(0.0, waits + arrives - pollers_after(second, stack) * stack.worker_batch / taken_s)
    return waits


# --- loops ----------------------------------------------------------------------------------------------------------------


def iterations_per_s(kind: str) -> float:
    """Return what the log lets through of one loop: one key for a loop in one run, all of an execution's for a spread one."""
    keys = 1 if kind == "local" else SPREAD
    return keys * limits.PARTITION_WRITES.value / counted.ITERATIONS[kind]


# --- the sweeper ------------------------------------------------------------------------------------------------------------


def looked_at_per_minute(sweep_s: float) -> float:
    """Return how many due executions one sweep takes: half of its time it reconciles, the other half it hands them on."""
    half_ms = sweep_s * 1000 / 2
    return half_ms / counted.RECONCILE_MS + half_ms / counted.HAND_OVER_MS


# --- money ----------------------------------------------------------------------------------------------------------------


def units(load: Load) -> Units:
    """Return what an execution takes, by metered unit."""
    taken = Units(
        dynamodb_write_units=log_units(load) + counted.CATALOG,
        dynamodb_read_units=1 + 0.5 * load.steps,
        sqs_requests=counted.QUEUE_REQUESTS * load.steps,
    )
    taken.invoked(1, counted.ADMIT_MS, ADMIT_MB)
    taken.invoked(load.steps, load.steps * (WORKER_MS + load.task_ms), WORKER_MB)
    taken.invoked(load.steps, load.steps * ROUTER_MS, ROUTER_MB)
    return taken


def shares(load: Load) -> dict[str, float]:
    """Return dollars of an execution by service."""
    taken, by_service = units(load), dict[str, float]()
    for name, price in PRICES.items():
        by_service[name] = getattr(taken, name) * price
    return by_service


def per_million_steps(load: Load) -> float:
    """Return dollars of a million steps, with their share of the execution around them."""
    return units(load).cost / load.steps * 1e6


def per_month(load: Load, per_s: float) -> float:
    """Return dollars of thirty days at a rate of executions a second."""
    return units(load).cost * per_s * MONTH_S


def at_full_width(stack: Stack, per_s: float) -> Stack:
    """Return a stack whose parameters and quotas are raised for `per_s` executions a second."""
    return replace(
        stack,
        api_rate=per_s,
        api=max(stack.api, per_s),
        index_partitions=keys_for(per_s),
        router_parallelization=int(limits.STREAM_PARALLEL.value),
        worker_concurrency=int(limits.POLLERS.value),
    )
