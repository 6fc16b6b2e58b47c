"""Finds the critical path of an execution: the chain of runs of which each was opened by the end of the one before, back from
its end."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field


@dataclass(slots=True)
class CriticalPath:
    """Folds control commits into that path. A run is caused by the run whose boundary was routed in the commit that opened it."""

    parents: dict[str, str] = field(default_factory=dict)
    causes: dict[str, str] = field(default_factory=dict)
    last: str | None = None
    """The run whose boundary ended the execution."""
    _commit: object = None
    _routed: list[str] = field(default_factory=list)
    """Runs whose boundaries the current commit routed."""
    _sources: dict[str, str] = field(default_factory=dict)
    """The run that produced each token."""

    def begin(self, commit: object) -> None:
        """Begin a commit, or continue it if it is the same as before."""
        if commit != self._commit:
            self._commit, self._routed = commit, []

    def routed(self, run: str) -> None:
        self._routed.append(run)

    def enqueued(self, token: str, run: str | None) -> None:
        if run is not None:
            self._sources[token] = run

    def opened(self, run: str, tokens: Iterable[str], parent: str | None) -> None:
        """Note a new run. If a commit routed several boundaries, the source of one of its tokens is its cause."""
        sources = [self._sources[token] for token in tokens if token in self._sources]
        here = [source for source in sources if source in self._routed]
        for found in (here, self._routed, sources):
            if found:
                self.causes[run] = found[-1]
                break
        if parent is not None:
            self.parents[run] = parent

    def finished(self) -> None:
        self.last = self._routed[-1] if self._routed else None

    def reopened(self) -> None:
        self.last = None

    def runs(self) -> set[str]:
        """Return the runs of the critical path; none before the end."""
        path: set[str] = set()
        parents: set[str] = set()
        run = self.last
        while run is not None and run not in path:
            path.add(run)
            cause = self.causes.get(run)
            if (parent := self.parents.get(run)) is not None:
                parents.add(parent)
                cause = cause or self.causes.get(parent)
            run = cause
        return path | parents
