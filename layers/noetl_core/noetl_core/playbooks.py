"""Playbooks parsed once per digest and process."""

from __future__ import annotations

from noetl_core.dsl.model import Playbook
from noetl_core.dsl.parse import digest_of, parse_playbook
from noetl_core.ports import PlaybookCatalog


class PlaybookCache:
    """Digest -> parsed playbook. What a digest names never changes, so it is never looked up twice."""

    def __init__(self, catalog: PlaybookCatalog) -> None:
        self._catalog = catalog
        self._parsed: dict[str, Playbook] = {}

    def __call__(self, digest: str) -> Playbook:
        """The playbook pinned by `digest`. Raises `NotFound`."""
        known = self._parsed.get(digest)
        if known is None:
            known = self._parsed[digest] = parse_playbook(self._catalog.by_digest(digest).source)
        return known

    def parse(self, source: str, name: str = "<playbook>") -> Playbook:
        """The playbook of a text, kept under its digest. Raises `InvalidPlaybook`."""
        digest = digest_of(source)
        known = self._parsed.get(digest)
        if known is None:
            known = self._parsed[digest] = parse_playbook(source, name)
        return known
