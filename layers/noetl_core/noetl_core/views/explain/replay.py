"""Replays an execution: repeats every decision of the control plane from the recorded input and reports any difference
(docs/looking.md). Each control commit records the boundaries and facts it took, and its events have the time of the decision. So
the same playbook must produce the same events. With another playbook it shows the decisions of that playbook.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from copy import deepcopy
from typing import Any

from noetl_core.control.core import Control
from noetl_core.dsl.model import Playbook
from noetl_core.engine.decide import Decision, NewExecution, decide, digest_for, start
from noetl_core.engine.fold.control_stream import fold_commits
from noetl_core.engine.needs import Need, NeedValues, Unreadable
from noetl_core.engine.records import AnyEvent, Boundary, Commit, Event, StreamId, request_of
from noetl_core.engine.state import State
from noetl_core.events.event import Fact, is_fact
from noetl_core.log.stored_values import Values
from noetl_core.ports import NotFound
from noetl_core.values.frozen import frozen

MAX_KNOWN = 10_000
"""Maximum number of values cached while replaying; further ones are loaded again when they are read."""
CHECKPOINT_EVERY = 64
"""Maximum number of commits to fold again.

This is necessary when a decision requested values or differed, so that its state cannot be used.
"""


@frozen
class Difference:
    """A control commit that would be different today: its position, its recorded events, and the events decided now."""

    seq: int
    recorded: tuple[dict[str, Any], ...]
    decided: tuple[dict[str, Any], ...]


@frozen
class Missing:
    """A control commit that cannot be decided again, because a value it read no longer exists or is not data."""

    seq: int
    reasons: tuple[str, ...]


@frozen
class Replay:
    """The number of control commits decided again, and their differences (with another playbook: the first difference).

    `missing` are the commits that cannot be decided again. `last` is the position of the last commit. `over` is true at the end
    of the log, false at the time limit.
    """

    commits: int
    differences: tuple[Difference, ...]
    last: int
    over: bool
    missing: tuple[Missing, ...] = ()


def replay(
    control: Control,
    execution_id: str,
    playbook: Playbook | None = None,
    *,
    after: int = -1,
    until: int | None = None,
) -> Replay:
    """Decide the control commits of an execution after position `after` again, until `until` (microseconds on the control clock).

    With another `playbook` the replay ends at the first difference, because later commits cannot be compared. Raises `NotFound`,
    `CorruptLog`, and `Unfit` for a playbook that cannot continue from `after`.
    """
    commits = control.store.read(StreamId(execution_id))
    if not commits:
        raise NotFound(f"there is no execution {execution_id}")
    first = playbook or control.playbook(request_of(commits[0])["digest"])
    before = _StateBefore(execution_id, commits, after + 1)
    if playbook is not None:
        _fits(playbook, before)
    values = Values(control.store, control.results, execution_id)
    known: dict[Need, Any] = {}
    differences, missing = [], []
    seq = after
    for seq in range(after + 1, len(commits)):
        decision = _decided_again(control, first, playbook, before, commits[seq], values, known)
        recorded = _plain(commits[seq].events)
        decided = _as_known_then(_plain(decision.events), recorded)
        if playbook is not None and seq == 0:
            recorded, decided = _undated(recorded), _undated(decided)
        unread = _take_unread(known)
        same = recorded == decided and playbook is None
        if playbook is None:
            decided = in_recorded_words(decided, recorded)
        if recorded != decided and unread and playbook is None:
            missing.append(Missing(seq, unread))
        elif recorded != decided:
            differences.append(Difference(seq, recorded, decided))
            if playbook is not None:
                break
        before.passed(decision.state if same else None)
        if until is not None and control.clock.now() > until:
            break
    return Replay(seq - after, tuple(differences), seq, seq + 1 >= len(commits), tuple(missing))


def _take_unread(known: dict[Need, Any]) -> tuple[str, ...]:
    """Return why values for the newest decision could not be read. The next decision that needs them requests them again."""
    unread = {need: value.reason for need, value in known.items() if isinstance(value, Unreadable)}
    for need in unread:
        del known[need]
    return tuple(unread.values())


class Unfit(ValueError):
    """The other playbook lacks steps that are in progress where the replay begins. Who acts: the caller."""


def _fits(playbook: Playbook, before: _StateBefore) -> None:
    state = before.take()
    steps = {r.step for r in state.runs.values()} | {t.step for t in state.tokens.values()}
    missing = sorted(steps - set(playbook.by_name))
    if missing:
        raise Unfit(f"the playbook has no step {missing[0]!r}, which is in progress at that position")


class _StateBefore:
    """The state before each commit in turn.

    A decision that matched the record has already folded its commit. Otherwise, the state is folded again from a copy made every
    `CHECKPOINT_EVERY` commits.
    """

    def __init__(self, execution_id: str, commits: Sequence[Commit], seq: int) -> None:
        self._commits, self._seq = commits, seq
        self._state: State | None = fold_commits(State(execution_id), commits[:seq])
        self._kept, self._kept_seq = deepcopy(self._state), seq

    def take(self) -> State:
        """Return the state before the current commit; the caller owns it."""
        state, self._state = self._state, None
        return state if state is not None else fold_commits(deepcopy(self._kept), self._commits[self._kept_seq : self._seq])

    def passed(self, state: State | None) -> None:
        """Advance to the next commit. `state` is the state after the current commit, if it is known."""
        if state is not None:
            state.expires_at = self._commits[self._seq].expires_at
        self._state = state
        self._seq += 1
        if self._seq - self._kept_seq >= CHECKPOINT_EVERY:
            self._state = self.take()
            self._kept, self._kept_seq = deepcopy(self._state), self._seq


def _decided_again(
    control: Control,
    first: Playbook,
    chosen: Playbook | None,
    before: _StateBefore,
    commit: Commit,
    values: Values,
    known: dict[Need, Any],
) -> Decision:
    """Decide one commit again.

    `first` decides the first commit. `chosen`, if any, decides all commits; otherwise the pinned playbook does.
    """
    now = commit.events[0].ts
    boundaries = list(_boundaries(commit, values))
    if len(known) > MAX_KNOWN:
        known.clear()
    known.update({("boundary", b.run_id, b.seq): b.event.data for b in boundaries})
    while True:
        try:
            if commit.seq == 0:
                return start(first, _request(commit), now, known)
            state, facts = before.take(), list(_facts(commit))
            playbook = chosen or control.playbook(digest_for(state, facts))
            return decide(playbook, state, boundaries, facts, now, known)
        except NeedValues as missing:
            values.supply(known, missing)


def _request(first: Commit) -> NewExecution:
    d = request_of(first)
    return NewExecution(
        execution_id=first.stream.execution_id,
        path=d["path"],
        version=d["version"],
        payload=d.get("payload") or {},
        ctx=d.get("ctx") or {},
        rendered=d.get("rendered") or {},
        parent=d.get("parent"),
        key=d.get("key"),
        trace_id=d.get("trace_id"),
        trigger=d.get("trigger"),
        labels=d.get("labels") or {},
        priority=d.get("priority"),
        strict=bool(d.get("strict")),
        undefined=d.get("undefined") or [],
        by=d.get("by"),
    )


def _boundaries(commit: Commit, values: Values) -> Iterator[Boundary]:
    for event in commit.events:
        if event.name == "BoundaryRouted":
            data = values.boundary(event.data["run"], event.data["seq"])
            boundary: Any = Event(event.data["name"], event.ts, data)
            yield Boundary(event.data["run"], event.data["seq"], boundary)


def _facts(commit: Commit) -> Iterator[Fact]:
    for place, event in enumerate(commit.events):
        if is_fact(event) and (place == 0 or event.name != "ExecutionFailing"):  # otherwise the routing pass decided it
            yield event


def _plain(events: Sequence[AnyEvent]) -> tuple[dict[str, Any], ...]:
    """Return events as plain JSON data, for comparison. Which worker asked for a decision does not matter."""
    return tuple(
        {"name": e.name, "data": json.loads(json.dumps({k: v for k, v in e.data.items() if k not in OF_ASKS.get(e.name, ())}))}
        for e in events
    )


OF_ASKS = {"StepScheduled": ("claim",), "BoundaryRouted": ("asked",)}
"""Keys that name the worker whose ask a decision answered (`engine.claims`)."""


ADDED = {
    "StepScheduled": ("timeout_s", "deadline_s", "undefined"),
    "WorkflowStarted": ("timeout_s",),
    "NextEvaluated": ("undefined",),
    "WorkflowFinished": ("undefined",),
}
"""Keys of today's events that older logs lack."""


