"""Mutants: playbooks with one condition negated, to find the conditions that no test notices."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from noetl_core.dsl.model import Path as Place
from noetl_core.dsl.parse import parse_playbook
from noetl_core.dsl.reading.diagnostics import InvalidPlaybook
from noetl_core.dsl.reading.load import Node, load
from noetl_core.runtime.embedded import read_playbook
from noetl_core.testing.coverage import line_at
from noetl_core.testing.files import Case
from noetl_core.testing.suite import Result, run_case

CONDITIONS: Final = frozenset({"when", "while", "until", "allow"})
"""Keys whose value is a condition."""
SECTIONS: Final = ("executor", "workbook", "workflow")
WORK: Final = 10
"""The factor by which a mutant may do more work than the playbook; one that does more is noticed."""
LEAST_WORK: Final = 500
_WHOLE: Final = re.compile(r"\s*\{\{(.*)\}\}\s*\Z", re.DOTALL)


@dataclass(frozen=True)
class Mutant:
    """A negated condition, and the first test that noticed it (empty: none)."""

    file: str
    line: int
    what: str
    noticed_by: str = ""


def mutants(file: Path, cases: Sequence[Case], results: Sequence[Result]) -> Iterator[Mutant]:
    """Negate each condition of a playbook, one at a time, and yield it with the first of its tests that notices. All tests pass
    with the playbook itself; `results` are theirs."""
    source, _, _ = read_playbook(file)
    root = load(source, str(file)).root
    if root is None:
        return
    original = load(file.read_text("utf-8"), str(file)).root
    for place, node in _conditions(root):
        text = _mutated(root, place)
        if text is None:
            continue
        noticed = ""
        for case, result in zip(cases, results, strict=True):
            if _reaches(result, place) and not run_case(case, text, max(LEAST_WORK, WORK * result.work)).passed:
                noticed = case.name
                break
        line = node.line if original is None else line_at(original, place)
        yield Mutant(str(file), line, f"{_where(root, place)}: {node.value}", noticed)


def _reaches(result: Result, place: Place) -> bool:
    """Return whether a case may notice the condition: one of a step that it did not run changes nothing."""
    return place[0] != "workflow" or any(item.kind == "steps" and item.place == place[:2] for item in result.covered)


def _conditions(root: Node) -> Iterator[tuple[Place, Node]]:
    """Yield the conditions of a playbook in the order of its text."""
    stack = [node for name in reversed(SECTIONS) if (node := root.get(name)) is not None]
    while stack:
        node = stack.pop()
        if node.path and node.path[-1] in CONDITIONS and node.kind == "scalar" and isinstance(node.value, str | bool):
            yield node.path, node
        below = node.value.values() if isinstance(node.value, dict) else node.value if isinstance(node.value, list) else ()
        stack += reversed(list(below))


def _mutated(root: Node, place: Place) -> str | None:
    """Return the text of the playbook with the condition negated; None if that is not a valid playbook."""
    document: Any = root.plain()
    parent = document
    for key in place[:-1]:
        parent = parent[key]
    negated = _negated(parent[place[-1]])
    if negated is None:
        return None
    parent[place[-1]] = negated
    text = json.dumps(document)
    try:
        parse_playbook(text)
    except InvalidPlaybook:
        return None
    return text


def _negated(condition: Any) -> Any:
    """Return the negation of a condition; None if it is not one template."""
    if isinstance(condition, bool):
        return not condition
    whole = _WHOLE.match(condition)
    if whole is None or "}}" in whole[1]:
        return None
    return "{{ not (" + whole[1].strip() + ") }}"


def _where(root: Node, place: Place) -> str:
    """Return the place of a condition in words: its step, and whether it is a rule, an arc or admission."""
    words = []
    if place[0] == "workflow" and len(place) > 1:
        step = root.value["workflow"].value[place[1]].get("step")
        words.append(f"step {step.value}" if step is not None else f"step {place[1]}")
    elif place[0] == "workbook":
        words.append(f"workbook {place[-1]}" if len(place) < 3 else f"workbook {place[2 if place[1] == 'tasks' else 1]}")
    if "arcs" in place:
        words.append(f"arc {place[place.index('arcs') + 1]}")
    elif "admit" in place:
        words.append("admission")
    elif "rules" in place:
        words.append(f"rule {place[place.index('rules') + 1]}")
    return ", ".join([*words, str(place[-1])])
