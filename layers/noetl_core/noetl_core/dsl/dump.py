"""`Playbook` -> canonical YAML: named tasks, one form for everything, and no defaults. `parse_playbook(dump(p)) == p`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import yaml

from noetl_core.dsl.fields.cursor import CURSOR
from noetl_core.dsl.fields.failures import ON_FAILURE
from noetl_core.dsl.fields.flow import (
    ARC,
    LOOP,
    LOOP_FAILURE,
    LOOP_POLICY,
    LOOP_SPEC,
    ROUTER,
    ROUTER_POLICY,
    ROUTER_SPEC,
    STEP,
    STEP_FAILURE,
    STEP_LIFECYCLE,
    STEP_POLICY,
    STEP_SPEC,
)
from noetl_core.dsl.fields.playbook import (
    EXECUTOR,
    EXECUTOR_FAILURE,
    EXECUTOR_LIFECYCLE,
    EXECUTOR_POLICY,
    EXECUTOR_PYTHON,
    EXECUTOR_SPEC,
    LIMITS_BLOCK,
    RESULTS,
)
from noetl_core.dsl.fields.policies import ADMISSION, TASK_POLICY, THEN
from noetl_core.dsl.fields.shared_limits import CONCURRENCY, RATE
from noetl_core.dsl.fields.sources import QUEUE, UPLOAD, WEBHOOK
from noetl_core.dsl.fields.tools import TASK
from noetl_core.dsl.fields.triggers import TRIGGER
from noetl_core.dsl.inputs import SCHEMA_KEY
from noetl_core.dsl.model import (
    UNSET,
    Admission,
    Arc,
    Concurrency,
    Cursor,
    Executor,
    Join,
    Limits,
    Loop,
    OnFailure,
    Playbook,
    Rate,
    Router,
    Schedule,
    Source,
    Step,
    Task,
    TaskPolicy,
    Then,
    Trigger,
)
from noetl_core.dsl.reading.scalars import NotANumber, resolve, surprise
from noetl_core.dsl.sources import Events, Messages, Uploads, Webhook


def dump(playbook: Playbook) -> str:
    """Return the playbook as YAML text in the canonical form."""
    dumper: Any = _Dumper
    return yaml.dump(document(playbook), Dumper=dumper, sort_keys=False, allow_unicode=True, width=120)


def document(playbook: Playbook) -> dict[str, Any]:
    """Return the playbook as plain data, as `dump` writes it."""
    out: dict[str, Any] = {"apiVersion": "noetl.io/v2", "kind": "Playbook", "metadata": dict(playbook.metadata)}
    if playbook.keychain:
        out["keychain"] = [{"name": k.name, "kind": k.kind, **k.options} for k in playbook.keychain]
    executor = _executor(playbook.executor)
    if executor:
        out["executor"] = executor
    if playbook.workload or playbook.inputs is not None:
        out["workload"] = {**playbook.workload, **({} if playbook.inputs is None else {SCHEMA_KEY: playbook.inputs})}
    if playbook.workbook:
        out["workbook"] = {"tasks": {name: _tool(task, {}) for name, task in playbook.workbook.items()}}
    out["workflow"] = [_step(step, playbook.executor) for step in playbook.steps]
    return out


def _executor(e: Executor) -> dict[str, Any]:
    policy = EXECUTOR_POLICY.written(
        failure=EXECUTOR_FAILURE.written(mode=e.failure_mode),
        unconditional_on_failure=e.unconditional_on_failure,
        results=RESULTS.written(reference_first=e.reference_first),
        limits=LIMITS_BLOCK.written(**{name: getattr(e.limits, name) for name in Limits.__match_args__}),
        lifecycle=EXECUTOR_LIFECYCLE.written(timeout_s=e.timeout_s, lifetime_s=e.lifetime_s),
        concurrency=_concurrency(e.concurrency),
        priority=e.priority,
    )
    spec = {
        **e.spec,
        **EXECUTOR_SPEC.written(
            entry_step=e.entry_step,
            extensions=e.extensions,
            pool=e.pool,
            strict=e.strict,
            triggers=[_trigger(trigger) for trigger in e.triggers],
            python=EXECUTOR_PYTHON.written(requirements=list(e.requirements)),
            search=dict(e.search),
            on_failure=None if e.on_failure is None else ON_FAILURE.written(**_handler(e.on_failure)),
            policy=policy,
        ),
        **({} if e.result is UNSET else {"result": e.result}),
    }
    return EXECUTOR.written(kind=e.kind, spec=spec)


def _trigger(trigger: Trigger) -> dict[str, Any]:
    about = {"payload": dict(trigger.payload), "enabled": trigger.enabled, "version": trigger.version}
    return TRIGGER.written(name=trigger.name, **_source(trigger.source), **about)


def _source(source: Source) -> dict[str, Any]:
    match source:
        case Schedule():
            return {
                "schedule": source.cron if source.cron is not None else {"rate": source.every_s},
                "timezone": source.timezone,
                "overlap": source.overlap,
                "catch_up": source.catch_up,
                "jitter": source.jitter_s,
            }
        case Events():
            return {"event": dict(source.pattern)}
        case Messages():
            return {"queue": QUEUE.written(name=source.queue, match=dict(source.match))}
        case Webhook():
            fields = {name: getattr(source, name) for name in WEBHOOK.keys - {"match", "headers", "tolerance", "prefix"}}
            more = {"match": dict(source.match), "headers": list(source.headers), "tolerance": source.tolerance_s}
            return {"webhook": WEBHOOK.written(**fields, **more, prefix=source.prefix or None)}
        case Uploads():
            return {"upload": UPLOAD.written(prefix=source.prefix or None, suffix=source.suffix or None, bucket=source.bucket)}


def _handler(handler: OnFailure) -> dict[str, Any]:
    return {name: getattr(handler, name) for name in OnFailure.__match_args__}


def _step(step: Step, executor: Executor) -> dict[str, Any]:
    outer = {**executor.spec, **step.spec}
    policy = STEP_POLICY.written(
        admit=_admission(step.admission),
        lifecycle=STEP_LIFECYCLE.written(timeout_s=step.timeout_s, deadline_s=step.deadline_s),
        failure=STEP_FAILURE.written(mode=step.failure_mode),
        concurrency=_concurrency(step.concurrency),
    )
    pool = step.pool if step.pool != executor.pool else None
    return STEP.written(
        step=step.name,
        desc=step.desc,
        spec={**step.spec, **STEP_SPEC.written(join=_join(step.join), pool=pool, policy=policy)},
        args={**step.args, **step.each_args},
        set_ctx=dict(step.set_ctx),
        loop=_loop(step.loop),
        tool=[{"name": t.name, **_tool(t, outer)} for t in step.tasks],
        compensate=_compensation(step, outer),
        next=_router(step.router),
    )


def _compensation(step: Step, outer: Mapping[str, Any]) -> Any:
    tasks = [{"name": t.name, **_tool(t, outer)} for t in step.compensate]
    return tasks if step.compensate_loop is None else {"loop": _loop(step.compensate_loop), "tool": tasks}


def _tool(task: Task, outer: Mapping[str, Any]) -> dict[str, Any]:
    """Return a task; it inherits the settings of `outer`. A timeout that the outer scope has and the task does not is written as
    null."""
    spec = dict(task.spec)
    if task.timeout_s is not None or "timeout_s" in outer:
        spec["timeout_s"] = task.timeout_s
    if task.policy is not None or task.rate is not None:
        spec["policy"] = {**({} if task.policy is None else _policy(task.policy)), **_rate(task.rate)}
    more = TASK.written(spec=spec, set_iter=dict(task.set_iter), set_ctx=dict(task.set_ctx))
    return {"kind": task.kind, **task.inputs, **more}


def _policy(policy: TaskPolicy) -> dict[str, Any]:
    rules = [_rule(r.when, _then(r.then)) for r in policy.rules]
    return {**TASK_POLICY.written(on_unmatched=policy.on_unmatched), **policy.hooks, "rules": rules}


def _concurrency(limit: Concurrency | None) -> dict[str, Any] | None:
    return None if limit is None else CONCURRENCY.written(key=limit.key, max=limit.max, on_limit=limit.on_limit)


def _rate(rate: Rate | None) -> dict[str, Any]:
    return {} if rate is None else {"rate": RATE.written(key=rate.key, per_second=rate.per_second, burst=rate.burst)}


def _rule(when: str | None, then: dict[str, Any]) -> dict[str, Any]:
    return {"else": {"then": then}} if when is None else {"when": when, "then": then}


def _then(then: Then) -> dict[str, Any]:
    """Return the action of a rule. The directive is always written, because a rule without content would be empty."""
    out = {
        "do": then.do,
        **THEN.written(
            attempts=then.attempts,
            backoff=then.backoff,
            delay=then.delay,
            max_delay=then.max_delay,
            jitter=then.jitter,
            backoff_multiplier=then.backoff_multiplier,
            to=then.to,
            scope=then.scope,
            set_iter=dict(then.set_iter),
            set_ctx=dict(then.set_ctx),
        ),
    }
    if then.set_prev is not UNSET:
        out["set_prev"] = then.set_prev
    if then.error is not None:
        out["error"] = then.error
    return out


def _admission(admission: Admission | None) -> dict[str, Any] | None:
    if admission is None:
        return None
    rules = [_rule(r.when, {"allow": r.allow}) for r in admission.rules]
    return {**ADMISSION.written(on_deny=admission.on_deny), "rules": rules}


def _join(join: Join | None) -> Any:
    if join is None:
        return None
    return {"count": join.count} if join.mode == "count" else join.mode


def _loop(loop: Loop | None) -> dict[str, Any] | None:
    if loop is None:
        return None
    failure = LOOP_FAILURE.written(
        mode=loop.failure_mode, tolerated_count=loop.tolerated_count, tolerated_percent=loop.tolerated_percent
    )
    policy = LOOP_POLICY.written(exec=loop.exec, reducers=dict(loop.reducers), failure=failure)
    spec = LOOP_SPEC.written(
        mode=loop.mode,
        max_in_flight=loop.max_in_flight,
        chunk_size=loop.chunk_size,
        commit_every=loop.commit_every,
        frame=loop.frame,
        policy=policy,
    )
    cursor = loop.cursor
    source = {"in": loop.in_} if cursor is None else {"cursor": {"kind": cursor.kind, **_leased(cursor), **cursor.fields}}
    return {**source, **LOOP.written(iterator=loop.iterator, spec=spec, loop=_loop(loop.inner))}


def _leased(cursor: Cursor) -> dict[str, Any]:
    return CURSOR.written(lease_s=cursor.lease_s)


def _router(router: Router | None) -> dict[str, Any] | None:
    if router is None:
        return None
    policy = ROUTER_POLICY.written(priority=router.priority, dedupe=router.dedupe)
    return {**ROUTER.written(spec=ROUTER_SPEC.written(mode=router.mode, policy=policy)), "arcs": [_arc(a) for a in router.arcs]}


def _arc(arc: Arc) -> dict[str, Any]:
    return ARC.written(step=arc.step, when=arc.when, args=dict(arc.args), set_ctx=dict(arc.set_ctx))


class _Dumper(yaml.SafeDumper):
    """Writes text so that YAML 1.1 and 1.2 both read it as text; shared values are repeated."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _text(dumper: _Dumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=_style(text))


def _style(text: str) -> str | None:
    try:
        plain = isinstance(resolve(text), str) and surprise(text) is None
    except NotANumber:
        plain = False
    if not plain:
        return '"'
    return "|" if "\n" in text else None


_Dumper.add_representer(str, _text)
