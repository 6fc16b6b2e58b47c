"""Marks of the executions that this process evaluates; they outlive the process."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Protocol


class EvaluationMarks(Protocol):
    """Return, after a process has ended, the executions that it was evaluating. A mark costs no request."""

    def mark(self, name: str) -> AbstractContextManager[None]:
        """Mark `name` (at most 64 bytes) while the block runs."""
        ...

    def left_behind(self) -> Sequence[str]:
        """Return the marks of processes that have ended, each once."""
        ...
