"""Finds the playbooks that `kind: playbook` calls, where they are written literally: `path`, `path@3`, `path@prod`, and
`version`."""

from __future__ import annotations

from collections.abc import Mapping

from noetl_core.dsl.fields.playbook import PLAYBOOK_PATH, mixed_word
from noetl_core.dsl.reading.load import Node
from noetl_core.dsl.reading.reader import Reader
from noetl_core.dsl.versions import BadVersion, Version, split_version, version_of
from noetl_core.expr import is_template


def check_called(r: Reader, entries: Mapping[str, Node], what: str) -> None:
    """Report a path or a version that no playbook can have. Templates are checked when the task runs."""
    path_node, version_node = entries.get("path"), entries.get("version")
    path_version: Version = None
    if path_node is not None and isinstance(path_node.value, str) and path_node.value and not is_template(path_node.value):
        try:
            path, path_version = split_version(path_node.value.lstrip("/"))
        except BadVersion as error:
            r.report("E115", path_node, f"path of {what}: {error}")
        else:
            if not PLAYBOOK_PATH.match(path):
                r.report(
                    "E115",
                    path_node,
                    f'path of {what}: "{path[:60]}" is not the path of a playbook',
                    "a playbook is called by the path in its metadata, or by its file in the same folder"
                    if path.endswith((".yaml", ".yml"))
                    else "names separated by /, like team/flow",
                )
            elif (word := mixed_word(path)) is not None:
                r.report(
                    "E115",
                    path_node,
                    f"path of {what} mixes alphabets in the word {ascii(word)[:60]}",
                    "use letters of one alphabet",
                )
    if version_node is None or is_template(version_node.value):
        return
    try:
        version = version_of(version_node.plain())
    except BadVersion as error:
        r.report("E115", version_node, f"version of {what}: {error}")
        return
    if path_version is not None and version is not None:
        message = f"path of {what} names version {path_version}, and the key version is {version}"
        r.report("E114", version_node, message, "leave one out")
