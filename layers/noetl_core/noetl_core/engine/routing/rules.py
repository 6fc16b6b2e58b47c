"""The rules of a routing pass for tokens, admission, arcs and completion (formal specification 4 and 8)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from noetl_core.dsl.model import UNSET, Arc, Step
from noetl_core.engine import ids
from noetl_core.engine.reads import admissions_on_steps, result_needs, result_template
from noetl_core.engine.routing.deadlines import run_limits
from noetl_core.engine.routing.joins import fire_joins, held_by_join, round_of
from noetl_core.engine.routing.limit_requests import ask_for_execution, ask_for_run, use_of
from noetl_core.engine.routing.passes import RoutingPass, boundary_event, event_namespace
from noetl_core.engine.routing.qos import Quality, quality
from noetl_core.engine.routing.search_attributes import record_search
from noetl_core.engine.state import LimitUse, Run, Token
from noetl_core.engine.statuses import HELD
from noetl_core.events import control, limits
from noetl_core.events.limits import LimitRefused
from noetl_core.events.shapes import EndStatus, Failure, TokenEvent
from noetl_core.expr import Scope, TemplateError, render, truthy

MAX_EVENTS: Final = 100_000
MAX_ARCS: Final = 100_000
"""The most arcs that one decision evaluates. Steps without tasks follow each other in one decision, so a cycle of such steps
ends here."""

# --- arcs ---------------------------------------------------------------------------------------------------------------


def take_arcs(p: RoutingPass, step: Step, run: Run, event: TokenEvent) -> None:
    """Evaluate `next.arcs` on a boundary and enqueue the tokens of the arcs that fire (formal specification 8, resolution
    11)."""
    p.blanks.clear()
    seen = event_namespace(event)
    failed = event["name"] == "step.failed"
    if p.is_ending:
        _leave_arcs(p, step, run, event)
        return
    try:
        if not failed and step.set_ctx:
            patch = render(step.set_ctx, p.scope(run.args, seen), undefined_ok=True)
            patch = p.carried(patch, f"{run.id}-ctx")
            p.emit(control.CtxPatched, run=run.id, patch=patch)
        scope = p.scope(run.args, seen)
        fired = _select(p, step, scope, failed)
        tokens = [_token(p, step, arc, scope) for arc in fired]
        patches = [
            p.carried(render(arc.set_ctx, scope, undefined_ok=True), f"{run.id}-{arc.index}-ctx") for arc in fired if arc.set_ctx
        ]
    except TemplateError as wrong:
        p.emit(control.NextEvaluated, run=run.id, step=step.name, event=event["name"], selected=[], error=str(wrong))
        p.fail(wrong.kind, f"arcs of step {step.name}: {wrong}", step.name)
        return
    unhandled: Failure | None = None
    if failed and not fired:
        error: Failure = event.get("error") or {"kind": "unknown", "message": "the step failed"}
        unhandled = {**error, "step": step.name}
    rounds = {arc.step: round_of(p, run.id, step.name, arc.step) for arc in fired}
    p.emit(
        control.NextEvaluated,
        run=run.id,
        step=step.name,
        event=event["name"],
        selected=[{"arc": a.index, "step": a.step} for a in fired],
        unhandled=unhandled,
        undefined=p.take_blanks(),
    )
    for patch in patches:
        p.emit(control.CtxPatched, run=run.id, patch=patch)
    for arc, args, q in tokens:
        if q.key is not None and q.key in p.state.deduplicated:
            continue  # it is in `selected`; the token already exists
        token = ids.token_id(p.state.execution_id, run.id, arc.index, p.state.epoch)
        args = p.carried(args, token)
        p.emit(
            control.TokenEnqueued,
            token=token,
            step=arc.step,
            args=args or None,
            run=run.id,
            arc=arc.index,
            event=event,
            priority=q.priority or None,
            key=q.key,
            rounds=rounds[arc.step],
        )
    if len(p.state.tokens) > p.playbook.executor.limits.max_tokens:
        remedy = "if that is meant, raise executor.spec.policy.limits.max_tokens"
        p.fail("limit", f"more than {p.playbook.executor.limits.max_tokens} tokens are live; {remedy}", step.name)


def _leave_arcs(p: RoutingPass, step: Step, run: Run, event: TokenEvent) -> None:
    """Record that the arcs of a step were not evaluated, because the execution ends. A redrive evaluates the arcs of a
    success."""
    failure = event.get("error")
    unhandled: Failure | None = None if failure is None else {**failure, "step": step.name}
    p.emit(
        control.NextEvaluated,
        run=run.id,
        step=step.name,
        event=event["name"],
        selected=[],
        unhandled=unhandled,
        ending=(failure is None and step.router is not None) or None,
    )


def _token(p: RoutingPass, step: Step, arc: Arc, scope: Scope) -> tuple[Arc, dict[str, Any], Quality]:
    assert step.router is not None
    args: dict[str, Any] = render(arc.args, scope, undefined_ok=True)
    return arc, args, quality(step.router, arc, args, scope, p.state.epoch)


def _select(p: RoutingPass, step: Step, scope: Scope, failed: bool) -> list[Arc]:
    if step.router is None:
        return []
    p.arcs += len(step.router.arcs)
    fired = []
    for arc in step.router.arcs:
        if arc.when is None:
            fires = not failed or p.playbook.executor.unconditional_on_failure
        else:
            fires = truthy(arc.when, scope)
        if fires:
            fired.append(arc)
            if step.router.mode == "exclusive":
                break
    return fired


# --- tokens, admission, joins -------------------------------------------------------------------------------------------


def settle(p: RoutingPass) -> None:
    """Move tokens until none can move: joins, admission, scheduling; then, when nothing is open, complete the execution."""
    while p.may_schedule and not p.state.awaits_place:
        if _move_tokens(p) or fire_joins(p, quiet=False):
            continue
        if p.state.runs or p.state.awaits_limit or not (_judge_parked(p) or fire_joins(p, quiet=True)):
            break
    if not (p.state.runs or p.state.finished or p.state.status in HELD or (p.may_schedule and p.state.awaits_limit)):
        _finish(p)


def _move_tokens(p: RoutingPass) -> bool:
    """Decide about every token that may move now. Returns True when something moved."""
    s = p.state
    rejudge = p.judged != s.ctx_version
    concerned = admissions_on_steps(p.playbook) if p.ended else frozenset()
    if rejudge:
        known = list(s.tokens.values())
    elif concerned:
        issued = set(p.issued)
        known = [t for t in s.tokens.values() if t.id in issued or (t.parked and t.step in concerned)]
    else:
        known = [s.tokens[name] for name in p.issued if name in s.tokens]
    waiting = [t for t in known if (rejudge or not t.parked or t.step in concerned) and not held_by_join(p, t)]
    waiting.sort(key=lambda t: -t.priority)
    p.judged, p.ended = s.ctx_version, False
    p.issued.clear()
    moved = False
    for token in waiting:
        if not p.may_schedule:
            return moved
        if p.check is not None:
            p.check()
        moved = admit_token(p, token) or moved
    return moved


def _judge_parked(p: RoutingPass) -> bool:
    """Evaluate the admission of parked tokens once more when nothing runs, before joins proceed without them and before they
    expire. Returns True if something moved."""
    if not any(token.parked for token in p.state.tokens.values()):
        return False
    p.judged = -1
    return _move_tokens(p)


def admit_token(p: RoutingPass, token: Token) -> bool:
    """Decide about the admission of one token (formal specification 4.2, resolution 12). Returns True unless the token stays
    parked."""
    step = p.playbook.by_name[token.step]
    place = use_of(p, token)
    if place is not None and not place.held:
        return False
    try:
        # carried-over tokens and holders of a place were admitted earlier
        if place is not None or token.id in p.state.tokens_carried_over or _allowed(p, step, token):
            _schedule(p, step, token)
            return True
    except TemplateError as error:
        p.emit(control.TokenExpired, token=token.id, code="error", reason=str(error))
        p.fail(error.kind, f"admission of step {step.name}: {error}", step.name)
        return True
    assert step.admission is not None
    if step.admission.on_deny == "skip":
        p.emit(control.StepSkipped, token=token.id, step=step.name)
        return True
    if step.admission.on_deny == "fail":
        _fail_admission(p, step, token)
        return True
    if not token.parked:
        p.emit(control.TokenParked, token=token.id)
    return False


def _allowed(p: RoutingPass, step: Step, token: Token) -> bool:
    if step.admission is None:
        return True
    scope = p.scope(token.args, event_namespace(token.event) if token.event else None)
    for rule in step.admission.rules:
        if rule.when is None or truthy(rule.when, scope):
            return truthy(rule.allow, scope)
    return True


def _fail_admission(p: RoutingPass, step: Step, token: Token) -> None:
    if not _too_often(p, step, token):
        _fail_unrun(p, step, token, token.args, "admission", f"step {step.name} was not admitted")


def refuse_place(p: RoutingPass, use: LimitUse, refused: LimitRefused) -> None:
    """Record that the execution, or a token, gets no place in a limit."""
    p.emit(limits.LimitRefused, **refused)
    token = p.state.tokens.get(use.token or "")
    code = "deadlock" if refused.get("deadlock") else "displaced" if refused.get("displaced") else None
    if code is None:
        if token is not None:
            p.emit(control.StepSkipped, token=token.id, step=token.step)
    elif token is None:
        p.fail("limit", refused["reason"], code=code)
    elif not _too_often(p, step := p.playbook.by_name[token.step], token):
        _fail_unrun(p, step, token, token.args, "limit", refused["reason"], code)


def _fail_unrun(
    p: RoutingPass, step: Step, token: Token, args: Mapping[str, Any], kind: str, message: str, code: str = ""
) -> None:
    """Let a step fail before a worker runs it. Its arcs may handle the failure."""
    error: Failure = {"kind": kind, "message": message, "retryable": False}
    if code:
        error["code"] = code
    run = _open(p, step, token, args)
    p.emit(control.StepFailed, run=run.id, step=step.name, error=error)
    take_arcs(p, step, run, boundary_event("step.failed", step.name, run.id, None, error=error))


def _open(
    p: RoutingPass,
    step: Step,
    token: Token,
    args: Mapping[str, Any],
    timeout_s: float | None = None,
    deadline_s: float | None = None,
) -> Run:
    run_id = ids.step_run_id(p.state.execution_id, [token.id], p.state.epoch)
    p.emit(control.TokenClaimed, tokens=[token.id], run=run_id)
    p.emit(
        control.StepScheduled,
        run=run_id,
        step=step.name,
        args=dict(args) or None,
        pool=step.pool,
        tokens=[token.id],
        timeout_s=timeout_s,
        deadline_s=deadline_s,
        undefined=p.take_blanks(),
    )
    return p.state.runs[run_id]


def _too_often(p: RoutingPass, step: Step, token: Token) -> bool:
    """Return whether a cycle exceeded its limit - visits of a step, or steps without tasks in this decision - which ends the
    execution."""
    limit = p.playbook.executor.limits.max_step_visits
    if p.state.step(step.name).visits >= limit:
        p.emit(control.TokenExpired, token=token.id, code="limit", reason=f"step {step.name} ran {limit} times")
        remedy = "if that is meant, raise executor.spec.policy.limits.max_step_visits"
        p.fail("limit", f"step {step.name} was scheduled {limit} times; {remedy}", step.name)
        return True
    if len(p.events) >= MAX_EVENTS or p.arcs >= MAX_ARCS:
        p.emit(control.TokenExpired, token=token.id, code="limit", reason="too much at once")
        did = f"made {len(p.events)} events and judged {p.arcs} arcs, the last at step {step.name}, and no task ran"
        p.fail("limit", f"one decision {did}; give one of the steps that lead to it a tool", step.name)
        return True
    return False


def _schedule(p: RoutingPass, step: Step, token: Token) -> None:
    if _too_often(p, step, token):
        return
    args = token.args
    p.blanks.clear()
    if step.args:
        event = event_namespace(token.event) if token.event else None
        args = {**render(step.args, p.scope(token.args, event), undefined_ok=True), **token.args}
    try:
        times = run_limits(p, step, args)
        if use_of(p, token) is None and ask_for_run(p, step, token, args):
            return
    except TemplateError as wrong:
        _fail_unrun(p, step, token, args, wrong.kind, str(wrong))
        return
    run = _open(p, step, token, args, **times)
    if run.carried_over is not None and "loop" in run.carried_over and step.loop is not None:
        p.emit(control.LoopSliced, run=run.id, step=step.name, plan=run.carried_over["loop"]["plan"])
        p.advance.append(run.id)
    elif step.tasks:
        if step.loop is not None:
            p.emit(control.LoopStarted, run=run.id, step=step.name, mode=step.loop.mode, exec=step.loop.exec)
    else:
        p.emit(control.StepDone, run=run.id, step=step.name, undo=bool(step.compensate) or None)
        take_arcs(p, step, run, boundary_event("step.done", step.name, run.id, {"value": None}))


# --- completion ---------------------------------------------------------------------------------------------------------


def _finish(p: RoutingPass) -> None:
    """Finish an execution in which nothing is open: run compensations, expire tokens that stay denied, then end the execution,
    once (formal specification 4.4)."""
    s = p.state
    p.blanks.clear()
    if s.compensates and s.completed:
        _compensate(p)
        return
    for token in list(s.tokens.values()):
        reason = "admission stayed denied" if token.parked else "the execution ended before it was scheduled"
        p.emit(control.TokenExpired, token=token.id, code="denied" if token.parked else "ended", reason=reason)
    status: EndStatus = "completed"
    result = s.last_result
    if s.status == "cancelling":
        status = "cancelled"
    elif s.failure is not None:
        status = "failed"
    elif (template := result_template(p.playbook, s)) is not UNSET:
        p.require(result_needs(p.playbook, s, template))
        try:
            result = {"value": render(template, p.scope({}), undefined_ok=True)}
        except TemplateError as wrong:
            p.fail(wrong.kind, f"executor.spec.result: {wrong}")
            status = "failed"
    record_search(p)
    error: Failure | None = None
    if status == "failed" and s.failure is not None:
        error = s.failure.copy()
        error.pop("fatal", None)
    p.emit(control.WorkflowFinished, status=status, error=error, not_undone=s.not_undone or None, undefined=p.take_blanks())
    p.emit(control.PlaybookProcessed, status=status, result=result if status == "completed" else None)


def redriven(p: RoutingPass, d: control.ExecutionRedriven) -> bool:
    """Put back the tokens of the repeated runs, as `engine.redrive.plan` planned. Returns False when the log has moved on
    since."""
    s = p.state
    if not s.finished or d["after"] != s.seq:
        return False
    p.emit(control.ExecutionRedriven, **d)
    ask_for_execution(p)
    for token in d["tokens"]:
        p.emit(
            control.TokenEnqueued,
            token=token["token"],
            step=token["step"],
            args=token.get("args"),
            run=token.get("run"),
            arc=token.get("arc"),
            event=token.get("event"),
            joined=token.get("joined"),
            priority=token.get("priority"),
            rounds=token.get("rounds"),
        )
    for again in d.get("arcs", ()):
        step = p.playbook.by_name[again["step"]]
        take_arcs(p, step, Run(again["run"], again["step"], again["args"], 0, 0), again["event"])
    return True


def _compensate(p: RoutingPass) -> None:
    """Compensate the step that completed last among those that are not compensated yet. After its end this function runs
    again."""
    done = p.state.completed[-1]
    run = ids.compensation_run_id(p.state.execution_id, done["run"])
    p.emit(control.CompensationStarted, run=run, step=done["step"], of=done["run"])
