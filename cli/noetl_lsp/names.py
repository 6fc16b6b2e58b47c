"""The names that a template may read at a place, and the fields of what it reads."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from noetl_core.dsl.lint.results import ALWAYS
from noetl_core.dsl.lint.shapes import Env, Lazy, Shape, of_schema, of_value, once
from noetl_core.dsl.model import Path
from noetl_core.expr import views
from noetl_core.values.frozen import frozen
from noetl_lsp import words
from noetl_lsp.expressions import Cursor
from noetl_lsp.model import Model, roots_at, shape
from noetl_lsp.outline import Part, chunk_at, chunks
from noetl_lsp.symbols import NAMESPACES, Index, Kind, Symbol, index, step_of

LONGEST_VALUE: Final = 60
_BARE: Final[tuple[tuple[Kind, str], ...]] = (
    ("args", "args"),
    ("ctx", "ctx"),
    ("iter", "iter"),
    ("workload", "workload"),
    ("step", "steps"),
)


@frozen
class Name:
    """A name that may stand at a place. `what` is the class of its meaning, `detail` one line about it, `doc` Markdown."""

    name: str
    what: str
    detail: str = ""
    doc: str = ""
    link: str = ""


class Place:
    """A place in a text: the step and task around it, and the names that its templates read."""

    def __init__(self, text: str, offset: int, path: Path, model: Model | None) -> None:
        self._text, self._path, self._model = text, path, model
        chunk = chunk_at(text, offset)
        self.index: Index = index(text)
        self.step = step_of(chunk)
        tasks = self.index.tasks.get(self.step, ())
        self.task = next((task for task in tasks if path[: len(task.path)] == task.path), None)
        self._scope = model.scope(path, self.step, self.task.name if self.task is not None else "") if model is not None else None

    def names(self, cursor: Cursor) -> Iterator[Name]:
        """Yield the names that may come next, the most specific first."""
        match cursor.next:
            case "filter":
                yield from (Name(n, "filter", _call(doc), doc, words.FILTERS_PAGE) for n, doc in words.filters().items())
            case "test":
                yield from (Name(n, "test", _call(doc), doc, words.FILTERS_PAGE) for n, doc in words.tests().items())
            case "field":
                yield from self.fields(cursor.base, dict(cursor.bound))
            case "name":
                yield from (Name(name, "variable", "of this template") for name, _ in cursor.bound)
                yield from self.roots()

    # --- names ----------------------------------------------------------------------------------------------------------

    def roots(self) -> Iterator[Name]:
        """Yield the names that templates here may read."""
        roots = self._scope.roots if self._scope is not None else roots_at(self._path)
        if self._path[:1] == ("workflow",) and {"tool", "compensate"} & frozenset(self._path):
            names = [] if self.task is not None and self.task.name == "" else self.index.names("task", self.step)
            yield from (self.about(Symbol("task", name, self.step)) for name in names)
        for name in sorted(roots, key=lambda root: (root.startswith("_"), root)):
            yield Name(name, "namespace", "", words.ROOTS.get(name, ""), words.NAMES_PAGE)
        for kind, _ in _BARE:
            for name in self.index.names(kind, self.step if kind in ("args", "iter") else ""):
                if kind != "iter" or "iter" in roots:
                    yield self.about(Symbol(kind, name, self.step if kind in ("args", "iter") else ""), bare=True)
        yield from (Name(n, "function", _call(doc), doc, words.EXPRESSIONS_PAGE) for n, doc in words.functions().items())

    def about(self, symbol: Symbol, *, bare: bool = False) -> Name:
        """Return a symbol as a name, with what is known about it."""
        kind, name = symbol.kind, symbol.name
        of_step = f" of step `{symbol.owner}`" if symbol.owner else ""
        prefix = next((namespace for one, namespace in _BARE if one == kind), "")
        detail = f"{prefix}.{name}" if bare and prefix else ""
        match kind:
            case "task":
                task = next((t for t in self.index.tasks.get(symbol.owner, ()) if t.name == name), None)
                of_kind = f" (kind `{task.kind}`)" if task is not None and task.kind else ""
                return Name(
                    name, "task", detail, f"Task `{name}`{of_kind}{of_step}: its result, once it has ended ok.", words.NAMES_PAGE
                )
            case "step":
                doc = f"Step `{name}`: {_desc(self._text, name)}"
                return Name(name, "step", detail, doc.rstrip(": "), "language/steps.md")
            case "workload":
                node = self._workload().get(name)
                value = "" if node is None else _brief(node.plain())
                return Name(
                    name,
                    "input",
                    detail or value,
                    f"Input `workload.{name}`{f', by default `{value}`' if value else ''}.",
                    words.NAMES_PAGE,
                )
            case "ctx":
                writers = self._writers(symbol)
                return Name(
                    name, "state", detail, f"`ctx.{name}`, written by {', '.join(writers) or 'a request'}.", words.NAMES_PAGE
                )
            case "iter":
                return Name(
                    name, "variable", detail, f"`iter.{name}`{of_step}: its iterator, or a value of `set_iter`.", words.NAMES_PAGE
                )
            case "args":
                return Name(
                    name,
                    "argument",
                    detail,
                    f"`args.{name}`{of_step}: given by an arc, or by `args` of the step.",
                    words.NAMES_PAGE,
                )
            case "credential":
                return Name(
                    name,
                    "credential",
                    detail,
                    f"Credential `{name}` of the keychain.",
                    "language/playbook.md#keychain-credentials",
                )
            case "shared task":
                return Name(
                    name, "task", detail, f"Shared task `{name}` of the workbook.", "language/playbook.md#workbook-tasks-by-name"
                )
        return Name(name, "name", detail)

    def _writers(self, symbol: Symbol) -> list[str]:
        writers = (step_of(chunk_at(self._text, use.start)) for use in self.index.of(symbol) if use.defines)
        return list(dict.fromkeys(f"step `{step}`" if step else "the playbook" for step in writers))

    # --- fields ---------------------------------------------------------------------------------------------------------

    def fields(self, base: str, bound: dict[str, str] | None = None) -> Iterator[Name]:
        """Yield the fields of an expression."""
        base = base.replace(" ", "")
        own: dict[str, Name] = {}
        kind = NAMESPACES.get(base)
        if kind is not None:
            owner = self.step if kind in ("args", "iter") else ""
            own = {name: self.about(Symbol(kind, name, owner)) for name in self.index.names(kind, owner)}
        known_path = base.removeprefix("_") if base.startswith("_outcome") else base
        static = words.STEP_FIELDS if re.fullmatch(r"steps\.\w+", base) else words.FIELDS.get(known_path, {})
        own |= {name: Name(name, "field", "", doc, words.NAMES_PAGE) for name, doc in static.items() if name not in own}
        if kind in ("step", "credential"):
            yield from own.values()
            return
        known = self._shape(base, bound or {})
        fields = frozenset() if known is None or known.fields is None else frozenset(known.fields)
        for name in sorted(views.names(fields) - (ALWAYS if fields >= ALWAYS else frozenset())):
            if name not in own and known is not None:
                own[name] = Name(name, "field", _of(known.get(name)), f"A field of `{base}`.", words.NAMES_PAGE)
        yield from own.values()

    def _shape(self, base: str, bound: dict[str, str]) -> Shape | None:
        env: dict[str, Lazy] = _Fresh(self._model.env(self._scope) if self._model is not None else {}, self._fresh_workload)
        for name, source in bound.items():
            of_source = shape(source, env) if source else None
            env[name] = once(of_source.each if of_source is not None else _nothing)
        return shape(base, env)

    def _workload(self) -> dict[str, Part]:
        for chunk in chunks(self._text):
            node = None if chunk.index is not None else chunk.tree.at(("workload",))
            if node is not None and isinstance(node.value, dict):
                return {name: part for name, part in node.value.items() if name != "x-schema"}
        return {}

    def _fresh_workload(self) -> Shape | None:
        """Return the shape of the inputs as they are now."""
        schema = next((of_schema(node.plain()) for node in self._schemas()), None)
        written = {name: node.plain() for name, node in self._workload().items()}
        values = of_value(written, lambda _: None) if written else None
        fields = {**((schema.fields if schema is not None else None) or {})}
        for name, one in ((values.fields if values is not None else None) or {}).items():
            if name not in fields or one() is not None:
                fields[name] = one
        return Shape(fields) if fields else None

    def _schemas(self) -> Iterator[Part]:
        for chunk in chunks(self._text):
            node = None if chunk.index is not None else chunk.tree.at(("workload", "x-schema"))
            if node is not None:
                yield node


class _Fresh(dict[str, Lazy]):
    """The names of an environment, with the workload of the text as it is now."""

    def __init__(self, env: Env, workload: Lazy) -> None:
        super().__init__()
        self._env = env
        self["workload"] = once(workload)

    def get(self, name: str, default: Any = None) -> Any:
        found = super().get(name)
        if found is None:
            found = self._env.get(name)
        if found is None:
            inputs = self["workload"]()
            found = inputs.fields.get(name) if inputs is not None and inputs.fields is not None else None
        return default if found is None else found


def _nothing() -> Shape | None:
    return None


def _call(doc: str) -> str:
    return doc.partition(":")[0] if "(" in doc.partition(":")[0] else ""


def _of(one: Shape | None) -> str:
    """Return what a value is, in a word."""
    if one is None:
        return ""
    return "table" if one.fields is not None and one.element is not None else "mapping" if one.fields is not None else "list"


def _brief(value: Any) -> str:
    text = str(value).lower() if value is None or isinstance(value, bool) else str(value)
    text = "null" if value is None else text.replace("`", "'").replace("\n", " ")
    return text if len(text) <= LONGEST_VALUE else f"{text[:LONGEST_VALUE]}..."


def _desc(text: str, name: str) -> str:
    """Return the description of a step, or its tasks."""
    step = next((chunk for chunk in chunks(text) if chunk.index is not None and step_of(chunk) == name), None)
    node: Part | None = step.step if step is not None else None
    desc = node.get("desc") if node is not None else None
    if desc is not None and isinstance(desc.value, str):
        return desc.value
    tasks = index(text).tasks.get(name, ())
    return ", ".join(f"`{task.name or task.kind}`" for task in tasks)
