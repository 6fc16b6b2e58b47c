"""Admission that can never be granted (formal specification 4.2, resolution 12)."""

from __future__ import annotations

from collections.abc import Iterator

from noetl_core.dsl.lint.context import Lint, listed
from noetl_core.dsl.lint.guards import NO_FACTS, UNDEFINED, Facts, Guards
from noetl_core.dsl.lint.net import Net, boundaries
from noetl_core.dsl.model import Admission, Step
from noetl_core.expr import referenced

_THEN = {
    "park": "its tokens wait until the execution ends",
    "skip": "its tokens are always skipped",
    "fail": "it always fails",
}


def admissions(lint: Lint, net: Net) -> None:
    """W507: rules that never allow. W508: rules that allow only after something that the step itself leads to."""
    writers = _writers(net)
    for i, step in enumerate(net.steps):
        if step.admission is None or i not in net.reached:
            continue
        at = lint.at(step.path, "spec", "policy"), "admit"
        if not _possible(net.guards, step.admission, NO_FACTS):
            message = f'step "{step.name}" is never admitted: no rule can allow it; {_THEN[step.admission.on_deny]}'
            lint.report("W507", at, message, "allow it in a rule or else, or remove the step")
            continue
        if step.admission.on_deny == "fail" and _leads_on(net, i):
            continue  # a refused token produces others, which may provide the value that the next one waits for
        later = dict(_only_later(net, i, step.admission, writers))
        if later and not _possible(net.guards, step.admission, dict.fromkeys(later, UNDEFINED)):
            waits = listed([f"{'.'.join(path)} ({why})" for path, why in sorted(later.items())])
            message = (
                f'step "{step.name}" waits for values that are written only after it: {waits}; {_THEN[step.admission.on_deny]}'
            )
            lint.report(
                "W508",
                at,
                message,
                "read values that exist before the step, or move the step after those that write these values",
            )


def _leads_on(net: Net, i: int) -> bool:
    """Return whether one of the step's arcs may fire after a refusal, which fails the step."""
    failures = [end for end in boundaries(net.steps[i]) if end.failed]
    return any(net.fires(i, arc, end) is not False for arc in net.live_arcs(i) for end in failures)


def _possible(guards: Guards, admission: Admission, facts: Facts) -> bool:
    """Return whether a token may be admitted. Rules are tried in order; without a match it is admitted."""
    for rule in admission.rules:
        matches = True if rule.when is None else guards.holds(rule.when, facts)
        if matches is not False and guards.holds(rule.allow, facts) is not False:
            return True
        if matches is True:
            return False
    return True


def _only_later(net: Net, i: int, admission: Admission, writers: dict[str, set[int]]) -> Iterator[tuple[tuple[str, ...], str]]:
    """Return the names in the rules that have no value before the step has run for the first time."""
    for path in referenced([part for rule in admission.rules for part in (rule.when, rule.allow)]):
        if len(path) < 2:
            continue
        if path[0] == "steps" and path[1] in net.number:
            source = net.number[path[1]]
            if source not in net.reached:
                yield path[:2], "never reached"
            elif net.dominators.dominates(i, source):
                yield path[:2], "itself" if source == i else f'only reached through "{net.steps[i].name}"'
        elif path[0] == "ctx" and writers.get(path[1]) and all(net.dominators.dominates(i, w) for w in writers[path[1]]):
            yield path[:2], f"written by {listed([net.steps[w].name for w in sorted(writers[path[1]])][:3])}"


def _writers(net: Net) -> dict[str, set[int]]:
    """ctx key -> the steps that may write it."""
    out: dict[str, set[int]] = {}
    for i, step in enumerate(net.steps):
        for key in ctx_written(step):
            out.setdefault(key, set()).add(i)
    return out


def ctx_written(step: Step) -> Iterator[str]:
    """Return every ctx key that a step writes: in tasks and their rules, by itself, by its arcs."""
    yield from step.set_ctx
    for arc in step.router.arcs if step.router is not None else ():
        yield from arc.set_ctx
    for task in (*step.tasks, *step.compensate):
        yield from task.set_ctx
        for rule in task.policy.rules if task.policy is not None else ():
            yield from rule.then.set_ctx
