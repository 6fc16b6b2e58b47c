"""Where tools keep what does not fit into memory, and how much of it there may be."""

from __future__ import annotations

from typing import Any, Final

CLOSED: Final[dict[str, Any]] = {
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
    "allow_community_extensions": False,
    "allow_unsigned_extensions": False,
    "python_enable_replacements": False,
}
"""Settings of every DuckDB: no extensions, no variables of the process as tables."""
