"""Syntax of other languages in texts of tasks, which stays in them as it is (W534)."""

from __future__ import annotations

import re
from typing import Final

from noetl_core.dsl.fields.kind import words
from noetl_core.dsl.kinds import KINDS
from noetl_core.dsl.lint.context import Lint
from noetl_core.dsl.reading.load import Node

_BRACES: Final = re.compile(r"(?<!\{)\$?\{\s*((?:workload|ctx|args|iter|steps|keychain)\.[\w.]+)\s*\}(?!\})")
_OPERATORS: Final = words("| || && ; < > >> 2>&1")


def foreign(lint: Lint) -> None:
    """Report names in single braces, and operators of a shell among the arguments of a command."""
    text = lint.r.loaded.text
    braces = _BRACES.search(text) is not None
    for task in lint.kinds(*KINDS) if braces else ():
        raw = KINDS[task.value["kind"].value].raw
        for key, child in task.value.items():
            if key not in raw and key not in ("desc", "description"):
                _braces(lint, child)
    for task in lint.kinds("shell"):
        command = task.get("command")
        for word in command.value if command is not None and isinstance(command.value, list) else ():
            if word.value in _OPERATORS:
                message = f'"{word.value}" is an argument of the command: no shell reads the list'
                lint.report("W534", word, message, "write the line as script")


def _braces(lint: Lint, node: Node) -> None:
    for scalar in node.scalars():
        for found in _BRACES.finditer(scalar.value) if isinstance(scalar.value, str) else ():
            line = scalar.value.count("\n", 0, found.start()) + 1
            column = found.start() - scalar.value.rfind("\n", 0, found.start())
            place = lint.r.loaded.position(scalar, line, column)
            lint.r.report_at("W534", place, scalar.path, f"{found[0]} is not a template", f"write {{{{ {found[1]} }}}}")
