"""Definitions, references, symbols, and the renaming of steps, tasks and other names."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from noetl_core.dsl.parse import examine
from noetl_core.dsl.reading.reader import NAME
from noetl_core.values.frozen import frozen
from noetl_lsp.code import program_name
from noetl_lsp.cursor import place
from noetl_lsp.outline import Chunk, chunks
from noetl_lsp.symbols import Kind, Symbol, Use, index, step_of
from noetl_lsp.text import Span, Text

RENAMED: Final[frozenset[Kind]] = frozenset({"step", "task", "workload", "ctx", "iter", "args", "credential", "shared task"})
_IDENTIFIER: Final = re.compile(r"[^\W\d]\w*\Z")


class NotRenamed(ValueError):
    """A name cannot be changed to this one. Who acts: the author, who chooses another one."""


@frozen
class Edit:
    """The new text of a span."""

    span: Span
    text: str


@frozen
class Outline:
    """A part of a playbook for the list of symbols: its name, a word about it, its span and that of its name."""

    name: str
    what: str
    detail: str
    span: Span
    name_span: Span
    below: tuple[Outline, ...] = ()


# --- definitions and references -----------------------------------------------------------------------------------------


def definitions(text: str, offset: int) -> list[Span]:
    """Return where the name at an offset is defined."""
    at = place(text, offset)
    if at is not None and at.in_code:
        start, end = Text(text).word(offset)
        found = program_name(at, text[start:end])
        return [] if found is None else [(found[1][0] + at.chunk.start, found[1][1] + at.chunk.start)]
    use = index(text).at(offset)
    return [] if use is None else [(each.start, each.end) for each in index(text).of(use.symbol) if each.defines]


def references(text: str, offset: int, *, definitions: bool = True) -> list[Span]:
    """Return the places that name the thing at an offset; with `definitions`, also those that define it."""
    use = index(text).at(offset)
    if use is None:
        return []
    return [(each.start, each.end) for each in index(text).of(use.symbol) if definitions or not each.defines]


# --- renaming -----------------------------------------------------------------------------------------------------------


def renamable(text: str, offset: int) -> Use | None:
    """Return the use of a name that can be changed."""
    use = index(text).at(offset)
    return (
        use
        if use is not None and use.symbol.kind in RENAMED and any(each.defines for each in index(text).of(use.symbol))
        else None
    )


def rename(text: str, offset: int, name: str) -> list[Edit]:
    """Return the edits that give the thing at an offset another name. Raises `NotRenamed`."""
    use = renamable(text, offset)
    if use is None:
        raise NotRenamed("there is no name here that can be changed")
    symbol = use.symbol
    if not NAME.match(name):
        raise NotRenamed(f'"{name[:60]}" is not a name: letters, digits, _, - and . (at most 128)')
    if name in index(text).names(symbol.kind, symbol.owner):
        raise NotRenamed(f'there is a {_word(symbol)} "{name}" already')
    edits = [Edit(span, new) for each in index(text).of(symbol) for span, new in _renamed(text, each, name)]
    _check(text, edits)
    return edits


def _word(symbol: Symbol) -> str:
    return {"workload": "input", "ctx": "key of ctx", "iter": "variable", "args": "argument"}.get(symbol.kind, symbol.kind)


def _renamed(text: str, use: Use, name: str) -> Iterator[tuple[Span, str]]:
    identifier = _IDENTIFIER.match(name) is not None
    if use.form == "bare" and not identifier:
        raise NotRenamed(
            f'a template reads "{use.symbol.name}" by its bare name: the new name can have only letters, digits and _'
        )
    if use.form == "attribute" and not identifier:
        dot = text.rindex(".", 0, use.start)
        yield (dot, use.end), f"['{name}']" if "'" not in _around(text, use) else f'["{name}"]'
    else:
        yield (use.start, use.end), name


def _around(text: str, use: Use) -> str:
    """Return the quote that opens the line's text in which a template stands, if it is a single one."""
    line = text.rfind("\n", 0, use.start) + 1
    opened = re.search(r"(?:^|[\s:{\[,-])(['\"])[^'\"]*\Z", text[line : use.start])
    return opened[1] if opened is not None else ""


def _check(text: str, edits: list[Edit]) -> None:
    """Raise `NotRenamed` if the edits would make a mistake that the text does not have."""
    before, after = _errors(text), _errors(applied(text, edits))
    new = next((message for message in after if message not in before), None)
    if new is not None and len(after) > len(before):
        raise NotRenamed(new)


def _errors(text: str) -> list[str]:
    _, found, _ = examine(text, lenient=True)
    return [each.message for each in found if each.severity == "error"]


def applied(text: str, edits: list[Edit]) -> str:
    """Return a text after edits."""
    for edit in sorted(edits, key=lambda each: each.span, reverse=True):
        text = text[: edit.span[0]] + edit.text + text[edit.span[1] :]
    return text


# --- symbols ------------------------------------------------------------------------------------------------------------


def outline(text: str) -> list[Outline]:
    """Return the parts of a playbook: the keys of its root, and below them inputs, credentials, steps and tasks."""
    found: list[Outline] = []
    steps: list[Outline] = []
    workflow: tuple[str, Span, int] | None = None
    for chunk in chunks(text):
        if chunk.index is not None:
            steps.append(_step(text, chunk))
            continue
        for key, span in chunk.tree.root.spans.items() if isinstance(chunk.tree.root.value, dict) else ():
            name_span = span[0] + chunk.start, span[1] + chunk.start
            if key == "workflow":
                workflow = key, name_span, len(found)
            below = tuple(_entries(chunk, key)) if key in ("workload", "keychain", "workbook") else ()
            found.append(Outline(key, "section", "", (name_span[0], _end(text, chunk)), name_span, below))
    if workflow is not None and steps:
        key, name_span, at = workflow
        found[at] = Outline(key, "section", "", (name_span[0], steps[-1].span[1]), name_span, tuple(steps))
    return found


def _end(text: str, chunk: Chunk) -> int:
    return chunk.start + max(len(chunk.text.rstrip()), 1)


def _step(text: str, chunk: Chunk) -> Outline:
    name = step_of(chunk)
    uses = index(text).of(Symbol("step", name))
    defined = next((use for use in uses if use.defines and chunk.start <= use.start < chunk.end), None)
    start = chunk.start + len(chunk.text) - len(chunk.text.lstrip())
    name_span = (defined.start, defined.end) if defined is not None else (start, start + 1)
    desc = chunk.step.get("desc") if chunk.step is not None else None
    tasks = tuple(
        Outline(task.name or task.kind, "task", task.kind, (task.start, task.start + 1), (task.start, task.start + 1))
        for task in index(text).tasks.get(name, ())
        if chunk.start <= task.start < chunk.end
    )
    detail = desc.value if desc is not None and isinstance(desc.value, str) else ""
    return Outline(name or "(step)", "step", detail, (start, max(_end(text, chunk), name_span[1])), name_span, tasks)


def _entries(chunk: Chunk, key: str) -> Iterator[Outline]:
    wanted: dict[str, Kind] = {"workload": "workload", "keychain": "credential", "workbook": "shared task"}
    for use in index(chunk.text).uses if chunk.text else ():
        if use.defines and use.symbol.kind == wanted[key]:
            span = use.start + chunk.start, use.end + chunk.start
            yield Outline(use.symbol.name, wanted[key], "", span, span)
