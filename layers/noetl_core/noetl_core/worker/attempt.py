"""The current attempt of a task: everything that is known of it, from its inputs to its outcome."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from noetl_core.events.shapes import Wait
from noetl_core.expr.scope import Blanks


@dataclass(slots=True)
class Inputs:
    """A task's inputs and spec as values, and its timeout in seconds."""

    inputs: Mapping[str, Any]
    spec: Mapping[str, Any]
    timeout: float | None
    names: Mapping[str, Any]
    """`args`, `workload` and `ctx` as the templates of the task see them."""


@dataclass(slots=True)
class Attempt:
    """One attempt of the next task of a pass. The next attempt is a new object, so it takes nothing from an earlier one."""

    started: int = 0
    """The instant at which the worker last turned to it (microseconds): the call of its tool, if there was one."""
    announced: bool = False
    """True once `TaskStarted` is recorded."""
    inputs: Inputs | None = None
    """Set once they have been rendered and loaded."""
    blanks: Blanks = field(default_factory=dict)
    """The undefined names that its text was rendered without."""
    wait: Wait | None = None
    """The wait of its pass, if the run is suspended now."""
    permit: int | None = None
    """The instant from which its rate lets it begin (microseconds)."""
