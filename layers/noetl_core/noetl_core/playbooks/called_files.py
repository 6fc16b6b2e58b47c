"""Finds playbooks that call each other as files of one folder."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import yaml

from noetl_core.dsl.fields.playbook import PLAYBOOK_PATH
from noetl_core.dsl.model import Playbook
from noetl_core.dsl.parse import digest_of, parse_playbook
from noetl_core.dsl.reading.diagnostics import InvalidPlaybook
from noetl_core.dsl.reading.load import Node, load
from noetl_core.dsl.sections.workbook_uses import Library, pinned
from noetl_core.dsl.versions import Version

SUFFIXES = (".yaml", ".yml")
_FILE = re.compile(r"(?:\./)?[\w][\w.-]*\.ya?ml\Z", re.ASCII)
_A_PLAYBOOK = re.compile(r"^kind:\s*[\"']?Playbook\b", re.MULTILINE)


class SamePath(ValueError):
    """Two files of a folder have the path of the called playbook. Who acts: the author."""


def called(playbook: Playbook) -> Iterator[str]:
    """Yield the literal paths of called playbooks; values of templates are not known yet."""
    if playbook.executor.on_failure is not None and playbook.executor.on_failure.playbook is not None:
        yield playbook.executor.on_failure.playbook.partition("@")[0].lstrip("/")
    for task in playbook.all_tasks:
        path = task.inputs.get("path") if task.kind == "playbook" else None
        if isinstance(path, str) and "{" not in path:
            yield path.partition("@")[0].lstrip("/")


def with_paths(text: str, file: Path) -> str:
    """Return the text of a playbook with the paths of the playbooks that it calls by the names of files in the folder of `file`.

    Other names stay, and validation reports them.
    """
    if not any(suffix in text for suffix in SUFFIXES):  # most texts name no file
        return text
    root = load(text).root
    for node in sorted(_file_nodes(root), key=lambda each: each.start, reverse=True) if root is not None else ():
        path = _path_of(file.parent / node.value, "")
        at = node.start + (1 if node.style else 0)
        if path is not None and PLAYBOOK_PATH.match(path) and text.startswith(node.value, at):
            text = f"{text[:at]}{path}{text[at + len(node.value) :]}"
    return text


def _file_nodes(node: Node) -> Iterator[Node]:
    """Yield the paths of called playbooks below `node` that are names of files."""
    if isinstance(node.value, list):
        for child in node.value:
            yield from _file_nodes(child)
    elif isinstance(node.value, dict):
        kind, path = node.get("kind"), node.get("path")
        if kind is not None and kind.value == "playbook" and path is not None:
            if isinstance(path.value, str) and _FILE.match(path.value):
                yield path
            return
        for child in node.value.values():
            yield from _file_nodes(child)


def beside(path: str, file: Path) -> Path | None:
    """Return the file in the folder of `file` whose `metadata.path` is `path`. Raises `SamePath`."""
    found = [f for f in sorted(file.parent.glob("*.y*ml")) if f.suffix in SUFFIXES and _path_of(f, path) == path]
    if len(found) > 1:
        raise SamePath(f"playbook {path} is called, and {' and '.join(map(str, found))} both have this path")
    return found[0] if found else None


def has_path(file: Path, path: str) -> bool:
    """Return whether the `metadata.path` of a file is `path`."""
    return _path_of(file, path) == path


def reader(file: Path) -> Callable[[str, Version], Playbook | None]:
    """Return a function that finds the playbooks which the playbook in `file` calls: in its folder, if no version is named.

    A file that is not a valid playbook counts as unknown.
    """

    def found(path: str, version: Version) -> Playbook | None:
        try:
            other = beside(path, file) if version is None else None
            return (
                None
                if other is None
                else parse_playbook(with_libraries(with_paths(other.read_text("utf-8"), other), other), str(other), lenient=True)
            )
        except (SamePath, InvalidPlaybook, OSError, ValueError):
            return None

    return cache(found)


def with_libraries(text: str, file: Path, above: frozenset[Path] = frozenset()) -> str:
    """Return the text of a playbook with the shared tasks of playbooks in the folder of `file` pinned to the content of the
    files. Raises `SamePath`."""

    def library(path: str, _version: Version) -> Library | None:
        found = beside(path, file)
        if found is None or found in above:
            return None
        source = with_libraries(found.read_text("utf-8"), found, above | {found})
        return Library(0, digest_of(source), source)

    return pinned(text, library)


def is_playbook(file: Path) -> bool:
    """Return whether a file contains `kind: Playbook`."""
    try:
        return _A_PLAYBOOK.search(file.read_text("utf-8")) is not None
    except (OSError, ValueError):
        return False


def _path_of(file: Path, substring: str) -> str | None:
    """Return the `metadata.path` of a file; None if the file is not a playbook or not YAML."""
    try:
        text = file.read_text("utf-8")
        if substring not in text or not _A_PLAYBOOK.search(text):
            return None
        document = yaml.safe_load(text)
        return str(document["metadata"]["path"]).lstrip("/")
    except (OSError, ValueError, yaml.YAMLError, TypeError, KeyError):
        return None
