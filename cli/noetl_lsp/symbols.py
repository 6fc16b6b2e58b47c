"""The named things of a playbook, and the places that define and name them.

A chunk is searched once. A bare name in a template is resolved when all chunks are known, because any of them may bind it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from typing import Final, Literal

from noetl_core.dsl.fields.kind import words
from noetl_core.dsl.fields.policies import SUGAR
from noetl_core.dsl.kinds import KINDS
from noetl_core.dsl.lint.names import CONTROL, WORKER
from noetl_core.dsl.model import Path
from noetl_core.dsl.reading.load import Loaded
from noetl_core.dsl.templates import KEY
from noetl_core.expr import FUNCTIONS, LimitExceeded, TemplateSyntaxError, compile_text, is_template
from noetl_core.values.frozen import frozen
from noetl_lsp.outline import Chunk, Part, Spot, Tree, chunks
from noetl_lsp.text import Text

Kind = Literal["step", "task", "workload", "ctx", "iter", "args", "credential", "shared task", "bare"]
NAMESPACES: Final[dict[str, Kind]] = {
    "workload": "workload", "ctx": "ctx", "iter": "iter", "args": "args", "input": "args", "steps": "step",
    "keychain": "credential",
}  # fmt: skip
"""Names of templates whose fields are symbols."""
ROOTS: Final = CONTROL | WORKER | words("event outcome output callback trigger job loop")
_OF_STEP: Final = ("task", "iter", "args")
_LISTED_TASKS: Final = ("tool", "compensate")
_UNLABELLED: Final = frozenset({"then", "else", "do", "tool", "tasks", "loop", *SUGAR})
"""Keys above tasks that are not their names."""
CREDENTIAL_KEYS: Final = words("auth credential ref")
"""Keys whose value may be the name of a credential."""
_RAW: Final = frozenset().union(*(kind.raw for kind in KINDS.values())) | {"desc", "description"}
"""Keys whose texts are no templates."""


@frozen
class Symbol:
    """A named thing. `owner` is the step of a task, an argument, or a variable of an iteration."""

    kind: Kind
    name: str
    owner: str = ""


@frozen
class Use:
    """A place that names a symbol. `form` is its syntax: `plain` (YAML), `attribute` (.name), `subscript` (['name']), `bare`."""

    symbol: Symbol
    start: int
    end: int
    defines: bool = False
    form: Literal["plain", "attribute", "subscript", "bare"] = "plain"


@frozen
class TaskPlace:
    """A task of a step or of the workbook: its name (of the author's, if there is one), its kind and its path."""

    name: str
    kind: str
    path: Path
    start: int


class Index:
    """The uses of all symbols of a text."""

    def __init__(self, text: str) -> None:
        self.uses: list[Use] = []
        self.tasks: dict[str, tuple[TaskPlace, ...]] = {}
        """The tasks of each step; those of the workbook are those of the step without a name."""
        for chunk in chunks(text):
            uses, tasks = _found(chunk.text, chunk.index is not None)
            self.uses += [replace(use, start=use.start + chunk.start, end=use.end + chunk.start) for use in uses]
            placed = tuple(replace(task, start=task.start + chunk.start) for task in tasks)
            if placed:
                self.tasks[step_of(chunk)] = placed
        self._defined = {use.symbol for use in self.uses if use.defines}
        self.uses = [replace(use, symbol=self._resolved(use.symbol)) if use.form == "bare" else use for use in self.uses]
        self._by_symbol: dict[Symbol, list[Use]] = {}
        for use in sorted(self.uses, key=lambda use: use.start):
            self._by_symbol.setdefault(use.symbol, []).append(use)

    def names(self, kind: Kind, owner: str = "") -> list[str]:
        """Return the names of the defined symbols of a kind, in the order of the text."""
        return list(
            dict.fromkeys(u.symbol.name for u in self.uses if u.defines and u.symbol.kind == kind and u.symbol.owner == owner)
        )

    def at(self, offset: int) -> Use | None:
        """Return the use at an offset."""
        return next((use for use in self.uses if use.start <= offset <= use.end), None)

    def of(self, symbol: Symbol) -> list[Use]:
        """Return all uses of a symbol, in the order of the text."""
        return self._by_symbol.get(symbol, [])

    def resolve(self, name: str, step: str) -> Symbol:
        """Return the symbol that a bare name means in the templates of a step (resolution 14)."""
        return self._resolved(Symbol("bare", name, step))

    def _resolved(self, symbol: Symbol) -> Symbol:
        if symbol.kind != "bare":
            return symbol
        order: tuple[Kind, ...] = ("task", "args", "ctx", "iter", "workload", "step")
        meant = (Symbol(kind, symbol.name, symbol.owner if kind in _OF_STEP else "") for kind in order)
        return next((one for one in meant if one in self._defined), symbol)


@lru_cache(maxsize=4)
def index(text: str) -> Index:
    """Return the index of a text."""
    return Index(text)


def step_of(chunk: Chunk | None) -> str:
    """Return the name of the step that a chunk is; empty if it is none."""
    name = chunk.step.get("step") if chunk is not None and chunk.step is not None else None
    return name.value if name is not None and isinstance(name.value, str) else ""


# --- one chunk ----------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=4096)
def _found(text: str, is_step: bool) -> tuple[tuple[Use, ...], tuple[TaskPlace, ...]]:
    chunk = Chunk(0, text, 0 if is_step else None)
    tree, step = chunk.tree, step_of(chunk)
    tasks = tuple(_tasks(tree))
    found = [*_definitions(tree, step), *_task_uses(tree, step, tasks), *_mentions(tree, step)]
    for spot in tree.spots:
        if spot.role == "value" and is_template(spot.node.value) and not _is_prose(tree, spot.path):
            found += _reads(text, spot, step)
    return tuple(found), tasks


def _is_prose(tree: Tree, path: Path) -> bool:
    key = next((part for part in reversed(path) if isinstance(part, str)), "")
    if path[0] == "metadata" or any(isinstance(part, str) and part.startswith("x-") for part in path):
        return True
    if key not in _RAW:
        return False
    kind = tree.at((*path[:-1], "kind"))
    known = KINDS.get(kind.value) if kind is not None and isinstance(kind.value, str) else None
    return key in ("desc", "description") or known is None or key in known.raw


def content(spot: Spot) -> tuple[int, int]:
    """Return the span of a scalar without its quotes, or of a key without its."""
    quoted = spot.node.style if spot.role == "value" else None
    inner = 1 if quoted in ("'", '"') and spot.end - spot.start >= 2 else 0
    return spot.start + inner, spot.end - inner


def _value(tree: Tree, path: Path) -> Spot | None:
    return next((spot for spot in tree.spots if spot.role == "value" and spot.path == path), None)


def _plain(kind: Kind, spot: Spot | None, owner: str = "", *, defines: bool = False) -> Iterator[Use]:
    if spot is not None and spot.name and not is_template(spot.name):
        yield Use(Symbol(kind, spot.name, owner), *content(spot), defines)


def _definitions(tree: Tree, step: str) -> Iterator[Use]:
    for spot in tree.spots:
        match spot.role, spot.path:
            case "key", ("workload", str(name)) if name != "x-schema":
                yield from _key("workload", spot)
            case "key", ("workload", "x-schema", "properties", str(name)) if tree.at(("workload", name)) is None:
                yield from _key("workload", spot)
            case "key", ("workbook", str(name)) | ("workbook", "tasks", str(name)) if name != "tasks":
                yield from _key("shared task", spot)
            case "value", ("workbook", int(), "name"):
                yield from _plain("shared task", spot, defines=True)
            case "value", ("keychain", int(), "name"):
                yield from _plain("credential", spot, defines=True)
            case "value", ("workflow", 0, "step"):
                yield from _plain("step", spot, defines=True)
            case "key", ("workflow", 0, "args" | "input", str()):
                yield from _key("args", spot, step)
            case "key", ("workflow", 0, "next", "arcs", int(number), "args" | "input", str()):
                target = tree.at(("workflow", 0, "next", "arcs", number, "step"))
                if target is not None and isinstance(target.value, str):
                    yield from _key("args", spot, target.value)
            case "value", (*_, "loop", "iterator"):
                yield from _plain("iter", spot, step, defines=True)
            case "key", (*_, "set_ctx", str()):
                yield from _key("ctx", spot)
            case "key", (*_, "set_iter", str()):
                yield from _key("iter", spot, step)
            case "key", (*_, "set", str(name)) if name.startswith(("ctx.", "iter.")):
                kind: Kind = "ctx" if name.startswith("ctx.") else "iter"
                symbol = Symbol(kind, name.partition(".")[2], step if kind == "iter" else "")
                yield Use(symbol, spot.end - len(symbol.name), spot.end, defines=True)


def _key(kind: Kind, spot: Spot, owner: str = "") -> Iterator[Use]:
    quoted = 1 if spot.end - spot.start > len(spot.name) else 0
    yield Use(Symbol(kind, spot.name, owner), spot.start + quoted, spot.end - quoted, defines=True)


def _mentions(tree: Tree, step: str) -> Iterator[Use]:
    """Yield the names in YAML that define nothing: targets of arcs and jumps, the entry step, credentials."""
    for spot in tree.spots:
        if spot.role != "value":
            continue
        match spot.path:
            case ("workflow", 0, "next", "arcs", int(), "step") | ("executor", "spec", "entry_step"):
                yield from _plain("step", spot)
            case (*_, "then" | "else", "to") if _jumps(tree, spot.path):
                yield from _plain("task", spot, step)
            case (*_, str(key)) if key in CREDENTIAL_KEYS and "args" not in spot.path and spot.path[0] != "workload":
                yield from _plain("credential", spot)


def _jumps(tree: Tree, path: Path) -> bool:
    do = tree.at((*path[:-1], "do"))
    return do is not None and do.value == "jump"


def _tasks(tree: Tree) -> Iterator[TaskPlace]:
    for base in [("workflow", 0, key) for key in _LISTED_TASKS] + [("workbook",)]:
        node = tree.at(base)
        if node is not None:
            yield from _tasks_below(tree, node, "", node.start)


def _tasks_below(tree: Tree, node: Part, label: str, start: int) -> Iterator[TaskPlace]:
    if isinstance(node.value, list):
        for child in node.value:
            yield from _tasks_below(tree, child, "", child.start)
    elif isinstance(node.value, dict):
        kind, name = node.get("kind"), node.get("name")
        own = name.value if name is not None and isinstance(name.value, str) else label
        if kind is not None or (name is not None and not any(key in node.value for key in SUGAR)):
            yield TaskPlace(own, str(kind.value) if kind is not None else "", node.path, node.start)
            return
        for key, child in node.value.items():
            if not key.startswith("x-") and isinstance(child, Part):
                below = "" if key in _UNLABELLED else key
                yield from _tasks_below(tree, child, below, node.spans[key][0] if key in node.spans else start)


def _task_uses(tree: Tree, step: str, tasks: tuple[TaskPlace, ...]) -> Iterator[Use]:
    for task in tasks:
        node = tree.at(task.path)
        if node is None:
            continue
        if step and node.get("name") is not None:
            yield from _plain("task", _value(tree, (*task.path, "name")), step, defines=True)
        elif step and task.name:
            above = tree.at(task.path[:-1])
            span = above.spans.get(task.name) if above is not None else None
            if span is not None:
                yield Use(Symbol("task", task.name, step), *span, defines=True)
        if task.kind == "workbook":
            named = _value(tree, (*task.path, "task"))
            yield from _plain("shared task", named if named is not None else _value(tree, (*task.path, "name")))


# --- templates ----------------------------------------------------------------------------------------------------------


def _reads(text: str, spot: Spot, step: str) -> Iterator[Use]:
    """Yield the names that a template reads, at their places in the chunk."""
    try:
        reads = compile_text(spot.node.value).reads
    except (TemplateSyntaxError, LimitExceeded):
        return
    lines = Text(text)
    for read in reads:
        root = read.path[0]
        at = lines.place(*Loaded(None, text).position(spot.node, read.line, read.column))
        if not text.startswith(root, at):
            continue
        kind = NAMESPACES.get(root)
        if kind is None and root not in ROOTS and root not in FUNCTIONS:
            yield Use(Symbol("bare", root, step), at, at + len(root), form="bare")
        elif kind is not None and len(read.path) > 1 and (found := KEY.match(text, at + len(root))) is not None:
            span, form = (found.span(1), "attribute") if found[1] else (found.span(2), "subscript")
            symbol = Symbol(kind, read.path[1], step if kind in _OF_STEP else "")
            yield Use(symbol, *span, form="attribute" if form == "attribute" else "subscript")
