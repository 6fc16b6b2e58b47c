"""Tasks of other playbooks: entries of a workbook that say `uses: path@version#task` (docs/language/playbook.md, "Shared tasks").

`pinned` writes these tasks at the end of the playbook's text, under `x-pinned`. So the text - and with it the digest by which
an execution knows its playbook - contains everything that runs, and a later version of the other playbook changes nothing. The
caller finds the texts of other playbooks.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from noetl_core.dsl.fields.playbook import SHARED_TASK
from noetl_core.dsl.reading.diagnostics import Severity
from noetl_core.dsl.reading.load import PINNED, Node, load
from noetl_core.dsl.reading.reader import Reader
from noetl_core.dsl.versions import BadVersion, Version, version_of

_LINE: Final = f"{PINNED}: "
_USES_KEY: Final = re.compile(r"""\buses["']?\s*:""")
_FORM: Final = re.compile(r"(?P<path>[^@#\s]+)(@(?P<version>(?!latest#)[\w.\-]{1,64}))?#(?P<task>[^@#\s]+)\Z")
FORM: Final = "path#task, or path@version#task, such as shared/http@3#fetch or shared/http@prod#fetch"


class Library(NamedTuple):
    """A playbook whose tasks others use. `version` is 0 where it is not from a catalog."""

    version: int
    digest: str
    source: str


Find = Callable[[str, Version], Library | None]
"""Returns a playbook by its path and version; None where there is none."""


def uses(text: str) -> dict[str, str]:
    """Return the workbook's entries that are tasks of other playbooks: name -> the text of `uses`. Other texts are not
    judged here."""
    if "uses" not in text or not _USES_KEY.search(text):  # most texts contain no such entry
        return {}
    root = load(text).root
    found = ((name, entry.get("uses")) for name, entry, _ in _entries(root.get("workbook") if root is not None else None))
    return {name: node.value for name, node in found if node is not None and isinstance(node.value, str)}


def pinned(text: str, find: Find) -> str:
    """Return the text with the tasks that its workbook uses from the playbooks that `find` knows; tasks that are already pinned
    stay as they are.

    Validation reports the entries that cannot be pinned, with the reasons.
    """
    references = uses(text)
    if not references:
        return text
    body, known = _parts(text)
    pins = dict(known)
    for ref in references.values():
        form = _form(ref)
        library = find(form.path, form.version) if form and ref not in pins else None
        if form and library is not None:
            pins[ref] = _pin(library, form.task)
    return text if pins == known else _with(body, pins)


class _Use(NamedTuple):
    path: str
    version: Version
    task: str


def _form(ref: str) -> _Use | None:
    """Return the parts of `path@version#task`; None if it does not have that form."""
    found = _FORM.match(ref)
    try:
        return None if found is None else _Use(found["path"], version_of(found["version"]), found["task"])
    except BadVersion:
        return None


def _pin(library: Library, task: str) -> dict[str, Any]:
    """Return a task of a playbook as it is pinned, or why there is none."""
    root = load(library.source).root
    entries = {name: entry for name, entry, _ in _entries(root.get("workbook") if root is not None else None)}
    entry = entries.get(task)
    if entry is None:
        has = f"it has: {', '.join(sorted(entries))}" if entries else "it has no workbook"
        return {"problem": f"the playbook has no task {task!r} ({has})"}
    tool = entry.plain()
    if isinstance(tool, dict) and "uses" in tool:
        again = root.get(PINNED) if root is not None else None
        pin = again.get(str(tool["uses"])) if again is not None else None
        if pin is None or pin.get("tool") is None:
            return {"problem": f"the task is itself taken from {tool['uses']}, which was not found"}
        tool = pin.plain()["tool"]
    return {"version": library.version, "digest": library.digest, "tool": tool}


