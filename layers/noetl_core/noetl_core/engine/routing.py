"""One routing pass: the working state of a decision, and the rules for tokens, admission, joins, arcs and completion.

Every change is an event that is folded into the working state the moment it is emitted, so that the rules read one state and
replaying the commit gives the same one. Pure: `now` is given, values behind references are given or asked for (`NeedValues`).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

from noetl_core.dsl.model import UNSET, Arc, Playbook, Step
from noetl_core.engine import ids
from noetl_core.engine.graph import leads_to
from noetl_core.engine.qos import Quality, quality
from noetl_core.engine.reads import result_needs
from noetl_core.engine.records import Event
from noetl_core.engine.state import Run, State, StepState, Token, fold
from noetl_core.expr import LimitExceeded, Pointer, Scope, TemplateError, render, truthy

Need = tuple[Any, ...]
"""`("boundary", run_id, seq)`: the data of that commit's last event; `("writes", run_id, seq)`: only its `ctx_writes`, which
are small; `("object", key)`: the value behind a reference."""


class NeedValues(Exception):
    """The decision reads values it was not given; fetch them and decide again. Who acts: the shell, at once.

    `objects` are those that the decision itself would store: what it asks for may lie in them.
    """

    def __init__(self, needs: Sequence[Need], objects: Sequence[tuple[str, bytes]] = ()) -> None:
        super().__init__(str(needs[0]))
        self.needs = tuple(needs)
        self.objects = tuple(objects)


@dataclass(frozen=True, slots=True)
class TooMuch:
    """Given in place of a value that is too large to decide on (`size` bytes); reading it fails with `kind: limit`."""

    size: int


@dataclass(frozen=True, slots=True)
class Unreadable:
    """Given in place of a value that is not there, or is no data; reading it fails with `kind: template`."""

    reason: str


class StepsView(Mapping[str, Mapping[str, Any]]):
    """`steps.<name>.result|status|loop` of finished steps, built only when read (resolution 14)."""

    __slots__ = ("_steps",)

    def __init__(self, steps: Mapping[str, StepState]) -> None:
        self._steps = steps

    def __getitem__(self, name: str) -> Mapping[str, Any]:
        step = self._steps[name]
        return {"status": step.status, "result": result_at(step.at), "loop": step.loop}

    def __iter__(self) -> Iterator[str]:
        return (name for name, step in self._steps.items() if step.at is not None)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def plain(self, names: Iterable[str] | None) -> dict[str, Any]:
        """As a command carries it: pointers stay pointers. Of the finished steps, those in `names`; None: all."""
        found = self._steps.items() if names is None else ((n, self._steps[n]) for n in names if n in self._steps)
        return {name: {"status": s.status, "at": s.at, "loop": s.loop} for name, s in found if s.at is not None}


def result_at(at: Mapping[str, Any] | None) -> Any:
    """What a stored pointer stands for in a scope: a lazy `Pointer`, or the value the control plane made itself."""
    if at is None:
        return None
    return at["value"] if "value" in at else Pointer(at)


def merge_workload(defaults: Mapping[str, Any], payload: Mapping[str, Any]) -> dict[str, Any]:
    """MergedWorkload (formal spec 4.1): maps merge deep, the request wins, lists are replaced."""
    out = dict(defaults)
    for key, value in payload.items():
        mine = out.get(key)
        out[key] = merge_workload(mine, value) if isinstance(mine, Mapping) and isinstance(value, Mapping) else value
    return out


@dataclass(slots=True)
class RoutingPass:
    """A decision being made: `state` is owned and advanced by `emit`; `events` is what will be committed at `seq`."""

    playbook: Playbook
    state: State
    now: int
    seq: int
    values: Mapping[Need, Any]
    events: list[Event] = field(default_factory=list)
    scheduled: list[str] = field(default_factory=list)
    objects: list[tuple[str, bytes]] = field(default_factory=list)
    judged: int = -1
    """`ctx_version` at which the parked tokens were last judged; -1 judges them all again."""
    advance: list[str] = field(default_factory=list)
    """Leads of distributed loops that a redrive goes on with: their windows are to be filled."""
    made: list[str] = field(default_factory=list)
    """Tokens of this pass not judged yet: those of passes before are parked, held by a join, or may not move at all."""
    _workload: dict[str, Any] | None = None

    def emit(self, name: str, /, **data: Any) -> None:
        """Record an event and fold it; keys whose value is None are left out."""
        event = Event(name, self.now, {k: v for k, v in data.items() if v is not None})
        self.events.append(event)
        if name == "TokenEnqueued":
            self.made.append(data["token"])
        fold(self.state, event, self.seq)

    @property
    def workload(self) -> dict[str, Any]:
        if self._workload is None:
            self._workload = merge_workload(self.playbook.workload, self.state.payload)
        return self._workload

    def scope(self, args: Mapping[str, Any], event: Mapping[str, Any] | None = None) -> Scope:
        """What control-plane expressions see: no secrets, no pipeline locals (formal spec 3.2)."""
        return Scope(
            {
                "workload": self.workload,
                "ctx": self.state.ctx,
                "args": args,
                "steps": StepsView(self.state.steps),
                "execution_id": self.state.execution_id,
                "event": event or {},
            },
            resolve=self.resolve,
        )

    def resolve(self, ref: Any) -> Any:
        """Value behind a pointer or a reference, or `NeedValues`."""
        if isinstance(ref, Pointer):
            return self.value(("boundary", ref.at["run"], ref.at["seq"])).get("result")
        value = self.value(("object", ref["key"]), ref)
        if isinstance(value, TooMuch):
            raise LimitExceeded(f"a decision reads {value.size} bytes behind one reference; compute what it needs in a task")
        if isinstance(value, Unreadable):
            raise TemplateError(value.reason)
        return value

    def value(self, need: Need, ref: Any = None) -> Any:
        try:
            return self.values[need]
        except KeyError:
            raise NeedValues([need if ref is None else (*need, ref)], self.objects) from None

    def carried(self, values: Mapping[str, Any], name: str) -> dict[str, Any]:
        """`values` as tokens and ctx carry them: those over the inline limit are references, so that what is passed on from step
        to step makes no event or command large (resolution 22)."""
        limit = self.playbook.executor.limits.max_payload_bytes
        out = dict(values)
        for n, (key, value) in enumerate(values.items()):
            if type(value) not in (str, list, dict):
                continue
            body = json.dumps(value, separators=(",", ":")).encode()
            if len(body) > limit:
                hint = {"type": "list", "length": len(value)} if type(value) is list else {"type": type(value).__name__}
                out[key] = self.stored(f"args/{name}-{n}.json", body, hint)
        return out

    def stored(self, name: str, body: bytes, hint: Any) -> dict[str, Any]:
        """A reference to an object of the execution that is stored before the decision is committed."""
        key = f"{self.state.execution_id}/{name}"
        self.objects.append((key, body))
        checksum = "sha256:" + sha256(body).hexdigest()
        return {"kind": "result_ref", "store": "s3", "key": key, "size": len(body), "checksum": checksum, "schema_hint": hint}

    def want(self, needs: Iterable[Need]) -> None:
        """Ask for all of `needs` at once, where one after the other would be a round each."""
        missing = [need for need in needs if need not in self.values]
        if missing:
            raise NeedValues(missing, self.objects)

    def goes_on(self, run: Run) -> bool:
        """Whether news may reach `run`: not while paused or stuck, nor once it is to be ended."""
        return self.state.status == "running" or (self.state.status == "cancelling" and run.undoes is not None)

    @property
    def may_schedule(self) -> bool:
        """Nothing new starts while paused, cancelling or stuck, nor after an unhandled failure unless best effort (11)."""
        s = self.state
        if s.status != "running":
            return False
        return s.failure is None or (self.playbook.executor.failure_mode == "best_effort" and not s.failure.get("fatal"))

    def fail(self, kind: str, message: str, step: str | None = None) -> None:
        """The whole execution fails with a decision of its own (a template or limit error)."""
        error = {"kind": kind, "message": message, "retryable": False, "fatal": True}
        if step is not None:
            error["step"] = step
        self.emit("ExecutionFailing", error=error)


# --- arcs ---------------------------------------------------------------------------------------------------------------


def boundary_event(name: str, step: str, run: str, at: Mapping[str, Any] | None, **more: Any) -> dict[str, Any]:
    """`event` as stored with tokens: `name` in dotted form (resolution 3), a pointer instead of the result."""
    return {"name": name, "step": step, "run_id": run, "at": at, **{k: v for k, v in more.items() if v is not None}}


def event_namespace(event: Mapping[str, Any]) -> dict[str, Any]:
    """`event` as guards read it."""
    out = {k: v for k, v in event.items() if k != "at"}
    out["result"] = result_at(event.get("at"))
    out["status"] = "error" if event["name"] == "step.failed" else "success"
    return out


def take_arcs(p: RoutingPass, step: Step, run: Run, event: dict[str, Any]) -> None:
    """Evaluate `next.arcs` on a boundary and enqueue the tokens of those that fire (formal spec 8, resolution 11)."""
    seen = event_namespace(event)
    failed = event["name"] == "step.failed"
    try:
        if not failed and step.set_ctx:
            patch = render(step.set_ctx, p.scope(run.args, seen), undefined_ok=True)
            patch = p.carried(patch, f"{run.id}-ctx")
            p.emit("CtxPatched", run=run.id, patch=patch)
        scope = p.scope(run.args, seen)
        fired = _select(p.playbook, step, scope, failed)
        tokens = [_token(p, step, arc, scope) for arc in fired]
        patches = [
            p.carried(render(arc.set_ctx, scope, undefined_ok=True), f"{run.id}-{arc.index}-ctx") for arc in fired if arc.set_ctx
        ]
    except TemplateError as error:
        p.emit("NextEvaluated", run=run.id, step=step.name, event=event["name"], selected=[], error=str(error))
        p.fail(error.kind, f"arcs of step {step.name}: {error}", step.name)
        return
    unhandled = None
    if failed and not fired:
        unhandled = {**(event.get("error") or {"kind": "unknown", "message": "the step failed"}), "step": step.name}
    p.emit(
        "NextEvaluated",
        run=run.id,
        step=step.name,
        event=event["name"],
        selected=[{"arc": a.index, "step": a.step} for a in fired],
        unhandled=unhandled,
    )
    for patch in patches:
        p.emit("CtxPatched", run=run.id, patch=patch)
    for arc, args, q in tokens:
        if q.key is not None and q.key in p.state.made:
            continue  # `selected` has it; the token was made before
        token = ids.token_id(p.state.execution_id, run.id, arc.index, p.state.epoch)
        rank = {"priority": q.priority or None, "key": q.key}
        args = p.carried(args, token)
        p.emit("TokenEnqueued", token=token, step=arc.step, args=args or None, run=run.id, arc=arc.index, event=event, **rank)
    if len(p.state.tokens) > p.playbook.executor.limits.max_tokens:
        remedy = "if that is meant, raise executor.spec.policy.limits.max_tokens"
        p.fail("limit", f"more than {p.playbook.executor.limits.max_tokens} tokens are live; {remedy}", step.name)


def _token(p: RoutingPass, step: Step, arc: Arc, scope: Scope) -> tuple[Arc, dict[str, Any], Quality]:
    assert step.router is not None
    args: dict[str, Any] = render(arc.args, scope, undefined_ok=True)
    return arc, args, quality(step.router, arc, args, scope, p.state.epoch)


def _select(playbook: Playbook, step: Step, scope: Scope, failed: bool) -> list[Arc]:
    if step.router is None:
        return []
    fired = []
    for arc in step.router.arcs:
        if arc.when is None:
            fires = not failed or playbook.executor.unconditional_on_failure
        else:
            fires = truthy(arc.when, scope)
        if fires:
            fired.append(arc)
            if step.router.mode == "exclusive":
                break
    return fired


# --- tokens, admission, joins -------------------------------------------------------------------------------------------


def settle(p: RoutingPass) -> None:
    """Move tokens until nothing moves: joins, admission, schedules; then, when nothing is open, completion (DESIGN 4)."""
    while p.may_schedule:
        if not _move_tokens(p) and not _fire_joins(p, quiet=False):
            break
    if p.state.runs or p.state.finished or p.state.status in ("paused", "stuck"):
        return
    if p.may_schedule and _fire_joins(p, quiet=True):
        settle(p)
        return
    _finish(p)


def _move_tokens(p: RoutingPass) -> bool:
    """Judge every token that may move now; True when something did."""
    s = p.state
    rejudge = p.judged != s.ctx_version
    known = s.tokens.values() if rejudge else [s.tokens[name] for name in p.made if name in s.tokens]
    waiting = [t for t in known if (rejudge or not t.parked) and not _held_by_join(p, t)]
    waiting.sort(key=lambda t: -t.priority)
    p.judged = s.ctx_version
    p.made.clear()
    moved = False
    for token in waiting:
        if not p.may_schedule:
            return moved
        moved = _admit(p, token) or moved
    return moved


def _held_by_join(p: RoutingPass, token: Token) -> bool:
    return not token.joined and p.playbook.by_name[token.step].join is not None


def _admit(p: RoutingPass, token: Token) -> bool:
    """Admission of one token (formal spec 4.2, resolution 12); True unless it stays parked."""
    step = p.playbook.by_name[token.step]
    event = event_namespace(token.event) if token.event else None
    try:
        allowed = token.id in p.state.priors or _allowed(p, step, token, event)  # what goes on was admitted when it began
        if allowed:
            _schedule(p, step, token)
            return True
    except TemplateError as error:
        p.emit("TokenExpired", token=token.id, reason=str(error))
        p.fail(error.kind, f"admission of step {step.name}: {error}", step.name)
        return True
    assert step.admission is not None
    if step.admission.on_deny == "skip":
        p.emit("StepSkipped", token=token.id, step=step.name)
        return True
    if step.admission.on_deny == "fail":
        _fail_admission(p, step, token)
        return True
    if not token.parked:
        p.emit("TokenParked", token=token.id)
    return False


def _allowed(p: RoutingPass, step: Step, token: Token, event: Mapping[str, Any] | None) -> bool:
    if step.admission is None:
        return True
    scope = p.scope(token.args, event)
    for rule in step.admission.rules:
        if rule.when is None or truthy(rule.when, scope):
            return truthy(rule.allow, scope)
    return True


def _fail_admission(p: RoutingPass, step: Step, token: Token) -> None:
    error = {"kind": "admission", "message": f"step {step.name} was not admitted", "retryable": False}
    run = _open(p, step, token, token.args)
    p.emit("StepFailed", run=run.id, step=step.name, error=error)
    take_arcs(p, step, run, boundary_event("step.failed", step.name, run.id, None, error=error))


def _open(p: RoutingPass, step: Step, token: Token, args: Mapping[str, Any]) -> Run:
    run_id = ids.step_run_id(p.state.execution_id, [token.id], p.state.epoch)
    p.emit("TokenClaimed", tokens=[token.id], run=run_id)
    p.emit("StepScheduled", run=run_id, step=step.name, args=dict(args) or None, pool=step.pool, tokens=[token.id])
    return p.state.runs[run_id]


def _schedule(p: RoutingPass, step: Step, token: Token) -> None:
    limit = p.playbook.executor.limits.max_step_visits
    if p.state.step(step.name).visits >= limit:
        p.emit("TokenExpired", token=token.id, reason=f"step {step.name} ran {limit} times")
        remedy = "if that is meant, raise executor.spec.policy.limits.max_step_visits"
        p.fail("limit", f"step {step.name} was scheduled {limit} times; {remedy}", step.name)
        return
    args = token.args
    if step.args:
        event = event_namespace(token.event) if token.event else None
        args = {**render(step.args, p.scope(token.args, event), undefined_ok=True), **token.args}
    run = _open(p, step, token, args)
    if run.prior is not None and "loop" in run.prior and step.loop is not None:
        p.emit("LoopSliced", run=run.id, step=step.name, plan=run.prior["loop"]["plan"])
        p.advance.append(run.id)
    elif step.tasks:
        p.scheduled.append(run.id)
        if step.loop is not None:
            p.emit("LoopStarted", run=run.id, step=step.name, mode=step.loop.mode, exec=step.loop.exec)
    else:
        p.emit("StepDone", run=run.id, step=step.name, undo=bool(step.compensate) or None)
        take_arcs(p, step, run, boundary_event("step.done", step.name, run.id, {"value": None}))


def _fire_joins(p: RoutingPass, *, quiet: bool) -> bool:
    """Fire the joins that may; `quiet`: nothing runs, so parked tokens no longer count as on their way."""
    if "joins" not in p.playbook.memo:
        p.playbook.memo["joins"] = tuple(step for step in p.playbook.steps if step.join is not None)
    fired = False
    for step in p.playbook.memo["joins"]:
        fired = _judge_join(p, step, quiet=quiet) or fired
    return fired


def _judge_join(p: RoutingPass, step: Step, *, quiet: bool) -> bool:
    assert step.join is not None
    grows = _can_grow(p, step.name, quiet=quiet)
    over = step.name in p.state.joins_fired
    if grows and step.join.mode == "all" and not over:
        return False  # thousands may wait here: they are looked at once
    tokens = [t for t in p.state.tokens.values() if t.step == step.name and not t.joined]
    if over:
        for token in tokens:
            p.emit("TokenExpired", token=token.id, reason=f"join {step.name} has already fired")
        if not grows:
            p.emit("JoinClosed", step=step.name, fired=False)
        return bool(tokens)
    need = {"any": 1, "count": step.join.count}.get(step.join.mode)
    if need is not None and len(tokens) >= need:
        _merge(p, step, tokens[:need])
        if grows or len(tokens) > need:
            p.emit("JoinClosed", step=step.name, fired=True)
        return True
    if grows or not tokens:
        return False
    if need is not None:
        for token in tokens:
            p.emit("TokenExpired", token=token.id, reason=f"join {step.name} waits for {need} tokens, {len(tokens)} came")
        return True
    _merge(p, step, tokens)
    return True


def _merge(p: RoutingPass, step: Step, tokens: Sequence[Token]) -> None:
    """The tokens that met become one; their args merge in arc order (resolution 13)."""
    ordered = sorted(tokens, key=lambda t: (_step_order(p.playbook, t), t.arc or 0, t.id))
    args: dict[str, Any] = {}
    for token in ordered:
        args.update(token.args)
    names = [t.id for t in ordered]
    joined = ids.token_id(p.state.execution_id, "join:" + ",".join(sorted(names)), 0, p.state.epoch)
    first = max(t.priority for t in ordered) or None
    event = ordered[-1].event
    p.emit("TokenEnqueued", token=joined, step=step.name, args=args or None, joined=names, event=event, priority=first)


def _step_order(playbook: Playbook, token: Token) -> int:
    places: dict[str, int] = playbook.memo.setdefault("places", {})
    if not places:
        places.update({s.name: i for i, s in enumerate(playbook.steps)})
    return places.get((token.event or {}).get("step", ""), -1)


def _can_grow(p: RoutingPass, join: str, *, quiet: bool) -> bool:
    """Whether a live token could still reach `join` over forward edges."""
    above = leads_to(p.playbook, join)
    if any(run.step in above for run in p.state.runs.values()):
        return True
    return any(t.step in above and not (quiet and t.parked) for t in p.state.tokens.values())


# --- completion ---------------------------------------------------------------------------------------------------------


def _finish(p: RoutingPass) -> None:
    """Nothing is open: undo what is to be undone, expire what stays denied, then end, once (formal spec 4.4)."""
    s = p.state
    if s.compensates and s.completed:
        _compensate(p)
        return
    for token in list(s.tokens.values()):
        reason = "admission stayed denied" if token.parked else "the execution ended before it was scheduled"
        p.emit("TokenExpired", token=token.id, reason=reason)
    status, result = "completed", s.last_result
    if s.status == "cancelling":
        status = "cancelled"
    elif s.failure is not None:
        status = "failed"
    elif p.playbook.executor.result is not UNSET:
        p.want(result_needs(p.playbook, s))
        try:
            result = {"value": render(p.playbook.executor.result, p.scope({}), undefined_ok=True)}
        except TemplateError as wrong:
            p.fail(wrong.kind, f"executor.spec.result: {wrong}")
            status = "failed"
    error = None
    if status == "failed" and s.failure is not None:
        error = {k: v for k, v in s.failure.items() if k != "fatal"}
    p.emit("WorkflowFinished", status=status, error=error, not_undone=s.not_undone or None)
    p.emit("PlaybookProcessed", status=status, result=result if status == "completed" else None)


def redriven(p: RoutingPass, d: Mapping[str, Any]) -> bool:
    """Put back the tokens of what is run again (`engine.redrive` says which); False when the log has gone on since."""
    s = p.state
    if not s.finished or d["after"] != s.seq:
        return False
    p.emit("ExecutionRedriven", **d)
    keys = ("token", "step", "args", "run", "arc", "event", "joined", "priority")
    for token in d["tokens"]:
        p.emit("TokenEnqueued", **{k: token[k] for k in keys if k in token})
    for again in d.get("arcs", ()):
        step = p.playbook.by_name[again["step"]]
        take_arcs(p, step, Run(again["run"], again["step"], again["args"], 0, 0), again["event"])
    return True


def _compensate(p: RoutingPass) -> None:
    """Undo the step that completed last of those not undone yet; what follows its end comes here again."""
    done = p.state.completed[-1]
    run = ids.compensation_run_id(p.state.execution_id, done["run"])
    p.emit("CompensationStarted", run=run, step=done["step"], of=done["run"])
    p.scheduled.append(run)
