"""Fields and views of results that are known from the text, by their kind or because they are written there: part of W515."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from noetl_core import python_code
from noetl_core.dsl.fields.kind import words
from noetl_core.dsl.kinds import KINDS
from noetl_core.dsl.model import UNSET, Loop, Step, Task
from noetl_core.dsl.reading.diagnostics import suggest
from noetl_core.expr import METHODS, is_template, views

Result = tuple[tuple[str, ...], frozenset[str] | None]
"""A path that templates read, and the fields of what it gives; None where these are not known."""
Results = frozenset[Result]
_ALWAYS: Final = words("data result results stats")
"""Names that other dialects read of any result."""
_PAIR: Final = words("key value")
"""The fields of the elements of a mapping."""
_DEFAULT: Final = re.compile(r"\{\{-?\s*workload\.(\w+)\s*-?\}\}")
_OUTCOME: Final = words("status result error meta")
_SECTIONS: Final = words("http pg py shell duckdb data results")
"""Sections that tools of some kinds add to an outcome, and names that other dialects read of it."""
_ERROR: Final = words("kind message retryable code details")


def fields_of(task: Task, *, programs: Mapping[str, Any]) -> frozenset[str] | None:
    """Return the fields of the result of a task; None where these are not known. `programs` has the texts that compile."""
    rules = task.policy.rules if task.policy is not None else ()
    if any(rule.then.set_prev is not UNSET for rule in rules):
        return None
    known = KINDS.get(task.kind)
    if known is not None and known.gives is not None:
        return known.gives
    if task.kind == "noop":
        key = next((key for key in ("result", "data", "args") if key in task.inputs), "")
        return keys_of(task.inputs.get(key))
    code, entry = task.inputs.get("code"), task.inputs.get("entry", "main")
    if task.kind == "python" and isinstance(code, str) and code in programs and isinstance(entry, str):
        found = python_code.result_fields(code, entry)
        return None if found is None else found | _ALWAYS
    return None


def keys_of(value: Any) -> frozenset[str] | None:
    """Return the keys of a literal mapping; None for any other value."""
    if not isinstance(value, dict) or not value or any(not isinstance(key, str) or is_template(key) for key in value):
        return None
    return frozenset(value) | _ALWAYS


def elements_of(loop: Loop | None, workload: Mapping[str, Any], written: frozenset[str]) -> Results:
    """Return the places where elements of loops are read, for collections that are written in the playbook."""
    found: set[Result] = set()
    while loop is not None:
        fields = _fields_of_elements(loop.in_, workload)
        if fields is not None and loop.cursor is None and loop.iterator not in written:
            found |= {(("iter", loop.iterator), fields), ((loop.iterator,), fields)}
        loop = loop.inner
    return frozenset(found)


def _fields_of_elements(source: Any, workload: Mapping[str, Any]) -> frozenset[str] | None:
    default = _DEFAULT.fullmatch(source) if isinstance(source, str) else None
    if default is not None:
        value = workload.get(default[1])
        return _PAIR if isinstance(value, dict) and value else None
    if isinstance(source, dict) and source:
        return _PAIR
    if not isinstance(source, list):
        return None
    every = [keys_of(element) for element in source]
    known = [keys for keys in every if keys is not None]
    return frozenset().union(*known) if known and len(known) == len(every) else None


def misspelt_outcome(path: tuple[str, ...]) -> tuple[str, str] | None:
    """Return message and hint for a path whose part of the outcome looks like one that outcomes have."""
    if path[0] not in ("outcome", "_outcome"):
        return None
    for part, known in ((1, _OUTCOME), (2, _ERROR)):
        if len(path) > part and (part == 1 or path[1] == "error") and path[part] not in known | _SECTIONS | METHODS:
            hint = suggest(path[part], known)
            return (f"{'.'.join(path[:part])} has no {path[part]}", hint) if hint else None
    return None


def sole_task(step: Step) -> Task | None:
    """Return the one task whose result is the step's; None where that is not certain."""
    if len(step.tasks) != 1 or step.loop is not None:
        return None
    (task,) = step.tasks
    rules = task.policy.rules if task.policy is not None else ()
    return None if any(rule.then.set_prev is not UNSET for rule in rules) else task


def result_at(path: tuple[str, ...], fields: frozenset[str] | None) -> Results:
    """Return the one place where a result with these fields is read."""
    return frozenset() if fields is None else frozenset(((path, fields),))


def has_no_such(results: Results, path: tuple[str, ...]) -> tuple[str, str] | None:
    """Return message and hint for a path into the result of a task that gives no such field or view."""
    found = [(place, fields) for place, fields in results if path[: len(place)] == place and len(path) > len(place)]
    if not found:
        return None
    name = path[len(found[0][0])]
    given = [fields for _, fields in found]
    known = [fields for fields in given if fields is not None]
    if (
        name in METHODS
        or (path[0] == "steps" and name == "result")
        or len(known) < len(given)
        or any(views.has(fields, name) for fields in known)
    ):
        return None
    every = frozenset().union(*map(views.names, known)) - _ALWAYS
    return f"{'.'.join(found[0][0])} has no {name}", suggest(name, every) or it_has(known[0] - _ALWAYS)


def it_has(names: Iterable[str]) -> str:
    """Return a hint that lists names."""
    return f"it has {', '.join(sorted(names))}"
