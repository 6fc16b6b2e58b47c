"""Reads the files that the scripts of a playbook name, and puts their text into it: what is registered or run is whole."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from noetl_core.dsl.scripts import files_of, holding

MAX_BYTES: Final = 1024 * 1024
"""The longest script: it becomes a part of the playbook."""


class UnreadableScript(ValueError):
    """A file that a script names cannot be a script. Who acts: the author."""


def with_scripts(text: str, folder: Path) -> str:
    """Return the playbook with the texts of its script files, which are looked for below `folder`, then below the current one.

    A file that is not there is left to validation, which names its place. Raises `UnreadableScript`.
    """
    found = {}
    for uri in files_of(text):
        file = _find(uri.removeprefix("file://"), folder)
        if file is not None:
            found[uri] = _read(file, uri)
    return holding(text, found)


def _find(path: str, folder: Path) -> Path | None:
    """Return the file, if it lies below one of the two folders and is not hidden: a playbook takes nothing else of the machine,
    and where the current folder is a home, what is hidden there are keys."""
    for base in (folder, Path.cwd()):
        base = base.resolve()
        try:
            file = (base / path).resolve()
            if file.is_relative_to(base) and not _hidden(file.relative_to(base)) and file.is_file():
                return file
        except (OSError, ValueError):  # what can be no name of a file: too long, or with a null character
            continue
    return None


def _hidden(path: Path) -> bool:
    return any(part.startswith(".") for part in path.parts)


def _read(file: Path, uri: str) -> str:
    if file.stat().st_size > MAX_BYTES:
        raise UnreadableScript(f'script "{uri}" is larger than {MAX_BYTES // 1024} KB')
    try:
        return file.read_text("utf-8")
    except UnicodeDecodeError:
        raise UnreadableScript(f'script "{uri}" is not text in UTF-8') from None
    except OSError as error:
        raise UnreadableScript(f'script "{uri}": {error.strerror}') from None
