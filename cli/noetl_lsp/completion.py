"""Completion: keys and values by the schema, names by their scope, names of Python programs by the task's arguments."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from noetl_core.dsl.kinds import COMMON_SPEC, KINDS
from noetl_core.dsl.model import Path
from noetl_core.values.frozen import frozen
from noetl_lsp.code import program_names
from noetl_lsp.cursor import At, typing
from noetl_lsp.keys import Key, Keys
from noetl_lsp.model import Model
from noetl_lsp.names import Name, Place
from noetl_lsp.outline import MARK, chunks
from noetl_lsp.symbols import CREDENTIAL_KEYS, Kind, Symbol
from noetl_lsp.text import Span, word_end, word_start

_SIGNS: Final = "_-."
"""Signs in the keys and names of a playbook."""
_MINOR: Final = ("The same as", "Accepted without effect")
"""Descriptions of keys that come last."""
_OPTIONS: Final = COMMON_SPEC.union(*(kind.spec for kind in KINDS.values())) - {"result"}
"""Options of tasks, which outer scopes may set."""
MOST: Final = 1000
"""Names of one kind that are offered."""


@frozen
class Item:
    """One completion: `insert` takes the place of `span`. `what` is a class of `Name`, or `key` or `value`."""

    label: str
    insert: str
    span: Span
    what: str
    detail: str = ""
    doc: str = ""
    link: str = ""
    rank: int = 0
    """Items of a lower rank come first."""


def completions(text: str, offset: int, model: Model | None, keys: Keys) -> list[Item]:
    """Return what may be typed at an offset."""
    at = typing(text, offset)
    if at is None:
        return []
    if at.expression is not None:
        names = Place(text, offset, at.spot.path, model).names(at.expression)
        span = (at.chunk.start + at.expression.start, word_end(text, offset))
        return _items(names, span)
    span = _word(text, offset)
    if at.in_code:
        span = (word_start(text, offset), word_end(text, offset))
        return _items(program_names(at), span) if text[span[0] - 1 : span[0]] != "." else []
    if at.spot.role == "key":
        return [*_keys(text, at, span, keys), *_values(text, offset, at, span, keys, model)]
    return list(_values(text, offset, at, span, keys, model))


def _items(names: Iterator[Name], span: Span) -> list[Item]:
    found: dict[str, Item] = {}
    for rank, name in enumerate(names):
        if name.name not in found and rank < MOST:
            found[name.name] = Item(name.name, name.name, span, name.what, name.detail, name.doc, name.link, rank)
    return list(found.values())


def _keys(text: str, at: At, span: Span, keys: Keys) -> Iterator[Item]:
    path = at.spot.path[:-1]
    trees = [chunk.tree for chunk in chunks(text) if chunk.index is None] if path == () else [at.tree]
    nodes = [node for tree in trees if (node := tree.at(path)) is not None and isinstance(node.value, dict)]
    there = {key for node in nodes for key in node.value if MARK not in key and key != text[slice(*span)]}
    colon = text[span[1] :].lstrip(" ").startswith(":")
    for rank, key in enumerate(sorted(keys.of_mapping(at.tree, path), key=lambda key: _order(key, path))):
        if key.name in there:
            continue
        end = "" if colon else ":" if key.holds and not at.in_flow else ": "
        yield Item(key.name, key.name + end, span, "key", "required" if key.required else "", key.doc, key.link, rank)


def _order(key: Key, path: Path) -> tuple[bool, bool, bool]:
    """Return what is required first, and last other spellings, and options of tools where no task is."""
    handed_down = path[-1:] == ("spec",) and "tool" not in path and key.name in _OPTIONS
    return not key.required, key.name not in ("kind", "name", "when", "else"), handed_down or key.doc.startswith(_MINOR)


def _values(text: str, offset: int, at: At, span: Span, keys: Keys, model: Model | None) -> Iterator[Item]:
    path = at.spot.path if at.spot.role == "value" else at.spot.path[:-1]
    kind = _names_of(at)
    if kind is not None:
        place = Place(text, offset, path, model)
        for rank, name in enumerate(place.index.names(kind, place.step if kind == "task" else "")[:MOST]):
            about = place.about(Symbol(kind, name, place.step if kind == "task" else ""))
            yield Item(name, name, span, about.what, about.detail, about.doc, about.link, rank)
    if at.spot.role != "value" or at.spot.node.style in ("|", ">"):
        return
    for rank, value in enumerate(keys.of_value(at.tree, path)):
        is_kind = path[-1] == "kind" and value.name in KINDS and "keychain" not in path
        doc, link = about_kind(value.name) if is_kind else (value.doc, value.link)
        yield Item(value.name, value.name, span, "value", "", doc, link, MOST + rank)


def _names_of(at: At) -> Kind | None:
    """Return the kind of the names that a value is one of."""
    match at.spot.path:
        case ("workflow", _, "next", "arcs", int(), "step") | ("executor", "spec", "entry_step"):
            return "step"
        case (*_, "then" | "else", "to"):
            return "task"
        case (*above, "task") if _value(at, (*above, "kind")) == "workbook":
            return "shared task"
        case (*above, str(key)) if key in CREDENTIAL_KEYS and at.spot.role == "value" and "args" not in above:
            return "credential"
    return None


def _value(at: At, path: tuple[str | int, ...]) -> object:
    node = at.tree.at(path)
    return None if node is None else node.value


def about_kind(kind: str) -> tuple[str, str]:
    """Return what a tool kind takes and gives, and its page."""
    known = KINDS[kind]
    inputs = ", ".join(f"`{field.name}`" for field in known.fields if not field.same_as and field.effect)
    gives = f" Its result has {', '.join(f'`{name}`' for name in sorted(known.gives))}." if known.gives else ""
    return f"Tool `{kind}`. Inputs: {inputs}.{gives}", f"language/{known.page}".replace("language/../", "")


def _word(text: str, offset: int) -> Span:
    """Return the span of the key or value around an offset, without the dash of a list."""
    start = word_start(text, offset, _SIGNS)
    if text[start:offset].startswith("-") and text[start + 1 : start + 2] in ("", " "):
        start += 1
    return start, word_end(text, offset, _SIGNS)
