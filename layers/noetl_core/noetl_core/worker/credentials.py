"""Which credentials a run may read: a credential may list the paths of the playbooks that may use it (docs/access.md)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from noetl_core.dsl.diagnostics import InvalidPlaybook
from noetl_core.dsl.parse import parse_playbook
from noetl_core.engine.failure_handlers import is_made_of, made_for
from noetl_core.ports import Forbidden, NotFound, PlaybookVersion, ReadsSecrets

Registered = Callable[[str], PlaybookVersion]
"""Returns the registered version with the content of a digest; version 0 means that it is registered nowhere. Raises
`NotFound`."""


@dataclass(slots=True)
class Permitted:
    """Credentials as the playbook with `digest` may read them.

    The check uses the playbook content that the execution pins. Whoever registered that content under its path had the right
    to do so. It does not matter how the execution was started, by whom, or by which parent. A playbook text that only claims
    a path can therefore read nothing that is reserved for that path. What tells a webhook of a failure reads as the registered
    playbook that names the webhook and the credential.
    """

    secrets: ReadsSecrets
    digest: str
    registered: Registered | None
    _version: PlaybookVersion | None = None

    def get(self, name: str) -> Mapping[str, Any]:
        """Return the credential. Raises `NotFound`, `Forbidden`, `Unavailable`."""
        found = self.secrets.get(name)
        paths = found.get("paths")
        if paths is not None and not self._is_for(paths):
            said = ", ".join(map(str, paths)) if isinstance(paths, list) and paths else "no playbook that there is"
            raise Forbidden(f"credential {name!r} is kept for registered playbooks with a path like {said}")
        return found

    def _is_for(self, paths: Any) -> bool:
        if not isinstance(paths, list) or self.registered is None:
            return False
        if self._version is None:
            try:
                self._version = self._behind(self.registered(self.digest))
            except NotFound:
                return False
        version = self._version
        return version.version > 0 and any(isinstance(p, str) and fnmatchcase(version.path, p) for p in paths)

    def _behind(self, version: PlaybookVersion) -> PlaybookVersion:
        """Return the playbook whose failure this one handles, if that is so, else this one. Raises `NotFound`."""
        digest = made_for(version.path, version.source) if version.version == 0 else None
        if digest is None or self.registered is None:
            return version
        failed = self.registered(digest)
        try:
            handler = parse_playbook(failed.source, programs=False).executor.on_failure
        except InvalidPlaybook:
            return version
        return failed if failed.version > 0 and is_made_of(version.source, handler, digest) else version
