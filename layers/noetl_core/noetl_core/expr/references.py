"""Finds and replaces references inside data (resolution 22)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from noetl_core.expr.secret import Secret
from noetl_core.expr.values import SCALARS
from noetl_core.values.result_refs import is_reference

Path = tuple[Any, ...]
"""Keys and indexes that lead to a value."""
Found = list[tuple[Path, dict[str, Any]]]


def references_in(value: Any, owns: Callable[[Mapping[str, Any]], bool] | None = None) -> Found:
    """Yield every reference in `value`, including `value` itself, with its path. Data that only looks like a reference, by
    `owns`, is searched as data.

    The search does not follow references. It opens secrets, because data that was built with a secret may contain anything.
    """
    found: Found = []
    kind = type(value)
    if kind in SCALARS:
        return found
    stack: list[tuple[Path, Any]] = [((), value)]
    while stack:
        path, node = stack.pop()
        kind = type(node)
        if kind is dict:
            if "kind" in node and is_reference(node) and (owns is None or owns(node)):
                found.append((path, node))
                continue
            for key, item in node.items():
                if type(item) not in SCALARS:
                    stack.append(((*path, key), item))
        elif kind is list or kind is tuple:
            for index, item in enumerate(node):
                if type(item) not in SCALARS:
                    stack.append(((*path, index), item))
        elif kind is Secret:
            stack.append((path, node._value))
    found.reverse()  # the order in which they are written
    return found


def replaced(value: Any, new: Iterable[tuple[Path, Any]]) -> Any:
    """Return `value` with other values at some paths. Mappings and lists on these paths are copied, the rest is shared."""
    below: dict[Any, list[tuple[Path, Any]]] = {}
    for path, item in new:
        if not path:
            return Secret(item, [value]) if isinstance(value, Secret) else item
        below.setdefault(path[0], []).append((path[1:], item))
    if isinstance(value, Secret):
        return Secret(_replaced(value._value, below), [value])
    return _replaced(value, below) if below else value


def _replaced(value: Any, below: Mapping[Any, list[tuple[Path, Any]]]) -> Any:
    copy = dict(value) if isinstance(value, dict) else list(value)
    for key, items in below.items():
        copy[key] = replaced(value[key], items)
    return copy


def path_text(path: Path) -> str:
    """Return a path as an author writes it: `args.rows[0]`."""
    out = ""
    for key in path:
        out += f"[{key}]" if isinstance(key, int) else f".{key}" if out else str(key)
    return out
