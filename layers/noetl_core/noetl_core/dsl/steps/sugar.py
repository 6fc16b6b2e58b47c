"""Task lists -> pipelines, and the authoring sugar `choose`, `while`, `until` as noop tasks that jump (canonical step spec
14, resolution 18).

Labels are the author's `name`, otherwise kind and place (`choose_1`, nested `choose_1_then_0_while_2`), so they stay the same
as long as the text around them does. Every construct ends in a merge point `<label>_end`, so that no branch falls into the
next one, and passes `_prev` on unchanged. `Task.label`, `Task.line` and `Task.path` lead back to the author's text:
messages, and the events of these tasks (`data.authored`), say `choose[1] (line 9)`, where the label of the task is
`choose_1`.
"""

from __future__ import annotations

from typing import Final

from noetl_core.dsl.fields.policies import CHOICE, SUGAR
from noetl_core.dsl.model import Rule, Task, TaskPolicy, Then
from noetl_core.dsl.reading.load import Node
from noetl_core.dsl.reading.reader import Reader
from noetl_core.dsl.steps.tasks import RawTask, TaskScope, finish, list_task

_PREV: Final = "{{ _prev }}"


def pipeline(r: Reader, node: Node, scope: TaskScope) -> tuple[Task, ...]:
    """Return the tasks of a list in order, with sugar compiled."""
    return tuple(_tasks(r, node, "", "", scope))


def _tasks(r: Reader, node: Node, prefix: str, place: str, scope: TaskScope) -> list[Task]:
    """Return the tasks below; `prefix` is for the labels of unnamed tasks, `place` is where they stand, in the author's
    words."""
    items = [node] if isinstance(node.value, dict) else r.sequence(node, f'tasks of step "{scope.step}"')
    out: list[Task] = []
    for i, item in enumerate(items):
        kind = None if item.get("kind") is not None else next((k for k in SUGAR if item.get(k) is not None), None)
        if kind is None:
            task = list_task(r, item, f"{prefix}task_{i}", scope)
            out.extend(() if task is None else (task,))
            continue
        r.keys(item, SUGAR[kind].keys, kind)
        label = r.name(item.get("name"), "a task") or f"{prefix}{kind}_{i}"
        make = {"choose": _choose, "while": _while, "until": _until}[kind]
        out.extend(make(r, item, label, f"{kind}[{i}]{place}" if item.get("name") is None else f'{kind} "{label}"', scope))
    return out


def _jump(to: str) -> Then:
    return Then(do="jump", to=to, set_prev=_PREV)


_GO_ON: Final = Then(set_prev=_PREV)


def _noop(r: Reader, name: str, node: Node, rules: list[tuple[str | None, Then]], label: str, scope: TaskScope) -> list[Task]:
    policy = TaskPolicy(tuple(Rule(when, then, node.path) for when, then in rules))
    task = finish(r, RawTask(name, "noop", {}, {}, policy, {}, {}, node), scope, label)
    return [] if task is None else [task]


def _choose(r: Reader, node: Node, label: str, what: str, scope: TaskScope) -> list[Task]:
    """Compile a `choose`: the first entry whose `when` holds, otherwise the `else` entry, otherwise nothing."""
    end = f"{label}_end"
    branches: list[Task] = []
    rules: list[tuple[str | None, Then]] = []
    otherwise = _jump(end)
    entries = r.sequence(node.value["choose"], what)
    if not entries and isinstance(node.value["choose"].value, list):
        r.report("E112", node.value["choose"], f"{what} has no entries", "write when and then, or else")
    for i, entry in enumerate(entries):
        place = f"entry {i} of {what}"
        parts = r.keys(entry, CHOICE.keys, place)
        last = i == len(entries) - 1
        if "else" in parts:
            if not last or "when" in parts or "then" in parts:
                r.report(
                    "E114",
                    (entry, "else"),
                    f"else of {what} must be its last entry, without when and then",
                    "move it to the end",
                )
            body = _tasks(r, parts["else"], f"{label}_else_", f" in else of {what}", scope)
            otherwise = _jump(body[0].name) if body else otherwise
        elif "when" not in parts or "then" not in parts:
            if isinstance(entry.value, dict):
                r.report("E111", entry, f"{place} has no {'when' if 'when' not in parts else 'then'}", "write when and then")
            continue
        else:
            body = _tasks(r, parts["then"], f"{label}_then_{i}_", f" in {place}", scope)
            rules.append((r.condition(parts["when"], f"when in {place}"), _jump(body[0].name if body else end)))
        branches += body
        if body and not last:
            branches += _noop(r, f"{label}_{i}_end", entry, [(None, _jump(end))], f"end of {place}", scope)
    head = _noop(r, label, node, [*rules, (None, otherwise)], what, scope)
    return [*head, *branches, *_noop(r, end, node, [(None, _GO_ON)], f"end of {what}", scope)]


def _body(r: Reader, node: Node, label: str, what: str, scope: TaskScope) -> list[Task]:
    body = node.get("do")
    if body is None:
        r.report("E111", node, f"{what} has no do", "do: [tasks]")
        return []
    return _tasks(r, body, f"{label}_do_", f" in {what}", scope)


def _while(r: Reader, node: Node, label: str, what: str, scope: TaskScope) -> list[Task]:
    """Compile a `while`: the condition is evaluated before each round."""
    end = f"{label}_end"
    when = r.condition(node.value["while"], f"when in {what}")
    head = _noop(r, label, node, [(when, _GO_ON), (None, _jump(end))], what, scope)
    body = _body(r, node, label, what, scope)
    again = _noop(r, f"{label}_again", node, [(None, _jump(label))], f"next round of {what}", scope)
    return [*head, *body, *again, *_noop(r, end, node, [(None, _GO_ON)], f"end of {what}", scope)]


def _until(r: Reader, node: Node, label: str, what: str, scope: TaskScope) -> list[Task]:
    """Compile an `until`: the condition is evaluated after each round; the first round always runs."""
    when = r.condition(node.value["until"], f"when in {what}")
    head = _noop(r, label, node, [(None, _GO_ON)], what, scope)
    body = _body(r, node, label, what, scope)
    check = _noop(r, f"{label}_check", node, [(when, _GO_ON), (None, _jump(label))], f"condition of {what}", scope)
    return [*head, *body, *check, *_noop(r, f"{label}_end", node, [(None, _GO_ON)], f"end of {what}", scope)]
