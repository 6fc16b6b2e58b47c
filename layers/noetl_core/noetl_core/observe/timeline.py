"""Folds an execution into spans: every step run, its waits, and the attempts of its workers and tasks, in parallel lanes."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from noetl_core.events.envelope import Envelope
from noetl_core.events.table import LIMITS, ends_run
from noetl_core.observe.critical_path import CriticalPath
from noetl_core.values.instants import from_text

RUNS = frozenset({"run", "chunk", "undo"})
"""Spans that have a lane of their own; the others are in the lane of their run."""

OF_PATH = frozenset(
    {"TokenEnqueued", "BoundaryRouted", "StepScheduled", "LoopChunkScheduled", "WorkflowFinished", "ExecutionRedriven"}
)
"""Events of the critical path."""


@dataclass(slots=True)
class Span:
    """A span of time. `kind`: run (a step run), undo (its compensation), chunk (of a distributed loop), limit (the wait for a
    place in a limit, before a run or before everything), queued, attempt (of a worker), wait, iteration, task. `began`, `ended`:
    seconds since the epoch; `ended` is None while it lasts. `parent`: its index in the list of spans."""

    kind: str
    name: str
    began: float
    step: str
    run: str = ""
    ended: float | None = None
    status: str = "running"
    parent: int | None = None
    lane: int = 0
    facts: dict[str, Any] = field(default_factory=dict)


class Timeline:
    """Folds envelopes. Those of concurrent streams may come in any order, each once. Keeps `limit` spans of details."""

    def __init__(self, limit: int = 2_000) -> None:
        self.spans: list[Span] = []
        self.omitted = 0
        self.status = "running"
        self.began: float | None = None
        self.ended: float | None = None
        self.path = CriticalPath()
        self._left = limit
        self._open: dict[tuple[Any, ...], int] = {}
        self._awaited: dict[str, int] = {}
        """Spans of waits for a place, by run."""

    def observe(self, envelopes: Iterable[Mapping[str, Any]]) -> None:
        for e in cast("Iterable[Envelope]", envelopes):
            at = from_text(e["timestamp"]).timestamp()
            self.began = at if self.began is None else self.began
            name, run = e["name"], e.get("step_run_id")
            if name in OF_PATH:
                self._follow(e, run)
            if name in LIMITS:
                self._apply_limit(e, at)
            elif name in ("WorkflowFinished", "ExecutionRedriven"):
                self._apply_to_execution(e, at)
            elif run:
                self._apply(e, run, at)

    def _follow(self, e: Mapping[str, Any], run: str | None) -> None:
        data = e["data"]
        self.path.begin(e["event_id"].rpartition(".")[0])
        match e["name"]:
            case "TokenEnqueued":
                self.path.enqueued(data["token"], run or data.get("event", {}).get("run_id"))
            case "WorkflowFinished":
                self.path.finished()
            case "ExecutionRedriven":
                self.path.reopened()
            case "BoundaryRouted":
                self.path.routed(e["step_run_id"])
            case _:
                self.path.opened(e["step_run_id"], data.get("tokens", ()), e.get("parent_id"))

    def _apply_to_execution(self, e: Envelope, at: float) -> None:
        match e["name"]:
            case "WorkflowFinished":
                self.status, self.ended = e["data"]["status"], at
                self.close_limits(at)
            case "ExecutionRedriven":
                self.status, self.ended = "running", None

    def _apply_limit(self, e: Mapping[str, Any], at: float) -> None:
        self.limit(e["name"], {**e["data"], "step": e.get("step", "")}, at)

    def limit(self, name: str, data: Mapping[str, Any], at: float) -> None:
        """Fold an event of a limit. The wait lasts until the place is granted or refused."""
        holder = data["holder"]
        if name == "LimitRequested":
            facts = {"limit": data["key"], "max": data["max"]}
            self._begin(("limit", holder), Span("limit", f"limit {data['key']}", at, data.get("step") or "", facts=facts))
            self._awaited[holder.partition("/")[2]] = len(self.spans) - 1
        elif name != "LimitReleased":
            failed = data.get("deadlock") or data.get("displaced")
            self._end(("limit", holder), at, "ok" if name == "LimitGranted" else "error" if failed else "skipped")

    def close_limits(self, at: float) -> None:
        """End all waits for places, because the execution has ended."""
        for key in [key for key in self._open if key[0] == "limit"]:
            self._end(key, at, "cancelled")

    def _belongs(self, run: str) -> None:
        """Put the wait of a run for its place into the lane of the run."""
        if (waited := self._awaited.pop(run, None)) is not None:
            self.spans[waited].parent, self.spans[waited].run = self._open[("run", run)], run

    def _apply(self, e: Envelope, run: str, at: float) -> None:
        step = e.get("step", "")
        match e["name"]:
            case "StepScheduled" | "LoopChunkScheduled" | "CompensationStarted" | "StopStarted":
                self._schedule(e, run, at)
            case "StepStarted" | "StepResumed":
                for kind, status in (("queued", "ok"), ("wait", "ok"), ("attempt", "lost")):
                    self._end((kind, run), at, status)
                facts: dict[str, Any] = {"worker": e["data"]["worker"]}
                if e["name"] == "StepStarted" and e["data"].get("takeover"):
                    facts["takeover"] = e["data"]["takeover"]
                self._begin(("attempt", run), Span("attempt", "attempt", at, step, run, facts=facts))
            case "StepSuspended":
                self._end(("attempt", run), at, "suspended")
                keys = ("kind", "task", "signal", "child", "path", "at", "limit")
                waits = [{key: value for key, value in wait.items() if key in keys} for wait in e["data"]["waits"]]
                name = ", ".join(sorted({_name_of(wait) for wait in e["data"]["waits"]})) or "wait"
                self._begin(("wait", run), Span("wait", name, at, step, run, facts={"waits": waits[:20]}))
            case "StepReleased":
                self._end(("attempt", run), at, "released")
            case "ResumeScheduled":
                self._end(("wait", run), at, "ok")
                self._begin(("queued", run), Span("queued", "queued", at, step, run))
            case "TaskStarted" | "TaskProcessed":
                self._task(e, run, at)
            case "LoopIterationStarted" | "LoopIterationCompleted":
                iteration = ("iteration", run, tuple(e["iteration"]))
                if e["name"] == "LoopIterationStarted":
                    self._detail(iteration, Span("iteration", str(e["iteration"]), at, step, run))
                else:
                    self._end(iteration, at, "error" if e["status"] == "error" else "ok")
            case "StepDone" | "StepFailed" | "LoopChunkDone" if e["source"] == "worker":
                self._end(("attempt", run), at, "error" if e["status"] == "error" else "ok")
            case "BoundaryRouted" | "LoopDone" | "StepDone" | "StepFailed":
                self._end_run(e, run, at)

    def _schedule(self, e: Mapping[str, Any], run: str, at: float) -> None:
        """Apply the beginning of a run. Of a plain mapping, as `_end_run` and `_task`: mypy takes seconds for keys of a union."""
        parent, step = self._open.get(("run", e.get("parent_id"))), e.get("step", "")
        kind = {"StepScheduled": "run", "LoopChunkScheduled": "chunk"}.get(e["name"], "undo")
        facts = {"chunk": e["data"]["chunk"]} if kind == "chunk" else {}
        self._begin(("run", run), Span(kind, step, at, step, run, parent=parent, facts=facts))
        self._belongs(run)
        self._begin(("queued", run), Span("queued", "queued", at, step, run))

    def _end_run(self, e: Mapping[str, Any], run: str, at: float) -> None:
        if ends_run(e["name"], e["data"]):
            failed = e["status"] == "error" or (e["name"] == "BoundaryRouted" and e["data"]["name"] == "StepFailed")
            for kind in ("queued", "wait", "attempt", "run"):
                self._end((kind, run), at, "error" if failed else "ok")

    def _task(self, e: Mapping[str, Any], run: str, at: float) -> None:
        key = ("task", e["task_run_id"], e.get("attempt", 1))
        match e["name"]:
            case "TaskStarted":
                facts = {"attempt": e.get("attempt", 1)} | ({"iteration": e["iteration"]} if e.get("iteration") else {})
                within = self._open.get(("iteration", run, tuple(e.get("iteration", ()))))
                name = e["data"]["authored"]["label"] if "authored" in e["data"] else e["task"]
                self._detail(key, Span("task", name, at, e.get("step", ""), run, parent=within, facts=facts))
            case "TaskProcessed":
                self._end(key, at, e["data"]["outcome"]["status"])

    def add_run(self, span: Span, parent: str | None) -> None:
        """Add a run that is known already; events of its stream may follow."""
        span.parent = self._open.get(("run", parent))
        self._open[("run", span.run)] = len(self.spans)
        self.spans.append(span)
        self._belongs(span.run)

    @property
    def full(self) -> bool:
        """Return whether the maximum number of details is reached."""
        return self._left <= 0

    def _detail(self, key: tuple[Any, ...], span: Span) -> None:
        if self._left <= 0:
            self.omitted += 1
            return
        self._left -= 1
        self._begin(key, span)

    def _begin(self, key: tuple[Any, ...], span: Span) -> None:
        if span.parent is None and key[0] != "run":
            span.parent = self._open.get(("run", span.run))
        self._open[key] = len(self.spans)
        self.spans.append(span)

    def _end(self, key: tuple[Any, ...], at: float, status: str) -> None:
        place = self._open.pop(key, None)
        if place is not None:
            span = self.spans[place]
            span.ended, span.status = max(at, span.began), status

    def as_dict(self, now: float) -> dict[str, Any]:
        """Return `{status, began_at, duration_ms, lanes, omitted, spans: [...]}`; offsets are milliseconds from the beginning."""
        began = self.began or now
        lanes, critical = self._lanes(now), self.path.runs()
        return {
            "status": self.status,
            "duration_ms": _ms((self.ended or now) - began),
            "lanes": lanes,
            "omitted": self.omitted,
            "spans": [
                {
                    "id": place,
                    "parent": s.parent,
                    "kind": s.kind,
                    "name": s.name,
                    "step": s.step,
                    "step_run_id": s.run,
                    "status": s.status,
                    "lane": s.lane,
                    "offset_ms": _ms(s.began - began),
                    "duration_ms": None if s.ended is None else _ms(s.ended - s.began),
                    **s.facts,
                    **({"critical": True} if s.kind in RUNS and s.run in critical else {}),
                }
                for place, s in enumerate(self.spans)
            ],
        }

    def _lanes(self, now: float) -> int:
        """Give every run the lowest lane that is free when it begins; its spans are in that lane. Return the number of lanes."""
        free: list[int] = []
        busy: list[tuple[float, int]] = []
        lanes = 0
        for span in sorted((s for s in self.spans if _has_lane(s)), key=lambda s: s.began):
            while busy and busy[0][0] <= span.began:
                heapq.heappush(free, heapq.heappop(busy)[1])
            if free:
                span.lane = heapq.heappop(free)
            else:
                span.lane, lanes = lanes, lanes + 1
            heapq.heappush(busy, (now if span.ended is None else span.ended, span.lane))
        for span in self.spans:
            if not _has_lane(span) and span.parent is not None:
                span.lane = self.spans[span.parent].lane
        return lanes


def _name_of(wait: Mapping[str, Any]) -> str:
    return f"rate {wait['limit']}" if "limit" in wait else str(wait["kind"])


def _has_lane(span: Span) -> bool:
    return span.kind in RUNS or (span.kind == "limit" and span.parent is None)


def _ms(seconds: float) -> float:
    return round(seconds * 1000, 3)
