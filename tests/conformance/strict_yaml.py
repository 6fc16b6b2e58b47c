"""YAML in which a key that stands twice is an error."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml


class _Loader(yaml.CSafeLoader):
    """Refuses duplicate keys."""


def _mapping(loader: _Loader, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
    seen: set[Any] = set()
    for key, _ in node.value:
        if key.value in seen:
            raise yaml.constructor.ConstructorError(None, None, f"{key.value} stands twice", key.start_mark)
        seen.add(key.value)
    loader.flatten_mapping(node)
    return dict(loader.construct_pairs(node, deep=True))


_Loader.add_constructor("tag:yaml.org,2002:map", _mapping)


def loads(text: str) -> Any:
    """The document in a text, of plain mappings whatever other libraries have taught `yaml.SafeLoader`."""
    return yaml.load(text, _Loader)


def load(path: Path) -> list[Any]:
    """The documents of a file."""
    return [d for d in yaml.load_all(path.read_text(), _Loader) if d is not None]
