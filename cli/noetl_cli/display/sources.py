"""Names places in playbooks by the file in this folder that has the text, or by the path in the catalog."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any


class Sources:
    """Names playbooks by their path and digest. `file` is the argument of the command."""

    def __init__(self, file: Path | None = None) -> None:
        self._file = file
        self._known: dict[str, str] = {}

    def name(self, path: str, digest: str | None = None, version: int = 0) -> str:
        """Return the name of a file with the text of the digest (None: with any text), otherwise the path."""
        if path not in self._known:
            found = self.file_of(path)
            named = f"{path}@{version}" if version else path
            self._known[path] = str(found) if found is not None and _is(found, digest) else named
        return self._known[path]

    def file_of(self, path: str) -> Path | None:
        """Return the file of a playbook: the argument itself, or one in its folder, such as that of a child."""
        from noetl_core.playbooks.called_files import SamePath, beside, has_path  # 60 ms: needed only to show places

        if self._file is not None and has_path(self._file, path):
            return self._file
        try:
            return beside(path, self._file or Path("playbook.yaml"))
        except SamePath:
            return None

    def place(self, playbook: str, part: Mapping[str, Any]) -> str:
        """Return `file:line:column`, as far as known."""
        return ":".join([playbook, *(str(part[key]) for key in ("line", "column") if key in part)])


def _is(file: Path, digest: str | None) -> bool:
    """Return whether a file has the text of a digest."""
    if digest is None:
        return True
    # 60 ms, as above.
    from noetl_cli.errors import Exit
    from noetl_cli.inputs import files
    from noetl_core.dsl.parse import digest_of

    try:
        source = files.playbook(file)
        return digest in (digest_of(source), digest_of(files.with_libraries(source, file)))
    except (Exit, ValueError):  # an unreadable file does not have that text
        return False
