"""Merging of mappings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def deep_merge(under: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Return `under` updated with `over`: mappings merge key by key, at every depth; everything else, including lists, is
    replaced."""
    out = dict(under)
    for key, value in over.items():
        mine = out.get(key)
        out[key] = deep_merge(mine, value) if isinstance(mine, Mapping) and isinstance(value, Mapping) else value
    return out
