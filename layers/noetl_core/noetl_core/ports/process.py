"""The environment of the process: packages and clock."""

from __future__ import annotations

from typing import Protocol


class PackageFinder(Protocol):
    """Finds the packages that playbooks require (`dsl.sections.requirements`) for running tasks."""

    def __call__(self, requirements: tuple[str, ...], /) -> str:
        """Return the folder to import them from. Raises `MissingPackages`."""
        ...


class Clock(Protocol):
    """Time and random names, injected, so that tests control both."""

    def now(self) -> int:
        """Return microseconds since the epoch, UTC."""
        ...

    def sleep(self, seconds: float) -> None: ...

    def nonce(self) -> str:
        """Return a new random name for a writer."""
        ...
