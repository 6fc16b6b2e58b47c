"""Computes the fate of every token and every run, and the positions in the control stream of these decisions.

An account is made from the commits that were read: all of a short log, parts of a long one. The state supplies the rest. A view
plans its answer from an account. If the account lacks something, it records that as `missing`; the reader of the log searches for
it, and the view plans again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from noetl_core.dsl.model import Playbook
from noetl_core.engine.records import Commit, control_events
from noetl_core.engine.routing.passes import boundary_event
from noetl_core.engine.state import State, StepState
from noetl_core.events.event import ControlEvent
from noetl_core.events.shapes import Failure, TokenEvent, Wait
from noetl_core.events.table import ends_run
from noetl_core.values.frozen import frozen

VISITS: Final = 5
"""Maximum number of newest visits and tokens of a step that are searched for if not all were read."""
UNREAD = "unread"
"""Status of a run whose end is in a part of the log that was not read."""
CONSUMED = ("run", "joined")
"""Fates of tokens that a run, or a join, consumed."""


@dataclass(frozen=True, slots=True, order=True)
class Moment:
    """An event of the control stream: its commit, its index in the commit, and its instant."""

    seq: int
    place: int
    ts: int = 0


@dataclass(slots=True)
class TokenAccount:
    """A token: its origin and its fate (`run`, `joined`, `skipped`, `expired`; empty: it is live)."""

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
    """True if a redrive put it back."""


@dataclass(slots=True)
class PlaceAccount:
    """A place in a limit that a token requested; `reason` is the reason of a refusal."""

    key: str
    requested: Moment
    granted: Moment | None = None
    reason: str = ""


@dataclass(slots=True)
class RunAccount:
    """A step run, or a compensation: its outcome, and where its arcs were evaluated."""

    id: str
    step: str
    at: Moment
    args: dict[str, Any]
    tokens: tuple[str, ...] = ()
    parent: str | None = None
    undoes: str | None = None
    stops: bool = False
    """True if it stops the outside work of the undone run."""
    status: str = "open"
    error: Failure | None = None
    ended: Moment | None = None
    seq: int = -1
    """Position of the newest boundary of its stream that was routed."""
    boundary: TokenEvent | None = None
    waits: list[Wait] = field(default_factory=list)
    next: Moment | None = None
    """The decision that evaluated its arcs."""
    selected: tuple[int, ...] = ()
    arcs_error: str = ""
    unhandled: bool = False
    failed_chunk: str | None = None
    """The chunk of its loop that failed first."""

    @property
    def ends_here(self) -> bool:
        """Return whether it ended well, and no arc of it fired."""
        evaluated = self.next is not None and self.undoes is None and self.parent is None
        return evaluated and not self.selected and not self.arcs_error and self.error is None and self.status == "ok"


def leads_on(playbook: Playbook, name: str) -> bool:
    """Return whether a step has arcs that lead on."""
    step = playbook.by_name.get(name)
    return step is not None and step.router is not None and bool(step.router.arcs)


@frozen
class Missing:
    """A fact that the commits read so far do not contain.

    It is the decision that scheduled or ended a run, or made a token; the newest visits of a step, its compensations, or its
    unconsumed tokens; dead ends, stranded tokens, waiting runs, or the first failure of the execution. `seq` is a position at
    which the token existed, or the arcs of the run were evaluated; for the end of a run it is the position at which the run was
    scheduled.
    """

    kind: Literal["run", "end", "token", "visits", "undone", "left", "dead_ends", "stranded", "waiting", "failure"]
    name: str = ""
    seq: int = -1


@dataclass(slots=True)
class Account:
    """Folds the commits that were read into the fates of tokens and runs.

    `state` is the state at the end of the log, `newest` are the newest runs of steps, as far as a search found them.
    """

    state: State
    complete: bool
    """True if the whole log was read."""
    newest: Mapping[str, Sequence[str]] = field(default_factory=dict)
    unchecked: int = 0
    """Number of steps that were not checked for dead ends."""
    missing: dict[Missing, None] = field(default_factory=dict)
    tokens: dict[str, TokenAccount] = field(default_factory=dict)
    runs: dict[str, RunAccount] = field(default_factory=dict)
    failing: list[tuple[Moment, Failure]] = field(default_factory=list)
    children: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    """Ends of children, by the child's id."""
    requested: dict[str, str] = field(default_factory=dict)
    """The run that requested each child."""
    places: dict[str, PlaceAccount] = field(default_factory=dict)
    """Places in limits, by the token that requested them."""
    _holders: dict[str, str] = field(default_factory=dict)
    _redriven_at: int = -1

    def observe(self, commits: Iterable[Commit]) -> None:
        """Fold all commits that were read, in order."""
        for commit in commits:
            for place, event in enumerate(control_events(commit)):
                self._apply(event, Moment(commit.seq, place, event.ts))
        if not self.complete:
            self._settle()

    def _settle(self) -> None:
        """Take open runs, their waits and the failure of the execution from the state."""
        for run in self.runs.values():
            if (known := self.state.runs.get(run.id)) is not None:
                run.waits, run.seq = list(known.waits), known.handled_seq
            elif run.status == "open":
                run.status, run.waits = UNREAD, []
        fails = self.state.failure is not None
        self.failing = [each for each in self.failing if fails and each[0].ts >= self.state.redriven_at]

    def token(self, name: str, seq: int) -> TokenAccount | None:
        """Return a token that existed at a position of the log, or just before it."""
        if name not in self.tokens:
            self._miss(Missing("token", name, seq))
        return self.tokens.get(name)

    def run(self, name: str, seq: int) -> RunAccount | None:
        """Return a run whose arcs were evaluated at a position of the log."""
        if name not in self.runs:
            self._miss(Missing("run", name, seq))
        return self.runs.get(name)

    def visits(self, step: str) -> tuple[Sequence[RunAccount], int]:
        """Return the newest runs of a step, in order, and how many there are; no compensations and no chunks."""
        found = [r for r in self.runs.values() if r.step == step and r.parent is None and r.undoes is None]
        if self.complete:
            return found, len(found)
        count = self._step(step).visits
        if count and step not in self.newest:
            self._miss(Missing("visits", step))
        found = [self.runs[name] for name in self.newest.get(step, ()) if name in self.runs]
        self._miss_ends(found)
        return found, count

    def left(self, step: str) -> tuple[Sequence[TokenAccount], int]:
        """Return the newest tokens of a step that nothing consumed, in order, and how many there are."""
        self._miss(Missing("left", step))
        found = [t for t in self.tokens.values() if t.step == step and self._is_left(t)]
        live = sum(token.step == step and token.id not in self.tokens for token in self.state.tokens.values())
        return found, len(found) + live

    def fired(self, step: str, arc: int) -> bool:
        """Return whether an arc of a step ever fired."""
        return str(arc) in self._step(step).fired or any(arc in run.selected for run in self.visits(step)[0])

    def dead_ends(self, playbook: Playbook) -> Sequence[tuple[RunAccount, int]]:
        """Return, for each step with arcs, the newest run that ended well without firing any, and how many there are."""
        self._miss(Missing("dead_ends"))
        newest: dict[str, RunAccount] = {}
        count: dict[str, int] = {}
        for run in self.runs.values():
            if run.ends_here and leads_on(playbook, run.step):
                newest[run.step] = run
                count[run.step] = count.get(run.step, 0) + 1
        if not self.complete:
            count = {step: max(count[step], dead_ends_of(self._step(step), playbook, step) or 0) for step in count}
        return [(run, count[step]) for step, run in newest.items()]

    def undone(self, step: str) -> Sequence[RunAccount]:
        """Return the runs that compensate a step, or stop its work outside, in order."""
        self._miss(Missing("undone", step))
        found = [run for run in self.runs.values() if run.undoes is not None and run.step == step]
        self._miss_ends(found)
        return found

    def waiting(self) -> Iterable[RunAccount]:
        """Return the open runs that wait for something, in order."""
        self._miss(Missing("waiting"))
        return (run for run in self.runs.values() if run.status == "open" and run.waits)

    def failed(self) -> tuple[Moment, Failure] | None:
        """Return the first decision by which the execution fails, since the newest redrive."""
        if self.state.failure is not None:
            self._miss(Missing("failure"))
        return self.failing[0] if self.failing else None

    def stranded(self) -> Iterable[TokenAccount]:
        """Return the tokens that nothing consumed or skipped."""
        self._miss(Missing("stranded"))
        return (token for token in self.tokens.values() if token.fate != "skipped" and self._is_left(token))

    def _step(self, name: str) -> StepState:
        return self.state.steps.get(name) or StepState()

    def _is_left(self, token: TokenAccount) -> bool:
        """Return whether nothing consumed a token. If its fate was not read, only the state can tell."""
        return token.fate not in CONSUMED and (token.fate != "" or token.id in self.state.tokens)

    def _miss_ends(self, runs: Sequence[RunAccount]) -> None:
        for run in runs[-VISITS:]:
            if run.status == UNREAD:
                self._miss(Missing("end", run.id, run.at.seq))

    def _miss(self, missing: Missing) -> None:
        if not self.complete:
            self.missing[missing] = None

    def _apply(self, event: ControlEvent, at: Moment) -> None:
        match event.name:
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
                self.failing, self._redriven_at = [], at.seq
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


def dead_ends_of(known: StepState, playbook: Playbook, name: str) -> int | None:
    """Return how many runs of a step ended well without an arc firing, by the counts of its state; None if they cannot tell."""
    step = playbook.by_name.get(name)
    if step is None or step.router is None or step.router.mode != "exclusive" or known.took is None:
        return None
    failed = known.took.get("others", 0) + sum(group["count"] for group in known.took.get("errors", ()))
    if failed:
        return None  # arcs may have fired for failed runs, too
    return sum(known.took.get("us", {}).values()) - sum(known.fired.values())
