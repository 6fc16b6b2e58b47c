"""The location of the local store."""

from __future__ import annotations

from pathlib import Path

from noetl_core.adapters.local.home import home, shown

IN_MEMORY = "memory"


def default_store() -> str:
    """Return the path of `runs.db` in this machine's `.noetl`."""
    return shown(home() / "runs.db")


def is_there(store: str) -> bool:
    """Return whether there is a store, without creating one."""
    return store != IN_MEMORY and Path(store).exists()
