"""The tool caller of an activation: it calls tools, stores large values in the result store, masks secrets in events, and
reads the gate."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import lru_cache
from hashlib import sha256
from typing import Any

from noetl_core.dsl.model import Playbook, Task
from noetl_core.dsl.numbers import TIMEOUT, value_of
from noetl_core.engine.outcome import LONGEST, Outcome
from noetl_core.engine.pipeline import SECOND, Pipeline
from noetl_core.engine.records import Event
from noetl_core.expr import Scope, TemplateError, contains_secret, is_reference, mask
from noetl_core.ports import Clock, Gates, NotFound, PortError, ResultStore
from noetl_core.tools.base import SecretReader, Tool, ToolCall
from noetl_core.tools.invoke import invoke
from noetl_core.tools.registry import ToolRegistry, UnknownKind
from noetl_core.values import MARK, FamilyResults
from noetl_core.worker.inputs import TaskReferences, loaded
from noetl_core.worker.journal import FLUSH_EVERY_S, HEARTBEAT_S, Fenced, Journal
from noetl_core.worker.task_log import TaskLog
from noetl_core.worker.view import Resolver, named

MARGIN_S = 5
"""What is left of the invocation when a tool must have ended, for the commit that records it."""


class Cancelled(Exception):
    """The gate says stop. The control plane decides how the run ended."""


@dataclass(slots=True, eq=False)
class StartedTask:
    """A task that has started. The lease heartbeat records `TaskStarted` when it takes long. `cancelled` belongs to its call."""

    data: Mapping[str, Any]
    since: int
    cancelled: threading.Event
    announced: bool = False


@dataclass
class ToolCaller:
    """Everything a runner needs of the outside world during one activation."""

    playbook: Playbook
    execution_id: str
    run_id: str
    tools: ToolRegistry
    results: ResultStore
    resolve: Resolver
    gates: Gates
    clock: Clock
    journal: Journal
    credentials: SecretReader
    trace_id: str | None = None
    undoing: bool = False
    gate: str = "run"
    being_ended: bool = False
    """Whether the control plane is ending this run for a reason of its own: then it writes the next position."""
    fenced: Fenced | None = None
    cancelled: threading.Event = field(default_factory=threading.Event)
    started_tasks: set[StartedTask] = field(default_factory=set)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    tainted: bool = False
    """Whether secrets may be present: read from the keychain, or returned by a tool. Before that nothing needs masking."""

    def __post_init__(self) -> None:
        self.family_results = FamilyResults(self.results, self.resolve.family, self.execution_id)
        self.tainted = bool(self.playbook.keychain)

    # --- the gate and the lease heartbeat --------------------------------------------------------------------------

    def read_gate(self) -> None:
        gate = self.gates.gate(self.execution_id)
        self.being_ended = self.run_id in gate.stopped_runs
        self.gate = "stop" if self.being_ended else gate.mode
        if self.undoing and gate.mode == "stop" and not self.being_ended:
            self.gate = "run"  # what undoes a cancelled execution runs while the rest is stopped
        if self.gate == "stop":
            self.stop()

    def stop(self) -> None:
        """Tell every running tool that its outcome is no longer needed."""
        with self._lock:
            self.cancelled.set()
            for started_task in self.started_tasks:
                started_task.cancelled.set()

    def check(self) -> None:
        """Raise what the lease heartbeat found out: `Fenced`; or `Cancelled` when the gate says stop."""
        if self.fenced is not None:
            raise self.fenced
        if self.gate == "stop":
            raise Cancelled(self.execution_id)

    def renew_lease(self, now: int) -> None:
        """Record tasks that take long, commit, and renew the lease. The heartbeat thread calls this about twice a second."""
        try:
            with self._lock:
                for started_task in self.started_tasks:
                    if not started_task.announced and now - started_task.since >= FLUSH_EVERY_S * SECOND:
                        started_task.announced = True
                        self.journal.put(Event("TaskStarted", started_task.since, started_task.data))
            silent = now - self.journal.flushed_at
            wrote = self.journal.flush() if self.journal.due(now) else False
            if not wrote and silent >= HEARTBEAT_S * SECOND:
                wrote = self.journal.flush(heartbeat=True)
            if wrote:
                self.read_gate()
        except Fenced as fenced:
            self.fenced = fenced
            self.stop()
        except PortError:
            return  # the next heartbeat tries again; a lease that ends is taken over

    # --- calling --------------------------------------------------------------------------------------------------------

    def timeout_of(self, task: Task, scope: Scope) -> float | None:
        """Return the task's timeout in seconds, after checking the timeouts of its parts. Raises `TemplateError`."""
        parts = task.spec.get("timeout")
        for part, value in parts.items() if isinstance(parts, Mapping) else ():
            value_of(value, TIMEOUT, f"timeout.{part} of task {task.name}", scope)
        return value_of(task.timeout_s, TIMEOUT, f"timeout_s of task {task.name}", scope)

    def prepare(
        self,
        task: Task,
        inputs: Mapping[str, Any],
        spec: Mapping[str, Any],
        pipe: Pipeline,
        step: str,
        execution_id: str,
        timeout: float | None,
        deadline: int | None,
    ) -> ToolCall:
        """Return the call of a task. Its timeout ends before the deadline of the invocation."""
        if deadline is not None:
            left = max((deadline - self.clock.now()) / SECOND - MARGIN_S, 1.0)
            timeout = left if timeout is None else min(timeout, left)
        return ToolCall(
            kind=task.kind,
            inputs=inputs,
            spec=spec,
            execution_id=execution_id,
            step=step,
            task=task.name,
            task_run_id=pipe.task_run(task),
            attempt=pipe.attempt,
            visit=pipe.visit(task),
            path=pipe.path,
            timeout_s=timeout,
            cancelled=self.cancelled if self.tools.inline(task.kind) else threading.Event(),
            results=self.family_results,
            references=TaskReferences(task.name, self.resolve, self.playbook.executor.limits.max_input_bytes),
            secrets=self.credentials,
            log=TaskLog(),
        )

    def begun(self, call: ToolCall, path: list[int], now: int) -> StartedTask:
        """Register a task that begins, so that the lease heartbeat can record it if it takes long."""
        data: dict[str, Any] = {"task": call.task, "run": call.task_run_id, "attempt": call.attempt}
        if path:
            data["path"] = path
        started_task = StartedTask(data, now, call.cancelled)
        with self._lock:
            self.started_tasks.add(started_task)
            if self.cancelled.is_set():
                started_task.cancelled.set()
        return started_task

    def ended(self, started_task: StartedTask) -> int | None:
        """Unregister a task that has ended or was abandoned. Returns when it started, or None if `TaskStarted` was already
        recorded."""
        with self._lock:
            self.started_tasks.discard(started_task)
            return None if started_task.announced else started_task.since

    def invoke(self, call: ToolCall, started_task: StartedTask) -> Outcome:
        """Run the tool."""
        return self.measured(invoke(self._tool(call.kind), call), call, started_task)

    def measured(self, outcome: Outcome, call: ToolCall, started_task: StartedTask) -> Outcome:
        """Return the outcome with the metadata of the attempt: its times, its duration and its log."""
        meta = {**self.meta(call.attempt, started_task.since, self.clock.now()), **outcome.meta}
        if isinstance(call.log, TaskLog) and call.log:
            meta["log"] = call.log
        return replace(outcome, meta=meta)

    def meta(self, attempt: int, started: int, finished: int) -> dict[str, Any]:
        """Return `outcome.meta`: attempt, duration, timestamps, and the execution's trace id if it has one (formal
        specification 5)."""
        out = {
            "attempt": attempt,
            "duration_ms": round((finished - started) / 1000, 3),
            "started_at": _instant(started),
            "finished_at": _instant(finished),
        }
        return out if self.trace_id is None else {**out, "trace_id": self.trace_id}

    def _tool(self, kind: str) -> Tool:
        try:
            return self.tools.get(kind)
        except UnknownKind as unknown:
            return _Unsupported(kind, str(unknown))

    # --- values ---------------------------------------------------------------------------------------------------------

    def loaded(self, task: Task, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """Return the task's rendered inputs, or its spec, with references replaced by values (`inputs.loaded`). Raises
        `Unloaded`."""
        return loaded(task.kind, task.name, inputs, self.resolve, self.playbook.executor.limits.max_input_bytes)

    def behind(self, value: Any, deep: bool) -> Any:
        """Return the value of a reference; with `deep`, also the values of references inside it. Raises `TemplateError`."""
        if not deep:
            return self.resolve(value) if is_reference(value) else value
        try:
            return self.resolve.whole(value)
        except (NotFound, ValueError) as error:
            raise TemplateError(str(error)) from None

    def small(self, value: Any, name: str) -> Any:
        """Return `value` itself when it is within the inline limit, otherwise a reference to it under
        `<execution_id>/<name>-...`.

        Raises `NotJson` for a value that the log cannot hold. A value with secrets in it is returned as it is: the log gets
        it masked.
        """
        if (
            value is None
            or type(value) is bool
            or type(value) is int
            or (is_reference(value) and self.resolve.family.owns(value))
        ):
            return value
        executor = self.playbook.executor
        try:
            body = encode(value)
        except NotJson:
            if contains_secret(value):
                self.tainted = True
                return value
            raise
        first = executor.reference_first and type(value) in (list, dict) and value
        if not first and (len(body) <= executor.limits.max_payload_bytes or not value or type(value) is float):
            return value  # numbers, and what is empty, are asked about as they stand
        return self.referenced(value, body, name)

    def referenced(self, value: Any, body: bytes, name: str) -> dict[str, Any]:
        """Store `body`, the JSON text of `value`, and return a reference to it."""
        ref = self.object(body, name)
        ref["schema_hint"] = _hint(value)
        self.resolve.remember(named(ref), value, MARK in body)
        return ref

    def object(self, body: bytes, name: str) -> dict[str, Any]:
        """Store JSON text under `<execution_id>/<name>-<digest>.json` and return a reference to it.

        The key contains a digest of the content: a worker that was overtaken and still runs cannot overwrite what its
        successor committed.
        """
        key = f"{self.execution_id}/{name}-{sha256(body).hexdigest()[:16]}.json"
        return dict(self.results.put(key, body))

    def kept(self, outcome: Outcome, task_run: str, attempt: int) -> Outcome:
        """Return the outcome as the log may hold it: plain JSON, with large values behind references (formal specification
        9.1)."""
        name = f"results/{task_run}" + ("" if attempt == 1 else f"-{attempt}")
        log = outcome.meta.get("log")
        if isinstance(log, TaskLog):
            more = f"{self.execution_id}/logs/{task_run}-{attempt}.json"
            outcome = replace(outcome, meta={**outcome.meta, "log": log.record(self.results, more)})
        try:
            result = self.small(outcome.result, name)
        except NotJson as wrong:
            failed = Outcome.failed("schema", f"the task's result is not JSON: {wrong}", retryable=False)
            return replace(failed, meta=_plain(outcome.meta))
        changed: dict[str, Any] = {} if result is outcome.result else {"result": result}
        if outcome.helpers:
            changed["helpers"] = {k: self._any(v, f"{name}-{k}") for k, v in outcome.helpers.items()}
        if outcome.error is not None:
            error = outcome.error
            message = error.message[: LONGEST["message"]].encode("utf-8", "replace").decode()
            changed["error"] = replace(error, message=message, details=self._any(error.details, f"{name}-details"))
        return replace(outcome, **changed) if changed else outcome

    def _any(self, value: Any, name: str) -> Any:
        try:
            return self.small(value, name)
        except NotJson:
            return self.small(_plain(value), name)

    def stored(self, event: Event, *, announced: bool) -> Event:
        """Return the event with its large written values behind references. Raises `NotJson`."""
        data = dict(event.data)
        if announced:
            data.pop("started", None)
        name = f"values/{data['run']}-{data['attempt']}"
        for section in ("set_iter", "set_ctx"):
            if section in data:
                data[section] = {k: self.small(v, f"{name}-{section}-{n}") for n, (k, v) in enumerate(data[section].items())}
        if "prev" in data:
            data["prev"] = self.small(data["prev"], f"{name}-prev")
        if "error" in data and "details" in data["error"]:
            data["error"] = {**data["error"], "details": self.small(data["error"]["details"], f"{name}-details")}
        return Event(event.name, event.ts, data)

    def record(self, name: str, data: Mapping[str, Any]) -> None:
        """Write an event to the stream, with its secrets masked."""
        self.put(Event(name, self.clock.now(), data))

    def put(self, event: Event) -> None:
        """Write an event that exists already, with its secrets masked. Events from which a later worker continues are marked
        `masked` when they hide something."""
        if self.tainted and contains_secret(event.data):
            hidden = {"masked": True} if event.name in ("TaskProcessed", "LoopIterationCompleted") else {}
            event = Event(event.name, event.ts, {**mask(event.data), **hidden})
        self.journal.put(event)

    def masked(self, value: Any) -> Any:
        return mask(value) if self.tainted else value


class NotJson(ValueError):
    """A value that is no JSON data: NaN, a lone surrogate, an object. Who acts: the author."""


def encode(value: Any) -> bytes:
    """Return compact JSON. Raises `NotJson`."""
    try:
        return _encoder.encode(value).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise NotJson(str(error)) from error


_encoder = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def _plain(value: Any) -> Any:
    """Return the nearest JSON data: other objects become text, NaN becomes null."""
    body = json.dumps(value, default=str, skipkeys=True, ensure_ascii=False).encode("utf-8", "replace")
    return json.loads(body, parse_constant=lambda _: None)


class _Unsupported:
    """Stands for a tool kind that is not installed here."""

    inline = True

    def __init__(self, kind: str, why: str) -> None:
        self.kind, self._why = kind, why

    def run(self, call: ToolCall) -> Outcome:
        return Outcome.failed("unsupported", self._why, retryable=False)


def _hint(value: Any) -> Any:
    """Return a short description of the value behind a reference (resolution 22)."""
    if isinstance(value, list):
        return {"type": "list", "length": len(value)}
    return {"type": "object", "keys": list(value)[:20]} if isinstance(value, Mapping) else {"type": type(value).__name__}


def _instant(us: int) -> str:
    return f"{_second(us // SECOND)}.{us % SECOND:06d}Z"


@lru_cache(maxsize=64)
def _second(s: int) -> str:
    return datetime.fromtimestamp(s, UTC).strftime("%Y-%m-%dT%H:%M:%S")
