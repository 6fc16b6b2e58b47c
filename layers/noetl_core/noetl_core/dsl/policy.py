"""Task policy (formal specification 6, canonical step spec 5.4, resolutions 6, 7 and 29) and admission (formal specification
4.2, resolution 12)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final, Literal, TypeVar

from noetl_core.dsl.kinds import words
from noetl_core.dsl.load import Node
from noetl_core.dsl.model import UNSET, Admission, AdmitRule, Do, Rule, TaskPolicy, Then
from noetl_core.dsl.numbers import ATTEMPTS, DELAY, JITTER, MULTIPLIER
from noetl_core.dsl.reader import Reader, is_template

DIRECTIVES: Final = ("continue", "retry", "jump", "break", "fail")
BACKOFFS: Final = ("none", "linear", "exponential", "fixed")
HOOKS: Final = ("before", "after", "finally")
THEN_KEYS: Final = words(
    "do attempts backoff delay max_delay jitter backoff_multiplier to scope set_iter set_ctx set set_prev error"
)
ERROR_KEYS: Final = words("kind message retryable code details")
"""Fields of the error that `do: fail` gives."""
Scope = Literal["iteration", "loop"]
Backoff = Literal["none", "linear", "exponential", "fixed"]
OnDeny = Literal["park", "skip", "fail"]
_RETRY_ONLY: Final = ("attempts", "backoff", "delay", "max_delay", "jitter", "backoff_multiplier")
_LEGACY_THEN: Final = {
    "set_vars": "write set_iter or set_ctx",
    "set_shared": "write set_ctx, with loop.spec.policy.reducers",
    "collect": "write set_ctx with a reducer",
    "sink": "storage is a task of its own",
    "call": "a task is jumped to",
    "next": "only step.next.arcs start steps",
    "result": "write set_prev",
}

R = TypeVar("R")
OnUnmatched = Literal["continue", "fail"]


def condition(r: Reader, node: Node, what: str) -> str:
    """Return the text of a `when`; booleans are kept."""
    value = node.value
    if isinstance(value, bool):
        return "{{ true }}" if value else "{{ false }}"
    if not isinstance(value, str):
        r.report("E112", node, f"when in {what} must be an expression, not {r.word(node)}", 'write "{{ ... }}"')
        return "{{ false }}"
    if not is_template(value):
        bare = value.strip()
        if bare in ("true", "false"):
            return f"{{{{ {bare} }}}}"
        r.report("E303", node, f"when in {what} is plain text, not an expression", f'write "{{{{ {bare[:60]} }}}}"')
        return "{{ false }}"
    return value


def written(r: Reader, node: Node, what: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return `set_iter` and `set_ctx` of a mapping, with `set: {iter.a: ..., ctx.b: ...}` split into the two."""
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
        legacy = {"expr": "conditions are called when", "do": "directives stand under then"}
        entries = r.keys(entry, ("when", "then", "else"), place, legacy)
        if not entries:
            if isinstance(entry.value, dict) and not entry.value:
                r.report("E119", entry, f"{place} is empty", "write when and then, or else")
            continue
        if otherwise and "else" not in entries:
            r.report("W409", entry, f"{place} stands after else and is still tried before it", "write else last")
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
            yield read(condition(r, entries["when"], place), entries["then"], entry)
    yield from otherwise


def _else_body(r: Reader, entry: Node, entries: dict[str, Node], place: str) -> Node | None:
    if "when" in entries:
        r.report("E114", (entry, "when"), f"{place} has both when and else", "make them two rules")
        return None
    inner = entries["else"]
    if inner.value is None and "then" in entries:
        return entries["then"]
    if "then" in entries:
        r.report("E114", (entry, "then"), f"{place} has then beside a filled else", "put then below else")
        return None
    if isinstance(inner.value, dict) and "then" in inner.value:
        r.keys(inner, ("then",), f"else of {place}")
        return inner.get("then")
    return inner


# --- task policy --------------------------------------------------------------------------------------------------------


def task_policy(r: Reader, node: Node, what: str, on_unmatched: OnUnmatched, jumps: list[tuple[Node, str]]) -> TaskPolicy | None:
    """Read `spec.policy` of a task. Jump targets are added to `jumps`, which the step checks."""
    if not isinstance(node.value, dict):
        r.report("E119", node, f"policy of {what} must be a mapping with rules, not {r.word(node)}", "policy: { rules: [...] }")
        return None
    entries = r.keys(node, ("rules", "mode", "on_unmatched", *HOOKS), f"policy of {what}")
    if "rules" not in entries:
        r.missing(node, "rules", f"policy of {what} has no rules", "policy: { rules: [...] }", code="E119")
        return None
    r.choice(entries.get("mode"), ("exclusive",), f"policy mode of {what}")
    unmatched: OnUnmatched = (
        r.choice(entries.get("on_unmatched"), ("continue", "fail"), f"on_unmatched of {what}") or on_unmatched
    )
    rules = tuple(_entries(r, entries["rules"], what, lambda when, body, entry: _rule(r, when, body, entry, what, jumps)))
    hooks: dict[str, Any] = {h: entries[h].plain() for h in HOOKS if h in entries and entries[h].value}
    r.no_effect(node, [h for h in HOOKS if h in hooks], f"policy of {what}")
    if unmatched == "continue" and all(rule.when not in (None, "{{ true }}") for rule in rules):
        message = f"policy of {what} goes on after an error that no rule matches"
        r.report("W402", (node, "rules"), message, "add an else rule, or on_unmatched: fail")
    return TaskPolicy(rules, unmatched, hooks)


