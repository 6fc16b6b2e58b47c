"""The plan of a redrive: the runs that are taken back, their parts that are kept, and the tokens that run them again
(docs/redriving.md).

To redrive a run takes back the run and everything that depends on it; all else stays. Tokens that the runs taken back had
consumed are put back as they were, and then the Petri net moves as always. ctx and `steps` are those after the remaining runs.

The plan *is* the data of `ExecutionRedriven`, so that a replay decides from the event alone. When a run continues where an
earlier run stopped, its token has the key `prior`; `noetl_core.log.carry_over` describes it.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from typing import Any, cast

from noetl_core.dsl.model import Playbook, Step, Task
from noetl_core.engine import ids
from noetl_core.engine.loops import chunk_of
from noetl_core.engine.redrive.lineage import Lineage, RunLineage, TokenLineage
from noetl_core.engine.routing.passes import boundary_event
from noetl_core.engine.state import State
from noetl_core.events import control
from noetl_core.events.redrives import (
    CarriedOver,
    CarriedOverLoop,
    ChunkLineage,
    RemainingStep,
    RepeatedArcs,
    Rerun,
    RestoredToken,
)
from noetl_core.events.shapes import ChunkDone, ResultPointer
from noetl_core.values.frozen import frozen
from noetl_core.values.mappings import deep_merge

FROM = re.compile(r"(?P<step>[^/@]+)(?:/(?P<task>[^/@]+))?(?:@(?P<path>\d{1,9}(?:\.\d{1,9})*))?", re.ASCII)


class BadRedrive(ValueError):
    """The request names something that does not exist, or from which the execution cannot continue. Who acts: the caller."""


@frozen
class From:
    """The place at which a redrive begins: a step, a task of it, or one iteration of its loop (the indexes, outermost first). In
    a step without a loop, the number after a task is a visit of it, from 1."""

    step: str
    task: str | None = None
    path: tuple[int, ...] = ()

    @classmethod
    def parse(cls, text: str) -> From:
        """Parse `STEP[/TASK][@0.3]`, where a loop's iterations or a task's visit follow `@`. Raises `BadRedrive`."""
        match = FROM.fullmatch(text)
        if match is None:
            raise BadRedrive(f"{text!r} does not say where to begin; write STEP, STEP/TASK, STEP@3 or STEP/TASK@0.3")
        path = match["path"]
        return cls(match["step"], match["task"], tuple(int(n) for n in path.split(".")) if path else ())

    def __str__(self) -> str:
        task = f"/{self.task}" if self.task else ""
        return self.step + task + ("@" + ".".join(map(str, self.path)) if self.path else "")


@frozen
class Redrive:
    """A request to redrive: where to begin (None: where it failed), edits of ctx, and edits of the step's args. With
    `iterations`, failed iterations of `best_effort` loops count as failures, too, as they do after an execution that
    completed."""

    begin: From | None = None
    ctx: Mapping[str, Any] = field(default_factory=dict)
    args: Mapping[str, Any] = field(default_factory=dict)
    iterations: bool = False


@frozen
class Plan:
    """The plan of a redrive: the `data` of its event; `reruns`, the runs to repeat, each with the part of it that is run again;
    `followers`, the other runs that depend on them; and `put_back`, the tokens to restore."""

    data: control.ExecutionRedriven
    reruns: tuple[tuple[RunLineage, Rerun | None], ...]
    followers: tuple[RunLineage, ...]
    put_back: tuple[TokenLineage, ...]


def plan(state: State, lineage: Lineage, old: Playbook, new: Playbook, request: Redrive) -> Plan:
    """Plan the redrive of an execution that has ended. Raises `BadRedrive`."""
    reruns = _targets(state, lineage, old, new, request)
    _ask_for_one_step(request, reruns)
    gone_runs, gone_tokens = lineage.after(run.id for run, _ in reruns)
    followers = tuple(r for r in lineage.live() if r.id in gone_runs and all(r is not run for run, _ in reruns))
    put_back = tuple(t for t in lineage.tokens.values() if not t.over and t.id not in gone_tokens and _comes_back(t, gone_tokens))
    epoch = state.epoch + 1
    tokens = [_token(state, lineage, epoch, run, rerun, new, request) for run, rerun in reruns]
    tokens += [_put_back(state, epoch, token, {}) for token in put_back]
    tokens.sort(key=lambda t: lineage.tokens[t["of"]].place)  # they continue in the order in which they branched off
    _fits(new, {t["step"] for t in tokens})
    edits = _edited(lineage.ctx_without(gone_runs), request.ctx)
    data: control.ExecutionRedriven = {
        "epoch": epoch,
        "after": state.seq,
        "again": [run.id for run, _ in reruns],
        "ctx": {**lineage.ctx_without(gone_runs), **edits},
        "tokens": tokens,
    }
    if request.begin is not None:
        data["from"] = str(request.begin)
    if edits:
        data["set"] = edits
    if request.args:
        data["args"] = dict(request.args)
    if steps := _steps_without(lineage, gone_runs):
        data["steps"] = steps
    if (last_result := _last_result(lineage, gone_runs)) is not None:
        data["last_result"] = last_result
    if joins := {t.data["step"] for t in lineage.tokens.values() if t.id in gone_tokens and t.data.get("joined")}:
        data["joins"] = sorted(joins)
    if forgotten := [c["run"] for c in state.completed if c["run"] in gone_runs]:
        data["forgotten"] = forgotten
    if arcs := [_arcs(run) for run in lineage.live() if run.routing_failed and run.id not in gone_runs]:
        data["arcs"] = arcs
    if new.digest != old.digest:
        data["digest"] = new.digest
    return Plan(data, tuple(reruns), followers, put_back)


# --- repeated runs ------------------------------------------------------------------------------------------------------


def _targets(
    state: State, lineage: Lineage, old: Playbook, new: Playbook, request: Redrive
) -> list[tuple[RunLineage, Rerun | None]]:
    """Return the runs to repeat, none of which depends on another, each with its repeated parts (None: all)."""
    edited: Rerun = {"ctx": sorted(request.ctx)} if request.ctx else {}
    targets: dict[str, Rerun | None] = {}
    for run in lineage.live():
        if run.undone:
            targets[run.id] = None  # its effects have been undone
        elif run.ok is False and run.unhandled:
            targets[run.id] = {**_failed(old, run), **edited}
    if request.begin is not None:
        begin = request.begin
        for run in _begin_runs(lineage, new, begin):
            if run.undone or (begin.task is None and not begin.path):
                targets[run.id] = None
            else:
                rerun: Rerun = {"path": list(begin.path), **edited}
                if begin.task:
                    rerun["task"] = begin.task
                if begin.path and new.by_name[begin.step].loop is None:
                    rerun["path"], rerun["visit"] = [], begin.path[0]
                targets[run.id] = {**rerun, **_failed(old, run)} if run.ok is False else rerun
    elif state.status == "completed" or request.iterations:
        for run in lineage.live():
            if run.ok and run.loop is not None and run.loop["failed"]:
                targets[run.id] = {**_failed(old, run), **edited}
        if not targets and state.status == "completed":
            remedy = "say where to begin again, with --from STEP (`from` in the API)"
            raise BadRedrive(f"the execution has completed, and no iteration of it failed: {remedy}")
    _, tokens = lineage.after(targets)
    return [(lineage.runs[name], rerun) for name, rerun in targets.items() if lineage.runs[name].token not in tokens]


def _failed(old: Playbook, run: RunLineage) -> Rerun:
    """Return the parts of a failed run that are repeated: the failed parts, and the page in which a task failed."""
    step = old.by_name.get(run.step)
    pages = _pages(step.tasks) if step is not None else {}
    return {"failed": True, "pages": pages} if pages else {"failed": True}


def _pages(tasks: Sequence[Task]) -> dict[str, str]:
    """Return the first task of each task's page, by task, if it comes earlier: the target of the nearest jump back over it."""
    place = {task.name: n for n, task in enumerate(tasks)}
    first: dict[int, int] = {}
    for n, task in enumerate(tasks):
        for rule in task.policy.rules if task.policy is not None else ():
            if rule.then.do == "jump" and (to := place[rule.then.to or ""]) < n:
                first.update({m: max(to, first.get(m, to)) for m in range(to, n + 1)})
    return {tasks[n].name: tasks[to].name for n, to in sorted(first.items()) if to < n}


