"""Finds the entries of the keychain that a playbook uses: in templates, and by name where a task names a credential."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from noetl_core.dsl.derived import derived
from noetl_core.dsl.model import Playbook

_READ: Final = re.compile(r"""\bkeychain\s*(?:\.\s*(\w+)|\[\s*(?:'([^']*)'|"([^"]*)")\s*\]|(\b))""")


@derived
def entries_used(playbook: Playbook) -> frozenset[str]:
    """Return the names of the entries that a step, or an entry that is used, reads; all of them where a template computes the
    name."""
    names = frozenset(entry.name for entry in playbook.keychain)
    if not names:
        return names
    used = _read(_texts((playbook.steps, playbook.workbook, playbook.executor)), names)
    for entry in reversed(playbook.keychain):  # they read those above them
        if entry.name in used:
            used |= _read(_texts(entry.options), names)
    return used


def first_use(playbook: Playbook, name: str) -> str | None:
    """Return the first place that reads an entry, such as `task load of step fetch`; None if only other entries do."""
    names = frozenset({name})
    for step in playbook.steps:
        for task in (*step.tasks, *step.compensate):
            if _read(_texts(task), names):
                return f"task {task.name} of step {step.name}"
        if _read(_texts(step), names):
            return f"step {step.name}"
    return None


def _read(texts: Iterator[str], names: frozenset[str]) -> frozenset[str]:
    found: set[str] = set()
    for text in texts:
        if text in names:
            found.add(text)
        elif "keychain" in text:
            for match in _READ.finditer(text):
                name = match[1] or match[2] or match[3]
                if name is None:
                    return names
                found.add(name)
    return names & found


def _texts(value: Any) -> Iterator[str]:
    stack = [value]
    while stack:
        one = stack.pop()
        if isinstance(one, str):
            yield one
        elif isinstance(one, Mapping):
            stack += [*one.values()]
        elif isinstance(one, list | tuple | frozenset):
            stack += [*one]
        elif dataclasses.is_dataclass(one):
            stack += [getattr(one, field.name) for field in dataclasses.fields(one)]
