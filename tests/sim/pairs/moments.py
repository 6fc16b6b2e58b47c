"""The moments of an operation: before and after each of its port calls."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from tests.sim.ports import Faults

T = TypeVar("T")


@dataclass
class Moments(Faults):
    """Faults of nobody: counts the moments of an operation, and runs `inner` at the moment `at`."""

    at: int = -1
    inner: Callable[[], None] | None = None
    watching: bool = False
    names: list[str] = field(default_factory=list)
    """The moments so far, such as `before SimGates.set_gate`."""

    def around(self, call: Callable[[], T]) -> T:
        if not self.watching:
            return call()
        name = call.__qualname__.partition(".<locals>")[0]
        self._moment(f"before {name}")
        try:
            return call()
        finally:
            self._moment(f"after {name}")

    def _moment(self, name: str) -> None:
        self.names.append(name)
        if len(self.names) - 1 == self.at and self.inner is not None:
            self.watching = False
            try:
                self.inner()
            finally:
                self.watching = True


class WatchedCatalog:
    """The catalog of a world with its calls among the moments."""

    def __init__(self, catalog: Any, moments: Moments) -> None:
        self._catalog, self._moments = catalog, moments

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._catalog, name)
        if not callable(method):
            return method

        def watched(*args: Any, **named: Any) -> Any:
            def call() -> Any:
                return method(*args, **named)

            call.__qualname__ = f"SimCatalog.{name}"
            return self._moments.around(call)

        return watched
