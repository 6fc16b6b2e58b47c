"""`noetl fmt`: the layout of a playbook. Keys of the root, of steps and of tasks come in the order of the language reference;
blocks are indented by two columns. Quotes, comments, program text and whatever is written in braces stay as they are.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import zip_longest
from typing import Final

from noetl_core.dsl.fields.flow import STEP
from noetl_core.dsl.fields.playbook import ROOT
from noetl_core.dsl.fields.tools import TASK
from noetl_core.dsl.fields.types import Block
from noetl_core.dsl.parse import check
from noetl_core.dsl.reading.diagnostics import Diagnostic, InvalidPlaybook
from noetl_core.dsl.reading.load import Loaded, load
from noetl_core.dsl.reading.load import Node as Loading
from noetl_migrate.reading import comments, read
from noetl_migrate.tree import Comment, Entry, Map, Node, Scalar, Seq
from noetl_migrate.write import write

STEP_WIDTH: Final = 2
BLANK: Final[Comment] = (0, "")
INPUTS: Final = "desc"
"""The key of a task behind which the inputs of its kind come."""


class NotFormatted(ValueError):
    """The formatted text would not mean the same. Who acts: the author, who moves what the message names."""


def formatted(text: str, source: str = "<string>") -> str:
    """Return a playbook in its canonical layout: the same text if it has that. Raises `InvalidPlaybook` for text that cannot be
    read, `NotFormatted`."""
    loaded = load(text, source)
    if loaded.root is None or any(d.severity == "error" for d in loaded.diagnostics):
        raise InvalidPlaybook(loaded.diagnostics)
    lines = text.replace("\r\n", "\n")
    document = read(lines) if isinstance(loaded.root.value, dict) else None
    if document is None or document.root.text is not None:
        return text  # in braces altogether, as JSON is
    root = document.root
    _rewrite(root)
    _arrange(root)
    root.tail = [(0, text) for _, text in root.tail]
    while root.tail and root.tail[-1] == BLANK:
        root.tail.pop()
    document.head = [line.rstrip() for line in document.head]
    document.offset = document.step = STEP_WIDTH
    new = write(document)
    if not lines.endswith("\n") and _difference(loaded.root, load(new).root or loaded.root):
        new = new[:-1]  # it ends within program text, to which a line end would belong
    if new == lines:
        return text
    _compare(loaded, lines, new, source)
    return new if "\r\n" not in text else new.replace("\n", "\r\n")


# --- layout -------------------------------------------------------------------------------------------------------------


def _rewrite(block: Map | Seq) -> None:
    """Have all entries of a block written again, with at most one blank line between them."""
    block.changed = True
    for entry, following in zip_longest(block.entries, block.entries[1:]):
        value = entry.value
        if isinstance(value, Map | Seq) and value.text is None and value.entries:
            _rewrite(value)
        else:
            below = following.before if following is not None else block.tail
            below[:0] = _comments_below(entry)
        entry.raw = None
        if "\n" in entry.key_text:
            entry.key_text = ""  # such a key is written in one line
    for n, entry in enumerate(block.entries):
        entry.before = list(_single(entry.before, keep_first=n > 0))
    block.tail = list(_single(block.tail))


def _comments_below(entry: Entry) -> Iterator[Comment]:
    """Yield the lines that were read with an entry, but stand below its value."""
    value = entry.value
    text = value.text if isinstance(value, Scalar | Map | Seq) else None
    last = value.line + (text or "").count("\n")
    for line in (entry.raw or [])[last - entry.line + 1 :]:
        content = line.strip()
        yield (len(line) - len(line.lstrip()), content) if content else BLANK


def _single(lines: Iterable[Comment], *, keep_first: bool = True) -> Iterator[Comment]:
    blank = not keep_first
    for line in lines:
        if line[1] or not blank:
            yield line
        blank = not line[1]


def _arrange(root: Map) -> None:
    """Order the keys of the root, of its steps and of their tasks."""
    before = list(root.entries)
    _order(root, ROOT)
    if root.entries != before:
        for entry in root.entries[1:]:
            if isinstance(entry.value, Map | Seq) and entry.value.text is None and BLANK not in entry.before[:1]:
                entry.before.insert(0, BLANK)
    for entry in root.entries:
        value = entry.value
        if entry.key == "workflow" and isinstance(value, Seq):
            for step in _blocks(value):
                _order(step, STEP)
                for key in ("tool", "compensate"):
                    _arrange_tasks(step.get(key))
        elif entry.key == "workbook":
            for task in _blocks(value):
                _arrange_tasks(task)


def _blocks(value: Node | None) -> Iterator[Map]:
    """Yield the mappings in block style among the values of a mapping or list."""
    for entry in value.entries if isinstance(value, Map | Seq) else ():
        if isinstance(entry.value, Map) and entry.value.text is None:
            yield entry.value


def _arrange_tasks(value: Node | None) -> None:
    """Order the keys of a task, or of all tasks in a list, also of those in `choose`, `while` and `until`."""
    if isinstance(value, Map) and value.text is None and value.entry("kind"):
        _order(value, TASK)
    elif isinstance(value, Map | Seq):
        for entry in value.entries:
            _arrange_tasks(entry.value)


def _order(block: Map, fields: Block) -> None:
    own = (field.name for field in fields.fields if fields is not TASK or (field.effect and not field.same_as))
    places = {name: place for place, name in enumerate(own)}
    ranks: dict[int, int] = {}
    rank = -1  # a key that the reference does not list stays behind the one that it follows
    for entry in block.entries:
        is_input = fields is TASK and entry.key not in places and not entry.key.startswith("x-")
        rank = places[INPUTS] if is_input else places.get(entry.key, rank)
        ranks[id(entry)] = rank
    block.entries.sort(key=lambda entry: ranks[id(entry)])
    if block.entries:
        block.entries[0].before = list(_single(block.entries[0].before, keep_first=False))


# --- comparison ---------------------------------------------------------------------------------------------------------


def _compare(loaded: Loaded, before: str, after: str, source: str) -> None:
    """Raise `NotFormatted` unless two texts mean the same, with the same comments."""
    again = load(after, source)
    assert loaded.root is not None
    if again.root is None:
        wrong = next(d for d in again.diagnostics if d.severity == "error")
        raise NotFormatted(f"{source}: the file stays as it is: {wrong.message} ({wrong.hint})")
    lost = Counter(text for _, text in comments(before)) - Counter(text for _, text in comments(after))
    if (place := _difference(loaded.root, again.root)) is not None:
        raise NotFormatted(f"{source}:{place.line}:{place.col} the value would change: the file stays as it is")
    if lost:
        line = next(line for line, text in comments(before) if text in lost)
        raise NotFormatted(f"{source}:{line + 1}:1 the comment would be lost: move it above a key")
    (model, found), (model_after, found_after) = check(before, source, lenient=True), check(after, source, lenient=True)
    if model != model_after or _codes(found) != _codes(found_after):
        raise NotFormatted(f"{source}: the playbook would mean something else: the file stays as it is")


def _codes(found: list[Diagnostic]) -> Counter[str]:
    return Counter(diagnostic.code for diagnostic in found)


def _difference(one: Loading, other: Loading) -> Loading | None:
    """Return the first value below `one` that differs below `other`; None if none does. Keys may be in any order."""
    if isinstance(one.value, dict) and isinstance(other.value, dict) and one.value.keys() == other.value.keys():
        pairs = [(value, other.value[key]) for key, value in one.value.items()]
    elif isinstance(one.value, list) and isinstance(other.value, list) and len(one.value) == len(other.value):
        pairs = list(zip(one.value, other.value, strict=True))
    elif not isinstance(one.value, dict | list) and not isinstance(other.value, dict | list):
        return None if json.dumps(one.value) == json.dumps(other.value) else one
    else:
        return one
    return next((found for a, b in pairs if (found := _difference(a, b)) is not None), None)
