"""The form of the table of events that change the state. `engine.fold.control_stream` puts its
parts together."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from noetl_core.engine.records import ControlEvent
from noetl_core.engine.state import State

D = TypeVar("D")
Fold = Callable[[State, ControlEvent, D, int], None]
"""`(state, event, its payload, the position of its commit)`: changes the state."""


class Folds(dict[str, Fold[Any]]):
    """Folds by the names of their events."""

    def __call__(self, kind: Callable[..., D]) -> Callable[[Fold[D]], Fold[D]]:
        """The decorated function is the effect of the event with payload `kind`."""

        def register(apply: Fold[D]) -> Fold[D]:
            self[kind.__name__] = apply
            return apply

        return register
