"""Finds the streams with the iterations of a step's loop: the stream of its run, or those of its chunks.

Iterations begin in the order of their indexes, so only the commits that a question needs are read.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from noetl_core.control.core import Control
from noetl_core.engine.ids import chunk_run_id
from noetl_core.engine.loops import chunk_of, chunk_range, slice_key
from noetl_core.engine.records import Commit, StreamId, run_events
from noetl_core.engine.state import LoopState, State
from noetl_core.engine.step_status import standings
from noetl_core.events.aggregates import Aggregates
from noetl_core.events.runs import LoopCollected
from noetl_core.events.shapes import LoopPlan
from noetl_core.expr import is_reference
from noetl_core.log.history import commits_of, stated_aggregates
from noetl_core.log.stored_values import Values
from noetl_core.ports import NotFound
from noetl_core.values.frozen import frozen

MAX_PROBES = 40
"""Maximum number of commits read in a search: twice what halving a stream of a million commits takes."""


@frozen
class LoopStreams:
    """The newest run of a step, and the streams of its iterations.

    `plan` None: the run executes them itself. `aggregates` are the log's totals over all iterations; while the loop
    is running, those of finished chunks, or those that the run has stated last.
    """

    control: Control
    state: State
    step: str
    run: str
    plan: LoopPlan | None
    loop: LoopState | None
    open: bool
    aggregates: Aggregates

    @property
    def count(self) -> int:
        """Return the number of streams."""
        return 1 if self.plan is None else self.plan["chunks"]

    @property
    def total(self) -> int:
        """Return the number of iterations of the outermost loop, as far as it is known."""
        if self.plan is not None:
            return self.plan["total"]
        known = self.state.steps[self.step].loop
        if known is not None and not self.open:
            return known["total"]
        return self.aggregates.get("items", sum(self.aggregates.get("us", {}).values()))

    def stream_of(self, index: int) -> int:
        """Return the number of the stream that has an iteration of the outermost loop."""
        return 0 if self.plan is None else min(max(chunk_of(self.plan, index), 0), self.count - 1)

    def indexes(self, number: int) -> range:
        """Return the indexes of the iterations in a stream."""
        return range(self.total) if self.plan is None else chunk_range(self.plan, number)

    def stream(self, number: int) -> StreamId | None:
        """Return a stream by its number; None if its chunk has not begun, or if a redrive kept it."""
        execution_id = self.state.execution_id
        if self.plan is None or (number == 0 and "first" in self.plan):
            return StreamId(execution_id, self.run)
        if self.loop is not None:
            run = self.loop.done.run(number) or next((r for r, n in self.loop.open.items() if n == number), None)
            return None if run is None else StreamId(execution_id, run)
        for epoch in range(self.state.epoch, -1, -1):
            found = StreamId(execution_id, chunk_run_id(execution_id, self.run, number, epoch))
            if self.state.epoch == 0 or self.control.recent.read(found, limit=1):
                return found
        return None

    def commits(self, stream: StreamId, seq: int) -> Iterator[Commit]:
        """Yield the commits of a stream from `seq`, and the one before: iterations that begin there may end after `seq`."""
        return commits_of(self.control.recent, stream, max(seq - 2, -1))

    def seek(self, number: int, index: int) -> int:
        """Return a position of a stream shortly before the start of iteration `index`."""
        stream = self.stream(number)
        last = None if stream is None else self.control.store.last(stream)
        if stream is None or last is None:
            return 0
        span = self.indexes(number)
        low, high, least, most = 0, last.seq, span.start, max(span.stop, span.start + 1)
        for probe in range(MAX_PROBES):
            if low >= high:
                break
            guess = low + (index - least) * (high - low) // max(most - least, 1) if probe % 2 == 0 else (low + high + 1) // 2
            middle = min(max(guess, low + 1), high)
            first = _first_begun(self.control.recent.read(stream, after=middle - 1, limit=1))
            if first is None or first > index:
                high, most = middle - 1, most if first is None else first
            else:
                low, least = middle, first
        return low

    def item(self, path: tuple[int, ...], collected: LoopCollected | None = None) -> dict[str, Any]:
        """Return the item of an iteration as `item`; nothing if its source has expired.

        `collected` is the collection if it is not in the stream.
        """
        number = self.stream_of(path[0])
        stream = self.stream(number)
        values = Values(self.control.store, self.control.results, self.state.execution_id)
        try:
            if self.plan is not None and len(path) == 1:
                key = slice_key(self.state.execution_id, self.plan.get("slices", self.run), number, self.plan)
                return {"item": json.loads(self.control.results.get(key))[path[0] - self.indexes(number).start]}
            if collected is not None:
                return {"item": list(_behind(values, collected["items"]))[path[-1]]}
            for commit in () if stream is None else self._collecting(stream, path):
                for event in run_events(commit):
                    if event.name == "LoopCollected" and tuple(event.data.get("path", ())) == path[:-1]:
                        return {"item": list(_behind(values, event.data["items"]))[path[-1]]}
                    if event.name == "LoopFrameClaimed" and 0 <= path[0] - event.data["first"] < len(event.data["keys"]):
                        return {"item": list(_behind(values, event.data.get("rows") or ()))[path[0] - event.data["first"]]}
        except (NotFound, LookupError, ValueError):
            pass  # expired: show the rest of the iteration
        return {}

    def _collecting(self, stream: StreamId, path: tuple[int, ...]) -> Iterator[Commit]:
        """Yield the commits in which the collection of an iteration may be recorded: the first, and those before the iteration
        began.
        """
        yield from self.control.recent.read(stream, limit=2)
        begun = self.seek(self.stream_of(path[0]), path[0])
        yield from self.control.recent.read(stream, after=max(begun - 3, -1), limit=4)


def _behind(values: Values, held: Any) -> Any:
    return values.reference(held) if is_reference(held) else held


def _first_begun(found: Sequence[Commit]) -> int | None:
    """Return the index of the first iteration that begins in a commit."""
    events = found[0].events if found else ()
    return next((event.data["path"][0] for event in events if event.name == "LoopIterationStarted"), None)


def loop_streams(control: Control, state: State, step: str, wanted: str | None = None) -> LoopStreams | None:
    """Return the streams of the iterations of the newest run of a step, or of its open run `wanted`; None if the step has not
    run.
    """
    found = standings(state).get(step)
    if found is None:
        return None
    if found.runs:
        run = next((each for each in found.runs if each.id == wanted), found.runs[-1])
        last = control.store.last(StreamId(state.execution_id, run.id)) if run.loop is None else None
        aggregates = run.loop.aggregates if run.loop is not None else stated_aggregates(control.recent, last)
        return LoopStreams(control, state, step, run.id, run.loop.plan if run.loop else None, run.loop, True, aggregates or {})
    if found.known is None or found.known.last_run is None:
        return None
    run_id = found.known.last_run
    aggregates = found.known.iterations or {}
    return LoopStreams(control, state, step, run_id, _plan(control, state, run_id), None, False, aggregates)


def _plan(control: Control, state: State, run_id: str) -> LoopPlan | None:
    """Return the plan with which a finished run distributed its loop. The control plane may have ended the loop later."""
    stream = StreamId(state.execution_id, run_id)
    last = control.store.last(stream)
    if last is None:
        return None
    for commit in (last, *control.recent.read(stream, after=max(-1, last.seq - 2), limit=1)):
        for event in commit.events:
            if event.name == "StepSuspended" and "loop" in event.data:
                return event.data["loop"]
    return None
