"""Facts that other modules derive from a playbook: each is computed once and kept as long as the playbook."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar, TypeVarTuple

if TYPE_CHECKING:
    from noetl_core.dsl.model import Playbook

Names = TypeVarTuple("Names")
Fact = TypeVar("Fact")


def derived(compute: Callable[[Playbook, *Names], Fact]) -> Callable[[Playbook, *Names], Fact]:
    """Have `compute` called once for each playbook and `names`, which are hashable. What it returns stays true, because a
    playbook is frozen."""

    @wraps(compute)
    def fact_of(playbook: Playbook, *names: *Names) -> Any:
        known, fact = playbook.facts, (compute, names)
        if fact not in known:
            known[fact] = compute(playbook, *names)
        return known[fact]

    return fact_of
