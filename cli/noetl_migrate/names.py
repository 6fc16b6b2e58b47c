"""The meaning of names in one step with a `case`, at each of its events."""

from __future__ import annotations

from typing import Any

from noetl_core.expr import Read, is_template
from noetl_migrate.case_entries import CaseEntry
from noetl_migrate.context import Context, path, templates, text_of
from noetl_migrate.results import SQL, result_of, step_result
from noetl_migrate.texts import Replace, braced, edit, expression, in_expression
from noetl_migrate.tree import Entry, Map, Node, Seq, followed, mappings_of, node, own, plain

LOCALS = ("response", "error", "result")
"""Names of the dialect that mean something at some events only."""


class Names:
    """One step: its call, its loop, the keys that its entries write, and the v10 name of each name of the dialect.

    `common`, `in_policy`, `after`, `leaving` and `routing` are replacements (`texts.Replace`) for the places in which a
    template may be.
    """

    def __init__(self, c: Context, step: Map, name: str, case_entries: list[CaseEntry]) -> None:
        self.c, self.step, self.name, self._case_entries = c, step, name, case_entries
        loop = step.get("loop")
        self.looped = isinstance(loop, Map)
        self.iterator = text_of(loop.get("iterator")) if isinstance(loop, Map) else None
        self.tool, self.tool_at = self._single_tool()
        self.kind = c.kind_of(self.tool) if self.tool is not None else None
        self.call = (text_of(self.tool.get("name")) if self.tool is not None else None) or "call"
        self.enters = [a for a in case_entries if a.enter is not None]
        self.retries = [a for a in case_entries if a.called and a.does("retry")]
        self.answers = [a for a in case_entries if a.called and not a.does("retry")]
        self.exits = [a for a in case_entries if a.exit is not None]
        self.keeps = any(a.error is not None for a in self.answers)
        """True if entries answer errors too. The pipeline then continues after an error, and iter keeps the answer."""
        self.has_result = any(a.does("result") for a in case_entries)
        self.own_ctx = self._own_ctx()
        taken = {self.iterator, *self._iter_names()}
        self.iter = {n: n if n not in taken else f"{n}_" for n in ("response", "error", "again", "handled", "result")}
        """Keys of iter that the pipeline needs for itself."""
        plain = [a for a in self.exits if self.looped or all(x.key == "next" for x in a.actions)]
        self.routed = [a for a in case_entries if a.does("next") and a not in plain]
        """Entries whose `next` is decided in the pipeline; the arcs decide for the others."""
        self.diverted = [a for a in self.enters if a.does("next")]
        """Entries of `step.enter` whose `next` goes without the call."""
        self.fails_late = any(a.does("call", "sink", "fail") for a in case_entries)
        """The step may fail after an entry: the `next` that it took then does not count."""
        self.flag = c.fresh_ctx(f"{name}_next") if self.routed else ""
        """The ctx key that lists the entries whose `next` was taken."""
        self.result_key = c.fresh_ctx(f"{name}_result") if self.has_result and self.looped else ""

    @property
    def done(self) -> str:
        """Replace names at the step's own boundary, on success."""
        return "loop.done" if self.looped else "step.done"

    def _single_tool(self) -> tuple[Map | None, Entry | None]:
        at = self.step.entry("tool")
        if at is None:
            return None, None
        value = own(at)
        if isinstance(value, Seq) and len(value.entries) == 1:
            inner = own(value.entries[0])
            if isinstance(inner, Map) and not inner.entry("kind") and len(inner.entries) == 1:
                label = inner.entries[0]
                inner = own(label)
                if isinstance(inner, Map):
                    inner.entries.insert(0, Entry("name", node(label.key)))
            value = inner
        if isinstance(value, Map) and value.entry("kind"):
            value.text, value.changed = None, True
            at.value, at.raw = value, None
            return value, at
        return None, at

    def _own_ctx(self) -> set[str]:
        """Return the names that the entries write into ctx, which the dialect reads bare."""
        out: set[str] = set()
        for action in (a for case_entry in self._case_entries for a in case_entry.actions):
            held = followed(action.value)
            if action.key == "set" and isinstance(held, Map):
                out |= {name for name, _ in assignments(held)}
            elif action.key == "collect" and isinstance(held, Map):
                out.add(str(plain(held).get("into", "")).removeprefix("ctx."))
        return out - {""}

    def _iter_names(self) -> set[str]:
        out: set[str] = set()
        for holder in mappings_of(self.step):
            held = holder.get("set_iter")
            if isinstance(held, Map):
                out |= {e.key for e in held.entries}
        return out

    def common(self, read: Read, text: str) -> tuple[str, str] | None:
        """Replace names that mean the same at every event of a pipeline."""
        root = read.path[0]
        if root == self.iterator and self.looped:
            return root, f"iter.{root}"
        if root in self.own_ctx:
            return root, f"ctx.{root}"
        return None

    def in_policy(self, read: Read, text: str) -> tuple[str, str] | None:
        """Replace names in the call's own policy."""
        if read.path[0] == "error":
            status = "outcome.http.status" if self.kind == "http" else "outcome.error.code"
            if text.startswith("error.status"):
                return "error.status", status
            return result_of(read, text, ("error",), "outcome.error", None, "outcome.status == 'error'")
        found = result_of(read, text, ("response", "result"), "outcome.result", self.kind, "outcome.status == 'ok'")
        return found or self.common(read, text)

    def after(self, read: Read, text: str) -> tuple[str, str] | None:
        """Replace names in the tasks after the call."""
        if read.path[0] == "error":
            return result_of(read, text, ("error",), f"iter.{self.iter['error']}", None, f"iter.{self.iter['error']}")
        if self.keeps:
            kind = self.kind if self.kind in SQL else None
            defined = f"not iter.{self.iter['error']}"
            found = result_of(read, text, ("response", "result"), f"iter.{self.iter['response']}", kind, defined)
        else:
            found = result_of(read, text, ("response", "result"), self.call, self.kind, "true")
        return found or self.common(read, text)

    def leaving(self, read: Read, text: str) -> tuple[str, str] | None:
        """Replace names at `step.exit`, in a task at the end of the pipeline."""
        if read.path[0] == "result" and self.has_result:
            return "result", f"(iter.{self.iter['result']} | default({self.body}))"
        return self.after(read, text)

    def routing(self, read: Read, text: str) -> tuple[str, str] | None:
        """Replace names at `step.exit`, where the control plane evaluates arcs."""
        if read.path[0] == "result":
            if self.result_key:
                return "result", f"ctx.{self.result_key}"
            kind = None if self.has_result else self.kind
            return step_result(read, text, path("steps", self.name) + ".result", kind, self.looped)
        if read.path[0] in self.own_ctx:
            return read.path[0], f"ctx.{read.path[0]}"
        return None

    @property
    def body(self) -> str:
        if self.tool is None:
            return "none"
        return f"{self.call}.data" if self.kind == "http" else self.call


