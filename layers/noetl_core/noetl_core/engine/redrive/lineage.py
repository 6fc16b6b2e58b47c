"""Reconstructs the lineage of tokens and step runs over a whole control stream: the origin of each (`engine.redrive.plan` uses it
to take some back).

The state of an execution forgets tokens and runs when they end; this fold keeps them all. It is computed once per redrive, never
during routing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from noetl_core.engine.records import Commit, ControlEvent, control_events
from noetl_core.events import control
from noetl_core.events.event import EndingEvent
from noetl_core.events.redrives import CarriedOver, ChunkLineage
from noetl_core.events.shapes import ChunkDone, Failure, LoopCounts, LoopPlan, ResultPointer

ENDED_BY_CONTROL = ("cancelled", "timeout", "lost")
"""Error kinds of runs that the control plane ended."""


@dataclass(slots=True)
class TokenLineage:
    """A token and its end: it was consumed by `consumer`, merged into `merged`, or it `expired` (the code of its
    event)."""

    id: str
    data: control.TokenEnqueued
    consumer: str | None = None
    merged: str | None = None
    expired: str | None = None
    over: bool = False
    """True if it was taken back, or put back under another id."""
    place: tuple[int, ...] = ()
    """Its place in the tree of branches (`engine.fold.branch_places`); it never changes."""


@dataclass(slots=True)
class RunLineage:
    """A step run. `ok` is None until it has ended. `chunks` are those of a distributed loop by index, as in `DoneChunk`."""

    id: str
    step: str
    token: str
    args: Mapping[str, Any]
    ok: bool | None = None
    at: ResultPointer | None = None
    loop: LoopCounts | None = None
    error: Failure | None = None
    unhandled: bool = False
    """True if it failed and no arc handled that, or it was ended with the whole execution."""
    routing_failed: bool = False
    """True if it ended well, but its arcs could not be evaluated."""
    undone: bool = False
    """Its compensation has run, or has begun."""
    plan: LoopPlan | None = None
    chunks: dict[int, ChunkLineage] = field(default_factory=dict)
    carried_over: CarriedOver | None = None
    over: bool = False
    branches: bool = False
    """Its arcs produced several tokens."""


@dataclass(slots=True)
class Lineage:
    """All tokens and runs in the order of their creation, and every write to ctx with the run that wrote it."""

    tokens: dict[str, TokenLineage] = field(default_factory=dict)
    runs: dict[str, RunLineage] = field(default_factory=dict)
    order: list[TokenLineage | RunLineage] = field(default_factory=list)
    ended: list[str] = field(default_factory=list)
    ctx: Mapping[str, Any] = field(default_factory=dict)
    writes: list[tuple[str | None, Mapping[str, Any]]] = field(default_factory=list)
    digests: list[str] = field(default_factory=list)
    """The playbooks that the execution pinned, the newest last."""
    _chunks: dict[str, tuple[str, int]] = field(default_factory=dict)
    _carried_over: dict[str, CarriedOver] = field(default_factory=dict)
    _put_back: dict[str, str] = field(default_factory=dict)
    """Token -> the earlier token in whose place a redrive put it."""
    _stopping: bool = False

    def after(self, targets: Iterable[str]) -> tuple[set[str], set[str]]:
        """Return the runs and tokens that depend on the runs `targets`, with the targets themselves."""
        runs, tokens = set(targets), set[str]()
        for node in self.order:
            if node.over:
                continue
            if isinstance(node, RunLineage):
                if node.token in tokens:
                    runs.add(node.id)
            elif node.data.get("run") in runs or any(j in tokens for j in node.data.get("joined") or ()):
                tokens.add(node.id)
        return runs, tokens

    def live(self) -> Iterator[RunLineage]:
        """Return the runs that were not taken back."""
        return (run for run in self.runs.values() if not run.over)

    def last_of(self, step: str) -> list[RunLineage]:
        """Return the runs of a step from which no other run of the same step followed: the last round of a cycle, every
        branch of a fan-out."""
        leads: set[str] = set()
        for node in reversed(self.order):
            if node.over:
                continue
            if isinstance(node, TokenLineage):
                run = self.runs.get(node.consumer or "")
                if node.merged in leads or (run is not None and (run.id in leads or run.step == step)):
                    leads.add(node.id)
                    if made_by := node.data.get("run"):
                        leads.add(made_by)
        return [run for run in self.live() if run.step == step and run.id not in leads]

    def ctx_without(self, gone: set[str]) -> dict[str, Any]:
        """Return ctx as the other runs wrote it."""
        out = dict(self.ctx)
        for run, patch in self.writes:
            if run not in gone:
                out.update(patch)
        return out


def lineage_of(commits: Iterable[Commit]) -> Lineage:
    """Fold a whole control stream."""
    out = Lineage()
    for commit in commits:
        for event in control_events(commit):
            _fold(out, event)
    return out


def _fold(x: Lineage, event: ControlEvent) -> None:
    match event.name:
        case "PlaybookExecutionRequested":
            x.ctx, x.digests = event.data.get("ctx") or {}, [event.data["digest"]]
        case "TokenEnqueued":
            token = x.tokens[event.data["token"]] = TokenLineage(event.data["token"], event.data, place=_place(x, event.data))
            x.order.append(token)
            for joined in event.data.get("joined") or ():
                x.tokens[joined].merged = token.id
        case "TokenClaimed":
            for name in event.data["tokens"]:
                x.tokens[name].consumer = event.data["run"]
        case "TokenExpired":
            x.tokens[event.data["token"]].expired = event.data["code"]
        case "StepScheduled":
            token_id = event.data["tokens"][0]
            carried_over = x._carried_over.get(token_id)
            run = x.runs[event.data["run"]] = RunLineage(
                event.data["run"], event.data["step"], token_id, event.data.get("args") or {}, carried_over=carried_over
            )
            if carried_over is not None and "loop" in carried_over:
                run.chunks = {int(index): _kept(done) for index, done in carried_over["loop"]["done"].items()}
            x.order.append(run)
        case "LoopSliced":
            sliced = x.runs[event.data["run"]]
            sliced.plan = event.data["plan"]
            if (done := event.data.get("done")) is not None:
                sliced.chunks[0] = _kept(done)
        case "LoopChunkScheduled":
            x._chunks[event.data["run"]] = (event.data["parent"], event.data["chunk"])
            x.runs[event.data["parent"]].chunks[event.data["chunk"]] = {"run": event.data["run"]}
        case "BoundaryRouted" | "StepDone" | "StepFailed" | "LoopDone":
            _ended(x, event)
        case "NextEvaluated":
            run = x.runs[event.data["run"]]
            run.unhandled = run.unhandled or event.data.get("unhandled") is not None
            run.routing_failed = event.data.get("error") is not None or event.data.get("ending") is True
            run.branches = len(event.data["selected"]) > 1
        case "CtxPatched":
            x.writes.append((event.data.get("run"), event.data["patch"]))
        case "ExecutionCancelled":
            x._stopping = True
        case "ExecutionFailing":
            x._stopping = True
        case "CompensationStarted":
            x.runs[event.data["of"]].undone = True
        case "ExecutionRedriven":
            _redriven(x, event.data)
        case _:
            pass  # no token or run comes from it


def _place(x: Lineage, d: control.TokenEnqueued) -> tuple[int, ...]:
    if d["token"] in x._put_back:
        return x.tokens[x._put_back[d["token"]]].place
    if joined := d.get("joined"):
        return min(x.tokens[name].place for name in joined)
    run = x.runs.get(d.get("run") or "")
    if run is None:
        return ()
    place, arc = x.tokens[run.token].place, d.get("arc")
    return (*place, arc) if run.branches and arc is not None else place


def _ended(x: Lineage, event: EndingEvent) -> None:
    d = event.data
    routed = event.data if event.name == "BoundaryRouted" else None
    boundary = event.name if routed is None else routed["name"]
    if boundary == "StepSuspended":
        return
    if d["run"] in x._chunks and routed is not None:
        parent, chunk = x._chunks[d["run"]]
        x.runs[parent].chunks[chunk] = _chunk(routed)
        return
    run = x.runs.get(d["run"])
    if run is None or run.ok is not None:
        return  # a compensation; or the LoopDone of a run whose boundary was counted
    run.error = None if event.name == "StepDone" else event.data.get("error")
    run.ok = boundary != "StepFailed" and not run.error
    if event.name == "LoopDone":
        run.at = {"value": event.data.get("result")}
        run.loop = {
            "total": event.data.get("total", 0),
            "succeeded": event.data.get("succeeded", 0),
            "failed": event.data.get("failed", 0),
        }
    elif routed is not None:
        run.at, run.loop = {"run": run.id, "seq": routed["seq"]}, routed.get("loop")
    else:
        run.at = {"value": None}
    if x._stopping and run.error is not None and not run.ok and run.error.get("kind") in ENDED_BY_CONTROL:
        run.unhandled = True
    x.ended.append(run.id)


def _kept(done: ChunkDone) -> ChunkLineage:
    chunk: ChunkLineage = {"run": done["run"], "seq": done["seq"], "succeeded": done["succeeded"], "failed": done["failed"]}
    if "writes" in done:
        chunk["writes"] = done["writes"]
    if "result" in done:
        chunk["result"] = done["result"]
    if "innermost" in done:
        chunk["innermost"] = done["innermost"]
    return chunk


def _chunk(d: control.BoundaryRouted) -> ChunkLineage:
    chunk: ChunkLineage = {"run": d["run"], "seq": d["seq"]}
    chunk["succeeded"], chunk["failed"] = d.get("succeeded", 0), d.get("failed", 0)
    if "writes" in d:
        chunk["writes"] = bool(d["writes"])
    if "result" in d:
        chunk["result"] = d["result"]
    if (innermost := d.get("innermost")) is not None:
        chunk["innermost"] = innermost
    if (error := d.get("error")) is not None:
        chunk["error"] = error
    return chunk


def _redriven(x: Lineage, d: control.ExecutionRedriven) -> None:
    runs, tokens = x.after(d["again"])
    for name in runs:
        x.runs[name].over = True
    for name in (*tokens, *(t["of"] for t in d["tokens"])):
        x.tokens[name].over = True
    x.writes = [(run, patch) for run, patch in x.writes if run not in runs]
    if written := d.get("set"):
        x.writes.append((None, written))
    x._put_back.update({t["token"]: t["of"] for t in d["tokens"]})
    x._carried_over = {t["token"]: t["prior"] for t in d["tokens"] if t.get("prior")}
    if "digest" in d:
        x.digests.append(d["digest"])
    x._stopping = False
