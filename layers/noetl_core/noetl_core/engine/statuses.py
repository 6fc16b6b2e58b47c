"""The statuses of an execution."""

from __future__ import annotations

from typing import Final, get_args

from noetl_core.events.shapes import EndStatus, ExecutionStatus, ListedStatus

STATUSES: Final[tuple[ExecutionStatus, ...]] = get_args(ExecutionStatus)
LISTED_STATUSES: Final[tuple[ListedStatus, ...]] = get_args(ListedStatus)
TERMINAL: Final[frozenset[str]] = frozenset(get_args(EndStatus))
"""Nothing comes after them but a redrive."""
HELD: Final[frozenset[str]] = frozenset({"paused", "stuck"})
"""Statuses in which nothing continues until an operator acts."""
STOPPED: Final = TERMINAL | HELD
"""Statuses in which followers of an execution need not wait any longer."""
MAX_ATTEMPTS: Final = 3
"""Evaluations in a row that may end a process. Then the execution is stuck."""
