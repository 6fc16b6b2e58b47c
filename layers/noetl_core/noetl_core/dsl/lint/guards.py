"""Evaluates conditions under facts without running them, in three-valued logic.

A condition is True or False if the given facts alone decide it, whatever its other names contain; otherwise it is None.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from jinja2 import nodes

from noetl_core.expr import Compiled, compile_text

Facts = Mapping[tuple[str, ...], Any]
"""Path -> the known value at that path, or `UNDEFINED`, which holds for everything below the path too."""


class _Marker:
    __slots__ = ()


UNKNOWN: Final = _Marker()
UNDEFINED: Final = _Marker()
FILLED: Final = _Marker()
"""A mapping that is not empty: at least one of its keys is known."""

NO_FACTS: Final[Facts] = {}

_COMPARE: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "eq": operator.eq, "ne": operator.ne, "lt": operator.lt, "lteq": operator.le, "gt": operator.gt, "gteq": operator.ge,
    "in": lambda a, b: a in b, "notin": lambda a, b: a not in b,
}  # fmt: skip
_OPPOSITE: Final = {"eq": "ne", "ne": "eq", "lt": "gteq", "gteq": "lt", "gt": "lteq", "lteq": "gt", "in": "notin", "notin": "in"}


class Guards:
    """The conditions of one playbook; `compiled` contains its templates by their text. In a `strict` playbook an error that no
    rule matches is a failure."""

    def __init__(self, compiled: Mapping[str, Compiled], *, strict: bool = False) -> None:
        self._compiled = compiled
        self.strict = strict

    def holds(self, when: Any, facts: Facts = NO_FACTS) -> bool | None:
        """Return whether a `when` or `allow` holds."""
        if not isinstance(when, str):
            return bool(when)
        expression = self._expression(when)
        return None if expression is None else _truth(_value(expression, facts))

    def exclude(self, a: str | None, b: str | None) -> bool:
        """Return whether two conditions certainly never hold together."""
        left, right = (self._expression(a) if a else None), (self._expression(b) if b else None)
        if left is None or right is None:
            return False
        return any(_contradict(x, y) for x in _parts(left) for y in _parts(right))

    def _expression(self, text: str) -> nodes.Expr | None:
        compiled = self._compiled.get(text)  # `{{ true }}`, which replaces a plain true, is in no text
        return (compile_text(text) if compiled is None else compiled).expression


def _truth(value: Any) -> bool | None:
    if value is UNDEFINED or value is FILLED:
        return value is FILLED
    return None if value is UNKNOWN else bool(value)


def path_of(node: nodes.Node) -> tuple[str, ...] | None:
    """Return the parts of `a.b['c']`; None for anything else."""
    parts: list[str] = []
    while True:
        if isinstance(node, nodes.Getattr):
            parts.append(node.attr)
            node = node.node
        elif isinstance(node, nodes.Getitem) and isinstance(node.arg, nodes.Const) and isinstance(node.arg.value, str):
            parts.append(node.arg.value)
            node = node.node
        elif isinstance(node, nodes.Name):
            return (node.name, *reversed(parts))
        else:
            return None


def _value(node: nodes.Expr | None, facts: Facts) -> Any:
    match node:
        case nodes.Const():
            return node.value
        case nodes.Name() | nodes.Getattr() | nodes.Getitem():
            return _looked_up(node, facts)
        case nodes.And() | nodes.Or():
            return _joined(node, facts)
        case nodes.Not():
            truth = _truth(_value(node.node, facts))
            return UNKNOWN if truth is None else not truth
        case nodes.Compare():
            return _compared(node, facts)
        case nodes.CondExpr():
            truth = _truth(_value(node.test, facts))
            if truth is None:
                return UNKNOWN
            return UNDEFINED if not truth and node.expr2 is None else _value(node.expr1 if truth else node.expr2, facts)
        case nodes.List() | nodes.Tuple():
            items = [_value(item, facts) for item in node.items]
            return UNKNOWN if any(isinstance(i, _Marker) for i in items) else items
        case nodes.Test(name="defined" | "undefined"):
            value = _value(node.node, facts)
            return UNKNOWN if value is UNKNOWN else (value is UNDEFINED) == (node.name == "undefined")
        case nodes.Filter(name="default" | "d"):
            value = _value(node.node, facts)
            plain = len(node.args) == 1 and not node.kwargs
            return (_value(node.args[0], facts) if plain else UNKNOWN) if value is UNDEFINED else value
    return UNKNOWN


def _looked_up(node: nodes.Expr, facts: Facts) -> Any:
    path = path_of(node)
    if path is None:
        return UNKNOWN
    if path in facts:
        return facts[path]
    if any(facts.get(path[:n]) is UNDEFINED for n in range(1, len(path))):
        return UNDEFINED
    known = any(place[: len(path)] == path and value is not UNDEFINED and value is not UNKNOWN for place, value in facts.items())
    return FILLED if known else UNKNOWN


def _joined(node: nodes.And | nodes.Or, facts: Facts) -> Any:
    """Evaluate `and` and `or`: one side may decide."""
    decides = isinstance(node, nodes.Or)
    left = _value(node.left, facts)
    if _truth(left) is decides:
        return left
    right = _value(node.right, facts)
    if _truth(left) is not None:
        return right
    return decides if _truth(right) is decides else UNKNOWN


def _compared(node: nodes.Compare, facts: Facts) -> Any:
    left = _value(node.expr, facts)
    certain = True
    for operand in node.ops:
        right = _value(operand.expr, facts)
        truth = _one(operand.op, left, right)
        if truth is False:
            return False
        certain = certain and truth is True
        left = right
    return True if certain else UNKNOWN


def _one(op: str, left: Any, right: Any) -> bool | None:
    if UNDEFINED in (left, right):
        other = right if left is UNDEFINED else left
        if other is None or isinstance(other, _Marker) or op not in ("eq", "ne"):
            return None
        return op == "ne"
    if UNKNOWN in (left, right) or FILLED in (left, right):
        return (op == "ne") if op in ("eq", "ne") and None in (left, right) and FILLED in (left, right) else None
    try:
        return bool(_COMPARE[op](left, right))
    except TypeError:
        return None


# --- two conditions -----------------------------------------------------------------------------------------------------


def _parts(node: nodes.Expr) -> Iterator[nodes.Expr]:
    """Return the conditions that must hold for `node` to hold."""
    if isinstance(node, nodes.And):
        yield from _parts(node.left)
        yield from _parts(node.right)
    else:
        yield node


def _contradict(a: nodes.Expr, b: nodes.Expr) -> bool:
    if (isinstance(a, nodes.Not) and a.node == b) or (isinstance(b, nodes.Not) and b.node == a):
        return True
    if not (isinstance(a, nodes.Compare) and isinstance(b, nodes.Compare) and a.expr == b.expr):
        return False
    if len(a.ops) != 1 or len(b.ops) != 1:
        return False
    x, y = a.ops[0], b.ops[0]
    if x.expr == y.expr:
        return _OPPOSITE[x.op] == y.op
    known = _value(x.expr, NO_FACTS), _value(y.expr, NO_FACTS)
    if x.op == "eq" and not isinstance(known[0], _Marker):
        return _one(y.op, *known) is False
    if y.op == "eq" and not isinstance(known[1], _Marker):
        return _one(x.op, known[1], known[0]) is False
    return False
