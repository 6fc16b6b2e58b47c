"""The values of the event log: streams, events, commits; and the commands and boundaries between control plane and workers.

A *commit* is an ordered list of events that is written atomically at one position of one stream. Instants are integer
microseconds since the epoch (UTC) everywhere in the core; only envelopes have them as RFC 3339 text.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Any, cast

from noetl_core.dsl.model import Step
from noetl_core.events import control
from noetl_core.events.aggregates import Aggregates
from noetl_core.events.event import LOG_VERSION as LOG_VERSION
from noetl_core.events.event import AnyEvent as AnyEvent
from noetl_core.events.event import BoundaryEvent as BoundaryEvent
from noetl_core.events.event import ControlEvent as ControlEvent
from noetl_core.events.event import Event as Event
from noetl_core.events.event import RunEvent as RunEvent
from noetl_core.events.redrives import CarriedOver
from noetl_core.events.shapes import CommandContext, LoopCommand, Mail, RunClaim, Undoes
from noetl_core.events.table import FIRST_VERSION, PROGRESS
from noetl_core.values.frozen import frozen

MAX_TAKEOVERS = 5
"""Takeovers in a row without progress after which no worker tries the run again. The control plane ends it as `lost`."""


@frozen
class StreamId:
    """One stream of one execution: the control stream (`run_id` None) or a run's own stream."""

    execution_id: str
    run_id: str | None = None

    def __str__(self) -> str:
        part = "the control stream" if self.run_id is None else f"run {self.run_id}"
        return f"{part} of execution {self.execution_id}"


def envelopes_of(event: AnyEvent) -> int:
    """Return how many envelopes a stored event becomes: one for a task without a recorded `TaskStarted` also shows the start."""
    return 2 if event.name == "TaskProcessed" and "started" in event.data else 1


@frozen
class LoopProgress:
    """Counts of a loop in progress, and the newest commit with aggregates of it."""

    stated: int
    """The position of the newest commit with aggregates."""
    ended: int
    """Iterations that have ended, in the innermost loop."""
    failed: int
    total: int | None = None
    """Length of the collection of the outermost loop, if it is known."""


@frozen
class Tally:
    """Counts of a run's stream, stored in each commit, so that the newest commit is enough to know them.

    A commit of a loop in progress has either `aggregates` or `progress`, once an iteration has ended.
    """

    events: int
    """Envelopes of the stream, with those of this commit."""
    takeovers_without_progress: int = 0
    """Takeovers in a row that brought no outcome."""
    aggregates: Aggregates | None = None
    """Aggregates of the iterations so far (`engine.fold.aggregates`)."""
    progress: LoopProgress | None = None
    """Counts of the iterations so far."""


@frozen
class Commit:
    """Events written together at `(stream, seq)`; `seq` is dense from 0.

    `writer` is the nonce of the attempt to write: if the stored commit has our nonce, it is our own write whose answer was
    lost. `wake` marks commits that the router must process. `lease_until` (microseconds, 0 for none) is the instant until which a
    run's writer may be silent before another worker takes over. `expires_at` (seconds) is the same instant in every commit of an
    execution. `tally` is set in run streams; None where an older version wrote the commit. `asks`: the worker that wrote a waking
    commit asks for its boundary to be routed. It is a hint for the router; stores without a stream need not keep it.
    """

    stream: StreamId
    seq: int
    ts: int
    writer: str
    events: tuple[AnyEvent, ...]
    wake: bool = False
    lease_until: int = 0
    expires_at: int = 0
    v: int = FIRST_VERSION
    tally: Tally | None = None
    asks: bool = False


def request_of(first: Commit) -> control.PlaybookExecutionRequested:
    """The request that the first commit of a control stream begins with."""
    return cast("control.PlaybookExecutionRequested", first.events[0].data)


def control_events(commit: Commit) -> tuple[ControlEvent, ...]:
    """The events of a commit of the control stream."""
    return cast("tuple[ControlEvent, ...]", commit.events)


def run_events(commit: Commit) -> tuple[RunEvent, ...]:
    """The events of a commit of a run stream."""
    return cast("tuple[RunEvent, ...]", commit.events)


@frozen
class Snapshot:
    """A folded control stream up to and including `seq`, as plain data, with the reducer version that made it. `size` is the size
    of the state as JSON; stores set it when they load a snapshot."""

    execution_id: str
    seq: int
    reducer: int
    state: Mapping[str, Any]
    size: int = field(default=0, compare=False)


@frozen
class Command:
    """A request to a worker: carry out the run `run_id` from position `expected_seq` of its stream.

    `mode` is `first`, `resume` (after a suspension; `mail` has the awaited answers) or `takeover` (the lease of the earlier
    worker has expired). `as_of` is the control position whose ctx the run sees. `context` has `{workload, ctx, args, steps}`
    when that fits into a message; otherwise the worker folds the control stream up to `as_of`. The command of a chunk run has
    `chunk`, its index, and `loop`: `{run: the step run, total, chunk_size, chunks, per_chunk, first, count}`. `log.carry_over`
    has the parts of earlier runs that a redrive keeps (`engine.redrive.plan`). `undoes` makes it the command of a compensation:
    the finished
    run, `{run, at, loop}`. `asked` marks a takeover that a person requested by `resume`. `asks` says that its worker may ask for
    its end to be routed, and `claim` is the worker's claim to the run, where an ask was answered with it.
    """

    execution_id: str
    run_id: str
    step: str
    expected_seq: int
    mode: str
    as_of: int
    digest: str
    pool: str = "default"
    chunk: int | None = None
    loop: LoopCommand | None = None
    mail: tuple[Mail, ...] = ()
    context: CommandContext | None = None
    expires_at: int = 0
    carried_over: CarriedOver | None = None
    undoes: Undoes | None = None
    asked: bool = False
    asks: bool = False
    claim: RunClaim | None = None


@frozen
class Ask:
    """A worker's request to route the boundary at `(run_id, seq)` and to answer with a run that follows from it.

    `seen` is the control position as of which the run saw ctx. `deadline` is until when the worker can work, `until` the end of
    the time in which a run may be claimed for it (both in microseconds). `computes`: a processor is free for it.
    """

    id: str
    execution_id: str
    run_id: str
    seq: int
    seen: int
    worker: str
    pool: str
    deadline: int
    until: int
    computes: bool = True


@frozen
class OwnWorker:
    """The worker in the process of the control plane. A decision claims for it the runs that it schedules, if `accepts` returns
    true for their step. Nobody needs to ask."""

    name: str
    accepts: Callable[[Step], bool]


@frozen
class Boundary:
    """News for the control plane: the last event of a waking commit of a run stream. `asks`: its worker asks for it to be
    routed."""

    run_id: str
    seq: int
    event: BoundaryEvent
    asks: bool = False


def count_takeovers_without_progress(takeovers: int, event: AnyEvent) -> int:
    """Return how many takeovers in a row brought no outcome, after one more event of a run's stream.

    A run that makes progress does not kill its workers; nor does one whose worker was alive to release it, or to look at work
    outside. A takeover that a person requested begins a new count.
    """
    if event.name in PROGRESS or (event.name == "StepSuspended" and any("outside" in wait for wait in event.data["waits"])):
        return 0
    if event.name != "StepStarted" or "takeover" not in event.data:
        return takeovers
    return 0 if event.data.get("asked") else takeovers + 1
