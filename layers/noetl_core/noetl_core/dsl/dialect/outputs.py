"""`output: {output_select}` of steps and tasks: parts of a result, some of which have names.

Every part of a result can be read by its path, so that a path alone has no effect. A path with a name makes `{{ step.name }}`
readable: in the templates that read it the name is replaced by the path. Nothing is stored for it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Final

from noetl_core.dsl.dialect.edits import Edits, Place
from noetl_core.dsl.dialect.tasks import last_tasks
from noetl_core.dsl.dialect.variants import bound_names
from noetl_core.dsl.fields.kind import words
from noetl_core.dsl.kinds import KINDS
from noetl_core.dsl.reading.diagnostics import Severity, suggest
from noetl_core.dsl.reading.load import Node
from noetl_core.dsl.steps.tasks import RESERVED
from noetl_core.dsl.templates import KEY, parts, replaced, scalars_below
from noetl_core.expr import FUNCTIONS, Read, views

SELECT: Final = "output_select"
_NAMES: Final = ("as", "name", "alias")
_ENTRY: Final = frozenset({"path", *_NAMES})
_OUTPUT: Final = words("output_select store")
_PATH: Final = re.compile(r"""\.?([A-Za-z_]\w*)|\.?(\d+)(?=[.\[]|\Z)|\[\s*(\d+)\s*\]|\[\s*(?:'([^'\[\]]+)'|"([^"\[\]]+)")\s*\]""")
_CLOSE: Final = 0.7
"""Minimum similarity of a key to `path` at which it counts as a typo of it. `at` is less similar: another word."""
_ROOT: Final = re.compile(r"\w+")
_FORM: Final = "a path, {path: data.next, as: next}, or {next: data.next}"
_WAY: Final = "names and numbers, for example data.items[0].id"


@dataclass(slots=True, eq=False)
class Named:
    """A part of a result that has a name. `path` is the end of an expression that reads it."""

    name: str
    path: str
    at: Node
    refused: tuple[str, str] | None = None
    """The reason why the name cannot be read, and the text to write instead."""
    read: bool = False


Selections = list[tuple[Node, tuple[str | int, ...], str, list[Named]]]
"""Entries with an `output`: the step, the path in the step to the entry, its name in messages, and the names that it defines."""
Table = dict[tuple[str, ...], Named]
"""Paths that templates read -> the named parts that they mean."""


def rewrite_outputs(e: Edits, root: Node, steps: list[Node]) -> None:
    """Replace the names of parts of results in the templates that read them."""
    if "output" not in e.r.loaded.text:  # the search takes a fifteenth of the parsing time
        return
    _refuse_in_workbook(e, root)
    results, tasks = Table(), list[Table]()
    selections: Selections = []
    for step in steps:
        own, of_tasks, found = _of_step(e, step)
        results |= {("steps", _name(step), "result", one.name): one for one in own}
        tasks.append(of_tasks)
        selections += found
    if not selections:
        return
    bare = {_name(step) for step in steps} - RESERVED - frozenset(FUNCTIONS) - bound_names(root)
    short: Table = {(path[1], path[3]): one for path, one in results.items() if path[1] in bare}
    anywhere = {**results, **short}
    for step, of_tasks in zip(steps, tasks, strict=True):
        here = {name for name, _, _ in tasks_below(step.get("tool"), f"{_name(step)}_task")}
        inside = {**{path: one for path, one in anywhere.items() if path[0] not in here}, **of_tasks}
        ended: Table = {("event", "result", path[3]): one for path, one in results.items() if path[1] == _name(step)}
        for key, _ in list(parts(step)):
            _rewrite(e, step, key, {**inside, **ended} if key in ("next", "set_ctx", "set") else inside)
    for section in ("executor", "workbook"):
        if section in root.value:
            _rewrite(e, root, section, anywhere)
    _clear(e, selections)


def _report(e: Edits, code: str, where: Place, message: str, hint: str, severity: Severity | None = None) -> None:
    """Report malformed entries, except those of a pinned playbook, which may be older than this check."""
    if e.r.programs:
        e.r.report(code, where, message, hint, severity)


def _name(step: Node) -> str:
    name_node = step.get("step")
    return "" if name_node is None else str(name_node.value)


def _refuse_in_workbook(e: Edits, root: Node) -> None:
    """Report names in the entries of a workbook: the task that uses an entry has the result."""
    for name, _, task in tasks_below(root.get("workbook"), ""):
        for one in _selected_names(e, task, f'task "{name}" of the workbook', task):
            message = (
                f"{one.name} in {SELECT} of the workbook's task {name} cannot be read: only a task that uses it has a result"
            )
            _report(e, "E114", one.at, message, f"write output beside the task that uses it, or read {one.path}")


def tasks_below(
    node: Node | None, default: str, path: tuple[str | int, ...] = ()
) -> Iterator[tuple[str, tuple[str | int, ...], Node]]:
    """Yield the tasks below the tool of a step, with their names and the paths to them."""
    if node is None:
        return
    if isinstance(node.value, list):
        for n, child in enumerate(node.value):
            yield from tasks_below(child, f"task_{n}", (*path, n))
    elif isinstance(node.value, dict):
        if "kind" in node.value:
            name = node.get("name")
            yield (name.value if name is not None and isinstance(name.value, str) else default), path, node
            return
        for key, child in node.value.items():
            if not key.startswith("x-"):
                yield from tasks_below(child, key, (*path, key))


# --- names --------------------------------------------------------------------------------------------------------------


def _of_step(e: Edits, step: Node) -> tuple[list[Named], Table, Selections]:
    """Return the named parts of a step's result, those of its tasks' results by task and name, and the places that define
    them."""
    step_name = _name(step)
    found: Selections = []
    tasks = Table()
    last = next(last_tasks(step), None)
    own = _selected_names(e, step, f'step "{step_name}"', last)
    if own:
        found.append((step, (), f'step "{step_name}"', own))
    for name, path, task in tasks_below(step.get("tool"), f"{step_name}_task"):
        here = _selected_names(e, task, f'task "{name}"', task)
        if not here:
            continue
        found.append((step, ("tool", *path), f'task "{name}"', here))
        tasks |= {(name, one.name): one for one in here}
        if task is last:
            own = [*own, *(one for one in here if one.name not in {other.name for other in own})]
    if step.get("loop") is not None:
        own = [Named(one.name, one.path, one.at, _of_each(step_name, one)) for one in own]
    return own, tasks, found


def _of_each(step: str, one: Named) -> tuple[str, str]:
    """Return why the result of a loop has no such part, and the text to write instead."""
    path = re.sub(r"\[(\d+)\]", r".\1", one.path).removeprefix(".")
    message = f'{one.name} in {SELECT} of step "{step}" is a part of one result, and its loop gives a list of results'
    return message, f"read it of each result: {{{{ {step} | map(attribute='{path}') | list }}}}"


def _selected_names(e: Edits, holder: Node, what: str, task: Node | None) -> list[Named]:
    """Return the names in the `output` of a step or a task; malformed entries are reported. `task` is the task with the
    result."""
    output = holder.get("output")
    word = str(task.value["kind"].value) if task is not None and "kind" in task.value else ""
    kind = KINDS.get(word)
    if (
        output is None
        or not isinstance(output.value, dict)
        or (holder is task and kind is not None and "output" in kind.accepted)
    ):
        return []
    for key in output.value:
        near = "" if key in _OUTPUT else suggest(key, _OUTPUT)
        if near:
            _report(e, "E110", (output, key), f'unknown key "{key}" in output of {what}', near)
    select = output.get(SELECT)
    if select is None or select.value is None:
        return []
    found: list[Named] = []
    for entry in select.value if isinstance(select.value, list) else [select]:
        for name, path, at in _entries(e, entry, what):
            one = _read(e, name, path, at, what)
            if one is None:
                continue
            same = next((other for other in found if other.name == one.name), None)
            if same is not None and same.path != one.path:
                _report(e, "E114", at, f"{SELECT} of {what} gives two parts the name {one.name}", "give each a name of its own")
            result_fields = kind.gives if kind is not None else None
            if result_fields is not None and views.has(result_fields, one.name) and one.path != f".{one.name}":
                message = f"{one.name} in {SELECT} of {what} is also a field of the result of {word}"
                one.refused = message, f"choose another name, or write the path: {path.value}"
            found += [one] if same is None else []
    return found


def _entries(e: Edits, entry: Node, what: str) -> Iterator[tuple[str, Node, Node]]:
    """Yield name, path and place of a part that an entry names; nothing for a path without a name."""
    value = entry.value
    if isinstance(value, str) and value.strip():
        return
    if not isinstance(value, dict) or not value:
        _report(e, "E112", entry, f"{SELECT} of {what} must have paths, not {e.r.word(entry)}", _FORM)
    elif _without_path(value):
        _report(e, "E111", entry, f"an entry of {SELECT} of {what} has no path", _FORM)
    elif "path" in value:
        for key in value:
            if key not in _ENTRY and not key.startswith("x-"):
                _report(e, "E110", (entry, key), f'unknown key "{key}" in {SELECT} of {what}', suggest(key, _ENTRY) or _FORM)
        name = next((value[key] for key in _NAMES if key in value), None)
        if name is not None:
            yield str(name.value), value["path"], name
    else:
        for key, child in value.items():
            if not key.startswith("x-"):
                yield key, child, child


def _without_path(value: Mapping[str, Node]) -> bool:
    """Return whether an entry lacks the `path` that it needs."""
    return "path" not in value and ("as" in value or any(get_close_matches(key, ("path",), 1, _CLOSE) for key in value))


def _read(e: Edits, name: str, path: Node, at: Node, what: str) -> Named | None:
    if not re.fullmatch(r"[A-Za-z_]\w*", name):
        _report(e, "E115", at, f'"{name[:60]}" cannot name a part of the result of {what}', "letters, digits and _")
        return None
    found = as_expression(path.value) if isinstance(path.value, str) else None
    if found is None:
        written = f'"{path.value[:60]}"' if isinstance(path.value, str) else e.r.word(path)
        _report(e, "E112", path, f"{name} in {SELECT} of {what} must be a path, not {written}", _WAY)
        return None
    return Named(name, found, at)


def as_expression(path: str) -> str | None:
    """Return a path as the end of an expression (`data.items.0.id` -> `.data.items[0].id`); None if it is not a path."""
    text, at, out = path.strip().removeprefix("$"), 0, ""
    while at < len(text):
        found = _PATH.match(text, at)
        if found is None or (at and found[1] and text[at] != "."):
            return None
        key, number = found[1], found[2] or found[3]
        word = found[4] or found[5]
        out += f".{key}" if key else f"[{number}]" if number else f"['{word}']" if "'" not in word else f'["{word}"]'
        at = found.end()
    return out or None


# --- readers ------------------------------------------------------------------------------------------------------------


def _rewrite(e: Edits, holder: Node, key: str | int, table: Table) -> None:
    """Replace names in the templates below an entry."""
    node: Node = holder.value[key]
    if isinstance(node.value, str):
        new = _text(e, node.value, table)
        if new != node.value:
            e.put(holder, key, new, node)
    elif any(_text(e, scalar.value, table) != scalar.value for scalar in scalars_below(node)):
        node = e.own(holder, key)
        for part, _ in list(parts(node)):
            _rewrite(e, node, part, table)


def _text(e: Edits, text: str, table: Table) -> str:
    found = {read: one for read in e.r.reads.get(text, ()) if (one := _meant(read.path, table)) is not None}

    def path(read: Read, rest: str) -> str:
        return _with_path(e, found[read], len(_prefix(read.path, table)), rest)

    return replaced(text, found, path) if found else text


def _prefix(path: tuple[str, ...], table: Table) -> tuple[str, ...]:
    return next((path[:n] for n in _LENGTHS if path[:n] in table), ())


def _meant(path: tuple[str, ...], table: Table) -> Named | None:
    return table.get(_prefix(path, table))


_LENGTHS: Final = (2, 3, 4)
"""The lengths of `task.name`, `event.result.name` and `steps.step.result.name`."""


def _with_path(e: Edits, one: Named, length: int, text: str) -> str:
    """Return `text`, which begins with a read of a name, with the path in its place."""
    root = _ROOT.match(text)
    at = before = root.end() if root is not None else 0
    for _ in range(length - 1):
        part = KEY.match(text, at)
        if part is None:
            one.refused = f"{one.name} of {SELECT} is read in a way that cannot be rewritten: {text[:60]}", f"write {one.path}"
            break
        before, at = at, part.end()
    if one.refused is not None:
        if not one.read:
            _report(e, "E114", one.at, *one.refused)
        one.read = True
        return text
    one.read = True
    return text[:before] + one.path + text[at:]


def _clear(e: Edits, selections: Selections) -> None:
    """Remove every `output` whose names are read; report its parts without effect."""
    for step, path, what, names in selections:
        if not any(one.read for one in names):
            continue
        for one in names:
            if not one.read:
                message = f"{one.name} in {SELECT} of {what} has no effect: no template reads it by that name"
                _report(e, "W403", one.at, message, "a result that is passed on as a whole does not contain this name", "note")
        holder = step
        for key in path:
            holder = e.own(holder, key)
        output = e.remove(holder, "output")
        for key in output.value:
            if key != SELECT:
                _report(e, "W403", (output, key), f'"{key}" in output of {what} is accepted but has no effect', "", "note")