def _as_known_then(decided: tuple[dict[str, Any], ...], recorded: tuple[dict[str, Any], ...]) -> tuple[dict[str, Any], ...]:
    """Remove fields that an older log could not have."""
    if len(decided) != len(recorded):
        return decided
    return tuple(
        {**e, "data": {k: v for k, v in e["data"].items() if k in old["data"] or k not in ADDED.get(e["name"], ())}}
        for e, old in zip(decided, recorded, strict=True)
    )


def in_recorded_words(decided: tuple[dict[str, Any], ...], recorded: tuple[dict[str, Any], ...]) -> tuple[dict[str, Any], ...]:
    """Return the decided events with the recorded texts for people: messages of errors, and reasons. A newer version may word
    them differently. Kinds, codes and everything else stay as decided."""
    if len(decided) != len(recorded):
        return decided
    return tuple(
        {**new, "data": {k: _worded(v, old["data"].get(k)) if k in _WORDED else v for k, v in new["data"].items()}}
        for new, old in zip(decided, recorded, strict=True)
    )


_WORDED = frozenset({"error", "reason"})
"""Keys of events whose values have texts for people."""


def _worded(decided: Any, recorded: Any) -> Any:
    if isinstance(decided, str) and isinstance(recorded, str):
        return recorded
    if isinstance(decided, dict) and isinstance(recorded, dict) and "message" in decided and "message" in recorded:
        return {**decided, "message": recorded["message"]}
    return decided


def _undated(events: tuple[dict[str, Any], ...]) -> tuple[dict[str, Any], ...]:
    """Remove the digest of the playbook, which always differs for another playbook."""
    return tuple({**e, "data": {k: v for k, v in e["data"].items() if k != "digest"}} for e in events)
