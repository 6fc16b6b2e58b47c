"""What the parts of a long control stream that were read tell, with what the state says of the rest.

A view plans its answer from such an account. What it asks for and does not find is `missing`; whoever reads the log looks for
that, and the view plans again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Final, Literal

from noetl_core.dsl.model import Playbook
from noetl_core.engine.state import State, StepState
from noetl_core.events.shapes import Failure
from noetl_core.frozen import frozen
from noetl_core.observe.account import CONSUMED, UNREAD, Account, Moment, RunAccount, TokenAccount, leads_on

VISITS: Final = 5
"""Visits and tokens of a step that are looked for: the newest."""


@frozen
class Missing:
    """Something of which no part tells that was read: where a run was scheduled or ended, or a token was made; the newest visits
    of a step, or its tokens that nothing consumed; dead ends, stranded tokens, runs that wait, and the first failure of the
    execution. `seq` is a position at which a token was there, or the arcs of a run were evaluated, or at which a run began that
    has ended."""

    kind: Literal["run", "end", "token", "visits", "left", "dead_ends", "stranded", "waiting", "failure"]
    name: str = ""
    seq: int = -1


@dataclass(slots=True, kw_only=True)
class PartialAccount(Account):
    """The fold of parts of a control stream. `newest` are the newest runs of steps, as far as they are known."""

    complete: ClassVar[bool] = False
    state: State
    newest: Mapping[str, Sequence[str]]
    missing: dict[Missing, None] = field(default_factory=dict)

    def settle(self) -> None:
        """Take from the state what the parts may not tell: which runs are open and for what they wait, and whether the execution
        fails."""
        for run in self.runs.values():
            if (at := self.state.runs.get(run.id)) is not None:
                run.waits, run.seq = list(at.waits), at.handled_seq
            elif run.status == "open":
                run.status, run.waits = UNREAD, []
        fails = self.state.failure is not None
        self.failing = [each for each in self.failing if fails and each[0].ts >= self.state.redriven_at]

    def token(self, name: str, seq: int) -> TokenAccount | None:
        if name not in self.tokens:
            self._miss(Missing("token", name, seq))
        return self.tokens.get(name)

    def run(self, name: str, seq: int) -> RunAccount | None:
        if name not in self.runs:
            self._miss(Missing("run", name, seq))
        return self.runs.get(name)

    def visits(self, step: str) -> tuple[Sequence[RunAccount], int]:
        count = self._step(step).visits
        if count and step not in self.newest:
            self._miss(Missing("visits", step))
        found = [self.runs[name] for name in self.newest.get(step, ()) if name in self.runs]
        for run in found[-VISITS:]:
            if run.status == UNREAD:
                self._miss(Missing("end", run.id, run.at.seq))
        return found, count

    def left(self, step: str) -> tuple[Sequence[TokenAccount], int]:
        self._miss(Missing("left", step))
        found = [t for t in self.tokens.values() if t.step == step and self._is_left(t)]
        live = sum(token.step == step and token.id not in self.tokens for token in self.state.tokens.values())
        return found, len(found) + live

    def fired(self, step: str, arc: int) -> bool:
        return str(arc) in self._step(step).fired

    def dead_ends(self, playbook: Playbook) -> Sequence[tuple[RunAccount, int]]:
        self._miss(Missing("dead_ends"))
        newest: dict[str, tuple[RunAccount, int]] = {}
        for run in self.runs.values():
            if run.ends_here and leads_on(playbook, run.step):
                _, count = newest.get(run.step, (run, 0))
                newest[run.step] = run, count + 1
        return [(run, max(count, ends_of(self._step(run.step), playbook, run.step) or 0)) for run, count in newest.values()]

    def stranded(self) -> Iterable[TokenAccount]:
        self._miss(Missing("stranded"))
        return (token for token in self.tokens.values() if token.fate != "skipped" and self._is_left(token))

    def waiting(self) -> Iterable[RunAccount]:
        self._miss(Missing("waiting"))
        return Account.waiting(self)

    def failed(self) -> tuple[Moment, Failure] | None:
        if self.state.failure is not None:
            self._miss(Missing("failure"))
        return Account.failed(self)

    def _step(self, name: str) -> StepState:
        return self.state.steps.get(name) or StepState()

    def _is_left(self, token: TokenAccount) -> bool:
        """Return whether nothing consumed a token. Of one whose fate was not read only the state can tell."""
        return token.fate not in CONSUMED and (token.fate != "" or token.id in self.state.tokens)

    def _miss(self, missing: Missing) -> None:
        self.missing[missing] = None


def ends_of(known: StepState, playbook: Playbook, name: str) -> int | None:
    """Return of how many runs of a step that ended well no arc fired, by what its state counts; None: that cannot be told."""
    step = playbook.by_name.get(name)
    if step is None or step.router is None or step.router.mode != "exclusive" or known.took is None:
        return None
    failed = known.took.get("others", 0) + sum(group["count"] for group in known.took.get("errors", ()))
    if failed:
        return None  # an arc may have fired of those, too
    return sum(known.took.get("us", {}).values()) - sum(known.fired.values())
