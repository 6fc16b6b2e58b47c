"""Holds the context of one migration: names in use, new names, findings."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from noetl_core.dsl.kinds import KINDS
from noetl_core.dsl.reading.diagnostics import Diagnostic, Severity
from noetl_core.expr import Read, is_template
from noetl_migrate.texts import edit, reads
from noetl_migrate.tree import Entry, Map, Node, Scalar, Seq, followed, mappings_of

HAND: Final = "rewrite this manually"
_PROSE: Final = ("desc", "description")


@dataclass(slots=True)
class Context:
    """Data that is collected while a playbook is rewritten."""

    source: str
    diagnostics: list[Diagnostic] = field(default_factory=list)
    variables: dict[str, str] = field(default_factory=dict)
    """`vars.x` of the whole playbook -> the ctx key that holds it."""
    ctx_names: set[str] = field(default_factory=set)
    bare_names: set[str] = field(default_factory=set)
    bound: set[str] = field(default_factory=set)
    """Names that args, iter, workload or a pipeline may hold."""
    guarded: bool = False
    """The playbook has forms of the eval dialect, whose `next` is a list of guarded arcs of which the first one fires."""
    cased: bool = False
    places: list[tuple[int, int, Entry]] = field(default_factory=list)
    """The lines (from, to) of rewritten parts of the text, and their entries now."""
    workbook: dict[str, str] = field(default_factory=dict)
    """Kinds of the workbook's tasks."""
    results: dict[str, str] = field(default_factory=dict)
    """Steps whose result a `result` action sets while they loop -> the ctx key that holds it."""
    revisited: set[str] = field(default_factory=set)
    """Steps that may run more than once in an execution."""

    def kind_of(self, task: Map) -> str | None:
        """Return the kind of a task; for `kind: workbook`, that of the entry it runs."""
        kind = text_of(task.get("kind"))
        if kind != "workbook":
            return kind
        return self.workbook.get(str(text_of(task.get("task")) or text_of(task.get("name"))))

    def place(self, old: Entry, new: Entry) -> None:
        """Record that the content of `old` is in `new` now: comments without another place go there."""
        self.places.append((old.line, old.line + max(1, len(old.raw or ())), new))

    def refuse(self, where: Node | Entry, message: str, hint: str = HAND) -> None:
        """Report content that has no equivalent form: the file is not rewritten."""
        self._add("E127", where, message, hint)

    def warn(self, where: Node | Entry, message: str, hint: str = "") -> None:
        """Report content that was rewritten and should be checked."""
        self._add("W450", where, message, hint)

    def _add(self, code: str, where: Node | Entry, message: str, hint: str) -> None:
        if isinstance(where, Entry) and not where.key:
            where = where.value  # the place of an item, not of its dash
        severity: Severity = "error" if code.startswith("E") else "warning"
        self.diagnostics.append(Diagnostic(code, severity, message, hint, self.source, where.line + 1, where.col + 1))

    @property
    def refused(self) -> bool:
        return any(d.severity == "error" for d in self.diagnostics)

    def fresh_ctx(self, name: str) -> str:
        """Return a ctx key that nothing else uses."""
        name = identifier(name)
        while name in self.ctx_names:
            name += "_2" if not name.endswith("_2") else "_"
        self.ctx_names.add(name)
        return name

    def learn(self, root: Node) -> None:
        """Find which ctx keys and bare names the playbook uses."""
        for scalar in templates(root):
            for read in reads(scalar.value):
                if read.path[0] == "ctx" and len(read.path) > 1:
                    self.ctx_names.add(read.path[1])
                self.bare_names.add(read.path[0])
        for mapping in mappings_of(root):
            for key in ("set_ctx", "ctx"):
                written = mapping.get(key)
                if isinstance(written, Map):
                    self.ctx_names |= {e.key for e in written.entries}
            for key in ("workload", "args", "input", "payload", "set_iter"):
                bound = mapping.get(key)
                if isinstance(bound, Map):
                    self.bound |= {e.key for e in bound.entries}
            for key in ("iterator", "name", "into"):
                self.bound |= {str(text_of(mapping.get(key)))}

    def global_variable(self, name: str) -> None:
        """Give `vars.name` its ctx key: the same name, unless that would mean something else in another template."""
        if name not in self.variables:
            taken = name in self.ctx_names or name in self.bare_names
            self.variables[name] = self.fresh_ctx(f"vars_{name}" if taken else name)

    def rename_variables(self, root: Node) -> None:
        """Rename `vars.x` in every template of the playbook."""
        if self.variables:
            for scalar in templates(root):
                edit(scalar, self._variable)

    def rename_results(self, root: Node) -> None:
        """Rename the result of a step with a loop that one of its entries sets: in v10 `steps.<name>.result` is the list of
        its iterations."""
        for scalar in templates(root) if self.results else ():
            edit(scalar, self._result)

    def _result(self, read: Read, text: str) -> tuple[str, str] | None:
        if read.path[0] == "steps" and len(read.path) > 2 and read.path[1] in self.results and read.path[2] == "result":
            found = re.match(r"steps\s*(?:\.\s*\w+|\[[^\]]*\])\s*\.\s*result\b", text)
            return None if found is None else (found[0], f"ctx.{self.results[read.path[1]]}")
        name = read.path[0]
        if name in self.results and name not in self.bound | self.ctx_names:
            return name, f"ctx.{self.results[name]}"
        return None

    def _variable(self, read: Read, text: str) -> tuple[str, str] | None:
        if read.path[0] != "vars" or len(read.path) < 2 or read.path[1] not in self.variables:
            return None
        found = variable_read(text)
        return None if found is None else (found[0], f"ctx.{self.variables[found[1]]}")


def identifier(name: str) -> str:
    """Return a step's name as part of a ctx key."""
    return re.sub(r"\W", "_", name)


def path(*names: str) -> str:
    """Return `steps.fetch`, or `steps['fetch-all']` for a name that Jinja2 does not accept."""
    first, *rest = names
    return first + "".join(f".{n}" if n.isidentifier() else f"['{n}']" for n in rest)


def variable_read(text: str) -> tuple[str, str] | None:
    """Return the text and the name of `vars.x` or `vars['x']` at the beginning of a text."""
    found = re.match(r"vars(?:\s*\.\s*(\w+)|\[\s*(['\"])(.*?)\2\s*\])", text)
    return None if found is None else (found[0], found[1] or found[3])


def templates(value: Node) -> Iterator[Scalar]:
    """Yield the template scalars below, without program text, descriptions and free keys."""
    if isinstance(value, Map):
        kind = value.get("kind")
        known = KINDS.get(str(kind.value)) if isinstance(kind, Scalar) else None
        for e in value.entries:
            if e.key in _PROSE or e.key.startswith("x-") or (known is not None and e.key in known.raw):
                continue
            yield from templates(e.value)
    elif isinstance(value, Seq):
        for e in value.entries:
            yield from templates(e.value)
    elif isinstance(value, Scalar) and isinstance(value.value, str) and is_template(value.value):
        yield value


def text_of(value: Node | None) -> str | None:
    """Return the text of a scalar that is text."""
    value = None if value is None else followed(value)
    return value.value if isinstance(value, Scalar) and isinstance(value.value, str) else None
