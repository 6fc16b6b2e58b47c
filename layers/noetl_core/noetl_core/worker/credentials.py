"""Which credentials a run may read: a credential may name the paths of the playbooks that it is for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from noetl_core.ports import Forbidden, NotFound, PlaybookVersion, ReadsSecrets

Registered = Callable[[str], PlaybookVersion]
"""The registered version that holds a digest's content; version 0: it is registered nowhere. Raises `NotFound`."""


@dataclass(frozen=True, slots=True)
class Permitted:
    """Credentials, as the playbook of `digest` may read them.

    What counts is the content that the execution pins: whoever registered it under its path had the right to. How the execution
    was started, by whom, and by which parent, does not matter. So a text that claims a path reads nothing kept for it.
    """

    secrets: ReadsSecrets
    digest: str
    registered: Registered | None

    def get(self, name: str) -> Mapping[str, Any]:
        """The credential. Raises `NotFound`, `Forbidden`, `Unavailable`."""
        found = self.secrets.get(name)
        paths = found.get("paths")
        if paths is not None and not self._is_for(paths):
            said = ", ".join(map(str, paths)) if isinstance(paths, list) and paths else "no playbook that there is"
            raise Forbidden(f"credential {name!r} is kept for registered playbooks with a path like {said}")
        return found

    def _is_for(self, paths: Any) -> bool:
        if not isinstance(paths, list) or self.registered is None:
            return False
        try:
            version = self.registered(self.digest)
        except NotFound:
            return False
        return version.version > 0 and any(isinstance(p, str) and fnmatchcase(version.path, p) for p in paths)
