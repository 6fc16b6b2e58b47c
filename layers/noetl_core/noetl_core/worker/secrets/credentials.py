"""Decides which credentials a run may read: a credential may list the paths of the playbooks that may use it (docs/access.md)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from noetl_core.dsl.parse import parse_playbook
from noetl_core.dsl.reading.diagnostics import InvalidPlaybook
from noetl_core.dsl.sources import CREDENTIALS
from noetl_core.engine.failure_handlers import is_made_of, made_for
from noetl_core.ports import Forbidden, NotFound, PlaybookVersion, ReadsSecrets

Registered = Callable[[str], PlaybookVersion]
"""Returns the version that is registered with a content digest; version 0 means that none is. Raises `NotFound`."""


@dataclass(slots=True)
class PermittedCredentials:
    """The credentials that the playbook with `digest` may read.

    The check uses the playbook content that the execution pins: registering that content under its path required the right to
    do so. The starter and the parent of the execution do not matter. A playbook text that merely claims a path
    can therefore read nothing that is reserved for the path. The generated playbook that calls a webhook after a failure has
    the permissions of the registered playbook that names the webhook and the credential.
    """

    secrets: ReadsSecrets
    digest: str
    registered: Registered | None
    paths_required: bool = False
    """A credential without paths is for no playbook: on a stack."""
    _version: PlaybookVersion | None = None

    def get(self, name: str) -> Mapping[str, Any]:
        """Return the credential. Raises `NotFound`, `Forbidden`, `Unavailable`."""
        if name.startswith(CREDENTIALS):
            raise Forbidden(
                f"credential {name!r} signs webhooks (its name begins with {CREDENTIALS}): no playbook reads it, because it could"
                " forge their requests; keep the same value under another name if a task needs it"
            )
        found = self.secrets.get(name)
        paths = found.get("paths")
        if paths is None and self.paths_required:
            raise Forbidden(
                f"credential {name!r} does not name the playbooks that may use it: store it again with --paths PATTERN, or"
                f" --paths '*' for every registered playbook (noetl credentials put {name} --data @FILE --paths ... --on stack)"
            )
        if paths is not None and not self._may_use(paths):
            patterns = ", ".join(map(str, paths)) if isinstance(paths, list) and paths else "(none: set --paths)"
            raise Forbidden(f"credential {name!r} is kept for registered playbooks with a path like {patterns}")
        return found

    def _may_use(self, paths: Any) -> bool:
        if not isinstance(paths, list) or self.registered is None:
            return False
        if self._version is None:
            try:
                self._version = self._acting_version(self.registered(self.digest))
            except NotFound:
                return False
        version = self._version
        return version.version > 0 and any(isinstance(p, str) and fnmatchcase(version.path, p) for p in paths)

    def _acting_version(self, version: PlaybookVersion) -> PlaybookVersion:
        """Return the playbook version whose permissions apply: for a generated failure handler that of the failed playbook,
        otherwise `version`. Raises `NotFound`."""
        digest = made_for(version.path, version.source) if version.version == 0 else None
        if digest is None or self.registered is None:
            return version
        failed = self.registered(digest)
        try:
            handler = parse_playbook(failed.source, programs=False).executor.on_failure
        except InvalidPlaybook:
            return version
        return failed if failed.version > 0 and is_made_of(version.source, handler, digest) else version
