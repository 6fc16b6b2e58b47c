"""Calls in templates of functions and methods that do not exist: known from the text, because data holds nothing to call."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from typing import Final

from jinja2 import nodes

from noetl_core.expr.compiled import Compiled
from noetl_core.expr.errors import TemplateSyntaxError
from noetl_core.expr.functions import FUNCTIONS
from noetl_core.expr.lexer import Line
from noetl_core.expr.methods import DICT, LIST, PART, STR

_OF_LOOPS: Final = frozenset(("cycle", "changed"))
_METHODS: Final = frozenset().union(STR, DICT, LIST, PART, _OF_LOOPS)


_ELSEWHERE: Final = {
    "now": "templates read no clock: pass the time as an input, or take it in a task of kind python",
    "token": "declare the credential in the keychain, as kind: oauth2, and read keychain.<name>.token",
}
"""Functions of other engines -> the equivalents here."""


def unknown_calls(compiled: Compiled) -> Iterator[TemplateSyntaxError]:
    """Yield an error for each call of a function or a method that no template has."""
    if "(" not in compiled.source:
        return
    for call in compiled.template.find_all(nodes.Call):
        called = call.node
        if isinstance(called, nodes.Name) and called.name in compiled.names and called.name not in FUNCTIONS:
            yield _error("function", called.name, frozenset(FUNCTIONS), call)
        elif isinstance(called, nodes.Getattr) and called.attr not in _METHODS:
            yield _error("method", called.attr, _METHODS, call)


def _error(what: str, name: str, known: frozenset[str], call: nodes.Call) -> TemplateSyntaxError:
    near = difflib.get_close_matches(name, sorted(known), 1, cutoff=0.6)
    hint = f"did you mean '{near[0]}'?" if near else _ELSEWHERE.get(name, "filters are written value | name")
    line = call.node.lineno
    column = line.column if isinstance(line, Line) else 1
    return TemplateSyntaxError(f"there is no {what} '{name}' ({hint})", int(line), column, hint)
