"""Names in the programs of python tasks: the arguments of the task, and the modules that it imports."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from noetl_lsp.cursor import At
from noetl_lsp.names import Name
from noetl_lsp.outline import Part
from noetl_lsp.text import Span

PAGE: Final = "tools/python.md"
_ARGUMENTS: Final = ("args", "input")


def program_names(at: At) -> Iterator[Name]:
    """Yield the names that a program is given."""
    if at.in_code != "python":
        return
    for key in (*_ARGUMENTS, "libs"):
        for name, value in _mapping(at, key).items():
            yield _about(at, key, name, value)


def program_name(at: At, name: str) -> tuple[Name, Span] | None:
    """Return a name that a program is given, and where it is written in the chunk; None if it is not given."""
    if at.in_code != "python":
        return None
    for key in (*_ARGUMENTS, "libs"):
        node = at.tree.at((*at.spot.path[:-1], key))
        if node is not None and name in node.spans and isinstance(node.value, dict):
            return _about(at, key, name, node.value[name]), node.spans[name]
    return None


def _mapping(at: At, key: str) -> dict[str, Part]:
    node = at.tree.at((*at.spot.path[:-1], key))
    return node.value if node is not None and isinstance(node.value, dict) else {}


def _about(at: At, key: str, name: str, value: Part) -> Name:
    written = at.chunk.text[value.start : value.end].strip()
    if key == "libs":
        return Name(name, "module", written, f"Module `{written}`, which `libs` of the task imports.", PAGE)
    shown = f"\n```yaml\n{name}: {written}\n```" if "\n" not in written and written else ""
    return Name(name, "argument", written if "\n" not in written else "", f"Argument `{name}` of the task.{shown}", PAGE)
