"""Computes what an execution costs on AWS at list prices, from its log (docs/looking.md, "Cost"). *Read from the log:* write
units (every commit is encoded again as it is stored, and priced by its size), claims, worker invocations and how long each held
its run, stored objects. *Read from outcomes:* the tokens that tasks of kind `llm` used, at their own prices. *Derived from how
the system works:* read units, queue requests, the router's invocations and their duration, items in the catalog table. An
execution of the local store is priced as if its commits had been written on AWS, with its local durations."""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields
from math import ceil
from typing import Any

from noetl_core.engine.records import Commit
from noetl_core.events.event import Event, opens_run
from noetl_core.events.table import CLAIMS_RUN, OPERATED
from noetl_core.log.codec import LEVEL, encode_events

EXECUTION = "(execution)"
"""The row for costs that belong to no step: the request, heads, due items."""
PRICES: Mapping[str, float] = {
    "dynamodb_write_units": 0.625e-6,
    "dynamodb_read_units": 0.125e-6,
    "sqs_requests": 0.40e-6,
    "lambda_invocations": 0.20e-6,
    "lambda_gb_seconds": 13.3334e-6,
    "s3_puts": 5.0e-6,
    "s3_gets": 0.40e-6,
}
"""US dollars each, on demand, us-east-1, arm64, without free tiers."""
WORKER_MB, ROUTER_MB = 1769, 1024
"""Memory of the functions: the defaults of template.yaml."""
ROUTER_MS = 15.0
"""Duration of a warm routing invocation: one fold from the cache, one put, one send."""
WORKER_MS = 5.0
"""Duration of an invocation besides its run: receiving the message, returning the result."""
CONTROL_HEADER, RUN_HEADER = 150, 190
"""Bytes of an item beside its body: keys, version, writer, times."""
MAX_BODY = 300 * 1024
"""A larger body is an object in S3."""
HEAD_UNITS, HEAD_MOVED_UNITS = 3, 5
"""A head is an item with copies in two indexes. A new status moves it in both, with two writes each."""
DUE_UNITS, DUE_MOVED_UNITS = 2, 3
"""A due item has a copy in one index."""
BATCH = 10
"""Maximum number of commands in one request to the queue."""


@dataclass(slots=True)
class Units:
    """Metered units. `lambda_ms` is shown beside the GB-seconds that are paid."""

    dynamodb_write_units: float = 0
    dynamodb_read_units: float = 0
    sqs_requests: float = 0
    lambda_invocations: float = 0
    lambda_ms: float = 0
    lambda_gb_seconds: float = 0
    s3_puts: float = 0
    s3_gets: float = 0
    llm_input_tokens: float = 0
    llm_output_tokens: float = 0
    llm_usd: float = 0
    """Cost of language model services, by the prices that their tasks state."""

    def invoked(self, times: float, ms: float, mb: int) -> None:
        self.lambda_invocations += times
        self.lambda_ms += ms
        self.lambda_gb_seconds += ms / 1000 * mb / 1024

    def plus(self, other: Units) -> Units:
        return Units(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(Units)))

    def times(self, number: float) -> Units:
        return Units(*(getattr(self, f.name) * number for f in fields(Units)))

    @property
    def cost(self) -> float:
        return float(sum(getattr(self, name) * price for name, price in PRICES.items())) + self.llm_usd

    def as_dict(self) -> dict[str, Any]:
        units = {k: round(v, 9 if k == "llm_usd" else 3) if v != int(v) else int(v) for k, v in asdict(self).items()}
        return {"units": units, "cost": round(self.cost, 9)}


