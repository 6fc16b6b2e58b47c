"""Task policy (formal specification 6, canonical step spec 5.4, resolutions 6, 7 and 29) and admission (formal specification
4.2, resolution 12)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final, Literal, NamedTuple, TypeVar

from noetl_core.dsl.fields.policies import ADMISSION, ALLOW, ERROR, RULE, TASK_POLICY, THEN
from noetl_core.dsl.model import UNSET, Admission, AdmitRule, Do, Rate, Rule, TaskPolicy, Then
from noetl_core.dsl.reading.load import Node
from noetl_core.dsl.reading.reader import Reader
from noetl_core.dsl.sections.shared_limits import check_complete, rate

Scope = Literal["iteration", "loop"]
Backoff = Literal["none", "linear", "exponential", "fixed"]
OnDeny = Literal["park", "skip", "fail"]
_WRITES: Final = frozenset({"set", "set_iter", "set_ctx"})
_RETRY_ONLY: Final = ("attempts", "backoff", "delay", "max_delay", "jitter", "backoff_multiplier")

R = TypeVar("R")
OnUnmatched = Literal["continue", "fail"]


def written(r: Reader, node: Node, what: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return `set_iter` and `set_ctx` of a mapping, with `set: {iter.a: ..., ctx.b: ...}` split into the two."""
    if not isinstance(node.value, dict) or _WRITES.isdisjoint(node.value):
        return {}, {}
    set_iter = r.values(node.get("set_iter"), f"set_iter in {what}")
    set_ctx = r.values(node.get("set_ctx"), f"set_ctx in {what}")
    both = node.get("set")
    for key, child in r.mapping(both, f"set in {what}").items():
        scope, _, name = key.partition(".")
        if scope not in ("iter", "ctx") or not name:
            assert both is not None
            r.report("E113", (both, key), f'set in {what} cannot write "{key}"', "begin the key with ctx. or iter.")
        else:
            (set_iter if scope == "iter" else set_ctx)[name] = child.plain()
    return set_iter, set_ctx


def _entries(r: Reader, rules: Node, what: str, read: Callable[[str | None, Node, Node], R]) -> Iterator[R]:
    """Return the rules in order, the `else` entry last. `read(when, body, entry)` builds one."""
    otherwise: list[R] = []
    for i, entry in enumerate(r.sequence(rules, f"rules of {what}")):
        place = f"rule {i} of {what}"
        entries = r.keys(entry, RULE.keys, place, RULE.legacy)
        if not entries:
            if isinstance(entry.value, dict) and not entry.value:
                r.report("E119", entry, f"{place} is empty", "write when and then, or else")
            continue
        if otherwise and "else" not in entries:
            r.report("W409", entry, f"{place} follows else but is tried before it", "write else last")
        if "else" in entries:
            body = _else_body(r, entry, entries, place)
            if body is None:
                continue
            if otherwise:
                r.report("E119", (entry, "else"), f"{what} has a second else", "keep one")
            otherwise.append(read(None, body, entry))
        elif "when" not in entries and "expr" in entry.value:
            continue
        elif "when" not in entries:
            r.missing(entry, "when", f"{place} has no when", "write when, or else")
        elif "then" not in entries:
            r.missing(entry, "then", f"{place} has no then", "say what it does: then: { ... }")
        else:
            yield read(r.condition(entries["when"], f"when in {place}"), entries["then"], entry)
    yield from otherwise


def _else_body(r: Reader, entry: Node, entries: dict[str, Node], place: str) -> Node | None:
    if "when" in entries:
        r.report("E114", (entry, "when"), f"{place} has both when and else", "make them two rules")
        return None
    inner = entries["else"]
    if inner.value is None and "then" in entries:
        return entries["then"]
    if "then" in entries:
        r.report("E114", (entry, "then"), f"{place} has `then` and an `else` that is not empty", "move `then` into `else`")
        return None
    if isinstance(inner.value, dict) and "then" in inner.value:
        r.keys(inner, ("then",), f"else of {place}")
        return inner.get("then")
    return inner


# --- task policy --------------------------------------------------------------------------------------------------------


class OfTask(NamedTuple):
    """The contents of `spec.policy` of a task."""

    policy: TaskPolicy | None = None
    """None without rules: an error fails the pipeline."""
    rate: Rate | None = None


