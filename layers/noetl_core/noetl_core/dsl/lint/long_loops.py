"""Loops that are too long, and claims that cannot be repeated, as far as the text shows it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from jinja2 import nodes

from noetl_core.dsl.lint.context import Lint
from noetl_core.dsl.lint.guards import path_of
from noetl_core.dsl.model import Loop, Step
from noetl_core.dsl.numbers import LOOP_ITEMS
from noetl_core.expr import is_template

CHANGES = re.compile(r"\b(update|delete|insert|merge|call)\b|\w\s*\(", re.IGNORECASE)
"""SQL that may change rows: a function may, too."""
HINT = "loop over parts of it: a child playbook for each part (kind: playbook), or a loop inside the loop"


def loops(lint: Lint) -> None:
    """W520: `loop.in` is a list, or a `range` of whole numbers and workload defaults, of more than `LOOP_ITEMS` items."""
    for step in lint.playbook.steps:
        loop = step.loop
        while loop is not None:
            _loop(lint, step, loop)
            _claim(lint, step, loop)
            loop = loop.inner


def _loop(lint: Lint, step: Step, loop: Loop) -> None:
    length, default = len(loop.in_) if isinstance(loop.in_, list) else 0, ""
    compiled = lint.r.compiled.get(loop.in_) if isinstance(loop.in_, str) else None
    if compiled is not None and compiled.expression is not None:
        length, default = _longest(lint, compiled.expression)
    if length > LOOP_ITEMS:
        says = f" (by the default of {default})" if default else ""
        most = f"a loop takes at most {LOOP_ITEMS:,}: it fails when it begins"
        message = f'the loop of step "{step.name}" has {length:,} items{says}, and {most}'
        lint.report("W520", lint.at(loop.path, "in"), message, HINT)


def _claim(lint: Lint, step: Step, loop: Loop) -> None:
    """W521: SQL of a cursor that does not identify its claim, or that claims nothing."""
    text = None if loop.cursor is None else loop.cursor.fields.get("claim")
    if loop.cursor is None or not isinstance(text, str) or is_template(text):
        return
    if not CHANGES.search(text):
        why = "changes no row, so it returns the same ones forever"
    elif "%(claim_id)" not in text:
        why = (
            "does not bind claim_id: if a worker dies after the claim and before its commit, the rows stay claimed, "
            "and no worker processes them"
        )
    else:
        return
    message = f'the claim of the cursor of step "{step.name}" {why}'
    lint.report("W521", lint.at(loop.cursor.path, "claim"), message, "claimed_by = %(claim_id)s; or name a table instead of SQL")


def _longest(lint: Lint, expression: nodes.Expr) -> tuple[int, str]:
    """Return the length of the longest `range` in an expression, and the workload key on which it depends."""
    found = (0, "")
    for call in (expression, *expression.find_all(nodes.Call)):
        if isinstance(call, nodes.Call) and isinstance(call.node, nodes.Name) and call.node.name == "range":
            bounds = [_number(lint, argument) for argument in call.args]
            numbers = [bound[0] for bound in bounds if bound is not None]
            if 1 <= len(numbers) == len(bounds) <= 3 and (len(numbers) < 3 or numbers[2]):
                found = max(found, (_length(*numbers), next((key for _, key in filter(None, bounds) if key), "")))
    return found


def _length(first: int, last: int | None = None, step: int = 1) -> int:
    """Return the length of a range; `len` fails if it exceeds a machine word."""
    first, last = (0, first) if last is None else (first, last)
    return max(0, (last - first + step - (1 if step > 0 else -1)) // step)


def _number(lint: Lint, node: nodes.Node) -> tuple[int, str] | None:
    """Return an argument that is a whole number: a literal, or the default of a workload key, with the key."""
    if isinstance(node, nodes.Neg):
        inner = _number(lint, node.node)
        return None if inner is None else (-inner[0], inner[1])
    if isinstance(node, nodes.Const):
        return (node.value, "") if type(node.value) is int else None
    path = path_of(node)
    if path is None or path[0] != "workload" or len(path) == 1:
        return None
    value: Any = lint.playbook.workload
    for part in path[1:]:
        value = value.get(part) if isinstance(value, Mapping) else None
    return (value, ".".join(path)) if type(value) is int else None
