"""Answers about views of an execution, as typed dictionaries (`shapes` has the others)."""

from __future__ import annotations

from typing import Any, NotRequired

from typing_extensions import TypedDict

from noetl_core.api.shapes.executions import ExecutionStatus, LoopCounts

# --- views ------------------------------------------------------------------------------------------------------------------


class EventChange(TypedDict):
    """An event that was only recorded or would only be decided, or a field (`path`) of one that would be another; values as JSON
    that may be shortened."""

    event: str
    path: NotRequired[str]
    recorded: NotRequired[str]
    decided: NotRequired[str]


class Difference(TypedDict):
    """A control commit that would come out differently today; `changes` compares its events."""

    event_id: str
    seq: int
    recorded: list[dict[str, Any]]
    decided: list[dict[str, Any]]
    changes: list[EventChange]


class Missing(TypedDict):
    """A control commit that cannot be decided again, and why."""

    event_id: str
    seq: int
    reasons: list[str]


class ObjectPiece(TypedDict):
    """A piece of a stored value, in base64; `next` is the byte to continue from, null: this was the last piece."""

    data: str
    next: int | None


class PageResult(TypedDict):
    """The results of one chunk of a loop: a list, or a reference to one."""

    result: Any


class Replay(TypedDict):
    """A part of a log decided again; `cursor` continues after it, null: this was the end."""

    execution_id: str
    commits: int
    differences: list[Difference]
    missing: list[Missing]
    cursor: str | None


class Span(TypedDict):
    """A span of time: of a run, an attempt, a wait, a task, an iteration. `parent` is the index of the enclosing span. Some
    kinds of spans have more keys. `critical`: a run of the critical path, where the end of each run opened the next."""

    id: int
    parent: int | None
    kind: str
    name: str
    step: str
    step_run_id: str
    status: str
    lane: int
    offset_ms: float
    duration_ms: float | None
    attempt: NotRequired[int]
    iteration: NotRequired[list[int]]
    chunk: NotRequired[int]
    loop: NotRequired[LoopCounts]
    worker: NotRequired[str | None]
    takeover: NotRequired[Any]
    waits: NotRequired[list[dict[str, Any]]]
    critical: NotRequired[bool]


class Rows(TypedDict):
    """The number of runs of the requested step and time, and how many of them are shown.

    `kept`: the history is too long to be read for it. The runs shown were chosen from the open ones and from those kept because
    they failed or took longest.
    """

    total: int
    shown: int
    kept: NotRequired[int]


class EndedCells(TypedDict):
    """The times at which runs ended.

    Each of `cells` is `[number, ended, failed, mean_ms, max_ms]`: of the runs that ended between `number * width_ms` and `(number
    + 1) * width_ms` from the beginning. Cells in which none ended are left out.
    """

    width_ms: int
    cells: list[list[float]]


class Timeline(TypedDict):
    """An execution as spans in parallel lanes; `rows` if a number was requested."""

    execution_id: str
    status: str
    started_at: str
    duration_ms: float
    lanes: int
    omitted: int
    spans: list[Span]
    rows: NotRequired[Rows]
    ended: NotRequired[EndedCells]


class JoinCount(TypedDict):
    """A join that waits for this many tokens."""

    count: int


class GraphStep(TypedDict):
    """A step; `status` is null if the execution has not reached it. `tokens` wait for it."""

    step: str
    entry: bool
    status: str | None
    runs: int
    kinds: list[str]
    tasks: int
    loop: NotRequired[str]
    join: NotRequired[str | JoinCount]
    cursor: NotRequired[str]
    counts: NotRequired[LoopCounts]
    tokens: NotRequired[int]


class Node(GraphStep):
    """A step, or `branches` of the step `fork` that are folded, with their `steps`. With a layout, `x` and `y` are
    its top left corner."""

    branches: NotRequired[int]
    fork: NotRequired[str]
    steps: NotRequired[list[GraphStep]]
    x: NotRequired[float]
    y: NotRequired[float]
    width: NotRequired[float]
    height: NotRequired[float]