def _rule(r: Reader, when: str | None, body: Node, entry: Node, what: str, jumps: list[tuple[Node, str]]) -> Rule:
    return Rule(when, then(r, body, what, jumps), entry.path)


def then(r: Reader, node: Node, what: str, jumps: list[tuple[Node, str]]) -> Then:
    """Read what a rule does."""
    place = f"then of {what}"
    entries = r.keys(node, THEN_KEYS, place, _LEGACY_THEN)
    do: Do = r.choice(entries.get("do"), DIRECTIVES, f"do in {place}") or "continue"
    set_iter, set_ctx = written(r, node, place)
    to = r.text(entries.get("to"), f"to in {place}")
    if do == "jump" and "to" not in entries:
        r.missing(node, "to", f"{place} jumps nowhere", "name the task: to: <task>")
    elif do != "jump" and "to" in entries:
        r.report("E114", (node, "to"), f'to in {place} goes with do: jump, not with "{do}"', "write do: jump")
    elif to is not None:
        jumps.append((entries["to"], to))
    if do != "retry" and "do" in entries:
        for key in _RETRY_ONLY:
            if key in entries:
                r.report("W408", (node, key), f'"{key}" in {place} has no effect beside do: {do}', "it goes with do: retry")
    scope: Literal["iteration", "loop"] = (
        r.choice(entries.get("scope"), ("iteration", "loop"), f"scope in {place}") or "iteration"
    )
    if scope == "loop" and do != "break":
        r.report("E114", (node, "scope"), f"scope in {place} goes with do: break", "write do: break")
    if "error" in entries:
        if do != "fail":
            r.report("W408", (node, "error"), f'"error" in {place} has no effect beside do: {do}', "it goes with do: fail")
        if isinstance(entries["error"].value, dict):
            r.keys(entries["error"], ERROR_KEYS, f"error in {place}")
    backoff: Literal["none", "linear", "exponential", "fixed"] = (
        r.choice(entries.get("backoff"), BACKOFFS, f"backoff in {place}") or "none"
    )
    return Then(
        do=do,
        attempts=r.number(entries.get("attempts"), f"attempts in {place}", ATTEMPTS),
        backoff="none" if backoff == "fixed" else backoff,
        delay=r.number(entries.get("delay"), f"delay in {place} (seconds)", DELAY),
        max_delay=r.number(entries.get("max_delay"), f"max_delay in {place} (seconds)", DELAY),
        jitter=r.number(entries.get("jitter"), f"jitter in {place}", JITTER),
        backoff_multiplier=float(
            r.number(entries.get("backoff_multiplier"), f"backoff_multiplier in {place}", MULTIPLIER) or 2.0
        ),
        to=to,
        scope=scope,
        set_iter=set_iter,
        set_ctx=set_ctx,
        set_prev=entries["set_prev"].plain() if "set_prev" in entries else UNSET,
        error=entries["error"].plain() if "error" in entries else None,
    )


# --- admission ----------------------------------------------------------------------------------------------------------


def admission(r: Reader, node: Node | None, step: str) -> Admission | None:
    """Read `step.spec.policy.admit`."""
    if node is None:
        return None
    what = f'admit of step "{step}"'
    entries = r.keys(node, ("mode", "rules", "on_deny"), what)
    if r.choice(entries.get("mode"), ("exclusive", "inclusive"), f"mode of {what}") == "inclusive":
        r.report("W403", (node, "mode"), f"mode inclusive of {what} is accepted but has no effect", "", "note")
    on_deny: Literal["park", "skip", "fail"] = (
        r.choice(entries.get("on_deny"), ("park", "skip", "fail"), f"on_deny of {what}") or "park"
    )
    if "rules" not in entries:
        if isinstance(node.value, dict):
            r.missing(node, "rules", f"{what} has no rules", "admit: { rules: [...] }")
        return None
    rules = tuple(_entries(r, entries["rules"], what, lambda when, body, entry: _admit_rule(r, when, body, entry, what)))
    if rules and rules[-1].when is not None:
        r.report("W404", (node, "rules"), f"{what} has no else: what no rule matches is allowed", "add an else rule")
    return Admission(rules, on_deny)


def _admit_rule(r: Reader, when: str | None, body: Node, entry: Node, what: str) -> AdmitRule:
    entries = r.keys(body, ("allow",), f"then of {what}", {"do": "control actions belong to task policy"})
    allow = entries.get("allow")
    if allow is None:
        if isinstance(body.value, dict) and "do" not in body.value:
            r.missing(body, "allow", f"then of {what} says neither allow: true nor false", "then: { allow: true }")
        return AdmitRule(when, False, entry.path)
    if not isinstance(allow.value, bool) and not is_template(allow.value):
        r.report("E112", allow, f"allow in {what} must be true or false, not {r.word(allow)}")
    return AdmitRule(when, allow.plain(), entry.path)