def task_policy(r: Reader, node: Node, what: str, on_unmatched: OnUnmatched | None, jumps: list[tuple[Node, str]]) -> OfTask:
    """Read `spec.policy` of a task. Jump targets are added to `jumps`, which the step checks."""
    if not isinstance(node.value, dict):
        r.report("E119", node, f"policy of {what} must be a mapping with rules, not {r.word(node)}", "policy: { rules: [...] }")
        return OfTask()
    content = r.read(node, TASK_POLICY, what)
    check_complete(r, content, what)
    limit = rate(content.below.get("rate"))
    listed = content.node("rules")
    if listed is None:
        if "rate" not in content:
            r.missing(node, "rules", f"policy of {what} has no rules", "policy: { rules: [...] }", code="E119")
        elif "on_unmatched" in content:
            r.report("E114", (node, "on_unmatched"), f"on_unmatched of {what} goes with rules", "add rules, or leave it out")
        return OfTask(None, limit)
    unmatched: OnUnmatched | None = content.get("on_unmatched") or on_unmatched
    rules = tuple(_entries(r, listed, what, lambda when, body, entry: _rule(r, when, body, entry, what, jumps)))
    hooks: dict[str, Any] = {h: content.nodes[h].plain() for h in TASK_POLICY.idle if h in content and content.nodes[h].value}
    if listed.value == [] and (unmatched or ("fail" if r.strict else "continue")) == "continue":
        message = f"policy of {what} continues after every error: it has no rules"
        r.report("W402", (node, "rules"), message, "add an else rule, or on_unmatched: fail")
    return OfTask(TaskPolicy(rules, unmatched, hooks), limit)


def _rule(r: Reader, when: str | None, body: Node, entry: Node, what: str, jumps: list[tuple[Node, str]]) -> Rule:
    return Rule(when, then(r, body, what, jumps), entry.path)


def then(r: Reader, node: Node, what: str, jumps: list[tuple[Node, str]]) -> Then:
    """Read the action of a rule."""
    place = f"then of {what}"
    content = r.read(node, THEN, place)
    do: Do = content.filled("do")
    known = content.get("do") is not None or "do" not in content
    set_iter, set_ctx = written(r, node, place)
    to = content.get("to")
    if do == "jump" and "to" not in content:
        r.missing(node, "to", f"{place} jumps nowhere", "name the task: to: <task>")
    elif known and do != "jump" and "to" in content:
        r.report("E114", (node, "to"), f'to in {place} goes with do: jump, not with "{do}"', "write do: jump")
    elif known and to is not None:
        jumps.append((content.nodes["to"], to))
    if do != "retry" and content.get("do") is not None:
        for key in _RETRY_ONLY:
            if key in content:
                r.report("W408", (node, key), f'"{key}" in {place} has no effect beside do: {do}', "it goes with do: retry")
    scope: Scope = content.filled("scope")
    if known and scope == "loop" and do != "break":
        r.report("E114", (node, "scope"), f"scope in {place} goes with do: break", "write do: break")
    error = content.node("error")
    if error is not None:
        if known and do != "fail":
            r.report("W408", (node, "error"), f'"error" in {place} has no effect beside do: {do}', "it goes with do: fail")
        if isinstance(error.value, dict):
            r.read(error, ERROR, place)
    backoff: Backoff = content.filled("backoff")
    return Then(
        do=do,
        attempts=content.filled("attempts"),
        backoff="none" if backoff == "fixed" else backoff,
        delay=content.get("delay"),
        max_delay=content.get("max_delay"),
        jitter=content.get("jitter"),
        backoff_multiplier=float(content.filled("backoff_multiplier")),
        to=to,
        scope=scope,
        set_iter=set_iter,
        set_ctx=set_ctx,
        set_prev=content.nodes["set_prev"].plain() if "set_prev" in content else UNSET,
        error=None if error is None else error.plain(),
    )


# --- admission ----------------------------------------------------------------------------------------------------------


def admission(r: Reader, node: Node | None, step: str) -> Admission | None:
    """Read `step.spec.policy.admit`."""
    if node is None:
        return None
    what = f'admit of step "{step}"'
    content = r.read(node, ADMISSION, what)
    if content.get("mode") == "inclusive":
        r.report("W403", (node, "mode"), f"mode inclusive of {what} is accepted but has no effect", "", "note")
    on_deny: OnDeny = content.filled("on_deny")
    listed = content.node("rules")
    if listed is None:
        if isinstance(node.value, dict):
            r.missing(node, "rules", f"{what} has no rules", "admit: { rules: [...] }")
        return None
    rules = tuple(_entries(r, listed, what, lambda when, body, entry: _admit_rule(r, when, body, entry, what)))
    if rules and rules[-1].when is not None:
        r.report("W404", (node, "rules"), f"{what} has no else: tokens that no rule matches are admitted", "add an else rule")
    return Admission(rules, on_deny)


def _admit_rule(r: Reader, when: str | None, body: Node, entry: Node, what: str) -> AdmitRule:
    allow = r.read(body, ALLOW, what).node("allow")
    if allow is None:
        if isinstance(body.value, dict) and "do" not in body.value:
            r.missing(body, "allow", f"then of {what} says neither allow: true nor false", "then: { allow: true }")
        return AdmitRule(when, False, entry.path)
    return AdmitRule(when, allow.plain(), entry.path)