def _begin_runs(lineage: Lineage, new: Playbook, begin: From) -> list[RunLineage]:
    """Return the runs that `begin` names. Raises `BadRedrive`."""
    runs = lineage.last_of(begin.step)
    if not runs:
        names = list(dict.fromkeys(run.step for run in lineage.live()))
        near = difflib.get_close_matches(begin.step, names, 1)
        hint = f"did you mean {near[0]!r}?" if near else f"steps that ran: {', '.join(names)}"
        raise BadRedrive(f"step {begin.step!r} has not run in this execution; {hint}")
    step = new.by_name.get(begin.step)
    if step is None:
        raise BadRedrive(f"the playbook has no step {begin.step!r} any more")
    if begin.task is not None and begin.task not in [t.name for t in step.tasks]:
        near = difflib.get_close_matches(begin.task, [t.name for t in step.tasks], 1)
        hint = f"did you mean {near[0]!r}?" if near else f"its tasks: {', '.join(t.name for t in step.tasks)}"
        raise BadRedrive(f"step {begin.step!r} has no task {begin.task!r}; {hint}")
    if begin.path:
        _check_path(step, runs, begin)
    return runs


def _check_path(step: Step, runs: list[RunLineage], begin: From) -> None:
    if step.loop is None:
        if begin.task is not None and len(begin.path) == 1:
            return  # a visit: only the run's stream has the number of visits
        number = ".".join(map(str, begin.path))
        remedy = f"; {begin.step}/{step.tasks[-1].name}@1 is the first visit of a task" if step.tasks else ""
        raise BadRedrive(f"step {begin.step!r} has no loop, so no iteration {number}{remedy}")
    depth, inner = 1, step.loop.inner
    while inner is not None:
        depth, inner = depth + 1, inner.inner
    if len(begin.path) > depth:
        raise BadRedrive(f"the loop of step {begin.step!r} is {depth} deep; {begin} names an iteration {len(begin.path)} deep")
    for run in runs:
        total = run.plan["total"] if run.plan is not None else None
        if total is None and run.loop is not None:
            total = run.loop.get("items", run.loop["total"])
        if total is not None and begin.path[0] >= total:
            raise BadRedrive(f"the loop of step {begin.step!r} has {total} iterations, 0 to {total - 1}; there is no {begin}")


