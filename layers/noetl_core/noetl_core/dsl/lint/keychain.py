"""W522: entries of the keychain that nothing uses."""

from __future__ import annotations

from noetl_core.dsl.keychain_uses import entries_used
from noetl_core.dsl.lint.context import Lint


def keychain(lint: Lint) -> None:
    """Report entries that no template reads and no task names: they are not looked up, and may be missing or misspelt."""
    used = entries_used(lint.playbook)
    node = lint.root.get("keychain")
    for entry in node.value if node is not None and isinstance(node.value, list) else []:
        name = entry.get("name")
        if name is not None and name.value not in used:
            hint = f"read keychain.{name.value}, name it in auth, or remove it"
            lint.report("W522", name, f'nothing uses the credential "{name.value}"', hint)
