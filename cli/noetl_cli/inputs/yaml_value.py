"""Parses a value in the JSON subset of YAML: keys are unique texts, dates are text."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import yaml


class _Values(yaml.SafeLoader):
    """A YAML loader. PyYAML's own accepts duplicate keys and parses dates as objects."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        known: set[str] = set()
        for key, _ in node.value:
            name = self.construct_object(key)
            if not isinstance(name, str):
                raise yaml.constructor.ConstructorError(None, None, f"the key {key.value} is not text: quote it", key.start_mark)
            if name in known:
                raise yaml.constructor.ConstructorError(None, None, f'"{name}" is written twice', key.start_mark)
            known.add(name)
        return super().construct_mapping(node, deep)


def _as_written(loader: yaml.SafeLoader, node: yaml.ScalarNode) -> Any:
    return loader.construct_scalar(node)


_Values.add_constructor("tag:yaml.org,2002:timestamp", _as_written)


def yaml_value(text: str) -> Any:
    """Return the value of YAML text. Raises `yaml.YAMLError`, and `RecursionError` for one nested too deeply."""
    return yaml.load(text, Loader=_Values)
