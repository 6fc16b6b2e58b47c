"""Marks of what this process evaluates, which outlive the process."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Protocol


class EvaluationMarks(Protocol):
    """Say after a process has ended what it was evaluating. A mark costs no request."""

    def mark(self, name: str) -> AbstractContextManager[None]:
        """Mark `name` (at most 64 bytes) while the block runs."""
        ...

    def left_behind(self) -> Sequence[str]:
        """Return the marks of processes that have ended, each once."""
        ...
