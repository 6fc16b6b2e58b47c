"""Budgets of bytes that are loaded together."""

from __future__ import annotations

from noetl_core.expr.references import Path


class LoadLimitExceeded(Exception):
    """The values to load exceed the limit. Who acts: the author."""

    def __init__(self, size: int, limit: int, path: Path = ()) -> None:
        super().__init__(f"{size} bytes exceed the limit of {limit}")
        self.size, self.limit, self.path = size, limit, path


class LoadBudget:
    """A budget of bytes that may be loaded together."""

    def __init__(self, limit: int) -> None:
        self.limit, self.used = limit, 0

    def take(self, size: int, path: Path = ()) -> None:
        """Reserve bytes. Raises `LoadLimitExceeded`."""
        self.used += max(size, 0)
        if self.used > self.limit:
            raise LoadLimitExceeded(self.used, self.limit, path)
