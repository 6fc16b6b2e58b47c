"""What places in a playbook are called: the file of this folder that has its text, or its path in the catalog."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any


class Sources:
    """Names of playbooks by their path and digest. `file` is the one that the command was given."""

    def __init__(self, file: Path | None = None) -> None:
        self._file = file
        self._known: dict[str, str] = {}

    def name(self, path: str, digest: str | None = None, version: int = 0) -> str:
        """Return a file's name where its text is that of the digest (None: whatever text it has), else the path."""
        if path not in self._known:
            from noetl_core.siblings import SamePath, beside  # 60 ms: only who shows places

            try:
                found = self._file or beside(path, Path("playbook.yaml"))
            except SamePath:
                found = None
            named = f"{path}@{version}" if version else path
            self._known[path] = str(found) if found is not None and _is(found, digest) else named
        return self._known[path]

    def place(self, playbook: str, part: Mapping[str, Any]) -> str:
        """Return `file:line:column`, as far as the part has them."""
        return ":".join([playbook, *(str(part[key]) for key in ("line", "column") if key in part)])


def _is(file: Path, digest: str | None) -> bool:
    """Return whether a file has the text of a digest."""
    if digest is None:
        return True
    # 60 ms, as above.
    from noetl_cli import files
    from noetl_cli.errors import Exit
    from noetl_core.dsl.parse import digest_of

    try:
        source = files.playbook(file)
        return digest in (digest_of(source), digest_of(files.with_libraries(source, file)))
    except (Exit, ValueError):  # it does not read: then it is not that text
        return False
