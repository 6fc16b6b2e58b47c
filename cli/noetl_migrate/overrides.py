"""`call` with other inputs: the call task reads them from `iter.again`, and its written inputs otherwise."""

from __future__ import annotations

from noetl_core.dsl.kinds import KINDS
from noetl_migrate.context import Context, templates, text_of
from noetl_migrate.texts import NoExpression, Replace, as_expression, braced, edit
from noetl_migrate.tree import Entry, Map, Node, Scalar, followed, node, own, plain, short

MAY_BE_NULL = ("params", "headers", "cookies")
"""Mappings whose null values are left out of the request."""


class Overrides:
    """Inputs that the `call` actions of one step set. Each call begins with the written inputs; the inputs of the call replace
    them, key by key in mappings."""

    def __init__(self, c: Context, name: str, calls: list[Entry]) -> None:
        self.c, self.name, self.calls = c, name, calls
        self.deferred = False
        """Some call is made by the last task, so that the entries after it act first."""

    def into(self, tool: Map) -> None:
        """Let the call task read its overridden inputs from iter."""
        fields: dict[str, list[tuple[Entry, Node]]] = {}
        for call in self.calls:
            held = followed(call.value)
            if isinstance(held, Map):
                for e in held.entries:
                    fields.setdefault(e.key, []).append((e, followed(e.value)))
            elif not (isinstance(held, Scalar) and held.value in (None, True)):
                self.c.refuse(call, "call must be a mapping of the tool's inputs")
        known = KINDS.get(str(text_of(tool.get("kind"))))
        for key, values in fields.items():
            if known is not None and key not in known.accepted:
                self.c.refuse(values[0][0], f'"{key}" is not an input of the tool')
            elif known is not None and key in known.raw:
                self.c.refuse(values[0][0], f"{key} is a program, not a template", "pass what changes as an argument")
            elif all(isinstance(v, Map) for _, v in values):
                self._mapping(tool, key, [v for _, v in values if isinstance(v, Map)], values[0][0])
            else:
                self._whole(tool, key, values[0][0])

    def _mapping(self, tool: Map, key: str, maps: list[Map], at: Entry) -> None:
        base = tool.entry(key)
        if base is None:
            tool.put(key, braced(f"iter.{self.name}.{key} | default(none)"))
            return
        held = own(base)
        if not isinstance(held, Map):
            self._whole(tool, key, at)
            return
        held.text, held.changed = None, True
        for name in dict.fromkeys(e.key for v in maps for e in v.entries):
            read = f"iter.{self.name}.{key}.{name}" if name.isidentifier() else f"iter.{self.name}.{key}['{name}']"
            existing = held.entry(name)
            if existing is None and key not in MAY_BE_NULL:
                self.c.refuse(
                    at, f"call gives {key}.{name}, which the first call does not have", f"add {name} to {key} of the tool"
                )
            elif existing is None:
                held.put(name, braced(f"{read} | default(none)"))
            else:
                self._default(existing, read)

    def _whole(self, tool: Map, key: str, at: Entry) -> None:
        base = tool.entry(key)
        read = f"iter.{self.name}.{key}"
        if base is None:
            self.c.refuse(at, f"call gives {key}, which the first call does not have", f"add {key} to the tool")
            return
        self._default(base, read)

    def _default(self, entry: Entry, read: str) -> None:
        try:
            base = as_expression(plain(entry.value))
        except NoExpression:
            self.c.refuse(entry, "an input with statements, which a call replaces", "make it one {{ expression }}")
            return
        entry.value, entry.raw = node(braced(f"{read} | default({base})")), None

    def of(self, action: Entry, scope: Replace) -> Node:
        """Return the inputs of one call, as its rule writes them."""
        held = own(action)
        if not isinstance(held, Map):
            return short({})
        for scalar in templates(held):
            edit(scalar, scope)
        return held