def _parts(text: str) -> tuple[str, dict[str, Any]]:
    """Return the text as its author wrote it, and the pins at its end."""
    head, line, rest = text.rpartition(f"\n{_LINE}")
    if not line or "\n" in rest.rstrip("\n"):
        return text, {}
    try:
        pins = json.loads(rest)
    except ValueError:
        return text, {}
    return (f"{head}\n", pins) if isinstance(pins, dict) else (text, {})


def _with(body: str, pins: Mapping[str, Any]) -> str:
    """Return the text with pins: a line after it, or an entry more where it is one mapping in braces."""
    written = json.dumps(pins, sort_keys=True)
    if body.lstrip().startswith("{"):
        return f"{body.rstrip()[:-1]}, {json.dumps(PINNED)}: {written}}}\n"
    return f"{body}{'' if body.endswith(chr(10)) else chr(10)}{_LINE}{written}\n"


def graft(r: Reader, root: Node) -> None:
    """Replace entries by the tasks pinned for them; report entries without a pinned task (where the reader is
    `lenient`, as a warning: another catalog may have it)."""
    pins = root.get(PINNED)
    for name, entry, put in list(_entries(root.get("workbook"))):
        node = entry.get("uses")
        if node is None:
            continue
        what = f'workbook task "{name}"'
        r.keys(entry, SHARED_TASK.keys | {"name"}, what)
        pin = pins.get(str(node.value)) if pins is not None else None
        tool = pin.get("tool") if pin is not None else None
        if tool is not None and isinstance(tool.value, dict):
            put(_copy(tool, entry.key_at("uses")))
            continue
        problem = pin.get("problem") if pin is not None else None
        severity: Severity | None = None
        if not isinstance(node.value, str) or not _form(node.value):
            message, hint = f"uses of {what} cannot be {str(node.value)[:80]!r}", FORM
        elif problem is not None:
            message, hint = f"{what} uses {node.value}: {str(problem.plain())[:500]}", "name a playbook and a task that exist"
        else:
            message = f"{what} uses {node.value}, which was not found"
            hint = "register that playbook first; when you run a file, the playbook may be another file in the same folder"
            severity = "warning" if r.lenient else None
        r.report("E211", (entry, "uses"), message, hint, severity)
        r.unresolved.add(name)
        put(None)


def _copy(node: Node, at: tuple[int, int]) -> Node:
    """Return a copy of the tree with the position `at` (line and column). Two entries may use the same task, reading rewrites it,
    and
    findings name the place of its use."""
    value = node.value
    if isinstance(value, dict):
        value = {key: _copy(child, at) for key, child in value.items()}
    elif isinstance(value, list):
        value = [_copy(child, at) for child in value]
    made = Node(value, *at, node.path, node.style, node.start)
    made.size, made.keys, made.plain_text = node.size, dict.fromkeys(node.keys, at), node.plain_text
    return made


Put = Callable[[Node | None], None]


def _entries(book: Node | None) -> Iterator[tuple[str, Node, Put]]:
    """Yield the entries of a workbook in any of its forms: their names, their tools, and functions that replace them."""
    value = book.value if book is not None else None
    if isinstance(value, list):
        for item in value:
            name = item.get("name")
            if name is not None and isinstance(name.value, str):
                yield name.value, item.get("tool") or item, _in_list(value, item, name)
        return
    tasks = value.get("tasks") if isinstance(value, dict) else None
    tools = tasks.value if tasks is not None and tasks.get("kind") is None and tasks.get("uses") is None else value
    if isinstance(tools, dict):
        for name, entry in list(tools.items()):
            if not name.startswith("x-"):
                yield name, entry, _in_mapping(tools, name)


def _in_mapping(tools: dict[str, Node], name: str) -> Put:
    def put(tool: Node | None) -> None:
        if tool is None:
            del tools[name]
        else:
            tools[name] = tool

    return put


def _in_list(items: list[Node], item: Node, name: Node) -> Put:
    def put(tool: Node | None) -> None:
        if tool is None:
            items.remove(item)
        else:
            item.value = {"name": name, "tool": tool}

    return put
