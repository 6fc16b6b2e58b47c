"""Fields and views of results whose kind is known from the text: part of W515."""

from __future__ import annotations

from collections.abc import Iterable

from noetl_core.dsl.diagnostics import suggest
from noetl_core.dsl.kinds import KINDS
from noetl_core.dsl.model import UNSET, Step
from noetl_core.expr import METHODS, views

Results = frozenset[tuple[tuple[str, ...], str]]
"""Pairs of a path that templates read, and the kind of the task whose result it is."""


def sole_kind(step: Step) -> str | None:
    """Return the kind of the one task whose result is the step's; None where that is not certain."""
    if len(step.tasks) != 1 or step.loop is not None:
        return None
    (task,) = step.tasks
    rules = task.policy.rules if task.policy is not None else ()
    return None if any(rule.then.set_prev is not UNSET for rule in rules) else task.kind


def result_at(path: tuple[str, ...], kind: str | None) -> Results:
    """Return the one place where the result of a task of that kind is read."""
    return frozenset() if kind is None else frozenset(((path, kind),))


def has_no_such(results: Results, path: tuple[str, ...]) -> tuple[str, str] | None:
    """Return message and hint for a path into the result of a task whose kind gives no such field or view."""
    kinds = [(place, kind) for place, kind in results if path[: len(place)] == place and len(path) > len(place)]
    if not kinds:
        return None
    name = path[len(kinds[0][0])]
    given = [KINDS[kind].gives if kind in KINDS else None for _, kind in kinds]
    known = [fields for fields in given if fields is not None]
    if (
        name in METHODS
        or (path[0] == "steps" and name == "result")
        or len(known) < len(given)
        or any(views.has(fields, name) for fields in known)
    ):
        return None
    every = frozenset().union(*map(views.names, known))
    return f"{'.'.join(kinds[0][0])} has no {name}", suggest(name, every) or it_has(known[0])


def it_has(names: Iterable[str]) -> str:
    """Return a hint that lists names."""
    return f"it has {', '.join(sorted(names))}"
