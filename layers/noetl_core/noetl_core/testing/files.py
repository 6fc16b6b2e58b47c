"""Reads test files: NAME.test.yaml -> cases, or everything that is wrong with them, with its position."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from noetl_core.dsl.kinds import ENGINE_KINDS
from noetl_core.dsl.model import Playbook, Task
from noetl_core.dsl.numbers import BadNumber
from noetl_core.dsl.parse import parse_playbook
from noetl_core.dsl.reading.diagnostics import suggest, suggest_word
from noetl_core.dsl.reading.load import Loaded, Node, load
from noetl_core.expr import TemplateError, TemplateSyntaxError, compile_text, is_template
from noetl_core.playbooks.called_files import beside, called, with_libraries
from noetl_core.runtime.embedded import text_of
from noetl_core.testing import fields
from noetl_core.testing.acts import Act, act_of
from noetl_core.testing.clock import START
from noetl_core.testing.expectations import wrong_names
from noetl_core.testing.outcomes import ANSWERS, SELECTORS, check
from noetl_core.testing.play import Scene, trigger_of
from noetl_core.testing.registry import Verbatim, task_names
from noetl_core.testing.shapes import CannotHappen, completed, normalised
from noetl_core.tools.base import BadInput
from noetl_core.values.frozen import frozen
from noetl_core.values.instants import from_text, in_microseconds

SUFFIX: Final = ".test.yaml"
FILE: Final = "$file"
"""The only key of a mapping whose value is in a file."""
SELECTED: Final = SELECTORS - {"when"}
"""Selectors of an outcome that are numbers."""
HELD: Final = frozenset({"waiting", "retrying", "running", "paused", "stuck"})
"""Statuses at which a case may end before its execution does."""
_TYPES: Final[Mapping[str, tuple[type, ...]]] = {
    "string": (str,), "object": (dict,), "array": (list,), "boolean": (bool,), "number": (int, float), "null": (type(None), dict),
}  # fmt: skip


@frozen
class Problem:
    """A mistake at a place of a file, and a hint."""

    file: str
    line: int
    col: int
    message: str
    hint: str = ""

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.col} {self.message}" + (f" ({self.hint})" if self.hint else "")


class BadTests(ValueError):
    """A test file cannot be used. Who acts: its author."""

    def __init__(self, problems: list[Problem]) -> None:
        super().__init__("\n".join(map(str, problems)))
        self.problems = problems


@dataclass(frozen=True)
class Case:
    """One case of a file: the inputs of the playbook, and the expectations. `places` are its nodes, for positions."""

    name: str
    file: Path
    line: int
    playbook: Path
    scene: Scene
    expect: Mapping[str, Any] = field(default_factory=dict)
    places: Mapping[str, Node] = field(default_factory=dict)

    @property
    def id(self) -> str:
        return f"{self.file}::{self.name}"


def read(file: Path) -> list[Case]:
    """Return the cases of a file. Raises `BadTests`, `InvalidPlaybook`, `OSError`."""
    reader = _Reader(file)
    try:
        text = file.read_text("utf-8")
    except UnicodeDecodeError:
        raise BadTests([Problem(str(file), 1, 1, "the file is not text in UTF-8")]) from None
    cases = [case for node in reader.documents(text) for case in reader.cases(node)]
    if not cases and not reader.problems:
        reader.report((1, 1), "the file has no tests", "begin with test: NAME")
    if reader.problems:
        raise BadTests(reader.problems)
    return cases


def models(file: Path) -> list[Playbook]:
    """Return the playbook of a file, and those that it calls from files in its folder. Raises `InvalidPlaybook`, `OSError`."""
    return list(_models(file, file.stat().st_mtime_ns))


@lru_cache(maxsize=64)
def _models(file: Path, _changed: int) -> tuple[Playbook, ...]:
    found = {file: _parsed(file)}
    queue = list(called(found[file]))
    while queue:
        other = beside(queue.pop(), file)
        if other is not None and other not in found:
            found[other] = _parsed(other)
            queue += called(found[other])
    return tuple(found.values())


def _parsed(file: Path) -> Playbook:
    text = with_libraries(text_of(file), file)
    return parse_playbook(text, str(file), lenient=True)


class _Reader:
    """One reading of a file."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.problems: list[Problem] = []
        self._names: dict[str, int] = {}
        self._contents: dict[str, Any] = {}
        self._loaded: Loaded | None = None
        """The document that is read."""

    def report(self, at: Node | tuple[int, int], message: str, hint: str = "") -> None:
        line, col = (at.line, at.col) if isinstance(at, Node) else at
        self.problems.append(Problem(str(self.file), line, col, message, hint))

    def documents(self, text: str) -> Iterator[Node]:
        """Yield the root of each YAML document; its positions are those of the file."""
        begun = 0
        for part in re.split(r"^---(?:[ \t].*)?\n", text, flags=re.MULTILINE):
            if re.search(r"^\s*[^\s#]", part, re.MULTILINE):
                loaded = load("\n" * begun + part, str(self.file))
                wrong = [d for d in loaded.diagnostics if d.severity == "error"]
                self.problems += [Problem(str(self.file), d.line, d.col, d.message, d.hint) for d in wrong]
                self._loaded = loaded
                if loaded.root is not None and not wrong:
                    yield loaded.root
            begun += part.count("\n") + 1

    def cases(self, root: Node) -> Iterator[Case]:
        if root.kind == "list":
            nodes, shared = root.value, {}
        elif root.get("tests") is not None:
            entries = self._keys(root, fields.DOCUMENT, "a test file")
            nodes = entries.pop("tests").value
            shared = entries
        else:
            nodes, shared = [root], {}
        for node in nodes if isinstance(nodes, list) else []:
            case = self._case(node, shared)
            if case is not None:
                yield case

    # --- parts ----------------------------------------------------------------------------------------------------------

    def _keys(self, node: Node, known: Mapping[str, fields.Key], what: str) -> dict[str, Node]:
        """Return the entries of a mapping that are known and of their type."""
        if node.kind != "mapping":
            self.report(node, f"{what} must be a mapping, not {_word(node)}")
            return {}
        found = {}
        for key, value in node.value.items():
            if key not in known:
                self.report(node.key_at(key), f'unknown key "{key}" in {what}', suggest_word(key, known))
            elif known[key].type and (not isinstance(value.value, _TYPES[known[key].type]) or _is_flag(value, known[key].type)):
                self.report(value, f"{key} of {what} must be {known[key].type}, not {_word(value)}")
            else:
                found[key] = value
        return found

    def _case(self, node: Node, shared: Mapping[str, Node]) -> Case | None:
        before = len(self.problems)
        entries = self._keys(node, fields.CASE, "a test")
        if "test" not in entries:
            if node.kind == "mapping" and "test" not in node.value:
                self.report(node, "a test has no name", "test: what it shows")
            return None
        name = entries["test"].value
        what = f'test "{name}"'
        if name in self._names:
            self.report(entries["test"], f"{what} exists already (line {self._names[name]})", "rename one")
        self._names.setdefault(name, node.line)
        places = {**shared, **entries}
        playbook = self._playbook(places.get("playbook"), node)
        expect = self._keys(entries["expect"], fields.EXPECT, f"expect of {what}") if "expect" in entries else {}
        act_nodes = entries["acts"].value if "acts" in entries else ()
        acts = [act for each in act_nodes if (act := self._act(each, what)) is not None]
        tools = self._tools(shared.get("tools"), entries.get("tools"), playbook, what)
        for credential, secret in (places["secrets"].value if "secrets" in places else {}).items():
            if secret.kind != "mapping":
                self.report(
                    secret, f"{what}: credential {credential} must be a mapping, not {_word(secret)}", "such as {token: x}"
                )
        if playbook is None or len(self.problems) > before:
            return None
        for place, message, hint in wrong_names(expect, models(playbook)):
            self.report(place, f"{what}: {message}", hint)
        status = expect["status"].value if "status" in expect else None
        trigger = self._trigger(places.get("trigger"), models(playbook)[0], what)
        scene = Scene(
            playbook,
            payload=self._merged("payload", shared, entries),
            ctx=self._merged("ctx", shared, entries),
            secrets=self._merged("secrets", shared, entries),
            tools={name: self._plain(node, Verbatim) for name, node in tools.items()},
            acts=acts,
            until=status if status in HELD else "",
            now=self._now(places.get("now")),
            strict=bool(places["strict"].value) if "strict" in places else False,
            trigger=trigger,
            others=[self.file.parent / each.value for each in (places["playbooks"].value if "playbooks" in places else ())],
        )
        expected = {key: self._plain(value) for key, value in expect.items()}
        places |= _below("expect", expect) | _below("tools", tools)
        return Case(name, self.file, node.line, playbook, scene, expected, places)

    def _playbook(self, name_node: Node | None, node: Node) -> Path | None:
        folder, name = self.file.parent, self.file.name.removesuffix(SUFFIX).removesuffix(".test.yml")
        choices = [name_node.value] if name_node is not None else [f"{name}.yaml", f"{name}.yml", "playbook.yaml"]
        found = next((folder / each for each in choices if (folder / each).is_file()), None)
        if found is None:
            self.report(name_node or node, f"there is no playbook {' or '.join(choices)} in {folder}", "playbook: its file")
        return found

    def _merged(self, key: str, *layers: Mapping[str, Node]) -> dict[str, Any]:
        return {name: self._plain(node) for layer in layers if key in layer for name, node in layer[key].value.items()}

    def _plain(self, node: Node, wrap: Callable[[Any], Any] = lambda value: value) -> Any:
        """Return the value of a node. The mapping `{$file: NAME}` is the content of a JSON or YAML file beside the test file,
        passed through `wrap`."""
        if node.kind == "list":
            return [self._plain(each, wrap) for each in node.value]
        if node.kind == "scalar":
            return node.value
        if node.value.keys() != {FILE}:
            return {key: self._plain(each, wrap) for key, each in node.value.items()}
        name = str(node.value[FILE].value)
        if name not in self._contents:
            try:
                self._contents[name] = _content((self.file.parent / name).read_text("utf-8"), name)
            except (OSError, ValueError) as error:
                self.report(node, f"file {name} cannot be read: {error}", "a JSON or YAML file beside the test file")
                return None
        return wrap(self._contents[name])

    def _now(self, node: Node | None) -> int:
        try:
            return START if node is None else in_microseconds(from_text(node.value))
        except ValueError as error:
            assert node is not None
            self.report(node, f"now is not an instant: {error}", "write 2026-03-01T09:00:00Z")
            return START

    def _trigger(self, node: Node | None, playbook: Playbook, what: str) -> dict[str, Any] | None:
        if node is None:
            return None
        trigger = self._plain(node)
        try:
            return trigger_of(trigger, playbook)
        except LookupError as error:
            hint = suggest(str(trigger.get("name", "")), error.args[1])
            self.report(node.get("name") or node, f"{what}: {error.args[0]}", hint)
            return None

    def _act(self, node: Node, what: str) -> Act | None:
        before = len(self.problems)
        entries = self._keys(node, fields.ACT, f"an act of {what}")
        if len(self.problems) > before:
            return None
        try:
            return act_of({key: self._plain(each) for key, each in entries.items()}, node.line)
        except (ValueError, BadNumber) as error:
            self.report(node, f"{what}: {error}")
            return None

    def _tools(self, shared: Node | None, own: Node | None, playbook: Path | None, what: str) -> dict[str, Node]:
        found = {name: node for tools in (shared, own) if tools is not None for name, node in tools.value.items()}
        if playbook is None:
            return found
        tasks: dict[str, Task] = {}
        for model in reversed(models(playbook)):
            tasks |= task_names(model)
        for tools in (own,) if own is not None else (shared,) if shared is not None else ():
            for name, node in tools.value.items():
                if name in tasks:
                    self._script(node, name, tasks[name], what)
                    continue
                engine = next((t for t in _engine_tasks(models(playbook)) if t == name), None)
                hint = "the engine carries it out: script the tasks of the child, or use acts" if engine else ""
                within = [each for each in tasks if each.endswith(f".{name}") and "#" not in each]
                hint = hint or (f'did you mean "{within[0]}"?' if len(within) == 1 else "")
                hint = hint or suggest_word(name, {each: None for each in tasks if "#" not in each})
                self.report(tools.key_at(name), f'tools of {what}: no task is called "{name}"', hint or _listed(tasks))
        return found

    def _template(self, node: Node, what: str) -> None:
        try:
            compile_text(node.value)
        except TemplateError as error:
            at: Node | tuple[int, int] = node
            if isinstance(error, TemplateSyntaxError) and self._loaded is not None:
                at = self._loaded.position(node, error.line, error.column)
            self.report(at, f"template in {what}: {error.message}")

    def _script(self, node: Node, name: str, task: Task, what: str) -> None:
        for entry in node.value if node.kind == "list" else [node]:
            before = len(self.problems)
            entries = self._keys(entry, fields.OUTCOME, f"an outcome of {name}")
            if "error" in entries:
                self._keys(entries["error"], fields.ERROR, f"the error of {name}")
            for key in SELECTED & entries.keys():
                numbers = entries[key].plain()
                if not all(type(number) is int for number in (numbers if isinstance(numbers, list) else [numbers])):
                    self.report(entries[key], f"{key} of an outcome of {name} must be a number or a list of them")
            if len(self.problems) > before:
                continue
            plain = normalised(self._plain(entry))
            if len(self.problems) > before:
                continue
            if not ANSWERS & plain.keys():
                self.report(entry, f"an outcome of {name} has none of ok, error and echo")
                continue
            templates = [each for each in entry.scalars() if is_template(each.value)]
            for template in templates:
                self._template(template, f"an outcome of {name}")
            when = entries.get("when")
            if when is not None and isinstance(when.value, str) and not is_template(when.value):
                self.report(
                    when, f"when of an outcome of {name} is text, which is always true", f'when: "{{{{ {when.value} }}}}"'
                )
            if templates:
                continue  # its value is known when it answers
            try:
                check(plain)
                completed(task.kind, plain, task.inputs, task.spec)
            except BadInput as error:
                self.report(entry, f"{name}: {error}")
            except CannotHappen as error:
                self.report(entry, f"a mock that cannot happen: {name}: {error}")


def _content(text: str, name: str) -> Any:
    """Return the content of a file. Raises `ValueError`."""
    if name.endswith(".json"):
        return json.loads(text)
    loaded = load(text, name)
    if loaded.root is None:
        raise ValueError(next(map(str, loaded.diagnostics), "it is empty"))
    return loaded.root.plain()


def _engine_tasks(playbooks: list[Playbook]) -> Iterator[str]:
    for playbook in playbooks:
        for step in playbook.steps:
            for task in step.tasks:
                if task.kind in ENGINE_KINDS:
                    yield from (f"{step.name}.{task.name}", step.name)


def _below(prefix: str, nodes: Mapping[str, Node]) -> dict[str, Node]:
    return {f"{prefix}.{name}": node for name, node in nodes.items()}


def _listed(tasks: Mapping[str, Any]) -> str:
    names = [name for name in tasks if "." in name and "#" not in name]
    return f"there are {', '.join(names[:8])}" if names else "it has no tasks to script"


def _word(node: Node) -> str:
    return {"mapping": "a mapping", "list": "a list"}.get(node.kind) or repr(node.value)


def _is_flag(node: Node, kind: str) -> bool:
    return kind == "number" and isinstance(node.value, bool)
