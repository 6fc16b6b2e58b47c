"""Limits that executions share, as a playbook writes them (docs/limits.md)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from noetl_core.dsl.model import Concurrency, Rate, Task
from noetl_core.dsl.reading.load import Node
from noetl_core.dsl.reading.reader import Content, Reader

WITHOUT_RATES: Final = frozenset({"python"})
"""Pools whose workers may not write shared state: the code that runs there is not trusted, and could block everybody."""


def rate(content: Content | None) -> Rate | None:
    """Return `policy.rate`; None when it is left out, or was reported."""
    if content is None or content.get("key") is None or content.get("per_second") is None:
        return None
    return Rate(content.get("key"), content.get("per_second"), content.filled("burst"))


def check_complete(r: Reader, policy: Content, owner: str) -> None:
    """Report the missing fields of a rate."""
    node, content = policy.node("rate"), policy.below.get("rate")
    if node is None or content is None:
        return
    for name in ("key", "per_second"):
        if name not in content:
            r.missing(node, name, f"rate of {owner} has no {name}", "rate: { key: ..., per_second: ... }")


def check_rates(r: Reader, node: Node, tasks: Iterable[Task], pool: str, owner: str) -> None:
    """Report a rate, also an inherited one, where workers could not keep it."""
    limited = next((task for task in tasks if task.rate is not None), None)
    if limited is not None and pool in WITHOUT_RATES:
        message = f'task "{limited.name}" of {owner} has a rate, and workers of pool {pool} have no access to rates'
        hint = "let the step run in another pool; or limit how many of its runs there are at a time: spec.policy.concurrency"
        r.report("E114", node, message, hint)


def concurrency(r: Reader, entry: tuple[Node, Content] | None, owner: str) -> Concurrency | None:
    """Return `policy.concurrency` of a playbook or of a step; None when it is left out, or was reported."""
    if entry is None:
        return None
    node, content = entry
    for name in ("key", "max"):
        if name not in content:
            r.missing(node, name, f"concurrency of {owner} has no {name}", "concurrency: { key: ..., max: ... }")
    if content.get("key") is None or content.get("max") is None:
        return None
    return Concurrency(content.get("key"), content.get("max"), content.filled("on_limit"))
