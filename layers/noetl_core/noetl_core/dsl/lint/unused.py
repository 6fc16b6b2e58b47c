"""Workload keys and credentials that nothing reads (W516, W522)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from noetl_core.dsl.keychain_uses import entries_used
from noetl_core.dsl.lint.context import Lint
from noetl_core.dsl.lint.programs import keys_read
from noetl_core.dsl.reading.load import Node
from noetl_core.expr import METHODS


def unused(lint: Lint, known: frozenset[str], suggest: Callable[[str, frozenset[str]], str]) -> None:
    """Report W516 for every workload key that nothing reads. `known` are the names that the workload may have, `suggest` finds a
    similar one among others."""
    workload = lint.root.get("workload")
    if workload is None or not isinstance(workload.value, dict):
        return
    read: set[str] = set()
    for reads in lint.r.reads.values():
        for found in reads:
            if found.path == ("workload",) or (found.path[0] == "workload" and found.path[1] in METHODS):
                return  # the whole value is used
            read.add(found.path[1] if found.path[0] == "workload" else found.path[0])
    for code in lint.r.program_reads:
        keys = keys_read(code)
        if keys is None:
            return  # a program may read any of them
        read |= keys
    for key, node in workload.value.items():
        if key not in read and not key.startswith("x-") and not _shared(node):
            message = f"nothing reads workload.{key}"
            near = suggest(key, frozenset(name for name in read if name not in known))
            hint = f"templates read a similar name: {near}" if near else "remove it, or read it"
            lint.report("W516", (workload, key), message, hint)


def _shared(node: Node) -> bool:
    """Return whether an alias names the value, or a part of it."""
    if node.shared:
        return True
    children: Any = node.value.values() if isinstance(node.value, dict) else node.value if isinstance(node.value, list) else ()
    return any(_shared(child) for child in children)


def unused_credentials(lint: Lint) -> None:
    """Report entries that no template reads and no task names: they are not looked up, and may be missing or misspelt."""
    used = entries_used(lint.playbook)
    node = lint.root.get("keychain")
    for entry in node.value if node is not None and isinstance(node.value, list) else []:
        name = entry.get("name")
        if name is not None and name.value not in used:
            hint = f"read keychain.{name.value}, name it in auth, or remove it"
            lint.report("W522", name, f'nothing uses the credential "{name.value}"', hint)
