"""Where the local store is."""

from __future__ import annotations

from pathlib import Path

from noetl_core.adapters.local.home import home, shown

IN_MEMORY = "memory"


def default_store() -> str:
    """`runs.db` in this machine's `.noetl`."""
    return shown(home() / "runs.db")


def is_there(store: str) -> bool:
    """Whether there is a store to look into; does not make one."""
    return store != IN_MEMORY and Path(store).exists()
