"""A cache of parsed playbooks: each digest is parsed once per process."""

from __future__ import annotations

from threading import Lock

from noetl_core.dsl.model import Playbook
from noetl_core.dsl.parse import digest_of, parse_playbook
from noetl_core.ports import PlaybookCatalog


class PlaybookCache:
    """Maps a digest to its parsed playbook. The content of a digest never changes, so it is never read twice,
    not by threads at the same time either."""

    def __init__(self, catalog: PlaybookCatalog) -> None:
        self._catalog = catalog
        self._parsed: dict[str, Playbook] = {}
        self._reading: dict[str, Lock] = {}

    def __call__(self, digest: str) -> Playbook:
        """Return the playbook that `digest` names. Raises `NotFound`."""
        known = self._parsed.get(digest)
        if known is None:
            with self._reading.setdefault(digest, Lock()):
                known = self._parsed.get(digest)
                if known is None:
                    known = self._parsed[digest] = parse_playbook(self._catalog.by_digest(digest).source, programs=False)
            self._reading.pop(digest, None)
        return known

    def parse(self, source: str, name: str = "<playbook>") -> Playbook:
        """Parse the text of a playbook and cache it under its digest. Raises `InvalidPlaybook`."""
        digest = digest_of(source)
        known = self._parsed.get(digest)
        if known is None:
            known = self._parsed[digest] = parse_playbook(source, name)
        return known
