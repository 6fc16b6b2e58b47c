"""Evaluates questions about earlier decisions, each in the state just before its event.

Of the log, only the commits between a snapshot and a question are folded.
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

MOST_ROUNDS: Final = 50
"""Maximum number of times that one question may request values."""

Question = Callable[[RoutingPass], None]
"""Inspects a state; it is called again when it needs values."""


class Log(Protocol):
    """The control stream of an execution, any part of it near a snapshot."""

    def commits(self, after: int) -> Iterator[Commit]:
        """Yield the commits after a position, as far as they are read."""
        ...

    def state(self, upto: int) -> State | None:
        """Return the state at a position; -1: before the first commit. None if it is not read."""
        ...


def evaluate(
    log: Log,
    questions: Mapping[Moment, Iterable[Question]],
    at_the_end: Iterable[Question],
    end: State,
    playbook: Callable[[str], Playbook],
    supply: Callable[[dict[Need, Any], NeedValues], None],
    near: int,
) -> int:
    """Put each question to the state just before its event; those `at_the_end` to the state `end`.

    Parts of the log with questions are folded, each from the state before it, the newest first; gaps of at most `near` commits
    are folded, not skipped. Return the number of questions
    that were not put, because their part is not read.
    """
    known: dict[Need, Any] = {}
    by_position: dict[int, dict[int, tuple[Question, ...]]] = {}
    for moment, some in questions.items():
        by_position.setdefault(moment.seq, {})[moment.place] = tuple(some)
    unput = sum(len(some) for places in by_position.values() for some in places.values())
    for part in reversed(_parts(sorted(by_position), near)):
        state = log.state(part[0] - 1)
        for commit in log.commits(part[0] - 1) if state is not None else ():
            if state is None or commit.seq > part[-1]:
                break
            for place, event in enumerate(control_events(commit)):
                for question in by_position.get(commit.seq, {}).get(place, ()):
                    _put(question, RoutingPass(playbook(state.digest), state, event.ts, commit.seq, known), supply, known)
                    unput -= 1
                fold(state, event, commit.seq)
            state.seq, state.expires_at = commit.seq, commit.expires_at
    for question in at_the_end:
        _put(question, RoutingPass(playbook(end.digest), end, end.updated_at, end.seq + 1, known), supply, known)
    return unput


def _parts(positions: Sequence[int], near: int) -> list[list[int]]:
    """Return positions in groups that are close together."""
    found: list[list[int]] = []
    for seq in positions:
        if found and seq - found[-1][-1] <= near:
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
