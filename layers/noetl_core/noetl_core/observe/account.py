"""What happened to every token and every run, as the control stream tells it: `Account` keeps where in the log each thing was
decided. Of a long log only parts are read (`observe.partial`)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from noetl_core.dsl.model import Playbook
from noetl_core.engine.passes import boundary_event
from noetl_core.engine.records import Commit, control_events
from noetl_core.events.event import ControlEvent
from noetl_core.events.shapes import Failure, TokenEvent, Wait
from noetl_core.events.table import ends_run

UNREAD = "unread"
"""Status of a run whose end is in a part of the log that was not read."""
CONSUMED = ("run", "joined")
"""Fates of tokens that a run, or a join, consumed."""


@dataclass(frozen=True, slots=True, order=True)
class Moment:
    """An event of the control stream: its commit, its place in that, and its instant."""

    seq: int
    place: int
    ts: int = 0


@dataclass(slots=True)
class TokenAccount:
    """A token: how it was made, and what became of it (`run`, `joined`, `skipped`, `expired`; empty: it is live)."""

    id: str
    step: str
    at: Moment
    args: dict[str, Any]
    run: str | None = None
    arc: int | None = None
    event: TokenEvent | None = None
    joined: tuple[str, ...] = ()
    parked: Moment | None = None
    fate: str = ""
    fated: Moment | None = None
    code: str = ""
    reason: str = ""
    restored: bool = False
    """A redrive put it back."""


@dataclass(slots=True)
class PlaceAccount:
    """A place in a limit that a token asked for; `reason` says why it got none."""

    key: str
    asked: Moment
    granted: Moment | None = None
    reason: str = ""


@dataclass(slots=True)
class RunAccount:
    """A step run, or a compensation: what it came to, and where its arcs were evaluated."""

    id: str
    step: str
    at: Moment
    args: dict[str, Any]
    tokens: tuple[str, ...] = ()
    parent: str | None = None
    undoes: str | None = None
    stops: bool = False
    """It stops what the run that it undoes left going on outside."""
    status: str = "open"
    error: Failure | None = None
    ended: Moment | None = None
    seq: int = -1
    """Position of the newest boundary of its stream that was routed."""
    boundary: TokenEvent | None = None
    waits: list[Wait] = field(default_factory=list)
    next: Moment | None = None
    """Where its arcs were evaluated."""
    selected: tuple[int, ...] = ()
    arcs_error: str = ""
    unhandled: bool = False
    failed_chunk: str | None = None
    """The chunk of its loop that failed first."""

    @property
    def ends_here(self) -> bool:
        """Whether it ended well, and no arc of it fired."""
        evaluated = self.next is not None and self.undoes is None and self.parent is None
        return evaluated and not self.selected and not self.arcs_error and self.error is None and self.status == "ok"


def leads_on(playbook: Playbook, name: str) -> bool:
    """Return whether arcs lead on from a step."""
    step = playbook.by_name.get(name)
    return step is not None and step.router is not None and bool(step.router.arcs)


@dataclass(slots=True)
class Account:
    """The fold of a control stream into what became of its tokens and runs. Positions in what is asked for help those who
    have read parts only (`observe.partial`)."""

    complete: ClassVar[bool] = True
    """Whether all of the log was read."""
    unlooked: int = 0
    """Steps of which it was not looked whether their runs led anywhere."""
    tokens: dict[str, TokenAccount] = field(default_factory=dict)
    runs: dict[str, RunAccount] = field(default_factory=dict)
    entry: str = ""
    failing: list[tuple[Moment, Failure]] = field(default_factory=list)
    children: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    """Ends of children, by the child's id."""
    requested: dict[str, str] = field(default_factory=dict)
    """The run that asked for each child."""
    ended: Moment | None = None
    places: dict[str, PlaceAccount] = field(default_factory=dict)
    """Places in limits, by the token that asked."""
    _holders: dict[str, str] = field(default_factory=dict)
    _redriven_at: int = -1

    def observe(self, commits: Iterable[Commit]) -> None:
        for commit in commits:
            for place, event in enumerate(control_events(commit)):
                self._apply(event, Moment(commit.seq, place, event.ts))

    def token(self, name: str, seq: int) -> TokenAccount | None:
        """Return a token that was there at a position of the log, or had just been."""
        return self.tokens.get(name)

    def run(self, name: str, seq: int) -> RunAccount | None:
        """Return a run whose arcs were evaluated at a position of the log."""
        return self.runs.get(name)

    def visits(self, step: str) -> tuple[Sequence[RunAccount], int]:
        """Return the newest runs of a step, in order, and how many there are; no compensations and no chunks."""
        found = [r for r in self.runs.values() if r.step == step and r.parent is None and r.undoes is None]
        return found, len(found)

    def left(self, step: str) -> tuple[Sequence[TokenAccount], int]:
        """Return the newest tokens of a step that nothing consumed, in order, and how many there are."""
        found = [t for t in self.tokens.values() if t.step == step and t.fate not in CONSUMED]
        return found, len(found)

    def fired(self, step: str, arc: int) -> bool:
        """Return whether an arc of a step ever fired."""
        return any(arc in run.selected for run in self.visits(step)[0])

    def dead_ends(self, playbook: Playbook) -> Sequence[tuple[RunAccount, int]]:
        """Return, for each step with arcs, the newest run that ended well and of which none fired, and how many there are."""
        newest: dict[str, RunAccount] = {}
        count: dict[str, int] = {}
        for run in self.runs.values():
            if run.ends_here and leads_on(playbook, run.step):
                newest[run.step] = run
                count[run.step] = count.get(run.step, 0) + 1
        return [(run, count[step]) for step, run in newest.items()]

    def undone(self, step: str) -> Sequence[RunAccount]:
        """Return the runs that compensate a step, or stop what it does outside, in order."""
        return [run for run in self.runs.values() if run.undoes is not None and run.step == step]

    def waiting(self) -> Iterable[RunAccount]:
        """Return the open runs that wait for something, in order."""
        return (run for run in self.runs.values() if run.status == "open" and run.waits)

    def failed(self) -> tuple[Moment, Failure] | None:
        """Return the first decision by which the execution fails, since the newest redrive."""
        return self.failing[0] if self.failing else None

    def stranded(self) -> Iterable[TokenAccount]:
        """Return the tokens that nothing consumed or skipped."""
        return (token for token in self.tokens.values() if token.fate in ("", "expired"))

    def _apply(self, event: ControlEvent, at: Moment) -> None:
        match event.name:
            case "WorkflowStarted":
                self.entry = event.data["entry"]
            case "TokenEnqueued":
                self._enqueued(event.data, at)
            case "TokenParked":
                self.tokens[event.data["token"]].parked = at
            case "TokenClaimed":
                for name in event.data["tokens"]:
                    self._fate(name, "run", at)
            case "StepSkipped":
                self._fate(event.data["token"], "skipped", at)
            case "TokenExpired":
                self._fate(event.data["token"], "expired", at, event.data["code"], event.data["reason"])
            case "ExecutionFailing":
                self.failing.append((at, event.data["error"]))
            case "ExecutionRedriven":
                self.failing, self.ended, self._redriven_at = [], None, at.seq
            case "WorkflowFinished":
                self.ended = at
            case "ChildRequested":
                self.requested[event.data["child"]] = event.data["run"]
            case "ChildFinished":
                self.children[event.data["child"]] = event.data
            case "LimitRequested" | "LimitGranted" | "LimitRefused":
                self._place(event, at)
            case _:
                self._run(event, at)

    def _place(self, event: ControlEvent, at: Moment) -> None:
        data: Any = event.data
        if event.name == "LimitRequested":
            token = data.get("token") or ""
            self._holders[data["holder"]] = token
            self.places[token] = PlaceAccount(data["key"], at)
        elif (place := self.places.get(self._holders.get(data["holder"], ""))) is not None:
            place.granted = at if event.name == "LimitGranted" else None
            place.reason = data.get("reason", "")

    def _enqueued(self, d: Any, at: Moment) -> None:
        token = TokenAccount(
            d["token"],
            d["step"],
            at,
            d.get("args") or {},
            d.get("run"),
            d.get("arc"),
            d.get("event"),
            tuple(d.get("joined") or ()),
        )
        token.restored = at.seq == self._redriven_at
        self.tokens[token.id] = token
        for name in token.joined:
            self._fate(name, "joined", at)

    def _fate(self, name: str, fate: str, at: Moment, code: str = "", reason: str = "") -> None:
        token = self.tokens.get(name)
        if token is not None:
            token.fate, token.fated, token.code, token.reason = fate, at, code, reason

    def _run(self, event: ControlEvent, at: Moment) -> None:
        match event.name:
            case "StepScheduled":
                d = event.data
                self.runs[d["run"]] = RunAccount(d["run"], d["step"], at, d.get("args") or {}, tuple(d["tokens"]))
            case "LoopChunkScheduled":
                self.runs[event.data["run"]] = RunAccount(
                    event.data["run"], event.data["step"], at, {}, parent=event.data["parent"]
                )
            case "CompensationStarted" | "StopStarted":
                stops = event.name == "StopStarted"
                self.runs[event.data["run"]] = RunAccount(
                    event.data["run"], event.data["step"], at, {}, undoes=event.data["of"], stops=stops
                )
            case "ResumeScheduled":
                if (run := self.runs.get(event.data["run"])) is not None:
                    run.waits = []
            case "BoundaryRouted" | "LoopDone" | "StepDone" | "StepFailed":
                self._boundary(event, at)
            case "NextEvaluated" if not event.data.get("ending"):
                if (run := self.runs.get(event.data["run"])) is not None:
                    run.next, run.unhandled = at, event.data.get("unhandled") is not None
                    run.selected = tuple(s["arc"] for s in event.data["selected"])
                    run.arcs_error = event.data.get("error", "")
                    if run.boundary is not None:
                        run.boundary["name"] = event.data["event"]

    def _boundary(self, event: ControlEvent, at: Moment) -> None:
        data: Any = event.data
        run = self.runs.get(data["run"])
        if run is None:
            return
        error: Failure | None = data.get("error")
        if event.name == "BoundaryRouted":
            run.seq = data["seq"]
            run.waits = list(data.get("waits", ()))
            lead = self.runs.get(run.parent or "")
            if error is not None and lead is not None and lead.failed_chunk is None:
                lead.failed_chunk = run.id
        if not ends_run(event.name, data):
            return
        run.ended, run.error = at, error
        run.status = "error" if error is not None or event.name == "StepFailed" else "ok"
        if event.name == "LoopDone":
            counts: Any = {key: data[key] for key in ("total", "succeeded", "failed") if key in data}
            where: Any = run.boundary["at"] if run.boundary is not None else {"value": data.get("result")}
            run.boundary = boundary_event("", run.step, run.id, where, error=error, loop=counts)
        elif event.name == "BoundaryRouted":
            run.boundary = boundary_event("", run.step, run.id, {"run": run.id, "seq": data["seq"]}, error=error)
        else:
            run.boundary = boundary_event("", run.step, run.id, None if error else {"value": None}, error=error)
