"""Checks the names in the expectations of a test: a misspelt one would never occur."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from noetl_core.dsl.model import Playbook
from noetl_core.dsl.reading.diagnostics import suggest_word
from noetl_core.dsl.reading.load import Node
from noetl_core.events.table import EVENTS
from noetl_core.testing.match import ANY, REST
from noetl_core.testing.registry import task_names

CALLERS: Final = frozenset({"playbook", "llm"})
"""Kinds of tasks that may call playbooks."""
Wrong = tuple[tuple[int, int], str, str]
"""The line and column of a mistake, its message, and a hint."""


def wrong_names(expect: Mapping[str, Node], playbooks: Sequence[Playbook]) -> Iterator[Wrong]:
    """Yield the names of steps, tasks and events that do not exist. The first playbook is the one that is tested."""
    yield from _steps(expect, playbooks[0])
    yield from _events(expect)
    yield from _calls(expect.get("calls"), playbooks)


def _steps(expect: Mapping[str, Node], playbook: Playbook) -> Iterator[Wrong]:
    places: list[tuple[Any, tuple[int, int]]] = []
    if "steps" in expect:
        places += [(name, expect["steps"].key_at(name)) for name in expect["steps"].value]
    if "path" in expect:
        places += [(each.value, (each.line, each.col)) for each in expect["path"].value]
    for name, place in places:
        if name not in playbook.by_name and name not in (REST, ANY):
            yield place, f'"{name}" is not a step', suggest_word(str(name), playbook.by_name)


def _calls(calls: Node | None, playbooks: Sequence[Playbook]) -> Iterator[Wrong]:
    """Yield unknown tasks, unless the playbook may call others, whose tasks are not known."""
    if calls is None or any(one.executor.on_failure for one in playbooks):
        return
    if any(task.kind in CALLERS for one in playbooks for step in one.steps for task in step.tasks):
        return
    tasks = {name: None for one in playbooks for name in task_names(one) if "#" not in name}
    for name in calls.value.keys() - tasks.keys():
        yield calls.key_at(name), f'no task is called "{name}"', suggest_word(name, tasks)


def _events(expect: Mapping[str, Node]) -> Iterator[Wrong]:
    texts: list[tuple[Any, tuple[int, int]]] = []
    if "count" in expect:
        texts += [(name, expect["count"].key_at(name)) for name in expect["count"].value]
    for key in ("events", "never"):
        texts += [(each.value, (each.line, each.col)) for each in (expect[key].value if key in expect else ())]
    for text, place in texts:
        name = text.partition(" ")[0] if isinstance(text, str) else REST
        if name not in EVENTS and name != REST and ANY not in name:
            yield place, f'"{name}" is not an event', suggest_word(name, EVENTS)
