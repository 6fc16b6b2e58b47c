"""Program text of `python` tasks that contains template expressions, or reads namespaces of templates as variables
(W523, W524; docs/tools/python.md)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from noetl_core.dsl.fields.kind import words
from noetl_core.dsl.lint.context import Lint, task_nodes
from noetl_core.dsl.load import Node
from noetl_core.dsl.model import Step
from noetl_core.dsl.positions import place_in_code

NAMESPACES: Final = words("workload ctx iter steps keychain job execution_id")
IN_CONTEXT: Final = words("workload ctx execution_id")
"""What `context` has of them."""
_EXPRESSION: Final = re.compile(r"\{\{-?\s*((?:workload|ctx|iter|args|steps|keychain|job|_prev|_task)\b[^{}\n]{0,80}?)\s*-?\}\}")
_KEY: Final = re.compile(r"""\s*(?:\[\s*|\.\s*get\s*\(\s*)(['"])(\w+)\1\s*[\]),]""")
_MEANT: Final = re.compile(r"""\bworkload(?:\.(\w+)|\[['"](\w+)['"]\])""")
_CONTEXT: Final = re.compile(r"\bcontext\b")
_FORMATTED: Final = re.compile(r"""\br?fr?['"]""", re.IGNORECASE)
_PARAMETER: Final = re.compile(r"\bdef\s+\w+\s*\([^()]*\Z")


def programs(lint: Lint) -> None:
    """W523 for expressions of templates in the text of programs, W524 for namespaces of templates that these read."""
    arcs: dict[str, set[str]] = {}
    for step in lint.playbook.steps:
        for arc in step.router.arcs if step.router is not None else ():
            arcs.setdefault(arc.step, set()).update(arc.args)
    every: set[str] = set()
    for step, node in zip(lint.playbook.steps, lint.step_nodes(), strict=True):
        given = arcs.get(step.name, set()) | set(step.args) | set(step.each_args)
        every |= given
        for tool in _tools(step, node):
            _check_all(lint, tool, given)
    if (workbook := lint.root.get("workbook")) is not None:
        _check_all(lint, workbook, every)


def keys_read(code: str) -> frozenset[str] | None:
    """Return the keys of `workload` that a program reads of its context, or means to read; None where it may read any."""
    found = {place[1] or place[2] for place in _MEANT.finditer(code)}
    for place in _CONTEXT.finditer(code):
        if _PARAMETER.search(code, max(0, place.start() - 500), place.start()):
            continue
        part = _KEY.match(code, place.end())
        if part is None:
            return None
        if part[2] == "workload":
            key = _KEY.match(code, part.end())
            if key is None:
                return None
            found.add(key[2])
    return frozenset(found)


def _tools(step: Step, node: Node) -> Iterator[Node]:
    spec = node.get("spec")
    policy = spec.get("policy") if spec is not None else None
    undo = node.get("compensate") or (policy.get("compensation") if policy is not None else None)
    for tool in (node.get("tool"), undo):
        if tool is not None:
            yield tool


def _check_all(lint: Lint, tool: Node, given: set[str]) -> None:
    for task in task_nodes(tool):
        code = task.get("code") if isinstance(task.value, dict) else None
        kind = task.get("kind") if code is not None else None
        if code is not None and kind is not None and kind.value == "python" and isinstance(code.value, str):
            _check(lint, task, code, given)


def _check(lint: Lint, task: Node, code: Node, given: set[str]) -> None:
    expressions = [found for found in _EXPRESSION.finditer(code.value) if _is_meant(code.value, found.start())]
    for found in expressions:
        line = code.value.count("\n", 0, found.start()) + 1
        column = found.start() - code.value.rfind("\n", 0, found.start())
        message = f"code is no template: {found[0]} stays in it as it is"
        hint = f'give it as an argument: args: {{ value: "{found[0]}" }}, and write value in the code'
        lint.r.report_at("W523", place_in_code(lint.r.loaded, code, line, column), code.path, message, hint)
    if expressions:
        return
    own = set(given)
    for key in ("args", "input", "libs"):
        part = task.get(key)
        if part is not None:
            if not isinstance(part.value, dict):  # a template, or a list of libraries: its names are not known here
                return
            own |= part.value.keys()
    for name, (line, column) in sorted(lint.r.program_reads.get(code.value, {}).items(), key=lambda read: read[1]):
        if name in NAMESPACES and name not in own:
            hint = (
                f'context["{name}"]' if name in IN_CONTEXT else f'give it as an argument: args: {{ {name}: "{{{{ {name} }}}}" }}'
            )
            message = f"code reads {name}, which is no variable there"
            lint.r.report_at("W524", place_in_code(lint.r.loaded, code, line, column), code.path, message, hint)


def _is_meant(code: str, at: int) -> bool:
    """Return whether an expression stands neither in a comment, nor in a text with braces that are doubled for Python, nor in a
    program that renders templates of its own."""
    before = code[code.rfind("\n", 0, at) + 1 : at]
    return "#" not in before and not _FORMATTED.search(before) and "jinja" not in code
