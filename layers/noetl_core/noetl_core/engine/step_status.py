"""Computes the status of a step from its finished runs, its open ones, and the tokens that wait at it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from noetl_core.engine.state import Run, State, StepState, Token
from noetl_core.values.frozen import mutable


@mutable
class Standing:
    """The records of one step in a state. `runs` are its open runs, without chunks and compensations."""

    known: StepState | None = None
    runs: list[Run] = field(default_factory=list)
    tokens: list[Token] = field(default_factory=list)

    def fired(self, arc: int) -> int:
        """Return how often an arc of the step was selected."""
        return 0 if self.known is None else self.known.fired.get(str(arc), 0)

    @property
    def status(self) -> str | None:
        """None: the execution has not reached the step."""
        if self.runs:
            return "waiting" if all(r.status == "suspended" and r.loop is None for r in self.runs) else "running"
        status = None if self.known is None else self.known.status
        return "waiting" if status is None and self.tokens else status


def standings(state: State) -> Mapping[str, Standing]:
    """Return the status of the steps that the execution has reached."""
    found: dict[str, Standing] = {name: Standing(step) for name, step in state.steps.items()}
    for run in state.runs.values():
        if run.parent is None and run.undoes is None:
            found.setdefault(run.step, Standing()).runs.append(run)
    for token in state.tokens.values():
        found.setdefault(token.step, Standing()).tokens.append(token)
    return found
