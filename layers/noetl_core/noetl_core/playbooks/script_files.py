"""Includes the text of script files in a playbook, so that the registered or executed text is complete."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from noetl_core.dsl.steps.scripts import files_of, holding

MAX_BYTES: Final = 1024 * 1024
"""Maximum size of a script in bytes, because it becomes part of the playbook."""


class UnreadableScript(ValueError):
    """The file of a script cannot be used. Who acts: the author."""


def with_scripts(text: str, folder: Path) -> str:
    """Return the playbook with the texts of its script files, which are searched below `folder`, then below the current folder.

    Validation reports missing files with their positions. Raises `UnreadableScript`.
    """
    found = {}
    for uri in files_of(text):
        file = _find(uri.removeprefix("file://"), folder)
        if file is not None:
            found[uri] = _read(file, uri)
    return holding(text, found)


def _find(path: str, folder: Path) -> Path | None:
    """Return the file if it is below one of the two folders and not hidden. A playbook may read no other files of the machine,
    and hidden files in a home folder may be keys."""
    for base in (folder, Path.cwd()):
        base = base.resolve()
        try:
            file = (base / path).resolve()
            if file.is_relative_to(base) and not _hidden(file.relative_to(base)) and file.is_file():
                return file
        except (OSError, ValueError):  # an invalid file name: too long, or with a null character
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
