"""Credentials that a test gives."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from noetl_core.ports import NotFound, ReadsSecrets


class Held(ReadsSecrets):
    """`held` by their names."""

    def __init__(self, held: Mapping[str, Mapping[str, Any]]) -> None:
        self._held = held

    def get(self, name: str) -> Mapping[str, Any]:
        if name not in self._held:
            raise NotFound(f"there is no credential {name!r}")
        return self._held[name]
