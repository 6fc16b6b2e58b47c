"""The state of an execution: a pure fold of its control stream (docs/decisions.md, "The log is the only truth").

`engine.fold.control_stream` owns its state and changes it; a caller who needs an earlier state folds again. Work in progress is
a set of runs, never a counter. Results are pointers to the commit that holds them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any, Final, Literal, NamedTuple

from noetl_core.engine.done_chunks import DoneChunks
from noetl_core.engine.statuses import TERMINAL
from noetl_core.events.aggregates import Aggregates, Cells, Warnings
from noetl_core.events.redrives import CarriedOver
from noetl_core.events.shapes import (
    By,
    ChildRequest,
    Completed,
    Counts,
    ExecutionStatus,
    Failure,
    Handled,
    LoopPlan,
    Mail,
    NotUndone,
    Parent,
    RequestKey,
    ResultPointer,
    RunClaim,
    SearchAttributes,
    Signal,
    TokenEvent,
    Triggered,
    Undoes,
    Wait,
)
from noetl_core.values.frozen import mutable

MAX_PRIORITY: Final = 1_000_000


@mutable
class Token:
    """A routing envelope for `step` (formal specification 1.1). `event` is the boundary that produced it, which admission
    rules may read."""

    id: str
    step: str
    args: dict[str, Any]
    run: str | None = None
    arc: int | None = None
    event: TokenEvent | None = None
    parked: bool = False
    joined: bool = False
    """A join produced it from the tokens that met: it is not held at that join again."""
    rounds: dict[str, int] = field(default_factory=dict)
    """The number of times that its branch has gone back past each join (`engine.routing.joins`)."""
    priority: float = 0
    """The priority among the tokens that may move: the highest moves first (`next.spec.policy.priority`)."""


@mutable
class LoopState:
    """Progress of a distributed loop: a window over its chunks. Chunks are kept as sets, never as counters."""

    plan: LoopPlan
    done: DoneChunks
    open: dict[str, int] = field(default_factory=dict)
    """Chunk run id -> chunk index."""
    next_chunk: int = 0
    error: Failure | None = None
    broke: bool = False
    aggregates: Aggregates | None = None
    """Aggregates of the iterations of finished chunks."""

    @property
    def counts(self) -> Counts:
        """Counts of the iterations of the innermost loop."""
        return {**self.done.innermost, "total": self.plan["total"] - self.done.ended + self.done.innermost["total"]}


@mutable
class Run:
    """An open step run or chunk run.

    `status` is `scheduled` (a command was sent for position `expected_seq`) or `suspended` (it waits for `waits`).
    `handled_seq` is the position of the newest boundary of its stream that was routed. `as_of` is the control position whose
    ctx the run sees.
    """

    id: str
    step: str
    args: dict[str, Any]
    scheduled_at: int
    as_of: int
    opened_at: int = 0
    """The instant at which it was scheduled for the first time; a resume changes `scheduled_at` only. For a chunk: that of its
    loop."""
    began_at: int = 0
    """The instant at which the run itself, even if it is a chunk, was scheduled for the first time."""
    pool: str = "default"
    status: Literal["scheduled", "suspended"] = "scheduled"
    expected_seq: int = 0
    handled_seq: int = -1
    events: int = 0
    """Envelopes of its stream up to the newest boundary that was routed."""
    scheduled_seq: int = 0
    """Control position of the commit that scheduled it last; its commands are derived from that."""
    mode: str = "first"
    waits: list[Wait] = field(default_factory=list)
    mail: list[Mail] = field(default_factory=list)
    ready: list[Mail] = field(default_factory=list)
    """Mail for its waits, while it was not resumed yet."""
    tokens: list[str] = field(default_factory=list)
    event: TokenEvent | None = None
    chunk: int | None = None
    parent: str | None = None
    loop: LoopState | None = None
    carried_over: CarriedOver | None = None
    """The parts of earlier runs that a redrive keeps (`engine.redrive.plan`): their finished tasks and iterations are not
    repeated."""
    limits: dict[str, float] = field(default_factory=dict)
    """Its `timeout_s` and `deadline_s`, where expressions gave them when it was scheduled."""
    undoes: Undoes | None = None
    """The finished run that this one compensates: `{run, at, loop}`; with `stops`, the ended run whose work outside it stops."""
    outside: bool = False
    """True if it has waited for outside work, which would continue after an early end of the run."""
    claim: RunClaim | None = None
    """The worker that took it in the commit that scheduled it."""


@mutable
class StepState:
    """The record of the finished runs of one step: for `steps.<name>`, summaries and visit limits."""

    visits: int = 0
    runs: int = 0
    status: str | None = None
    at: ResultPointer | None = None
    """ResultPointer to the last finished run's result: `{run, seq}`; or `{value}` for results that the control plane computed
    itself."""
    loop: Counts | None = None
    took: Aggregates | None = None
    """Aggregates of all its finished runs, measured from their scheduling."""
    iterations: Aggregates | None = None
    """Aggregates of the iterations of its last finished run."""
    last_run: str | None = None
    """The last finished run."""
    warnings: Warnings | None = None
    """The warnings of all its runs (`engine.warnings`)."""
    fired: dict[str, int] = field(default_factory=dict)
    """The number of times that each arc was selected, by the arc's index."""
    opened: int = 0
    """Its runs, with the chunks of its loops and its compensations."""
    commits: int = 0
    """Commits of their streams, up to the newest boundaries that were routed."""


