"""Replay: fold the log and take every control decision again from the news it was taken on; report any difference.

Each control commit records the boundaries it consumed and the facts it took, and its events carry the instant it was decided
at, so the same playbook must give the same events. Another playbook shows what it would have decided.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from noetl_core.control.core import Control
from noetl_core.dsl.model import Playbook
from noetl_core.engine.decide import Decision, Fact, NewExecution, decide, start
from noetl_core.engine.records import Boundary, Commit, Event, StreamId
from noetl_core.engine.routing import Need, NeedValues
from noetl_core.engine.state import State, fold_commits
from noetl_core.ports import NotFound
from noetl_core.values import Values

FACTS = {
    "SignalReceived": "signal",
    "ChildFinished": "child",
    "ExecutionPaused": "pause",
    "ExecutionResumed": "resume",
    "ExecutionCancelled": "cancel",
    "ExecutionStuck": "stuck",
}


@dataclass(frozen=True, slots=True)
class Difference:
    """A control commit that would be another one today: its position, what stands there, what would."""

    seq: int
    recorded: tuple[dict[str, Any], ...]
    decided: tuple[dict[str, Any], ...]


@dataclass(frozen=True, slots=True)
class Replay:
    """How many control commits were decided again, and where they differ (the first of them, when another playbook is tried)."""

    commits: int
    differences: tuple[Difference, ...]


def replay(control: Control, execution_id: str, playbook: Playbook | None = None) -> Replay:
    """Decide every control commit of an execution again. Raises `NotFound`, `CorruptLog`.

    With another `playbook` the replay ends at the first difference: behind it the histories have nothing to do with each other.
    """
    commits = control.store.read(StreamId(execution_id))
    if not commits:
        raise NotFound(f"there is no execution {execution_id}")
    requested = commits[0].events[0]
    chosen = playbook or control.playbook(requested.data["digest"])
    values = Values(control.store, control.results, execution_id)
    differences = []
    for place, commit in enumerate(commits):
        decision = _again(chosen, execution_id, commits[:place], commit, values)
        recorded, decided = _plain(commit.events), _plain(decision.events)
        if playbook is not None and place == 0:
            recorded, decided = _undated(recorded), _undated(decided)
        if recorded != decided:
            differences.append(Difference(commit.seq, recorded, decided))
            if playbook is not None:
                break
    return Replay(len(commits), tuple(differences))


def _again(playbook: Playbook, execution_id: str, before: Sequence[Commit], commit: Commit, values: Values) -> Decision:
    known: dict[Need, Any] = {}
    now = commit.events[0].ts
    while True:
        try:
            if not before:
                return start(playbook, _request(execution_id, commit.events[0]), now, known)
            state = fold_commits(State(execution_id), before)
            return decide(playbook, state, list(_boundaries(commit, values)), list(_facts(commit)), now, known)
        except NeedValues as missing:
            need = missing.need
            known[need[:3] if need[0] == "boundary" else need[:2]] = values(need)


def _request(execution_id: str, event: Event) -> NewExecution:
    d = event.data
    return NewExecution(
        execution_id=execution_id,
        path=d["path"],
        version=d["version"],
        payload=d.get("payload") or {},
        ctx=d.get("ctx") or {},
        parent=d.get("parent"),
        key=d.get("key"),
        trace_id=d.get("trace_id"),
    )


def _boundaries(commit: Commit, values: Values) -> Iterator[Boundary]:
    for event in commit.events:
        if event.name == "BoundaryRouted":
            data = values.boundary(event.data["run"], event.data["seq"])
            yield Boundary(event.data["run"], event.data["seq"], Event(event.data["name"], event.ts, data))


def _facts(commit: Commit) -> Iterator[Fact]:
    for event in commit.events:
        kind = FACTS.get(event.name)
        if kind is not None:
            yield Fact(kind, event.data)  # type: ignore[arg-type]
    if commit.events[0].name == "ExecutionFailing":  # a failure decided outside the pass comes before everything else
        yield Fact("fail", commit.events[0].data)


def _plain(events: Sequence[Event]) -> tuple[dict[str, Any], ...]:
    """Events for comparison, as JSON keeps them."""
    import json

    return tuple({"name": e.name, "data": json.loads(json.dumps(e.data))} for e in events)


def _undated(events: tuple[dict[str, Any], ...]) -> tuple[dict[str, Any], ...]:
    """Without the digest of the playbook, which another playbook always changes."""
    return tuple({**e, "data": {k: v for k, v in e["data"].items() if k != "digest"}} for e in events)
