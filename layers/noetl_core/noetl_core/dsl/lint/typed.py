"""Evaluates templates over shapes instead of values, and finds reads of fields that no value there has."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Final

from jinja2 import nodes

from noetl_core.dsl.lint.results import ALWAYS, it_has
from noetl_core.dsl.lint.shapes import Env, Shape, listed, mapping
from noetl_core.dsl.reading.diagnostics import close
from noetl_core.expr import METHODS, Compiled, Read, views
from noetl_core.expr.lexer import Line
from noetl_core.values.frozen import frozen

NAMESPACES: Final = frozenset({"workload", "ctx", "args", "iter", "steps", "event", "outcome"})
"""Names whose fields are judged by `names`."""
_SAME: Final = frozenset(
    {"for", "list", "sort", "reverse", "unique", "selectattr", "rejectattr", "select", "reject", "default", "d"}
)
"""Filters whose value has the shape of their input. `for` is the collection of a loop."""
_FIRST: Final = frozenset({"first", "last", "min", "max", "random"})
_BY_ATTRIBUTE: Final[Mapping[str, int]] = {
    "selectattr": 0,
    "rejectattr": 0,
    "groupby": 0,
    "sort": -1,
    "unique": -1,
    "sum": 0,
    "map": -1,
    "min": -1,
    "max": -1,
}
"""Filters that read an attribute of the elements, and the place of its name among the arguments; -1: only by name."""
OF_LISTS: Final = frozenset({"data", "results", "stats"})
"""Names that the list of a loop's results has."""
_MAY_MISS: Final = frozenset({"default", "d"})
_ASKS: Final = frozenset({"defined", "undefined", "none"})


@frozen
class Misspelt:
    """A read of a field that the value does not have: its place in the template, its name, a message and a hint."""

    read: Read
    name: str
    message: str
    hint: str


Near = Callable[[str, frozenset[str]], str]
"""Returns the nearest name of a set, or nothing."""


class Evaluation:
    """Evaluates one template; `found` has the reads of fields that do not exist, if `near` is there to name others."""

    def __init__(self, env: Env, near: Near | None = None) -> None:
        self._env, self._near = env, near
        self.found: list[Misspelt] = []

    def template(self, compiled: Compiled) -> Shape | None:
        """Return the shape of the template's value."""
        expression = compiled.expression
        if expression is not None:
            return self.value(expression, {}, False)
        self._visit(compiled.template, {}, False)
        return None

    def _visit(self, node: nodes.Node, bound: Mapping[str, Shape | None], soft: bool) -> None:
        if isinstance(node, nodes.Expr):
            self.value(node, bound, soft)
            return
        inner = dict(bound)
        soft = soft or isinstance(node, nodes.If)
        for child in node.iter_child_nodes():
            if isinstance(node, nodes.For) and child is node.target:
                continue
            if isinstance(node, nodes.For) and child is node.iter:
                source = self.value(node.iter, bound, soft)
                _bind(node.target, None if source is None else source.each(), inner)
                inner["loop"] = None
                continue
            if isinstance(node, nodes.Assign) and child is node.target:
                continue
            self._visit(child, inner, soft)
            if isinstance(child, nodes.Assign):
                for name in child.target.find_all(nodes.Name) if not isinstance(child.target, nodes.Name) else [child.target]:
                    inner[name.name] = None

    def value(self, node: nodes.Node, bound: Mapping[str, Shape | None], soft: bool) -> Shape | None:
        """Return the shape of an expression. `soft`: the template allows for undefined values there."""
        match node:
            case nodes.Name():
                if node.name in bound:
                    return bound[node.name]
                one = self._env.get(node.name)
                return None if one is None else one()
            case nodes.Getattr():
                return self._member(node, node.attr, bound, soft)
            case nodes.Getitem(arg=nodes.Const(value=str(name))):
                return self._member(node, name, bound, soft)
            case nodes.Getitem():
                self._visit(node.arg, bound, soft)
                base = self.value(node.node, bound, soft)
                is_one = isinstance(node.arg, nodes.Const | nodes.Neg | nodes.Name | nodes.Getattr)
                return base if isinstance(node.arg, nodes.Slice) else base.each() if base is not None and is_one else None
            case nodes.Filter():
                return self._filtered(node, bound, soft)
            case nodes.Test():
                soft = soft or node.name in _ASKS
            case nodes.Or() | nodes.CondExpr():
                soft = True
            case nodes.List() if node.items:
                shapes = [self.value(item, bound, soft) for item in node.items]
                return listed(lambda: shapes[0]) if len(shapes) == 1 else None
            case nodes.Dict() if all(isinstance(pair.key, nodes.Const) for pair in node.items):
                known = {
                    str(pair.key.value): self.value(pair.value, bound, soft)
                    for pair in node.items
                    if isinstance(pair.key, nodes.Const)
                }
                return mapping((), {name: partial(_same, shape) for name, shape in known.items()})
        for child in node.iter_child_nodes():
            self._visit(child, bound, soft)
        return None

    def _member(
        self, node: nodes.Getattr | nodes.Getitem, name: str, bound: Mapping[str, Shape | None], soft: bool
    ) -> Shape | None:
        base = self.value(node.node, bound, soft)
        if base is not None and base.fields is None and name not in METHODS | OF_LISTS:
            element = base.each()
            if element is not None and element.has(name):
                message = f"{_text(node.node)} is a list, which has no {name}"
                self._report(node.node, soft, name, message, f"an element has it: [0].{name}")
        if base is None or base.fields is None:
            return None
        if name in METHODS and name not in base.fields:
            return None
        if not base.has(name):
            self._miss(node.node, base, name, soft)
        return base.get(name)

    def _miss(self, node: nodes.Node, base: Shape, name: str, soft: bool) -> None:
        if soft or self._near is None or base.fields is None:
            return
        known = views.names(frozenset(base.fields)) - ALWAYS
        near = self._near(name, known)
        if base.closed or near:
            hint = f'did you mean "{near}"?' if near else it_has(known)
            self._report(node, soft, name, f"{_text(node)} has no {name}", hint)

    def _report(self, node: nodes.Node, soft: bool, name: str, message: str, hint: str) -> None:
        if soft or self._near is None:
            return
        root = node
        while isinstance(root, nodes.Getattr | nodes.Getitem | nodes.Filter):
            if root.node is None:
                return
            root = root.node
        text = _text(node)
        if name == "result" and text.startswith("steps.") and text.count(".") == 2:  # dsl.dialect has a finding of its own
            return
        if not isinstance(root, nodes.Name) or text in NAMESPACES:
            return
        line = root.lineno
        read = Read((root.name,), int(line), line.column if isinstance(line, Line) else 1)
        self.found.append(Misspelt(read, name, message, hint))

    def _filtered(self, node: nodes.Filter, bound: Mapping[str, Shape | None], soft: bool) -> Shape | None:
        soft = soft or node.name in _MAY_MISS
        base = None if node.node is None else self.value(node.node, bound, soft)
        for argument in (*node.args, *node.kwargs):
            self._visit(argument.value if isinstance(argument, nodes.Keyword) else argument, bound, soft)
        element = None if base is None else base.each()
        attribute = _attribute(node)
        of_element: Shape | None = None
        if attribute is not None and node.node is not None and element is not None:
            of_element = element
            for part in attribute.split("."):
                if of_element is None or of_element.fields is None or part.isdecimal():
                    of_element = None
                    break
                if not of_element.has(part):
                    if part not in METHODS:
                        each = nodes.Getitem(node.node, nodes.Name("each", "load"), "load")
                        self._miss(each, of_element, part, soft or any(k.key == "default" for k in node.kwargs))
                    of_element = None
                    break
                of_element = of_element.get(part)
        if node.name == "map":
            return None if attribute is None or of_element is None else listed(lambda: of_element)
        if node.name in _FIRST:
            return element
        return base if node.name in _SAME else None