class EndedRun(NamedTuple):
    """An ended run; they are ordered by duration. `number` counts ended runs, so that no two are equal."""

    us: int
    number: int
    run: str
    step: str
    kind: Literal["run", "chunk", "undo"]
    began: int
    parent: str | None
    events: int
    """Envelopes of its stream."""
    chunk: int | None
    loop: tuple[int, int, int] | None
    """Total, succeeded and failed iterations."""


@mutable
class EndedRuns:
    """A bounded summary of the ended runs, chunks and compensations of all steps (`engine.fold.ended_runs`)."""

    count: int = 0
    since: int = 0
    """The first position whose commit is counted. After a snapshot without counts, these counts and those of `StepState` cover
    only the log from there."""
    slowest: list[EndedRun] = field(default_factory=list)
    """A heap of the slowest that did not fail."""
    failed: list[EndedRun] = field(default_factory=list)
    """A heap of the slowest that failed."""
    cells: Cells = field(default_factory=lambda: Cells(bits=0, at={}))
    """Cells of ended iterations, by the millisecond of the execution in which they ended."""


@mutable
class LimitUse:
    """A place in a limit that the execution, or a run of one of its steps, has asked for or holds."""

    holder: str
    key: str
    max: int
    on_limit: Literal["wait", "skip", "cancel_oldest"]
    asked_at: int
    priority: float = 0
    step: str | None = None
    token: str | None = None
    """The token that becomes the run; None for the execution itself."""
    held: bool = False
    shared: str | None = None
    """The place of another execution, a parent, which it shares: then it has none of its own."""

    @property
    def place(self) -> str:
        """Its sort key among waiters: by priority, then by the time of the request."""
        return f"{round((MAX_PRIORITY - self.priority) * 1000):010d}#{self.asked_at:018d}#{self.holder}"


@mutable
class Child:
    """A child execution that this execution requested."""

    run: str
    wait_id: str
    request: ChildRequest
    status: str = "requested"


