"""Compiles every template of a playbook and reports syntax errors where the expression stands (resolution 15)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import Final

from noetl_core.dsl.inputs import default_scalars
from noetl_core.dsl.kinds import KINDS
from noetl_core.dsl.reading.diagnostics import Diagnostic
from noetl_core.dsl.reading.load import Node
from noetl_core.dsl.reading.reader import Reader
from noetl_core.expr import LimitExceeded, Read, TemplateSyntaxError, is_template, unknown_calls

SECTIONS = ("keychain", "executor", "workflow", "workbook")
_PROSE = frozenset({"desc", "description"})
GO: Final = r"\{\{-?\s*(?:json\s+)?\.(?:[A-Za-z_]\w*(?:\.\w+)*)?\s*-?\}\}"
"""A template of the program that a line of shell code runs, as in `docker images --format '{{.ID}}'`."""
_GO: Final = re.compile(GO)
_MORE_GO: Final = re.compile(r"\{\{-?\s*(?:\w+\s+[.$\"(]|(?:end|else)\s*-?\}\})")
KEY: Final = re.compile(r"""\s*(?:\.\s*(\w+)|\[\s*['"]([^'"]+)['"]\s*\])""")
"""One further part of a path that a template reads: `.name` or `['name']`."""


def check_templates(r: Reader, root: Node) -> None:
    """Report E301 and E302 for templates that do not compile; record in `r.reads` the names that the others read."""
    others = {id(node): without_others(node.value) for node in _lines(root)} if _GO.search(r.loaded.text) else {}
    for node in chain(template_scalars(root), default_scalars(root)):
        _check(r, node, others.get(id(node), node.value))


def _lines(node: Node) -> Iterator[Node]:
    """Yield the lines of shell code below `node`: `cmds`, and `command` as text."""
    kind = node.get("kind")
    if kind is not None and kind.value == "shell":
        cmds, command = node.get("cmds"), node.get("command")
        yield from (line for line in cmds.scalars() if isinstance(line.value, str)) if cmds is not None else ()
        if command is not None and isinstance(command.value, str):
            yield command
    elif isinstance(node.value, dict | list):
        for child in node.value.values() if isinstance(node.value, dict) else node.value:
            yield from _lines(child)


def without_others(line: str) -> str:
    """Return a line of shell code with blanks in place of templates of other programs, unless not all of them are known."""
    blank = _GO.sub(lambda found: " " * len(found[0]), line)
    return line if _MORE_GO.search(blank) else blank


def template_scalars(root: Node) -> Iterator[Node]:
    """Yield scalars with template syntax in the sections that are evaluated."""
    for section in SECTIONS:
        node = root.get(section)
        if node is not None:
            yield from scalars_below(node)


def scalars_below(node: Node) -> list[Node]:
    """Return template scalars at and below `node`, without program text and prose."""
    found: list[Node] = []
    _collect(node, found)
    return found


def _collect(node: Node, found: list[Node]) -> None:
    value = node.value
    if isinstance(value, str):
        if is_template(value):
            found.append(node)
    elif isinstance(value, dict):
        left_out = _left_out(value)
        for key, child in value.items():
            if key not in left_out and not key.startswith("x-"):
                _collect(child, found)
    elif isinstance(value, list):
        for child in value:
            _collect(child, found)


def parts(node: Node) -> Iterator[tuple[str | int, Node]]:
    """Yield the entries of a mapping or a list below which templates are evaluated."""
    value = node.value
    if isinstance(value, list):
        yield from enumerate(value)
    elif isinstance(value, dict):
        left_out = _left_out(value)
        yield from ((key, child) for key, child in value.items() if key not in left_out and not key.startswith("x-"))


def _left_out(value: dict[str, Node]) -> frozenset[str]:
    """Return the keys of a mapping below which no templates are evaluated, besides `x-` keys."""
    kind = value.get("kind")
    known = KINDS.get(kind.value) if kind is not None and isinstance(kind.value, str) else None
    return _PROSE if known is None or not known.raw else _PROSE | known.raw


def replaced(text: str, reads: Iterable[Read], rewrite: Callable[[Read, str], str]) -> str:
    """Return a template whose text from each read on is rewritten, the last one first."""
    starts = [0]
    for line in text.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    places = {starts[read.line - 1] + read.column - 1: read for read in reads}
    for at in sorted(places, reverse=True):
        text = text[:at] + rewrite(places[at], text[at:])
    return text


def _check(r: Reader, node: Node, text: str) -> None:
    if node.value in r.reads:
        return
    try:
        compiled = r.compile(text)
        r.reads[node.value] = compiled.reads
        if r.programs:  # playbooks registered before this check existed fail where they use the pattern
            compiled.check_patterns()
    except TemplateSyntaxError as error:
        _wrong(r, node, error)
    except LimitExceeded as error:
        r.report("E302", node, error.message)
    else:
        for wrong in unknown_calls(compiled) if r.programs else ():  # playbooks registered before this check run as they did
            _wrong(r, node, wrong)


def _wrong(r: Reader, node: Node, error: TemplateSyntaxError) -> None:
    line, col = r.loaded.position(node, error.line, error.column)
    hint = error.hint or ""
    message = error.message.removesuffix(f" ({hint})") if hint else error.message
    r.diagnostics.append(Diagnostic("E301", "error", f"template: {message}", hint, r.source, line, col, node.path))
