"""The statuses of an execution."""

from __future__ import annotations

from typing import Final, Literal, get_args

Status = Literal["running", "waiting", "paused", "cancelling", "stuck", "completed", "failed", "cancelled"]
STATUSES: Final[tuple[Status, ...]] = get_args(Status)
TERMINAL: Final[frozenset[str]] = frozenset({"completed", "failed", "cancelled"})
"""Nothing comes after them but a redrive."""
HELD: Final[frozenset[str]] = frozenset({"paused", "stuck"})
"""Nothing goes on until an operator says so."""
STOPPED: Final = TERMINAL | HELD
"""Whoever follows an execution need not wait any longer."""
