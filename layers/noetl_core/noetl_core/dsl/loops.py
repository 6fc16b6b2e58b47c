"""`step.loop` (formal specification 2.3 and 7; canonical step spec 5.3 and 8; resolutions 9, 10, 17 and 29)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from noetl_core.dsl.kinds import words
from noetl_core.dsl.load import Node
from noetl_core.dsl.model import FailureMode, Loop
from noetl_core.dsl.numbers import CHUNK_SIZE, TOLERATED_COUNT, TOLERATED_PERCENT, WINDOW, Range
from noetl_core.dsl.reader import Reader, is_template
from noetl_core.dsl.tasks import RESERVED

REDUCERS: Final = ("last", "append", "extend", "sum", "min", "max", "merge", "count")
POLICY_KEYS: Final = words("exec mode max_in_flight chunk_size reducers failure ordering backpressure partitioning")
NO_EFFECT: Final = ("ordering", "backpressure", "partitioning")
MAX_DEPTH: Final = 8
FAILURE_MODES: Final = ("fail_fast", "best_effort")


def loop(r: Reader, node: Node, step: str, failure: FailureMode, depth: int = 1) -> Loop | None:
    """Read one loop, with the loops inside it (`loop.loop`). `failure`: the failure mode of the step."""
    what = f'loop of step "{step}"'
    entries = r.keys(node, ("in", "iterator", "spec", "loop"), what, {"as": "the element's name is iterator"})
    missing = [k for k in ("in", "iterator") if k not in entries]
    if missing:
        message = f"{what} has no {' and no '.join(missing)}"
        r.missing(node, missing[0], message, "a loop needs in and iterator", code="E117")
    if depth > MAX_DEPTH:
        r.report("E124", node, f"{what} nests deeper than {MAX_DEPTH}", "use a child playbook")
        return None
    iterator = r.name(entries.get("iterator"), "an iterator")
    if iterator in RESERVED | {"index", "parent"}:
        r.report("E115", entries["iterator"], f'iterator "{iterator}" hides a name the loop needs', "choose another name")
    source = entries.get("in")
    if source is not None and not isinstance(source.value, list | dict) and not is_template(source.value):
        r.report("E112", source, f"in of {what} must be a list or an expression, not {r.word(source)}", 'write "{{ ... }}"')
    spec = entries.get("spec")
    options = {} if spec is None else r.mapping(spec, f"spec of {what}")
    policy = options.get("policy")
    rules = {} if policy is None else r.keys(policy, POLICY_KEYS, f"policy of {what}")
    if policy is not None:
        r.no_effect(policy, NO_EFFECT, f"policy of {what}")
    mode = rules.get("failure")
    limits = {} if mode is None else r.keys(mode, ("mode", "tolerated_count", "tolerated_percent"), f"failure of {what}")
    inner = entries.get("loop")
    return Loop(
        in_=source.plain() if source is not None else [],
        iterator=iterator or "item",
        mode=r.choice(options.get("mode") or rules.get("mode"), ("sequential", "parallel"), f"mode of {what}") or "sequential",
        max_in_flight=_either(r, options, rules, "max_in_flight", WINDOW, what),
        exec=r.choice(rules.get("exec"), ("local", "distributed"), f"exec of {what}"),
        chunk_size=_either(r, options, rules, "chunk_size", CHUNK_SIZE, what),
        reducers=_reducers(r, rules.get("reducers"), what),
        failure_mode=r.choice(limits.get("mode"), FAILURE_MODES, f"failure mode of {what}") or failure,
        tolerated_count=r.number(limits.get("tolerated_count"), f"tolerated_count of {what}", TOLERATED_COUNT),
        tolerated_percent=r.number(limits.get("tolerated_percent"), f"tolerated_percent of {what}", TOLERATED_PERCENT),
        inner=None if inner is None else loop(r, inner, step, failure, depth + 1),
        path=node.path,
    )


def _either(r: Reader, spec: dict[str, Node], policy: dict[str, Node], key: str, allowed: Range, what: str) -> Any:
    """Read a number that may be in the loop's spec or in its policy; the spec has precedence (resolution 29)."""
    own, other = (r.number(entries.get(key), f"{key} of {what}", allowed) for entries in (spec, policy))
    return other if own is None else own


def _reducers(r: Reader, node: Node | None, what: str) -> dict[str, str]:
    out = {}
    for key, child in r.mapping(node, f"reducers of {what}").items():
        word = r.choice(child, REDUCERS, f"reducer of {key} in {what}")
        if word is not None:
            out[key] = word
    return out


def iterators(looped: Loop | None) -> Iterator[str]:
    """Return the names of the elements, from the outermost loop in."""
    while looped is not None:
        yield looped.iterator
        looped = looped.inner
