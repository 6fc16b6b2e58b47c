"""Conditions that authors write beside a task (`retry`, `assert`), as expressions over the outcome of the task."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any, Final

from noetl_core.dsl.reading.load import Node
from noetl_core.dsl.reading.reader import Reader
from noetl_core.expr import TemplateError, compile_text, is_template
from noetl_core.values.frozen import frozen

EXPRESSION: Final = re.compile(r"\s*\{\{[-+]?(.*?)[-+]?\}\}\s*\Z", re.DOTALL)
_NAME: Final = re.compile(r"\w+")
_STATUS_OF_ERROR: Final = re.compile(r"error\s*\.\s*(?:status_code|status|http_status)\b")
STATUS: Final = "(outcome.http.status | default(0))"
FAILED: Final = "outcome.status == 'error'"
_WORDS: Final[Mapping[str, str]] = {
    "status_code": STATUS,
    "http_status": STATUS,
    "error": "outcome.error",
    "result": "outcome.result",
    "attempt": "_attempt",
    "attempts": "_attempt",
    "success": "(outcome.status == 'ok')",
}
"""Other names that authors use for parts of an outcome, with their meaning. A name that the playbook itself binds keeps its own
meaning."""


@frozen
class Subject:
    """The task that a condition is about."""

    kind: str
    names: Collection[str] = ()
    """The step and the task: their names mean the result."""
    bound: Collection[str] = ()
    """Names with another meaning in this playbook."""
    policy: Node | None = None
    """The policy that applies to a task without one."""

    @property
    def body(self) -> str:
        return "outcome.result.data" if self.kind == "http" else "outcome.result"


def expression_of(r: Reader, node: Node, what: str, subject: Subject) -> str | None:
    """Return a condition as an expression without braces; None when it is reported."""
    value = node.value
    if isinstance(value, bool):
        return "true" if value else "false"
    if not isinstance(value, str) or not value.strip():
        r.report("E112", node, f"{what} must be an expression, not {r.word(node)}", 'write "{{ ... }}"')
        return None
    text = value if is_template(value) else f"{{{{ {value.strip()} }}}}"
    found = EXPRESSION.match(text)
    try:
        compiled = compile_text(text)
    except TemplateError as error:
        if not is_template(value):  # others are reported together with all templates
            r.report("E301", node, f"template: {error.message}", 'write "{{ ... }}"')
        return None
    if found is None or not compiled.is_expression:
        r.report("E303", node, f"{what} must be one expression", 'write "{{ ... }}"')
        return None
    starts = [0]
    for line in text.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    reads = {starts[read.line - 1] + read.column - 1 for read in compiled.reads}
    for at in sorted(reads, reverse=True):
        text = text[:at] + _renamed(text[at:], subject)
    inner = EXPRESSION.match(text)
    assert inner is not None
    return " ".join(inner[1].split())


def _renamed(text: str, subject: Subject) -> str:
    found = _NAME.match(text)
    if found is None:
        return text
    name, rest = found[0], text[found.end() :]
    if name in subject.names:
        return "outcome.result" + rest
    if name in subject.bound:
        return text
    status = _STATUS_OF_ERROR.match(text)
    if status is not None:
        return STATUS + text[status.end() :]
    if name in ("response", "body"):
        return subject.body + rest
    return _WORDS.get(name, name) + rest


def braced(expression: str) -> str:
    return f"{{{{ {expression} }}}}"


def all_of(*parts: str | None) -> str:
    """Return the conjunction of the given parts."""
    conditions = [part for part in parts if part]
    return conditions[0] if len(conditions) == 1 else " and ".join(_grouped(part) for part in conditions)


def any_of(*parts: str | None) -> str:
    conditions = [part for part in parts if part]
    return conditions[0] if len(conditions) == 1 else " or ".join(_grouped(part) for part in conditions)


def negated(expression: str) -> str:
    return f"not ({expression})"


_SIMPLE: Final = re.compile(r"[\w.]+( (==|<|>|<=|>=|!=) ('[^']*'|[\w.]+)| in \[[^\[\]]*\])?\Z")


def _grouped(expression: str) -> str:
    return expression if _SIMPLE.match(expression) or _in_brackets(expression.removeprefix("not ")) else f"({expression})"


def _in_brackets(expression: str) -> bool:
    """Return whether one pair of brackets encloses the whole expression. Brackets in quoted text count as further pairs."""
    depth = 0
    for at, character in enumerate(expression):
        depth += (character == "(") - (character == ")")
        if depth <= 0:
            return at > 0 and at == len(expression) - 1
    return False


def literal(value: Any) -> str:
    """Return a plain value as an expression."""
    if isinstance(value, bool) or value is None:
        return {True: "true", False: "false", None: "none"}[value]
    if isinstance(value, list):
        return "[" + ", ".join(literal(v) for v in value) + "]"
    return repr(value)
