"""The tasks of the eval dialect: `eval` -> `spec.policy.rules` (canonical step spec 13)."""

from __future__ import annotations

import re
from typing import Final

from jinja2 import nodes

from noetl_core.expr import Read, is_template
from noetl_core.expr.compiled import ENVIRONMENT
from noetl_migrate.context import HAND, Context, templates
from noetl_migrate.texts import edit, edits
from noetl_migrate.tree import Entry, Map, Node, Scalar, Seq, followed, node, own, short

DIRECTIVE_KEYS: Final = (
    "do", "attempts", "backoff", "delay", "max_delay", "jitter", "backoff_multiplier", "to", "scope", "error",
    "set_iter", "set_ctx", "set", "set_prev", "set_vars", "set_shared",
)  # fmt: skip
_STATUS: Final = re.compile(r"outcome\s*(?:\.\s*status\b|\[\s*(?:'status'|\"status\")\s*\])")
_EXCEPTION: Final = re.compile(r"outcome\s*\.\s*py\s*\.\s*exception\b")


def rewrite_task(c: Context, task: Map, parallel: bool) -> None:
    """Rewrite `eval` and `policy` of a task to `spec.policy`, with the older keys in its rules."""
    for key in ("when", "case", "sink", "pipe"):
        found = task.entry(key)
        if found is not None:
            c.refuse(found, f'"{key}" of a task is a form of neither dialect', f'{HAND}: a rule with do: jump, or "choose"')
    evaluated, loose = task.entry("eval"), task.entry("policy")
    spec = task.get("spec")
    policy = spec.get("policy") if isinstance(spec, Map) else None
    if evaluated is not None and (loose is not None or policy is not None):
        c.refuse(evaluated, "a task has eval and a policy", "keep one of them")
        return
    if evaluated is not None:
        rules = own(evaluated)
        if not isinstance(rules, Seq):
            c.refuse(evaluated, "eval must be a list of rules")
            return
        _legacy_rules(c, rules, parallel)
        _defaults(rules)
        _move(c, task, evaluated, Map([Entry("rules", rules)]))
    elif loose is not None and isinstance(own(loose), Map):
        _move(c, task, loose, loose.value)
    spec = task.get("spec")
    policy = spec.get("policy") if isinstance(spec, Map) else None
    rules_node = policy.get("rules") if isinstance(policy, Map) else None
    if evaluated is None and isinstance(rules_node, Seq) and _older(rules_node):
        _legacy_rules(c, rules_node, parallel)


def has_older_rules(task: Map) -> bool:
    """Return whether the task's own policy is written with `expr`, loose directives or `set_vars`."""
    spec = task.get("spec")
    policy = spec.get("policy") if isinstance(spec, Map) else None
    rules = policy.get("rules") if isinstance(policy, Map) else None
    return isinstance(rules, Seq) and _older(rules)


def _older(rules: Seq) -> bool:
    for item in rules.entries:
        rule = followed(item.value)
        if not isinstance(rule, Map):
            continue
        then = rule.get("then") or rule.get("else")
        if (
            rule.entry("expr")
            or rule.entry("do")
            or (isinstance(then, Map) and (then.entry("set_vars") or then.entry("set_shared")))
        ):
            return True
    return False


def _move(c: Context, task: Map, old: Entry, policy: Node) -> None:
    """Take `old` out and put the policy under `spec`, in its place or in the spec that exists."""
    at = task.index(old.key)
    task.pop(old.key)
    spec = task.entry("spec")
    if spec is None:
        task.put("spec", Map([Entry("policy", policy)]), at).before = old.before
        return
    held = own(spec)
    if isinstance(held, Map):
        held.text = None
        held.put("policy", policy).before = old.before
    else:
        c.refuse(spec, "spec must be a mapping")


def _defaults(rules: Seq) -> None:
    """Add an `else`: without one, the eval dialect continues after success and fails after an error, and v10 always
    continues."""
    rules.changed, rules.text = True, None
    items = [followed(e.value) for e in rules.entries]
    if any(isinstance(i, Map) and i.entry("else") for i in items):
        return
    failed = Map([Entry("when", node("{{ outcome.status == 'error' }}")), Entry("then", short({"do": "fail"}))])
    rules.entries.append(Entry("", failed))
    rules.entries.append(Entry("", Map([Entry("else", Map([Entry("then", short({"do": "continue"}))]))])))