def _ask_for_one_step(request: Redrive, reruns: Iterable[tuple[RunLineage, Any]]) -> None:
    steps = sorted({run.step for run, _ in reruns})
    if request.args and request.begin is None and len(steps) != 1:
        raise BadRedrive(
            f"args are for one step, and {len(steps)} steps are run again ({', '.join(steps)}); name the step with --from"
        )


def _fits(new: Playbook, steps: set[str]) -> None:
    missing = sorted(steps - set(new.by_name))
    if missing:
        raise BadRedrive(f"the playbook has no step {missing[0]!r}, which is to be run again")


# --- tokens -------------------------------------------------------------------------------------------------------------


def _comes_back(token: TokenLineage, gone: set[str]) -> bool:
    """Return whether a token that is kept must be put back: it expired with the execution, or a join that is taken back
    consumed it. Tokens that a join dropped stay dropped."""
    if token.expired is not None:
        return token.expired != "join"
    return token.merged in gone


def _token(
    state: State, lineage: Lineage, epoch: int, run: RunLineage, rerun: Rerun | None, new: Playbook, request: Redrive
) -> RestoredToken:
    edited = request.args if request.begin is None or request.begin.step == run.step else {}
    out = _put_back(state, epoch, lineage.tokens[run.token], edited)
    step = new.by_name.get(run.step)
    if step is not None and step.join is not None:
        out["joined"] = []  # it met the others already
    if rerun is not None:
        out["prior"] = _carried_over(run, rerun)
    return out


def _put_back(state: State, epoch: int, token: TokenLineage, args: Mapping[str, Any]) -> RestoredToken:
    recorded = token.data
    out: RestoredToken = {
        "token": ids.redriven_token_id(state.execution_id, token.id, epoch),
        "of": token.id,
        "step": recorded["step"],
    }
    if (run := recorded.get("run")) is not None:
        out["run"] = run
    if (arc := recorded.get("arc")) is not None:
        out["arc"] = arc
    if (event := recorded.get("event")) is not None:
        out["event"] = event
    if (priority := recorded.get("priority")) is not None:
        out["priority"] = priority
    if (rounds := recorded.get("rounds")) is not None:
        out["rounds"] = rounds
    if whole := {**(recorded.get("args") or {}), **args}:
        out["args"] = whole
    if recorded.get("joined") is not None:
        out["joined"] = []
    return out


