"""Compares two versions of a playbook as graphs: the steps and arcs that one has and the other has not."""

from __future__ import annotations

from collections.abc import Iterator

from noetl_core.dsl.model import Playbook
from noetl_core.values.frozen import frozen


@frozen
class Change:
    """A difference: `how` is `added`, `removed` or `changed`, `what` is a step, an arc, or another section."""

    how: str
    what: str

    def __str__(self) -> str:
        return f"{ {'added': '+', 'removed': '-'}.get(self.how, '~') } {self.what}"


def changes(before: Playbook, after: Playbook) -> list[Change]:
    """Return the differences in the order of the steps, removed steps last."""
    found = [
        Change("changed", name) for name in ("workload", "executor", "keychain", "workbook") if _differs(before, after, name)
    ]
    for step in after.steps:
        old = before.by_name.get(step.name)
        if old is None:
            found.append(Change("added", f"step {step.name}"))
        elif (old.tasks, old.loop, old.join, old.compensate) != (step.tasks, step.loop, step.join, step.compensate):
            found.append(Change("changed", f"step {step.name}"))
    found += [Change("removed", f"step {step.name}") for step in before.steps if step.name not in after.by_name]
    ours, theirs = list(_arcs(after)), list(_arcs(before))
    found += [Change("added", arc) for arc in ours if arc not in theirs]
    return [*found, *(Change("removed", arc) for arc in theirs if arc not in ours)]


def _differs(before: Playbook, after: Playbook, name: str) -> bool:
    return bool(getattr(before, name) != getattr(after, name))


def _arcs(playbook: Playbook) -> Iterator[str]:
    for step in playbook.steps:
        for arc in step.router.arcs if step.router is not None else ():
            guard = "" if arc.when is None else f" when {arc.when}"
            yield f"arc {step.name} -> {arc.step}{guard}"
