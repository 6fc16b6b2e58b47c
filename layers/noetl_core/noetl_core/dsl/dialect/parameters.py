"""Parameters of SQL that other engines write by number: `$1` for PostgreSQL."""

from __future__ import annotations

import re
from typing import Final

from noetl_core.dsl.dialect.edits import Edits
from noetl_core.dsl.reading.load import Node
from noetl_core.dsl.reading.sql_code import NUMBERED, code_of

_TEXTS: Final = ("command", "query", "sql")
_TEMPLATE: Final = re.compile(r"\{\{.*?\}\}|\{%.*?%\}|\{#.*?#\}", re.DOTALL)
_OWN: Final = re.compile(r"%(?:s|\(\w+\)s)")


def rewrite_parameters(e: Edits, task: Node) -> None:
    """Write `$1` in SQL for PostgreSQL with a list of `params` as `%(p1)s` with a mapping; a percent sign is doubled there."""
    params = task.get("params")
    key = next((key for key in _TEXTS if key in task.value), None)
    if params is None or not isinstance(params.value, list) or not params.value or key is None:
        return
    text = task.value[key].value
    if not isinstance(text, str) or _OWN.search(_TEMPLATE.sub("", text)):
        return
    places = list(NUMBERED.finditer(code_of(_TEMPLATE.sub(lambda found: " " * len(found[0]), text))))
    if not places or any(not 1 <= int(found[1]) <= len(params.value) for found in places):
        return
    out, at = [], 0
    for found in places:
        out += [escaped(text[at : found.start()]), f"%(p{found[1]})s"]
        at = found.end()
    e.put(task, key, "".join((*out, escaped(text[at:]))), task.value[key])
    e.put(task, "params", {f"p{n}": value for n, value in enumerate(params.value, 1)}, params)


def escaped(text: str) -> str:
    """Return the text with doubled percent signs outside of templates."""
    out, at = [], 0
    for found in _TEMPLATE.finditer(text):
        out += [text[at : found.start()].replace("%", "%%"), found[0]]
        at = found.end()
    return "".join((*out, text[at:].replace("%", "%%")))