def _legacy_rules(c: Context, rules: Seq, parallel: bool) -> None:
    for item in rules.entries:
        rule = own(item)
        if not isinstance(rule, Map):
            c.refuse(item, 'a rule must be a mapping with "expr" or "else"')
            continue
        _rule(c, item, rule, parallel)
        for scalar in templates(rule):
            _outcome_words(c, scalar)


def _rule(c: Context, item: Entry, rule: Map, parallel: bool) -> None:
    rule.text, rule.changed = None, True
    otherwise, condition = rule.entry("else"), rule.entry("expr") or rule.entry("when")
    if otherwise is not None:
        body = own(otherwise)
        if isinstance(body, Scalar) and body.value is None:
            body = Map()
        if not isinstance(body, Map) or condition is not None:
            c.refuse(otherwise, '"else" must be a mapping of directives, in a rule without a condition')
            return
        loose = [e for e in rule.entries if e is not otherwise and not e.key.startswith("x-")]
        rule.entries = [e for e in rule.entries if e not in loose]
        body.entries += loose
        if body.entry("then") is None:
            otherwise.value = Map([Entry("then", _then(c, body, parallel))])
        else:
            _then_of(c, body, parallel)
        otherwise.raw = None
        return
    if condition is None:
        c.refuse(item, 'a rule has neither "expr" nor "else"', "give it one")
        return
    if condition.key == "expr":
        rule.rename(condition, "when")
    value = own(condition)
    if isinstance(value, Scalar) and isinstance(value.value, str) and not is_template(value.value):
        c.refuse(value, "a condition without braces is text", f'write "{{{{ {value.value} }}}}"')
    if rule.entry("then") is not None:
        _then_of(c, rule, parallel)
        return
    loose = [e for e in rule.entries if e is not condition and not e.key.startswith("x-")]
    rule.entries = [e for e in rule.entries if e not in loose]
    rule.put("then", _then(c, Map(loose), parallel))


def _then_of(c: Context, holder: Map, parallel: bool) -> None:
    found = holder.entry("then")
    assert found is not None
    body = own(found)
    if isinstance(body, Map):
        _then(c, body, parallel)


def _then(c: Context, body: Map, parallel: bool) -> Map:
    """Return the directives of a rule in the form of `then`."""
    body.text, body.changed = None, True
    body.compact = all(not isinstance(followed(e.value), Map | Seq) for e in body.entries)
    for e in body.entries:
        e.raw = None
        if e.key not in DIRECTIVE_KEYS and not e.key.startswith("x-"):
            c.refuse(e, f'"{e.key}" is not a directive of eval', f"known: {', '.join(DIRECTIVE_KEYS)}")
    backoff = body.get("backoff")
    if isinstance(backoff, Scalar) and backoff.value == "fixed":
        body.put("backoff", "none")
    if isinstance(directive := body.get("do"), Scalar) and directive.value == "retry" and body.entry("attempts") is None:
        c.warn(directive, "retry without attempts: in v10, such a task runs 3 times at most", "write attempts")
    shared = body.entry("set_shared")
    if shared is not None:
        if parallel:
            c.refuse(shared, "set_shared in a parallel loop: the playbook does not say how the iterations' values combine",
                     "write set_ctx, and a reducer in loop.spec.policy.reducers")  # fmt: skip
        else:
            merged(c, body, shared, "set_ctx")
    return body


def merged(c: Context, body: Map, old: Entry, key: str, names: dict[str, str] | None = None) -> None:
    """Move the writes of `old` into `key` of the same rule; `names` gives written names new ones."""
    written = own(old)
    if not isinstance(written, Map):
        c.refuse(old, f"{old.key} must be a mapping")
        return
    moving = [e for e in written.entries if names is None or e.key in names]
    for e in moving:
        written.entries.remove(e)
        if names is not None and names[e.key] != e.key:
            written.rename(e, names[e.key])
    target = body.get(key)
    if isinstance(target, Map):
        twice = [e for e in moving if target.entry(e.key)]
        if twice:
            c.refuse(twice[0], f'"{twice[0].key}" is written twice', "rename one")
        target.text, target.changed = None, True
        target.entries += moving
    elif moving:
        at = body.index(old.key)
        made = Map(moving)
        made.compact = written.text is not None
        fresh = Entry(key, made, old.before if not written.entries else [], old.eol if not written.entries else "")
        body.entries.insert(at, fresh)
    body.changed, body.text = True, None
    written.changed, written.text = True, None
    if not written.entries:
        body.entries.remove(old)