@mutable
class State:
    """Everything the control plane knows of one execution."""

    execution_id: str
    seq: int = -1
    status: ExecutionStatus = "running"
    path: str = ""
    version: int = 0
    digest: str = ""
    payload: dict[str, Any] = field(default_factory=dict)
    rendered: dict[str, Any] = field(default_factory=dict)
    """The values of templates among the workload's defaults, from when the request was admitted, or redriven with another
        playbook.
    """
    parent: Parent | None = None
    trace_id: str | None = None
    trigger: Triggered | None = None
    """The trigger that started it; None if a caller started it."""
    labels: dict[str, str] = field(default_factory=dict)
    """Labels by which lists find the execution."""
    priority: float | None = None
    """The priority of its request; None: that of the playbook."""
    warnings: Warnings | None = None
    """The warnings that belong to no step."""
    strict: bool = False
    """Undefined values in templates, and errors that no rule matches, are failures; fixed at the start."""
    by: dict[str, By] = field(default_factory=dict)
    """The callers who started it and who last did each operation on it: `start`, `pause`, `resume`, `cancel`, `redrive`,
    `answer`."""
    key: RequestKey | None = None
    epoch: int = 0
    timeout_s: float | None = None
    """The timeout of the execution, where an expression gave it at the start."""
    started_at: int = 0
    finished_at: int | None = None
    updated_at: int = 0
    events: int = 0
    """Envelopes of the history: of the control stream, and of run streams as far as their boundaries were routed."""
    expires_at: int = 0
    ctx: dict[str, Any] = field(default_factory=dict)
    ctx_version: int = 0
    tokens: dict[str, Token] = field(default_factory=dict)
    places: dict[str, list[int]] = field(default_factory=dict)
    """The places of live tokens and runs in the tree of branches (`engine.fold.branch_places`)."""
    deduplicated: dict[str, str] = field(default_factory=dict)
    """Tokens of deduplicating routers by their key: an equal token is not produced again."""
    rounds: dict[str, dict[str, int]] = field(default_factory=dict)
    """Run -> the rounds of the token that it consumed, if it has any."""
    joins_fired: list[str] = field(default_factory=list)
    """Joins of mode any or count that have fired, as the name of the step, with `@n` for a later round. They drop late tokens
    of that round until nothing upstream is live in it."""
    runs: dict[str, Run] = field(default_factory=dict)
    steps: dict[str, StepState] = field(default_factory=dict)
    ended: EndedRuns = field(default_factory=EndedRuns)
    last_result: ResultPointer | None = None
    failure: Failure | None = None
    """The first unhandled error; the execution will end failed."""
    redriven_at: int = 0
    tokens_carried_over: dict[str, CarriedOver] = field(default_factory=dict)
    """After a redrive: the parts of earlier runs that the runs of these tokens keep."""
    completed: list[Completed] = field(default_factory=list)
    """Finished runs of steps with a compensation, in order of completion: `{run, step, args, at, loop, pool}`."""
    cancelled_for: str = ""
    undo: bool = False
    """The execution was cancelled with compensation."""
    not_undone: list[NotUndone] = field(default_factory=list)
    """Compensations that failed: `{step, kind, message}`."""
    children: dict[str, Child] = field(default_factory=dict)
    limits: dict[str, LimitUse] = field(default_factory=dict)
    """Places in limits, by holder. The remaining ones are released at the end."""
    freed: dict[str, LimitUse] = field(default_factory=dict)
    """The last places that runs have left. The next router of the same inputs frees them again, because a process may have died
    before it did."""
    admitted_at: int = 0
    """The instant at which the execution got its place, if it needs one. Its timeout counts from there."""
    signals: list[Signal] = field(default_factory=list)
    """The mailbox: signals that were received and not yet matched to a wait."""
    seen_signals: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)
    """The newest boundaries that were routed because their workers asked, as `run:seq`."""
    result: ResultPointer | None = None
    """The result, at the end: `{value}`, or a pointer."""
    stuck: str | None = None
    paused_by: str | None = None
    """The parent whose pause paused it; None: an operator paused it, or it is not paused."""
    attempts: int = 0
    """Evaluations of its templates in a row that began and did not end, because the process ended."""
    handled: Handled | None = None
    """The handling of its last failed end."""
    search: SearchAttributes | None = None
    """Search attributes as they were recorded last; None: the playbook has none."""

    @property
    def finished(self) -> bool:
        return self.status in TERMINAL

    @property
    def compensates(self) -> bool:
        """True if the execution, should it end now, compensates its finished steps."""
        return self.undo if self.status == "cancelling" else self.failure is not None

    @property
    def holder(self) -> str:
        """The name under which the execution itself holds a place in a limit: each redrive has another one."""
        return f"{self.execution_id}.{self.epoch}" if self.epoch else self.execution_id

    @property
    def awaits_place(self) -> bool:
        """True if the execution itself waits for a place. Until then none of its steps begins."""
        own = self.limits.get(self.holder) if self.limits else None
        return own is not None and not own.held

    @property
    def awaits_limit(self) -> bool:
        """True if the execution, or one of its tokens, waits for a place."""
        return any(not use.held for use in self.limits.values())

    def step(self, name: str) -> StepState:
        known = self.steps.get(name)
        if known is None:
            known = self.steps[name] = StepState()
        return known


NOT_TRIGGERED: Final[Mapping[str, Any]] = {
    "kind": "request",
    "name": None,
    "id": None,
    "scheduled_at": None,
    "previous_at": None,
}
"""`trigger` in the templates of an execution that was started by a request."""


def trigger_seen(trigger: Triggered | None) -> Mapping[str, Any]:
    """Return the value of `trigger` in templates."""
    return NOT_TRIGGERED if trigger is None else {**NOT_TRIGGERED, **trigger}


def caller_of(parent: Mapping[str, Any] | None) -> str | None:
    """Return the execution that called this one as its child, with the calling run, by the recorded `parent`. A parent without a
    run was named by the caller of the start; it is only a label and gives no rights."""
    return str(parent["execution_id"]) if parent and "run_id" in parent else None
