"""What happened to every token and every run, as the control stream tells it; and the state at any of its events.

`Account` keeps where in the log each thing was decided. `evaluate` folds the log once and asks at those places what the guards
read: the state just before an event is the state in which it was decided.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from noetl_core.dsl.model import Playbook
from noetl_core.engine.fold import fold
from noetl_core.engine.needs import Need, NeedValues
from noetl_core.engine.passes import RoutingPass, boundary_event
from noetl_core.engine.records import Commit, control_events
from noetl_core.engine.state import State
from noetl_core.events.event import ControlEvent
from noetl_core.events.shapes import Failure, TokenEvent, Wait
from noetl_core.events.table import ends_run

MOST_ROUNDS = 50
"""How often one question may ask for values."""


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


@dataclass(slots=True)
class Account:
    """The fold of a control stream into what became of its tokens and runs."""

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

    def of_step(self, step: str) -> tuple[list[TokenAccount], list[RunAccount]]:
        """Return the tokens and the runs of a step, in order; no compensations and no chunks."""
        runs = [r for r in self.runs.values() if r.step == step and r.parent is None and r.undoes is None]
        return [t for t in self.tokens.values() if t.step == step], runs

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
            case "CompensationStarted":
                self.runs[event.data["run"]] = RunAccount(event.data["run"], event.data["step"], at, {}, undoes=event.data["of"])
            case "ResumeScheduled":
                if (run := self.runs.get(event.data["run"])) is not None:
                    run.waits = []
            case "BoundaryRouted" | "LoopDone" | "StepDone" | "StepFailed":
                self._boundary(event, at)
            case "NextEvaluated":
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


Question = Callable[[RoutingPass], None]
"""Looks at a state; it is asked again when it needs values."""


def evaluate(
    execution_id: str,
    commits: Iterable[Commit],
    questions: Mapping[Moment, Iterable[Question]],
    at_the_end: Iterable[Question],
    playbook: Callable[[str], Playbook],
    supply: Callable[[dict[Need, Any], NeedValues], None],
) -> State:
    """Fold the log and put each question to the state just before its event; return the last state."""
    state, known = State(execution_id), dict[Need, Any]()
    asked = {(moment.seq, moment.place): tuple(some) for moment, some in questions.items()}
    for commit in commits:
        for place, event in enumerate(control_events(commit)):
            for question in asked.get((commit.seq, place), ()):
                _put(question, RoutingPass(playbook(state.digest), state, event.ts, commit.seq, known), supply, known)
            fold(state, event, commit.seq)
        state.seq, state.expires_at = commit.seq, commit.expires_at
    for question in at_the_end:
        _put(question, RoutingPass(playbook(state.digest), state, state.updated_at, state.seq + 1, known), supply, known)
    return state


def _put(
    question: Question, p: RoutingPass, supply: Callable[[dict[Need, Any], NeedValues], None], known: dict[Need, Any]
) -> None:
    for _ in range(MOST_ROUNDS):
        try:
            question(p)
            return
        except NeedValues as missing:
            supply(known, missing)
