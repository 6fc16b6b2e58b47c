"""The lineage of tokens and step runs: which came from which, over a whole control stream (`engine.redrive` uses it to take
some back).

The state of an execution forgets tokens and runs when they are over; this fold keeps them all. It is computed once per
redrive, never during routing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from noetl_core.engine.records import Commit, Event

STOPPED = ("cancelled", "timeout", "lost")
"""Error kinds of runs that the control plane ended."""


@dataclass(slots=True)
class TokenLineage:
    """A token, and what became of it: it was consumed by `consumer`, merged into `merged`, or it `expired` (the code of its
    event)."""

    id: str
    data: Mapping[str, Any]
    consumer: str | None = None
    merged: str | None = None
    expired: str | None = None
    over: bool = False
    """It was taken back, or put back under another id."""
    place: tuple[int, ...] = ()
    """Its place in the tree of branches (`engine.places`); it never changes."""


@dataclass(slots=True)
class RunLineage:
    """A step run. `ok` is None until it has ended. `chunks` are those of a distributed loop by index, as in `ChunkState`."""

    id: str
    step: str
    token: str
    args: Mapping[str, Any]
    ok: bool | None = None
    at: Mapping[str, Any] | None = None
    loop: Mapping[str, int] | None = None
    error: Mapping[str, Any] | None = None
    unhandled: bool = False
    """It failed and no arc handled that, or it was ended with the whole execution."""
    routing_failed: bool = False
    """It ended well, but its arcs could not be evaluated."""
    undone: bool = False
    """Its compensation has run, or has begun."""
    plan: Mapping[str, Any] | None = None
    chunks: dict[int, dict[str, Any]] = field(default_factory=dict)
    carried_over: Mapping[str, Any] | None = None
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
    _carried_over: dict[str, Mapping[str, Any]] = field(default_factory=dict)
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
                    if node.data.get("run"):
                        leads.add(node.data["run"])
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
        for event in commit.events:
            _fold(out, event)
    return out


def _fold(x: Lineage, event: Event) -> None:
    d = event.data
    match event.name:
        case "PlaybookExecutionRequested":
            x.ctx, x.digests = d.get("ctx") or {}, [d["digest"]]
        case "TokenEnqueued":
            token = x.tokens[d["token"]] = TokenLineage(d["token"], d, place=_place(x, d))
            x.order.append(token)
            for joined in d.get("joined") or ():
                x.tokens[joined].merged = token.id
        case "TokenClaimed":
            for name in d["tokens"]:
                x.tokens[name].consumer = d["run"]
        case "TokenExpired":
            x.tokens[d["token"]].expired = d["code"]
        case "StepScheduled":
            token_id = d["tokens"][0]
            carried_over = x._carried_over.get(token_id)
            run = x.runs[d["run"]] = RunLineage(d["run"], d["step"], token_id, d.get("args") or {}, carried_over=carried_over)
            if carried_over is not None and "loop" in carried_over:
                run.chunks = {int(index): dict(done) for index, done in carried_over["loop"]["done"].items()}
            x.order.append(run)
        case "LoopSliced":
            x.runs[d["run"]].plan = d["plan"]
        case "LoopChunkScheduled":
            x._chunks[d["run"]] = (d["parent"], d["chunk"])
            x.runs[d["parent"]].chunks[d["chunk"]] = {"run": d["run"]}
        case "BoundaryRouted" | "StepDone" | "StepFailed" | "LoopDone":
            _ended(x, event.name, d)
        case "NextEvaluated":
            run = x.runs[d["run"]]
            run.unhandled = run.unhandled or d.get("unhandled") is not None
            run.routing_failed = d.get("error") is not None
            run.branches = len(d["selected"]) > 1
        case "CtxPatched":
            x.writes.append((d.get("run"), d["patch"]))
        case "ExecutionCancelled":
            x._stopping = True
        case "ExecutionFailing":
            x._stopping = True
        case "CompensationStarted":
            x.runs[d["of"]].undone = True
        case "ExecutionRedriven":
            _redriven(x, d)
        case _:
            pass  # nothing that a token or a run comes of


def _place(x: Lineage, d: Mapping[str, Any]) -> tuple[int, ...]:
    if d["token"] in x._put_back:
        return x.tokens[x._put_back[d["token"]]].place
    if d.get("joined"):
        return min(x.tokens[name].place for name in d["joined"])
    run = x.runs.get(d.get("run") or "")
    if run is None:
        return ()
    place = x.tokens[run.token].place
    return (*place, d["arc"]) if run.branches else place


def _ended(x: Lineage, name: str, d: Mapping[str, Any]) -> None:
    boundary = d.get("name", name)
    if boundary == "StepSuspended":
        return
    if d["run"] in x._chunks:
        parent, chunk = x._chunks[d["run"]]
        keys = ("seq", "succeeded", "failed", "writes", "result", "error", "innermost")
        x.runs[parent].chunks[chunk] = {"run": d["run"], **{k: d[k] for k in keys if k in d}}
        return
    run = x.runs.get(d["run"])
    if run is None or run.ok is not None:
        return  # a compensation; or the LoopDone of a run whose boundary was counted
    run.ok = boundary != "StepFailed" and not d.get("error")
    run.error, run.loop = d.get("error"), d.get("loop")
    if name == "LoopDone":
        run.at, run.loop = {"value": d.get("result")}, {k: int(d.get(k, 0)) for k in ("total", "succeeded", "failed")}
    else:
        run.at = {"run": run.id, "seq": d["seq"]} if name == "BoundaryRouted" else {"value": None}
    if x._stopping and not run.ok and (run.error or {}).get("kind") in STOPPED:
        run.unhandled = True
    x.ended.append(run.id)


def _redriven(x: Lineage, d: Mapping[str, Any]) -> None:
    runs, tokens = x.after(d["again"])
    for name in runs:
        x.runs[name].over = True
    for name in (*tokens, *(t["of"] for t in d["tokens"])):
        x.tokens[name].over = True
    x.writes = [(run, patch) for run, patch in x.writes if run not in runs]
    if d.get("set"):
        x.writes.append((None, d["set"]))
    x._put_back.update({t["token"]: t["of"] for t in d["tokens"]})
    x._carried_over = {t["token"]: t["prior"] for t in d["tokens"] if t.get("prior")}
    if "digest" in d:
        x.digests.append(d["digest"])
    x._stopping = False
