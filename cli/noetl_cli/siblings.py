"""Playbooks that lie beside the one that is run: what it calls is found there, and put into the local catalog."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from noetl_cli import files
from noetl_cli.errors import USAGE, Exit, say

if TYPE_CHECKING:
    from noetl_cli.backends import Backend
    from noetl_core.dsl.model import Playbook


def register_called(where: Backend, playbook: Playbook, file: Path, *, quiet: bool) -> None:
    """Register what `playbook`, read from `file`, calls - and what that calls - as the files in the same folder have it now. What
    is in no file there is left to the catalog, and named when that lacks it too. Raises `Exit(2)`, `InvalidPlaybook`.
    """
    known = {playbook.path: file}
    wanted = list(_called(playbook))
    while wanted:
        path = wanted.pop()
        if path in known:
            continue
        beside = _beside(path, file)
        if beside is None:
            _in_catalog(where, path, file)
            continue
        known[path] = beside
        source = files.read(beside)
        wanted += _called(files.check(source, beside))
        _register(where, path, source, beside, quiet)


def _register(where: Backend, path: str, source: str, file: Path, quiet: bool) -> None:
    before = _version(where, path)
    now = where.api.register(source)
    if not quiet and before != now["version"]:
        say(f"{path} version {now['version']}, from {file}")


def _in_catalog(where: Backend, path: str, file: Path) -> None:
    if _version(where, path) is None:
        remedy = "`noetl register FILE --on local` puts it into the local catalog"
        say(f"note: playbook {path} is called, but is neither in the catalog nor in a file beside {file.name}: {remedy}")


def _version(where: Backend, path: str) -> int | None:
    """The latest version in the catalog; None: there is none."""
    found = where.api.playbooks(path)["playbooks"]
    return next((each["version"] for each in found if each["path"] == path), None)


def _called(playbook: Playbook) -> Iterator[str]:
    """The paths that tasks name as they are: what a template makes of one is not known yet."""
    tasks = [t for step in playbook.steps for t in (*step.tasks, *step.compensate)] + list(playbook.workbook.values())
    for task in tasks:
        path = task.inputs.get("path") if task.kind == "playbook" else None
        if isinstance(path, str) and "{" not in path:
            yield path


def _beside(path: str, file: Path) -> Path | None:
    """The file in the same folder whose `metadata.path` is `path`."""
    found = [f for f in sorted(file.parent.glob("*.y*ml")) if f.suffix in (".yaml", ".yml") and _path_of(f, path) == path]
    if len(found) > 1:
        raise Exit(USAGE, f"playbook {path} is called, and {' and '.join(map(str, found))} both say they are it")
    return found[0] if found else None


def _path_of(file: Path, wanted: str) -> str | None:
    """The `metadata.path` of a file that may be any YAML, or none."""
    import yaml

    try:
        text = file.read_text("utf-8")
        if wanted not in text or not re.search(r"^kind:\s*[\"']?Playbook\b", text, re.MULTILINE):
            return None
        document = yaml.safe_load(text)
        return str(document["metadata"]["path"])
    except (OSError, ValueError, yaml.YAMLError, TypeError, KeyError):
        return None
