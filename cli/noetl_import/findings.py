"""Findings of an import: the places of a definition that a playbook cannot express, or only with a difference."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

Level = Literal["attention", "unsupported"]


class UnusableDefinition(ValueError):
    """The input is not a state machine. Who acts: the author of the definition."""


class Unmapped(Exception):
    """A piece of a state has no equivalent. The state becomes a step that fails with this message and remedy."""

    def __init__(self, message: str, remedy: str, field: str = "") -> None:
        super().__init__(message)
        self.message, self.remedy, self.field = message, remedy, field


@dataclass(frozen=True, slots=True)
class Finding:
    """A piece that does not map. `attention`: the playbook runs, with the difference that the message names. `unsupported`: the
    step fails when it runs."""

    level: Level
    state: str
    pointer: str
    """JSON pointer into the definition."""
    message: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.pointer} [{self.state}] {self.level}: {self.message} ({self.remedy})"


@dataclass
class Notes:
    """Findings of one state while it is built. `field` of an entry is the rest of its pointer."""

    state: str
    pointer: str
    found: list[Finding] = field(default_factory=list)

    def attention(self, message: str, remedy: str, field: str = "") -> None:
        self._add(Finding("attention", self.state, self.pointer + field, message, remedy))

    def unsupported(self, error: Unmapped) -> None:
        self._add(Finding("unsupported", self.state, self.pointer + error.field, error.message, error.remedy))

    def _add(self, finding: Finding) -> None:
        if finding not in self.found:
            self.found.append(finding)