def _carried_over(run: RunLineage, rerun: Rerun) -> CarriedOver:
    before: CarriedOver = run.carried_over or {}
    if run.plan is None:
        return {"runs": [*before.get("runs", ()), _pair(run.id, rerun)]}
    known = {**before["loop"].get("before", {}), **before["loop"]["chunks"]} if "loop" in before else {}
    path = rerun.get("path")
    done: dict[str, ChunkDone] = {}
    chunks: dict[str, CarriedOver] = {}
    earlier: dict[str, CarriedOver] = {}
    for index, chunk in sorted(run.chunks.items()):
        prior = before if chunk["run"] == run.id else known.get(str(index), {})
        named = path is not None and (not path or chunk_of(run.plan, path[0]) == index)
        whole = "seq" in chunk and not chunk.get("error")
        if whole and not named and not (rerun.get("failed") and chunk.get("failed")):
            done[str(index)] = _done(chunk)
            if "runs" in prior:
                earlier[str(index)] = {"runs": prior["runs"]}
        else:
            mine: Rerun = rerun if whole or named else _failed_part(rerun)
            chunks[str(index)] = {"runs": [*prior.get("runs", ()), _pair(chunk["run"], mine)]}
    plan = run.plan.copy()
    plan.pop("view", None)
    loop: CarriedOverLoop = {"plan": {"slices": run.id, **plan}, "done": done, "chunks": chunks}
    if earlier:
        loop["before"] = earlier
    return {"loop": loop}


def _failed_part(rerun: Rerun) -> Rerun:
    out: Rerun = {"failed": True}
    if "ctx" in rerun:
        out["ctx"] = rerun["ctx"]
    if "pages" in rerun:
        out["pages"] = rerun["pages"]
    return out


def _pair(run: str, rerun: Rerun) -> tuple[str, Rerun]:
    """Return a pair as JSON has it: a list."""
    return cast("tuple[str, Rerun]", [run, rerun.copy()])


def _done(chunk: ChunkLineage) -> ChunkDone:
    done: ChunkDone = {"run": chunk["run"], "seq": chunk["seq"], "succeeded": chunk["succeeded"], "failed": chunk["failed"]}
    if "writes" in chunk:
        done["writes"] = chunk["writes"]
    if "result" in chunk:
        done["result"] = chunk["result"]
    if "innermost" in chunk:
        done["innermost"] = chunk["innermost"]
    return done


# --- kept parts ---------------------------------------------------------------------------------------------------------


def _edited(ctx: Mapping[str, Any], edits: Mapping[str, Any]) -> dict[str, Any]:
    """Return the edited keys; mappings are merged deep."""
    merged = deep_merge(ctx, edits)
    return {key: merged[key] for key in edits}


def _steps_without(lineage: Lineage, gone: set[str]) -> dict[str, RemainingStep]:
    """Return the entries of `steps` for steps that are taken back: the last remaining run of each, if any."""
    out: dict[str, RemainingStep] = {run.step: {} for run in lineage.runs.values() if run.id in gone}
    for name in lineage.ended:
        run = lineage.runs[name]
        if run.step in out and name not in gone and not run.over:
            out[run.step] = {"status": "ok" if run.ok else "error", "at": run.at, "loop": run.loop}
    return out


def _last_result(lineage: Lineage, gone: set[str]) -> ResultPointer | None:
    kept = (lineage.runs[name] for name in reversed(lineage.ended) if name not in gone)
    return next((run.at for run in kept if run.ok and not run.over), None)


def _arcs(run: RunLineage) -> RepeatedArcs:
    """Return a run whose arcs are evaluated again."""
    name = "step.failed" if not run.ok else "loop.done" if run.loop is not None else "step.done"
    event = boundary_event(name, run.step, run.id, run.at, error=run.error, loop=run.loop)
    return {"run": run.id, "step": run.step, "args": dict(run.args), "event": event}