@dataclass
class Meter:
    """Folds the commits of an execution, in causal order."""

    execution_id: str
    worker_mb: int = WORKER_MB
    router_mb: int = ROUTER_MB
    by_step: dict[str, Units] = field(default_factory=dict)
    runs: dict[str, int] = field(default_factory=dict)
    _step_of: dict[str, str] = field(default_factory=dict)
    _began: dict[str, int] = field(default_factory=dict)
    """The time when the worker that holds a run claimed it."""
    _claimed: dict[str, str] = field(default_factory=dict)
    """The worker for which a run was scheduled: its command was in no queue."""
    _objects: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._key = re.compile(rb'"key":"(' + self.execution_id.encode() + rb'/[^"]+)"')

    def observe(self, commits: Iterable[Commit]) -> None:
        for commit in commits:
            if commit.stream.run_id is None:
                self._control(commit)
            else:
                self._run(commit, commit.stream.run_id)

    def as_dict(self) -> dict[str, Any]:
        """Return the form of `priced`."""
        return priced(self.by_step, self.runs)

    def goes_on(self, commit: Commit) -> None:
        """Fold a commit without metering it. Later commits depend on it: one of a run has the time of the worker's claim."""
        run = commit.stream.run_id
        if run is not None and not commit.wake and not any(event.name == "StepReleased" for event in commit.events):
            self._began[run] = commit.ts

    def of_step(self, run: str, step: str) -> None:
        """Set the step of a run whose opening commit is not metered."""
        self._step_of[run] = step

    def _units(self, step: str) -> Units:
        return self.by_step.setdefault(step, Units())

    def _control(self, commit: Commit) -> None:
        units = self._units(next((e.data["step"] for e in commit.events if e.name == "BoundaryRouted"), EXECUTION))
        self._write(units, commit, CONTROL_HEADER)
        if commit.seq == 0:
            units.dynamodb_write_units += HEAD_UNITS + DUE_UNITS
        else:
            units.invoked(1, ROUTER_MS, self.router_mb)
        commands = 0
        for event in commit.events:
            if opens_run(event):
                step = event.data["step"]
                self._step_of[event.data["run"]] = step
                self.runs[step] = self.runs.get(step, 0) + (event.name == "StepScheduled")
                if event.name == "StepScheduled" and (claim := event.data.get("claim")) is not None and claim["ask"]:
                    self._claimed[event.data["run"]] = claim["worker"]
                else:
                    commands += 1
                    if "claim" in event.data:  # a worker in a process of its own writes this claim
                        self._units(step).dynamodb_write_units += 1
            elif event.name in ("StepDone", "StepFailed"):
                commands -= 1  # a step without tasks, or one not admitted: decided in the same pass
            elif event.name == "ResumeScheduled":
                commands += 1
                self._units(EXECUTION).dynamodb_write_units += DUE_MOVED_UNITS
            elif event.name == "TimerFired":
                units.sqs_requests += 3  # the delayed wake: sent, received, deleted
            elif event.name in OPERATED and event.name != "ExecutionRedriven":
                units.dynamodb_write_units += HEAD_MOVED_UNITS + 1  # and the gate
            elif event.name == "PlaybookProcessed":
                self._units(EXECUTION).dynamodb_write_units += HEAD_MOVED_UNITS + DUE_UNITS
        units.sqs_requests += ceil(max(0, commands) / BATCH)

    def _run(self, commit: Commit, run: str) -> None:
        units = self._units(self._step_of.get(run, EXECUTION))
        self._write(units, commit, RUN_HEADER)
        first = commit.events[0].name if commit.events else ""
        begin = commit.events[0] if commit.events else None
        if begin is not None and begin.name == "StepStarted" and begin.data["worker"] == self._claimed.get(run):
            self._began[run] = begin.ts  # in the invocation of the run before
        elif first in CLAIMS_RUN:
            self._began[run] = commit.ts
            units.invoked(1, WORKER_MS, self.worker_mb)
            units.sqs_requests += 2  # received and deleted
            units.dynamodb_read_units += 0.5  # the gate
            if first == "StepResumed":
                units.dynamodb_read_units += 1  # reading earlier commits of the run
        else:
            units.dynamodb_read_units += 0 if commit.wake else 0.5  # the gate again
        for event in commit.events:
            _add_llm_usage(units, event)
        if any(e.data.get("source") == "server" for e in commit.events):
            return  # the control plane ended it: no worker held it for that
        began = self._began.get(run)
        if began is not None:
            units.invoked(0, (commit.ts - began) / 1000, self.worker_mb)
            self._began[run] = commit.ts
            if commit.wake:
                del self._began[run]

    def _write(self, units: Units, commit: Commit, header: int) -> None:
        body = encode_events(commit.events)
        size = min(len(body), len(zlib.compress(body, LEVEL)))
        if size > MAX_BODY:
            units.s3_puts += 1
            size = 100
        units.dynamodb_write_units += ceil((size + header) / 1024)
        for key in self._key.findall(body):
            if key not in self._objects:
                self._objects.add(key)
                units.s3_puts += 1


def priced(by_step: Mapping[str, Units], runs: Mapping[str, int]) -> dict[str, Any]:
    """Return `{currency, total: {units, cost}, steps: {name: {runs, units, cost}}, prices}`."""
    total = Units()
    for units in by_step.values():
        total = total.plus(units)
    steps = {name: {"runs": runs.get(name, 0), **units.as_dict()} for name, units in by_step.items()}
    return {"currency": "USD", "total": total.as_dict(), "steps": steps, "prices": dict(PRICES)}


def _add_llm_usage(units: Units, event: Event[Any, Any]) -> None:
    """Add the language model usage of an attempt."""
    used = event.data["outcome"]["meta"].get("llm") if event.name == "TaskProcessed" else None
    if isinstance(used, Mapping):
        units.llm_input_tokens += used.get("input_tokens", 0)
        units.llm_output_tokens += used.get("output_tokens", 0)
        units.llm_usd += used.get("usd", 0)