def _same(shape: Shape | None) -> Shape | None:
    return shape


def _bind(target: nodes.Node, shape: Shape | None, names: dict[str, Shape | None]) -> None:
    """Bind the names of the target of a `for`."""
    if isinstance(target, nodes.Name):
        names[target.name] = shape
    else:
        names.update(dict.fromkeys((name.name for name in target.find_all(nodes.Name)), None))


def _attribute(node: nodes.Filter) -> str | None:
    """Return the attribute of elements that a filter reads by a name that is written there."""
    place = _BY_ATTRIBUTE.get(node.name)
    if place is None:
        return None
    keyword = next((k.value for k in node.kwargs if k.key == "attribute"), None)
    argument = keyword if keyword is not None else node.args[place] if 0 <= place < len(node.args) else None
    return argument.value if isinstance(argument, nodes.Const) and isinstance(argument.value, str) else None


def _text(node: nodes.Node) -> str:
    """Return a path as its author writes it."""
    match node:
        case nodes.Name():
            return node.name
        case nodes.Getattr():
            return f"{_text(node.node)}.{node.attr}"
        case nodes.Getitem(arg=nodes.Const(value=str(name))):
            return f"{_text(node.node)}.{name}"
        case nodes.Getitem(arg=nodes.Const(value=number)):
            return f"{_text(node.node)}[{number}]"
        case nodes.Getitem(arg=nodes.Name(name="each")):
            return f"an element of {_text(node.node)}"
        case nodes.Getitem():
            return f"{_text(node.node)}[...]"
        case nodes.Filter() if node.node is not None:
            return f"{_text(node.node)} | {node.name}"
    return ""


def misspelt(compiled: Compiled, env: Env, near: Near = close) -> Iterator[Misspelt]:
    """Yield the reads of fields that the values of a template do not have."""
    evaluation = Evaluation(env, near)
    evaluation.template(compiled)
    yield from evaluation.found


def shape_of(compiled: Compiled, env: Env) -> Shape | None:
    """Return the shape of the value of a template."""
    return Evaluation(env).template(compiled)
