"""Caches parsed playbooks: each digest is parsed once per process."""

from __future__ import annotations

from threading import Lock

from noetl_core.dsl.model import Playbook
from noetl_core.dsl.parse import digest_of, parse_playbook
from noetl_core.dsl.sections.workbook_uses import Library, pinned
from noetl_core.dsl.versions import Version
from noetl_core.ports import NotFound, PlaybookCatalog


class PlaybookCache:
    """Maps a digest to its parsed playbook. The content of a digest never changes, so it is read once, even by concurrent
    threads."""

    def __init__(self, catalog: PlaybookCatalog) -> None:
        self._catalog = catalog
        self.parsed: dict[str, Playbook] = {}
        """Playbooks by digest. Caches of one process may share it."""
        self._reading: dict[str, Lock] = {}

    def __call__(self, digest: str) -> Playbook:
        """Return the playbook that `digest` names. Raises `NotFound`."""
        known = self.parsed.get(digest)
        if known is None:
            with self._reading.setdefault(digest, Lock()):
                known = self.parsed.get(digest)
                if known is None:
                    known = self.parsed[digest] = parse_playbook(self._catalog.by_digest(digest).source, programs=False)
            self._reading.pop(digest, None)
        return known

    def pinned(self, source: str) -> str:
        """Return the text of a playbook with its shared tasks pinned to their current versions in the catalog."""
        return pinned(source, self._library)

    def called(self, path: str, version: Version) -> Playbook | None:
        """Return a registered playbook; None if there is none, or the alias refers to several versions."""
        found = self._library(path, version)
        return None if found is None else self(found.digest)

    def _library(self, path: str, version: Version) -> Library | None:
        if isinstance(version, str):
            split = self._catalog.about(path).aliases.get(version, {})
            if len(split) != 1:  # a weighted alias does not determine which version to pin
                return None
            (version,) = split
        try:
            found = self._catalog.get(path, version)
        except NotFound:
            return None
        return Library(found.version, found.digest, found.source)

    def keep(self, playbook: Playbook) -> None:
        """Cache a playbook that was parsed elsewhere, with its programs. Its text uses no tasks of other playbooks."""
        self.parsed.setdefault(playbook.digest, playbook)

    def parse(self, source: str, name: str = "<playbook>") -> Playbook:
        """Parse the text of a playbook, pinned, and cache it under its digest. Raises `InvalidPlaybook`."""
        return self.parse_pinned(self.pinned(source), name)

    def parse_pinned(self, source: str, name: str = "<playbook>") -> Playbook:
        """Like `parse`, for a text that is pinned already."""
        digest = digest_of(source)
        known = self.parsed.get(digest)
        if known is None:
            known = self.parsed[digest] = parse_playbook(source, name)
        return known
