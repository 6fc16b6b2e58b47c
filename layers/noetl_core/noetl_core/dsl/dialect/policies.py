"""Rules that precede those of a task's own policy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from noetl_core.dsl.dialect.conditions import FAILED, braced
from noetl_core.dsl.dialect.edits import Edits, Place
from noetl_core.dsl.reading.load import Node

LIKE_NONE: Final[Sequence[Mapping[str, Any]]] = (
    {"when": braced(FAILED), "then": {"do": "fail"}},
    {"else": {"then": {"do": "continue"}}},
)
"""Rules with the same effect as no policy."""


def has_rules(task: Node) -> bool:
    spec = task.get("spec")
    policy = spec.get("policy") if spec is not None else None
    return policy is not None and policy.get("rules") is not None


def add_rules(e: Edits, task: Node, rules: Sequence[Mapping[str, Any]], near: Place, default: Node | None) -> None:
    """Put rules before those of the task. Without a policy, outcomes that no rule matches keep their meaning. `default` is the
    policy that the step or the executor gives to tasks without one."""
    spec = e.below(task, "spec", near)
    policy = None if spec is None else e.below(spec, "policy", near)
    if policy is None:
        return
    listed = policy.get("rules")
    if listed is None:
        inherited = default.get("rules") if default is not None else None
        e.put(policy, "rules", [*rules, *(LIKE_NONE if inherited is None else inherited.plain())], near)
    elif isinstance(listed.value, list):
        listed = e.own(policy, "rules")
        for at, rule in enumerate(rules):
            e.insert(listed, at, rule, near)
