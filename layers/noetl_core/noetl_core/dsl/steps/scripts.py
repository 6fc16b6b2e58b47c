"""Reads `script: {uri, source}`: program text and SQL in a separate file.

A file beside the playbook becomes part of the registered text: its reader (`noetl_core.playbooks.script_files`) writes its text
below `x-scripts`, and the model holds it as if it had been written in place. A text from HTTP or S3 stays an address, which the
worker reads when the task runs.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from noetl_core.dsl.fields.tools import SCRIPT
from noetl_core.dsl.kinds import KINDS
from noetl_core.dsl.reading.load import Node, load
from noetl_core.dsl.reading.reader import Reader
from noetl_core.expr import TemplateError, is_template

HELD: Final = "x-scripts"
"""The key of the root that holds the texts, by `uri`."""
SOURCES: Final = ("file", "s3", "http")
_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
_HERE: Final = ("file", "local", "filesystem")
"""Words for a file beside the playbook."""
_SOURCE_OF: Final = {"s3": "s3", "http": "http", "https": "http", "file": "file"}


def read_script(r: Reader, node: Node, kind: str, what: str) -> tuple[str, Any] | None:
    """Return the input that a script fills with its text, or `script` with the address for the worker; None when it is
    reported."""
    place = f"script of {what}"
    nodes = {"uri": node} if isinstance(node.value, str) else r.read(node, SCRIPT, what).nodes
    twice = [key for key in nodes if key in SCRIPT.by_name and SCRIPT[key].same_as in nodes]
    for key in twice:
        r.report("E114", (node, key), f"{place} has {SCRIPT[key].same_as} and {key}", f"keep {SCRIPT[key].same_as}")
    if "uri" not in nodes:
        r.missing(node, "uri", f"{place} has no uri", "uri: where the text is")
        return None
    uri = r.text(nodes["uri"], f"uri of {place}")
    if uri is None:
        return None
    fixed = of_defaults(r.loaded.root, uri)
    source = _source(r, nodes, fixed, place)
    if source is None:
        return None
    if source != "file":
        return "script", {"uri": uri, "source": source, **{k: v.plain() for k, v in nodes.items() if k not in ("uri", "source")}}
    uri = fixed
    if is_template(uri):
        r.report(
            "E112",
            nodes["uri"],
            f"uri of {place} must be known when the playbook is registered",
            "write the path; a template may read defaults of the workload that are text",
        )
        return None
    text = _held(r, uri)
    if text is None:
        hint = "it is looked for beside the playbook, and in the current folder, by noetl validate, run and register"
        r.report("E130", nodes["uri"], f'{place} needs the file "{uri}", which is not there', hint)
        return None
    filled = KINDS[kind].script
    if filled not in KINDS[kind].raw and is_template(text) and text not in r.reads:
        try:
            r.compile(text)
        except TemplateError as error:
            r.report("E301", nodes["uri"], f'template in "{uri}": {error.message}')
    return filled, text


def _source(r: Reader, nodes: Mapping[str, Node], uri: str, place: str) -> str | None:
    node = nodes.get("source")
    found = _SCHEME.match(uri)
    if node is not None:
        choice: str | None = r.choice(node, SOURCES, f"source of {place}")
        return choice
    source = _SOURCE_OF.get(found[1].lower()) if found is not None else "file"
    if source is None:
        r.report(
            "E113",
            nodes["uri"],
            f'{place} cannot be read from "{uri[:80]}"',
            "a file beside the playbook, s3://, http:// or https://",
        )
    return source


_OF_WORKLOAD: Final = re.compile(r"\{\{\s*(?:workload((?:\.\w+)+)|(\w+))\s*\}\}")


def of_defaults(root: Node | None, uri: str) -> str:
    """Return a uri whose templates are replaced by the workload's defaults: the text of a script is registered with the playbook,
    so no payload changes it."""
    if "{{" not in uri or root is None:
        return uri

    def text(found: re.Match[str]) -> str:
        node = root.get("workload")
        for key in (found[1] or f".{found[2]}")[1:].split("."):
            node = node.get(key) if node is not None else None
        return node.value if node is not None and isinstance(node.value, str) and not is_template(node.value) else found[0]

    return _OF_WORKLOAD.sub(text, uri)


def _held(r: Reader, uri: str) -> str | None:
    held = r.loaded.root.get(HELD) if r.loaded.root is not None else None
    text = held.get(uri) if held is not None else None
    return text.value if text is not None and isinstance(text.value, str) else None


def text_of(root: Node, script: Node) -> tuple[str, str] | None:
    """Return the file that a script names, and the text that the playbook holds of it; None for any other script."""
    uri = next(_file(root, script), None)
    held = root.get(HELD)
    text = held.get(uri) if held is not None and uri is not None else None
    return None if uri is None or text is None or not isinstance(text.value, str) else (uri, text.value)


# --- files --------------------------------------------------------------------------------------------------------------


def files_of(text: str) -> Iterator[str]:
    """Yield the files that the scripts of a playbook name, except those whose text the playbook already contains."""
    if "script" not in text:
        return
    root = load(text).root
    if root is None or not isinstance(root.value, dict):
        return
    held = root.get(HELD)
    seen = set(held.value) if held is not None and isinstance(held.value, dict) else set()
    for uri in _script_files(root):
        if uri not in seen:
            seen.add(uri)
            yield uri


def _script_files(root: Node) -> Iterator[str]:
    stack = [child for key in ("workflow", "workbook") if (child := root.get(key)) is not None]
    while stack:
        node = stack.pop()
        if isinstance(node.value, list):
            stack += node.value
        elif isinstance(node.value, dict):
            script = node.value.get("script")
            if script is not None:
                yield from _file(root, script)
            stack += node.value.values()


def _file(root: Node, script: Node) -> Iterator[str]:
    value = script.plain()
    fields = value if isinstance(value, dict) else {"uri": value}
    uri, source = next((fields[k] for k in ("uri", "path", "file") if k in fields), None), fields.get("source")
    source = source.get("type") if isinstance(source, dict) else source
    uri = of_defaults(root, uri) if isinstance(uri, str) and source in (None, *_HERE) else uri
    if not isinstance(uri, str) or is_template(uri) or source not in (None, *_HERE):
        return
    if source in _HERE or _SCHEME.match(uri) is None or uri.startswith("file://"):
        yield uri


def holding(text: str, contents: Mapping[str, str]) -> str:
    """Return a playbook that holds the texts of its scripts."""
    if not contents:
        return text
    if text.lstrip()[:1] == "{":
        whole = json.loads(text)
        return json.dumps({**whole, HELD: {**whole.get(HELD, {}), **contents}}, ensure_ascii=False, indent=2) + "\n"
    root = load(text).root
    held = root.get(HELD) if root is not None else None
    if held is not None and isinstance(held.value, dict):
        return text  # a caller that supplies some of the texts supplies all of them
    lines = "".join(f"  {json.dumps(uri)}: {json.dumps(content)}\n" for uri, content in contents.items())
    return text + ("" if text.endswith("\n") else "\n") + f"{HELD}:\n{lines}"
