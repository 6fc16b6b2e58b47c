"""The ask function, which routes the boundary of the worker that calls it."""

from __future__ import annotations

from typing import Protocol

from noetl_core.engine.records import Ask, Command


class Asks(Protocol):
    """The control plane, as workers ask it (docs/decisions.md, "Eager dispatch")."""

    def ask(self, ask: Ask) -> Command | None:
        """Have the boundary of `ask` routed, and return the command of a run that is claimed for the caller (its `claim`), if one
        is. It is safe to repeat: the same ask has the same answer. Raises `AskFailed`."""
        ...