class Edge(TypedDict):
    """An arc, and how often it fired; with a layout the `points` that its curve goes through, from border to border, and the
    middle of its `label`. `back`: it leads upwards. `of`: the arcs of folded branches that it stands for, by step and number."""

    source: str
    target: str
    arc: int
    when: str | None
    fired: int | None
    points: NotRequired[list[list[float]]]
    label: NotRequired[list[float]]
    back: NotRequired[bool]
    of: NotRequired[list[list[Any]]]


class Layout(TypedDict):
    """The size of a drawing, in pixels, and the layers of its steps."""

    width: float
    height: float
    layers: int


class PlaybookGraph(TypedDict):
    """Steps and arcs; with positions, if requested."""

    title: str
    nodes: list[Node]
    edges: list[Edge]
    layout: NotRequired[Layout]


class Graph(PlaybookGraph):
    """Steps and arcs, with their status."""

    execution_id: str
    status: ExecutionStatus


class Durations(TypedDict):
    """Milliseconds. `p50` and `p95` are bounds below which half, or 95 %, of the durations lie, within a factor of two."""

    mean: float
    p50: float
    p95: float
    max: float


class DurationGroup(TypedDict):
    """The number of durations below `below_ms` milliseconds, and of at least half of that."""

    below_ms: float
    count: int


class ErrorGroup(TypedDict):
    """Errors of the same kind, code, task and message, where numbers in messages count as the same. `first` is the iteration with
    the lowest indexes."""

    kind: str
    message: str
    count: int
    code: NotRequired[int | str]
    task: NotRequired[str]
    first: NotRequired[list[int]]


class FailedRange(TypedDict):
    """The number of failed iterations with these indexes."""

    first: int
    last: int
    failed: int


class Aggregates(TypedDict):
    """A summary of runs or iterations, of bounded size however many they are. `other_errors` counts the errors of groups that are
    not listed."""

    count: int
    duration_ms: Durations
    histogram: list[DurationGroup]
    retries: int
    errors: list[ErrorGroup]
    other_errors: int
    failed: list[FailedRange]


class Buckets(TypedDict):
    """Neighbouring iterations in groups. A cell is `[number, ended, failed, mean_ms, max_ms]`, of the iterations with indexes
    from `number * width` on of the outermost loop; cells in which none has ended are left out."""

    width: int
    cells: list[list[float]]


class StepAggregates(TypedDict):
    """A summary of a step: its runs, timed from when they were scheduled, and the iterations of its newest run. `open` counts
    the runs that have not ended."""

    execution_id: str
    step: str
    status: str
    visits: int
    runs: Aggregates
    open: int
    loop: NotRequired[LoopCounts]
    iterations: NotRequired[Aggregates]
    buckets: NotRequired[Buckets]


class Metered(TypedDict):
    """Units by their name, and their cost at list prices."""

    units: dict[str, float]
    cost: float


class MeteredStep(Metered):
    """The usage of a step."""

    runs: int


class Sample(TypedDict):
    """The number of commits of an execution, and the number from which the total cost was estimated."""

    commits: int
    read: int


class Cost(TypedDict):
    """The usage of an execution; `estimated` if its history is too long to be read for that."""

    execution_id: str
    status: ExecutionStatus
    currency: str
    total: Metered
    steps: dict[str, MeteredStep]
    prices: dict[str, float]
    estimated: NotRequired[Sample]


class Written(TypedDict):
    """The output of an attempt of a task: the ends of its streams."""

    task: str
    task_run_id: str
    attempt: int
    iteration: NotRequired[Any]
    stdout: NotRequired[str]
    stderr: NotRequired[str]


class LogEntry(Written):
    """`more` refers to everything that was kept, `dropped` counts characters that were not."""

    event_id: str
    timestamp: str
    step: NotRequired[str]
    status: str
    more: NotRequired[dict[str, Any]]
    dropped: NotRequired[int]


class RunningLog(Written):
    """The output of a running attempt; `written` counts the characters of each stream so far."""

    step: str
    started_at: str
    written: dict[str, int]


class Logs(TypedDict):
    """A page of task logs; `cursor` and `more` as for a page of events. For a local store the last page has `running`."""

    logs: list[LogEntry]
    execution_id: str
    cursor: str | None
    more: bool
    running: NotRequired[list[RunningLog]]
