"""Finds the visits of steps by which two executions are compared: all visits in short logs.

In longer logs: those at the beginning and end, those at the end of the shorter log, and some that failed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from noetl_core.control.core import Control
from noetl_core.dsl.model import Playbook
from noetl_core.engine.state import State
from noetl_core.observe.account import UNREAD, Account, RunAccount
from noetl_core.views.reading.log_parts import LIMITS, LogReader, ReadLimits
from noetl_core.views.reading.log_search import LogSearch

FAILED: Final = 5
"""Maximum number of failed visits of each execution that are compared: the last to end."""

Numbered = Mapping[str, Mapping[int, RunAccount]]
"""Visits by step and number, from 1."""


class Visits:
    """The visits of one execution that were found."""

    def __init__(self, control: Control, state: State, playbook: Playbook, limits: ReadLimits = LIMITS) -> None:
        self._state = state
        self._log = LogReader(control, state, limits, limits.ends)
        self.complete = self._log.complete
        """True if all visits were found."""
        self._search = LogSearch(self._log, playbook)
        self.counts = {step: known.visits for step, known in state.steps.items() if known.visits}
        self._found: dict[str, dict[int, str]] = {}
        for step, run in self._scheduled(0, limits.ends):
            found = self._found.setdefault(step, {})
            found[len(found) + 1] = run
        behind: dict[str, int] = {}
        for step, run in reversed([*self._scheduled(self._log.tail, state.seq + 1)]):
            self._found.setdefault(step, {})[self.counts[step] - behind.get(step, 0)] = run
            behind[step] = behind.get(step, 0) + 1

    def _scheduled(self, first: int, end: int) -> Iterator[tuple[str, str]]:
        for event in self._log.events(first, end):
            if event.name == "StepScheduled":
                yield event.data["step"], event.data["run"]

    def find(self, step: str, number: int) -> None:
        """Find a visit."""
        found = self._found.setdefault(step, {})
        if number not in found and self._log.searchable:
            self._search.visit(step, number, found)

    def failed(self) -> Iterator[tuple[str, int]]:
        """Yield step and number of failed visits, the last to end first."""
        rows = [row for row in self._state.ended.failed if row.kind == "run"]
        for row in sorted(rows, key=lambda row: row.began + row.us, reverse=True)[:FAILED]:
            numbers = {run: number for number, run in self._found.get(row.step, {}).items()}
            if row.run not in numbers and self._log.searchable and (at := self._search.scheduled(row.run)) is not None:
                self._search.number(row.step, at, self._found.setdefault(row.step, {}))
                numbers = {run: number for number, run in self._found[row.step].items()}
            if row.run in numbers:
                yield row.step, numbers[row.run]

    def runs(self) -> Numbered:
        """Return the visits that were found, with their outcomes."""
        runs = self._known(self._search.account())
        unread = [run for known in runs.values() for run in known.values() if run.status == UNREAD]
        for run in unread:
            if self._log.searchable:
                self._search.ended(run.id, run.at.seq)
        if unread:
            runs = self._known(self._search.account())
        return {step: {n: run for n, run in known.items() if run.status != UNREAD} for step, known in runs.items()}

    def _known(self, account: Account) -> Numbered:
        return {
            step: {number: account.runs[run] for number, run in sorted(found.items()) if run in account.runs}
            for step, found in self._found.items()
        }


def align(one: Visits, other: Visits) -> None:
    """Find the same visits in both executions: those at the ends of the other one, and the failed ones."""
    for a, b in ((one, other), (other, one)):
        for step, number in [*a.failed()]:
            if number <= b.counts.get(step, 0):
                b.find(step, number)
    for step, count in one.counts.items():
        if (last := min(count, other.counts.get(step, 0))) > 0:
            one.find(step, last)
            other.find(step, last)
