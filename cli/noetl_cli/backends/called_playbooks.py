"""Registers the playbooks that a playbook calls from files in its folder."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from noetl_cli.errors import USAGE, Exit, say
from noetl_cli.inputs import files
from noetl_core.playbooks.called_files import SamePath, beside, called

if TYPE_CHECKING:
    from noetl_cli.backends.backend import Backend
    from noetl_core.dsl.model import Playbook


def register_called(where: Backend, playbook: Playbook, file: Path, *, quiet: bool) -> None:
    """Register the playbooks that `playbook`, read from `file`, calls directly and indirectly, from files in the same folder.
    Others must be in the catalog, and are named if they are missing there too. Raises `Exit(2)`, `InvalidPlaybook`."""
    known = {playbook.path: file}
    wanted = list(called(playbook))
    while wanted:
        path = wanted.pop()
        if path in known:
            continue
        try:
            found = beside(path, file)
        except SamePath as error:
            raise Exit(USAGE, str(error)) from None
        if found is None:
            _in_catalog(where, path, file)
            continue
        known[path] = found
        source = files.playbook(found)
        wanted += called(files.check(source, found))
        _register(where, path, source, found, quiet)


def _register(where: Backend, path: str, source: str, file: Path, quiet: bool) -> None:
    before = _version(where, path)
    now = where.api.register(source)
    if not quiet and before != now["version"]:
        files.checked(source, file)
        say(f"{path} version {now['version']}, from {file}")


def _in_catalog(where: Backend, path: str, file: Path) -> None:
    if _version(where, path) is None:
        remedy = "`noetl register FILE --on local` puts it into the local catalog"
        say(f"note: playbook {path} is called, but is neither in the catalog nor in a file beside {file.name}: {remedy}")


def _version(where: Backend, path: str) -> int | None:
    """Return the latest version in the catalog; None if there is none."""
    found = where.api.playbooks(path)["playbooks"]
    return next((each["version"] for each in found if each["path"] == path), None)