def sourced(action: Entry, scope: Replace) -> Node:
    """Return the value of a `result` action: `{from: expression}`, or any value."""
    held = own(action)
    source = text_of(held.get("from")) if isinstance(held, Map) and len(held.entries) == 1 else None
    if source is not None:
        return node(braced(source_expression(source, scope)))
    for scalar in templates(held):
        edit(scalar, scope)
    return held


def source_expression(source: str, scope: Replace) -> str:
    """Return `from` of `collect` and `result`: an expression, with or without braces."""
    text = expression(source) if is_template(source) else source
    return in_expression(text or source, scope)


def options_of(action: Entry) -> dict[str, Any]:
    value = plain(action.value)
    return value if isinstance(value, dict) else {}


def assignments(held: Map) -> list[tuple[str, Entry]]:
    """Read `set: {ctx: {a: 1}}`, `{ctx.a: 1}` and `{a: 1}` in the same way."""
    out: list[tuple[str, Entry]] = []
    for e in held.entries:
        inner = followed(e.value)
        if e.key == "ctx" and isinstance(inner, Map):
            out += [(x.key, x) for x in inner.entries]
        else:
            out.append((e.key.removeprefix("ctx."), e))
    return out


def assignments_of(action: Entry) -> list[tuple[str, Entry]]:
    held = followed(action.value)
    return assignments(held) if isinstance(held, Map) else []
