"""Cursors: the position of a reader in a history.

A cursor is small however long the history is, and signed, so that it cannot be invented. Only runs that were open at the control
position have an entry. In causal order, all commits of a closed run precede the control commit that closed it.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from noetl_core.api.refused import BadCursor
from noetl_core.engine.records import AnyEvent, Commit, StreamId, envelopes_of
from noetl_core.events.event import closes_run, opens_run
from noetl_core.log.history import commits_of
from noetl_core.ports import CommitReader
from noetl_core.values.frozen import frozen
from noetl_core.views.reading.envelopes import Expander

SIGNATURE_BYTES = 12


@dataclass(slots=True)
class StreamPosition:
    """A position in one stream: the commits before `seq`, and the first `taken` envelopes of commit `seq`, were read."""

    seq: int = 0
    taken: int = 0
    step: str = ""


@dataclass(slots=True)
class Position:
    """A position in the causal order of one execution."""

    control: StreamPosition = field(default_factory=StreamPosition)
    runs: dict[str, StreamPosition] = field(default_factory=dict)
    """Positions in the streams of runs that are open at the control position, with the names of their steps."""
    trace_id: str | None = None
    """The trace id of the execution, which every envelope shows."""

    def at(self, commit: Commit) -> StreamPosition:
        return self.control if commit.stream.run_id is None else self.runs[commit.stream.run_id]

    def passed(self, commit: Commit) -> None:
        """Record that all of `commit` was read."""
        at = self.at(commit)
        at.seq, at.taken = commit.seq + 1, 0
        if commit.stream.run_id is None:
            for event in commit.events:
                self._control(event)

    def _control(self, event: AnyEvent) -> None:
        if opens_run(event):
            self.runs[event.data["run"]] = StreamPosition(step=event.data["step"])
        elif closes_run(event):
            self.runs.pop(event.data["run"], None)

    def sign(self, execution_id: str, key: bytes) -> str:
        """Return the position as a cursor."""
        runs = {run: [at.seq, at.taken, at.step] for run, at in self.runs.items()}
        return sign([execution_id, [self.control.seq, self.control.taken], runs, self.trace_id], key)

    @classmethod
    def open(cls, cursor: str, execution_id: str, key: bytes) -> Position:
        """Return the position of a cursor. Raises `BadCursor`."""
        value = unsign(cursor, key)
        owner, control, runs, *trace = value if isinstance(value, list) else (None, (), {})
        if owner != execution_id:
            raise BadCursor("the cursor belongs to another execution")
        return cls(StreamPosition(*control), {run: StreamPosition(*at) for run, at in runs.items()}, *trace)


@frozen
class EventPlace:
    """The position of an event: its stream (`run` None: the control stream), its commit and its index in the commit.

    `derived`: it is the `TaskStarted` just before the event at that index (`...s`).
    """

    run: str | None
    seq: int
    place: int
    derived: bool

    def taken(self, commit: Commit) -> int | None:
        """Return the number of envelopes of its commit up to and including it; None if there is no such event."""
        if self.place >= len(commit.events):
            return None
        before = sum(envelopes_of(event) for event in commit.events[: self.place])
        here = envelopes_of(commit.events[self.place])
        if self.derived:
            return before + 1 if here > 1 else None
        return before + here


def place_of(event_id: str, execution_id: str) -> EventPlace:
    """Return the position that the id of an event contains. Raises `BadCursor`."""
    parts = event_id.removesuffix("s").split(".")
    numbers = [int(p) for p in parts[2:] if p.isascii() and p.isdecimal() and len(p) < 10]
    if len(parts) != 4 or parts[0] != execution_id or len(numbers) != 2:
        raise BadCursor(f"{event_id} is not the id of an event of execution {execution_id}")
    return EventPlace(None if parts[1] == "control" else parts[1], numbers[0], numbers[1], event_id.endswith("s"))


def sign(value: Any, key: bytes) -> str:
    """Return a JSON value as a signed cursor."""
    body = json.dumps(value, separators=(",", ":")).encode()
    return "c" + urlsafe_b64encode(_signature(body, key) + body).decode().rstrip("=")


def unsign(cursor: str, key: bytes) -> Any:
    """Return the value of a cursor after checking its signature. Raises `BadCursor`."""
    try:
        raw = urlsafe_b64decode(cursor[1:] + "=" * (-len(cursor[1:]) % 4))
    except ValueError as error:
        raise BadCursor("the cursor is unreadable") from error
    signature, body = raw[:SIGNATURE_BYTES], raw[SIGNATURE_BYTES:]
    if cursor[:1] != "c" or not hmac.compare_digest(signature, _signature(body, key)):
        raise BadCursor("the cursor is not signed by this deployment")
    return json.loads(body)


def _signature(body: bytes, key: bytes) -> bytes:
    return hmac.new(key, body, hashlib.sha256).digest()[:SIGNATURE_BYTES]


def history(
    store: CommitReader, execution_id: str, since: Position | None = None, *, runs: bool = True, step: str | None = None
) -> Iterator[Commit]:
    """Yield commits in causal order from `since`.

    The control stream gives the order. Commits of a run up to a boundary come before the control commit that processed the
    boundary; unprocessed commits come last. Without `runs`, yield the control stream only; with `step`, only run streams of that
    step.
    """
    since = since or Position()
    others = {run for run, at in since.runs.items() if step is not None and at.step != step}
    held: dict[str, Iterator[Commit]] = {}
    ahead: dict[str, Commit] = {}
    open_runs = {run: at.seq for run, at in since.runs.items()}

    def upto(run: str, seq: int | None) -> Iterator[Commit]:
        if run not in held:
            held[run] = commits_of(store, StreamId(execution_id, run), open_runs.get(run, 0) - 1)
        while (commit := ahead.pop(run, None) or next(held[run], None)) is not None:
            if seq is not None and commit.seq > seq:
                ahead[run] = commit
                return
            yield commit
            if commit.seq == seq:
                return

    for commit in commits_of(store, StreamId(execution_id), since.control.seq - 1):
        for event in commit.events:
            if event.name == "BoundaryRouted" and runs and event.data["run"] not in others:
                yield from upto(event.data["run"], event.data["seq"])
        yield commit
        for event in commit.events:
            if opens_run(event):
                open_runs[event.data["run"]] = 0
                if step is not None and event.data["step"] != step:
                    others.add(event.data["run"])
            elif closes_run(event):
                open_runs.pop(event.data["run"], None)
                others.discard(event.data["run"])
                held.pop(event.data["run"], None)
                ahead.pop(event.data["run"], None)
    for run in (run for run in open_runs if runs and run not in others):
        yield from upto(run, None)


def envelopes(
    commits: Iterable[Commit], execution_id: str, position: Position, names: Container[str] | None = None
) -> Iterator[dict[str, Any]]:
    """Yield the envelopes of `commits`, which start at `position`, and advance `position` with each; with `names`, only events
    with these names.
    """
    expand = Expander(execution_id, position.trace_id, {run: at.step for run, at in position.runs.items()})
    for commit in commits:
        at = position.at(commit)
        skip = at.taken if at.seq == commit.seq else 0
        for number, envelope in expand.numbered(commit, skip, names):
            at.seq, at.taken = commit.seq, number + 1
            yield envelope
        position.passed(commit)
