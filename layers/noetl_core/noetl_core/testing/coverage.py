"""Coverage: the steps, tasks, arcs and rules of playbooks through which tests went, by the events of their executions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

from noetl_core.dsl.model import Path as Place
from noetl_core.dsl.model import Playbook, Step, Task
from noetl_core.dsl.reading.load import Node, load
from noetl_core.testing.play import Played
from noetl_core.values.frozen import frozen

KINDS: Final = ("steps", "tasks", "arcs", "rules")


@frozen
class Item:
    """A part of a playbook: a step, a task, an arc or a rule. `place` is its path in the document."""

    playbook: str
    kind: str
    place: Place
    name: str = ""


def items(playbook: Playbook) -> Iterator[Item]:
    """Yield the parts of a playbook, each once, in the order of the text."""
    yield from {(item.kind, item.place): item for item in _items(playbook)}.values()


def _items(playbook: Playbook) -> Iterator[Item]:
    for step in playbook.steps:
        yield Item(playbook.path, "steps", step.path, f"step {step.name}")
        if step.admission is not None:
            yield from (_admission(playbook, step, allowed=allowed) for allowed in (True, False))
        for task in (*step.tasks, *step.compensate):
            if task.label is None:
                yield Item(playbook.path, "tasks", task.path, f"task {task.name} of step {step.name}")
            rules = () if task.policy is None else task.policy.rules
            if task.label is not None and all(rule.when is None for rule in rules):
                continue  # the end of a block
            for index, rule in enumerate(rules):
                what = "else" if rule.when is None else f"when {rule.when}"
                label = f"rule of {step.name}.{task.name}" if task.label is None else f"branch of {task.called}"
                yield Item(playbook.path, "rules", _rule_place(task, index), f"{label}: {what}")
        for arc in () if step.router is None else step.router.arcs:
            yield Item(playbook.path, "arcs", arc.path, f"arc {step.name} -> {arc.step}" + (f": {arc.when}" if arc.when else ""))


def _admission(playbook: Playbook, step: Step, *, allowed: bool) -> Item:
    word = "granted" if allowed else "denied"
    return Item(playbook.path, "rules", (*step.path, "spec", "policy", "admit", word), f"admission of step {step.name}: {word}")


def covered(played: Played) -> Iterator[Item]:
    """Yield the parts through which an execution and its children went."""
    for execution_id in played.executions:
        playbook = played.playbook_of(execution_id)
        known = {(item.kind, item.place): item for item in items(playbook)}
        for event in played.history_of(execution_id):
            yield from (known[place] for place in _places(event, playbook) if place in known)


def _places(event: dict[str, Any], playbook: Playbook) -> Iterator[tuple[str, Place]]:
    step = playbook.by_name.get(event.get("step", ""))
    if step is None:
        return
    match event["name"]:
        case "StepScheduled":
            yield "steps", step.path
            if step.admission is not None:
                yield "rules", _admission(playbook, step, allowed=True).place
        case "StepSkipped" | "TokenParked":
            yield "rules", _admission(playbook, step, allowed=False).place
        case "NextEvaluated" if step.router is not None:
            yield from (("arcs", step.router.arcs[each["arc"]].path) for each in event["data"]["selected"])
        case "TaskProcessed":
            task = next((task for task in (*step.tasks, *step.compensate) if task.name == event["task"]), None)
            if task is not None:
                yield "tasks", task.path
                yield from _rule(task, event["data"]["directive"].get("matched"))


def _rule(task: Task, matched: int | str | None) -> Iterator[tuple[str, Place]]:
    rules = () if task.policy is None else task.policy.rules
    if isinstance(matched, int):
        yield "rules", _rule_place(task, matched)
    elif matched == "else":
        yield from (("rules", _rule_place(task, index)) for index, rule in enumerate(rules) if rule.when is None)


def _rule_place(task: Task, index: int) -> Place:
    """Return the place of a rule. Rules of sugar have none of their own: theirs is in the task."""
    assert task.policy is not None
    return task.policy.rules[index].path if task.label is None else (*task.path, task.name, index)


def lines_of(file: Path, items: Iterable[Item]) -> dict[Item, int]:
    """Return the line of each item in the file of its playbook."""
    root = load(file.read_text("utf-8"), str(file)).root
    return {item: 0 if root is None else line_at(root, item.place) for item in items}


def line_at(root: Node, place: Place) -> int:
    """Return the line of a place of a document, or of the nearest existing place above it."""
    node = root
    for key in place:
        if isinstance(key, str):
            below = node.get(key)
        else:
            below = node.value[key] if node.kind == "list" and key < len(node.value) else None
        if below is None:
            break
        node = below
    return node.line
