"""`Playbook` -> canonical YAML: named tasks, everything explicit. `parse_playbook(dump(p)) == p`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import yaml

from noetl_core.dsl.inputs import SCHEMA_KEY
from noetl_core.dsl.model import UNSET, Admission, Executor, Join, Limits, Loop, Playbook, Router, Step, Task, TaskPolicy, Then
from noetl_core.dsl.scalars import NotANumber, resolve, surprise


def dump(playbook: Playbook) -> str:
    """The playbook as YAML text in the canonical form."""
    dumper: Any = _Dumper
    return yaml.dump(document(playbook), Dumper=dumper, sort_keys=False, allow_unicode=True, width=120)


def document(playbook: Playbook) -> dict[str, Any]:
    """The playbook as plain data, as `dump` writes it."""
    out: dict[str, Any] = {"apiVersion": "noetl.io/v2", "kind": "Playbook", "metadata": dict(playbook.metadata)}
    if playbook.keychain:
        out["keychain"] = [{"name": k.name, "kind": k.kind, **k.options} for k in playbook.keychain]
    executor = _executor(playbook.executor)
    if executor:
        out["executor"] = executor
    if playbook.workload or playbook.inputs is not None:
        out["workload"] = {**playbook.workload, **_present(**{SCHEMA_KEY: playbook.inputs})}
    if playbook.workbook:
        out["workbook"] = {"tasks": {name: _tool(task, {}) for name, task in playbook.workbook.items()}}
    out["workflow"] = [_step(step, playbook.executor) for step in playbook.steps]
    return out


def _present(**values: Any) -> dict[str, Any]:
    """Entries that say something: no None, no empty mapping or list."""
    return {k.rstrip("_"): v for k, v in values.items() if v is not None and v != {} and v != []}


def _executor(e: Executor) -> dict[str, Any]:
    limits = {k: v for k in Limits.__dataclass_fields__ if (v := getattr(e.limits, k)) != getattr(Limits(), k)}
    policy = _present(
        failure={"mode": e.failure_mode} if e.failure_mode != "fail_fast" else None,
        unconditional_on_failure=e.unconditional_on_failure or None,
        results={"reference_first": True} if e.reference_first else None,
        limits=limits,
        lifecycle=_present(timeout_s=e.timeout_s, lifetime_s=e.lifetime_s if e.lifetime_s != Executor().lifetime_s else None),
    )
    spec = {
        **e.spec,
        **_present(
            entry_step=e.entry_step, extensions=e.extensions or None, pool=e.pool if e.pool != "default" else None, policy=policy
        ),
    }
    if e.result is not UNSET:
        spec["result"] = e.result
    return _present(kind=e.kind, spec=spec)


def _step(step: Step, executor: Executor) -> dict[str, Any]:
    outer = {**executor.spec, **step.spec}
    policy = _present(
        admit=_admission(step.admission),
        lifecycle=_present(timeout_s=step.timeout_s, deadline_s=step.deadline_s),
        failure={"mode": step.failure_mode} if step.failure_mode != "fail_fast" else None,
    )
    spec = {
        **step.spec,
        **_present(join=_join(step.join), pool=step.pool if step.pool != executor.pool else None, policy=policy),
    }
    return _present(
        step=step.name,
        desc=step.desc,
        spec=spec,
        args={**step.args, **step.each_args},
        set_ctx=dict(step.set_ctx),
        loop=_loop(step.loop),
        tool=[{"name": t.name, **_tool(t, outer)} for t in step.tasks],
        compensate=_compensation(step, outer),
    ) | ({} if step.router is None else {"next": _router(step.router)})


def _compensation(step: Step, outer: Mapping[str, Any]) -> Any:
    tasks = [{"name": t.name, **_tool(t, outer)} for t in step.compensate]
    return tasks if step.compensate_loop is None else {"loop": _loop(step.compensate_loop), "tool": tasks}


def _tool(task: Task, outer: Mapping[str, Any]) -> dict[str, Any]:
    """`outer`: what the scopes around hand down; a timeout there that the task does not have is written as null."""
    spec = dict(task.spec)
    if task.timeout_s is not None or "timeout_s" in outer:
        spec["timeout_s"] = task.timeout_s
    if task.policy is not None:
        spec["policy"] = _policy(task.policy)
    more = _present(spec=spec, set_iter=dict(task.set_iter), set_ctx=dict(task.set_ctx))
    return {"kind": task.kind, **task.inputs, **more}


def _policy(policy: TaskPolicy) -> dict[str, Any]:
    rules = [_rule(r.when, _then(r.then)) for r in policy.rules]
    return {"on_unmatched": policy.on_unmatched, **policy.hooks, "rules": rules}


def _rule(when: str | None, then: dict[str, Any]) -> dict[str, Any]:
    return {"else": {"then": then}} if when is None else {"when": when, "then": then}


def _then(then: Then) -> dict[str, Any]:
    out = {
        "do": then.do,
        **_present(
            attempts=then.attempts,
            backoff=then.backoff if then.backoff != "none" else None,
            delay=then.delay,
            max_delay=then.max_delay,
            jitter=then.jitter,
            backoff_multiplier=then.backoff_multiplier if then.backoff_multiplier != 2.0 else None,
            to=then.to,
            scope=then.scope if then.scope != "iteration" else None,
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
    return {"on_deny": admission.on_deny, "rules": rules}


def _join(join: Join | None) -> Any:
    if join is None:
        return None
    return {"count": join.count} if join.mode == "count" else join.mode


def _loop(loop: Loop | None) -> dict[str, Any] | None:
    if loop is None:
        return None
    failure = _present(mode=loop.failure_mode, tolerated_count=loop.tolerated_count, tolerated_percent=loop.tolerated_percent)
    spec = _present(
        mode=loop.mode,
        max_in_flight=loop.max_in_flight,
        chunk_size=loop.chunk_size,
        policy=_present(exec=loop.exec, reducers=dict(loop.reducers), failure=failure),
    )
    return {"in": loop.in_, "iterator": loop.iterator, "spec": spec} | _present(loop=_loop(loop.inner))


def _router(router: Router) -> dict[str, Any]:
    arcs = [_present(step=a.step, when=a.when, args=dict(a.args), set_ctx=dict(a.set_ctx)) for a in router.arcs]
    spec = _present(mode=router.mode, policy=_present(priority=router.priority, dedupe=router.dedupe))
    return {"spec": spec, "arcs": arcs}


class _Dumper(yaml.SafeDumper):
    """Writes text so that YAML 1.1 and 1.2 both read it as text; shared values are written out."""

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