# --- words of the outcome -----------------------------------------------------------------------------------------------


def _outcome_words(c: Context, scalar: Scalar) -> None:
    """Rewrite `success` to `ok` where a rule compares the status with it; a status that is used otherwise keeps its old word."""
    text: str = scalar.value
    compared = _comparisons(text)
    whole = list(edits(text, lambda read, _: ("outcome", "") if read.path == ("outcome",) else None))
    if whole:
        c.warn(scalar, "the whole outcome is used here: its status is now ok instead of success")

    def status(read: Read, rest: str) -> tuple[str, str] | None:
        exception = _EXCEPTION.match(rest)
        if read.path[:3] == ("outcome", "py", "exception") and exception is not None:
            return exception[0], "outcome.py.exception_type"
        if read.path[:2] != ("outcome", "status"):
            return None
        found = _STATUS.match(rest)
        if found is None:
            return None
        if (int(read.line), read.column) in compared:
            return None
        return found[0], "('success' if outcome.status == 'ok' else outcome.status)"

    edit(scalar, status)
    if compared and re.search(r"['\"]success['\"]", scalar.value):
        edit(scalar, lambda read, rest: _words_after(read, rest, scalar.value))
        _words_before(scalar)


def _comparisons(text: str) -> set[tuple[int, int]]:
    """Return the positions of `outcome.status` where it is compared with constants."""
    out: set[tuple[int, int]] = set()
    for compare in ENVIRONMENT.parse(text).find_all(nodes.Compare):
        sides = (compare.expr, *(o.expr for o in compare.ops))
        others = [s for s in sides if not _is_status(s)]
        if len(others) == len(sides) or not all(_is_constant(s) for s in others):
            continue
        for side in sides:
            if _is_status(side):
                name = next(side.find_all(nodes.Name))
                out.add((int(name.lineno), getattr(name.lineno, "column", 1)))
    return out


def _is_status(side: nodes.Node) -> bool:
    if isinstance(side, nodes.Getattr):
        return side.attr == "status" and isinstance(side.node, nodes.Name) and side.node.name == "outcome"
    if isinstance(side, nodes.Getitem) and isinstance(side.arg, nodes.Const):
        return side.arg.value == "status" and isinstance(side.node, nodes.Name) and side.node.name == "outcome"
    return False


def _is_constant(side: nodes.Node) -> bool:
    if isinstance(side, nodes.List | nodes.Tuple):
        return all(_is_constant(i) for i in side.items)
    return isinstance(side, nodes.Const)


_AFTER: Final = re.compile(
    _STATUS.pattern + r"\s*(?:==|!=|in|not\s+in)\s*(?:['\"][\w.]*['\"]|[\[(](?:\s*['\"][\w.]*['\"]\s*,?)*\s*[\])])"
)
_BEFORE: Final = re.compile(r"(['\"])success\1(\s*(?:==|!=)\s*" + _STATUS.pattern + ")")


def _words_after(read: Read, rest: str, _text: str) -> tuple[str, str] | None:
    found = _AFTER.match(rest) if read.path[:2] == ("outcome", "status") else None
    return None if found is None else (found[0], re.sub(r"(['\"])success\1", r"\1ok\1", found[0]))


def _words_before(scalar: Scalar) -> None:
    """Rewrite `'success' == outcome.status`."""
    new = _BEFORE.sub(r"\1ok\1\2", scalar.value)
    if new != scalar.value:
        if scalar.text is not None and scalar.text.count(scalar.value) == 1:
            scalar.text = scalar.text.replace(scalar.value, new)
        else:
            scalar.text, scalar.style = None, None
        scalar.value, scalar.changed = new, True


# --- vars of one step ---------------------------------------------------------------------------------------------------


def written_variables(step: Node) -> dict[str, Entry]:
    """Return the names that the step's rules write with `set_vars`, each with one place that does."""
    out: dict[str, Entry] = {}
    if isinstance(step, Map | Seq):
        for e in step.entries:
            if e.key == "set_vars":
                held = followed(e.value)
                for name in held.entries if isinstance(held, Map) else ():
                    out.setdefault(name.key, name)
            else:
                for key, found in written_variables(e.value).items():
                    out.setdefault(key, found)
    return out
