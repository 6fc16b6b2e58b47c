"""Questions about the states in which things were decided: the state just before an event is the one in which it was.

Of the log only what lies between a snapshot and a question is folded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, Protocol

from noetl_core.dsl.model import Playbook
from noetl_core.engine.fold.control_stream import fold
from noetl_core.engine.needs import Need, NeedValues
from noetl_core.engine.records import Commit, control_events
from noetl_core.engine.routing.passes import RoutingPass
from noetl_core.engine.state import State
from noetl_core.observe.account import Moment

NEAR: Final = 100
"""Commits that are rather folded than jumped over."""
MOST_ROUNDS: Final = 50
"""How often one question may ask for values."""

Question = Callable[[RoutingPass], None]
"""Looks at a state; it is asked again when it needs values."""


class Log(Protocol):
    """The control stream of an execution, any part of it near a snapshot."""

    def commits(self, after: int) -> Iterator[Commit]:
        """Yield the commits after a position, as far as they are read."""
        ...

    def state(self, upto: int) -> State | None:
        """Return the state at a position; -1: before the first commit. None where that is not read."""
        ...


def evaluate(
    log: Log,
    questions: Mapping[Moment, Iterable[Question]],
    at_the_end: Iterable[Question],
    end: State,
    playbook: Callable[[str], Playbook],
    supply: Callable[[dict[Need, Any], NeedValues], None],
) -> int:
    """Put each question to the state just before its event; those `at_the_end` to the state `end`. Of the log the parts with
    questions are folded, each from the state before it, the newest first. Return how many questions were not put, as their
    part is not read."""
    known: dict[Need, Any] = {}
    asked: dict[int, dict[int, tuple[Question, ...]]] = {}
    for moment, some in questions.items():
        asked.setdefault(moment.seq, {})[moment.place] = tuple(some)
    unput = sum(len(some) for places in asked.values() for some in places.values())
    for part in reversed(_parts(sorted(asked))):
        state = log.state(part[0] - 1)
        for commit in log.commits(part[0] - 1) if state is not None else ():
            if state is None or commit.seq > part[-1]:
                break
            for place, event in enumerate(control_events(commit)):
                for question in asked.get(commit.seq, {}).get(place, ()):
                    _put(question, RoutingPass(playbook(state.digest), state, event.ts, commit.seq, known), supply, known)
                    unput -= 1
                fold(state, event, commit.seq)
            state.seq, state.expires_at = commit.seq, commit.expires_at
    for question in at_the_end:
        _put(question, RoutingPass(playbook(end.digest), end, end.updated_at, end.seq + 1, known), supply, known)
    return unput


def _parts(positions: Sequence[int]) -> list[list[int]]:
    """Return positions in groups that are near to each other."""
    found: list[list[int]] = []
    for seq in positions:
        if found and seq - found[-1][-1] <= NEAR:
            found[-1].append(seq)
        else:
            found.append([seq])
    return found


def _put(
    question: Question, p: RoutingPass, supply: Callable[[dict[Need, Any], NeedValues], None], known: dict[Need, Any]
) -> None:
    for _ in range(MOST_ROUNDS):
        try:
            question(p)
            return
        except NeedValues as missing:
            supply(known, missing)
