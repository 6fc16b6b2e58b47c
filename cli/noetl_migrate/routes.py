"""`next` as a name or a list -> a router with arcs (formal specification 8); `step.when` -> admission (formal specification
4.2)."""

from __future__ import annotations

from typing import Final

from noetl_migrate.context import HAND, Context, text_of
from noetl_migrate.tree import Entry, Map, Node, Scalar, Seq, followed, node, own, short

ARC_KEYS: Final = ("step", "when", "args", "desc")


def arcs_of(c: Context, next_: Entry) -> list[Entry]:
    """Return the targets of a legacy `next`, each as an arc. Reports entries that are not targets."""
    value = own(next_)
    if isinstance(value, Scalar) and isinstance(value.value, str):
        return [Entry("", Map([Entry("step", value, eol=next_.eol)]))]
    if isinstance(value, Map):
        items = [Entry("", value)]
    elif isinstance(value, Seq):
        items = value.entries
    else:
        c.refuse(next_, "next must be a step's name, or a list of targets")
        return []
    return [arc for item in items if (arc := _arc(c, item)) is not None]


def _arc(c: Context, item: Entry) -> Entry | None:
    target = own(item)
    if isinstance(target, Scalar) and isinstance(target.value, str):
        return Entry("", Map([Entry("step", target, eol=item.eol)]), item.before)
    if not isinstance(target, Map) or target.entry("step") is None:
        c.refuse(item, "a target of next has no step", "- step: <name>")
        return None
    for e in target.entries:
        if e.key in ("then", "else"):
            c.refuse(e, f'"{e.key}" in next is a form of neither dialect', f"{HAND}: one arc for each target, with when")
        elif e.key == "with":
            c.refuse(e, '"with" in next is a form of neither dialect', "args carries data to the next step")
        elif e.key not in ARC_KEYS and not e.key.startswith("x-"):
            c.refuse(e, f'unknown key "{e.key}" in a target of next', f"known: {', '.join(ARC_KEYS)}")
    return Entry("", target, item.before, item.eol, None, "", item.line, item.col)


def router(arcs: list[Entry], mode: str | None) -> Map:
    """Return `next` in canonical form."""
    spec = [] if mode is None else [Entry("spec", short({"mode": mode}))]
    return Map([*spec, Entry("arcs", Seq(arcs))])


def rewrite_next(c: Context, step: Map) -> None:
    """Rewrite `next` of a step without `case`, and `spec.next_mode`."""
    mode = _next_mode(c, step)
    next_ = step.entry("next")
    if next_ is None:
        if mode is not None:
            c.warn(mode, "next_mode of a step without next is left out")
        return
    value = followed(next_.value)
    if isinstance(value, Map) and value.entry("step") is None:
        if mode is not None:
            spec = value.get("spec")
            if isinstance(spec, Map):
                spec.text = None
                spec.put("mode", text_of(mode.value))
            else:
                value.text = None
                value.put("spec", short({"mode": text_of(mode.value)}), 0)
        return
    arcs = arcs_of(c, next_)
    if not arcs and step.entry("tool") is not None:
        step.pop("next")
        return
    word = text_of(mode.value) if mode is not None else _implied_mode(c, next_, arcs)
    c.place(next_, next_)
    if not isinstance(value, Seq):
        next_.eol = ""  # it is placed beside the arc
    step.put("next", router(arcs, word))


def _implied_mode(c: Context, next_: Entry, arcs: list[Entry]) -> str | None:
    """Return the mode: the eval dialect takes the first target that matches, the case dialect takes all of them."""
    guarded = [a for a in arcs if isinstance(a.value, Map) and a.value.entry("when") is not None]
    if len(arcs) < 2:
        return None
    if guarded or c.guarded:
        if not guarded:
            c.warn(arcs[1], "only the first of these targets is ever taken", "next_mode: inclusive takes them all")
        return None
    if not c.cased:
        c.warn(next_, "all of these targets are taken, as in the case dialect", "next.spec.mode: exclusive takes the first")
    return "inclusive"


def _next_mode(c: Context, step: Map) -> Entry | None:
    spec = step.get("spec")
    found = spec.entry("next_mode") if isinstance(spec, Map) else None
    if found is None or not isinstance(spec, Map):
        return None
    spec.pop("next_mode")
    spec.text = None
    if not spec.entries:
        step.pop("spec")
    return found


# --- admission ----------------------------------------------------------------------------------------------------------


def rewrite_when(c: Context, step: Map) -> None:
    """Rewrite `step.when` to `spec.policy.admit.rules`; a step that is not enabled waits, as in the eval dialect."""
    when = step.entry("when")
    if when is None:
        return
    value = followed(when.value)
    text = value.value if isinstance(value, Scalar) else None
    if not isinstance(text, bool) and (not isinstance(text, str) or "{" not in text):
        c.refuse(when, '"when" of a step must be an expression', 'write "{{ ... }}"')
        return
    always = text is True or (isinstance(text, str) and text.replace(" ", "") == "{{true}}")
    rules: list[Node] = [] if always else [Map([Entry("when", own(when), [], when.eol), Entry("then", short({"allow": True}))])]
    rules.append(Map([Entry("else", Map([Entry("then", short({"allow": always}))]))]))
    admit = Map([Entry("rules", node(rules))])
    at = step.index("when")
    step.pop("when")
    spec = step.entry("spec")
    if spec is None:
        step.put("spec", Map([Entry("policy", Map([Entry("admit", admit)]))]), at).before = when.before
        return
    held = own(spec)
    if not isinstance(held, Map):
        c.refuse(spec, "spec must be a mapping")
        return
    held.text = None
    policy = held.entry("policy")
    if policy is None:
        held.put("policy", Map([Entry("admit", admit)])).before = when.before
    elif isinstance(rules_of := own(policy), Map) and rules_of.entry("admit") is None:
        rules_of.text = None
        rules_of.put("admit", admit).before = when.before
    else:
        c.refuse(when, "the step has when and an admission policy", "keep one of them")
