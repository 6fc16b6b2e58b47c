"""Fields and views of results that are known from the text, by their kind or because they are written there: part of W515."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from noetl_core import python_code
from noetl_core.dsl.fields.kind import words
from noetl_core.dsl.kinds import KINDS
from noetl_core.dsl.model import UNSET, Task
from noetl_core.dsl.reading.diagnostics import suggest
from noetl_core.expr import METHODS, is_template

LISTED: Final = 40
"""Names in a hint."""
ALWAYS: Final = words("data result results stats")
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
        return None if found is None else found | ALWAYS
    return None


def keys_of(value: Any) -> frozenset[str] | None:
    """Return the keys of a literal mapping; None for any other value."""
    if not isinstance(value, dict) or not value or any(not isinstance(key, str) or is_template(key) for key in value):
        return None
    return frozenset(value) | ALWAYS


def misspelt_outcome(path: tuple[str, ...]) -> tuple[str, str] | None:
    """Return message and hint for a path whose part of the outcome looks like one that outcomes have."""
    if path[0] not in ("outcome", "_outcome"):
        return None
    for part, known in ((1, _OUTCOME), (2, _ERROR)):
        if len(path) > part and (part == 1 or path[1] == "error") and path[part] not in known | _SECTIONS | METHODS:
            hint = suggest(path[part], known)
            return (f"{'.'.join(path[:part])} has no {path[part]}", hint) if hint else None
    return None


def it_has(names: Iterable[str]) -> str:
    """Return a hint that lists names, the first of many."""
    every = sorted(names)
    more = f" and {len(every) - LISTED} more" if len(every) > LISTED else ""
    return f"it has {', '.join(every[:LISTED])}{more}"
