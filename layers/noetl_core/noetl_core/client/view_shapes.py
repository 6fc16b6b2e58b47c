"""What the views of an execution, the service itself and credentials answer, as typed dictionaries (`shapes` has the others)."""

from __future__ import annotations

from typing import Any, Literal, NotRequired

from typing_extensions import TypedDict

from noetl_core.client.shapes import ExecutionStatus, LoopCounts

# --- views ------------------------------------------------------------------------------------------------------------------


class Difference(TypedDict):
    """A control commit that would be another one today."""

    event_id: str
    seq: int
    recorded: list[dict[str, Any]]
    decided: list[dict[str, Any]]


class Missing(TypedDict):
    """A control commit that cannot be decided again, and why."""

    event_id: str
    seq: int
    reasons: list[str]


class ObjectPiece(TypedDict):
    """A piece of a stored value, in base64; `next` is the byte to go on with, null: this was the last."""

    data: str
    next: int | None


class PageResult(TypedDict):
    """What one chunk of a loop gave: a list, or a reference to one."""

    result: Any


class Replay(TypedDict):
    """A part of a log decided again; `cursor` goes on after it, null: this was the end."""

    execution_id: str
    commits: int
    differences: list[Difference]
    missing: list[Missing]
    cursor: str | None


class Span(TypedDict):
    """A stretch of time: of a run, an attempt, a wait, a task, an iteration. `parent` is the place of the span it lies in.
    Spans of some kinds have more keys."""

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


class Rows(TypedDict):
    """How many runs there are of the step and the time that were asked for, and how many of them are shown."""

    total: int
    shown: int


class Timeline(TypedDict):
    """An execution as spans in parallel lanes. `partial`: the history is long, and this is its beginning. `rows` where so many
    were asked for."""

    execution_id: str
    status: str
    duration_ms: float
    lanes: int
    omitted: int
    spans: list[Span]
    partial: bool
    rows: NotRequired[Rows]


class JoinCount(TypedDict):
    """A join that waits for so many tokens."""

    count: int


class Node(TypedDict):
    """A step; `status` is null where the execution has not come to it. `tokens` wait for it. With a layout, `x` and `y` are its
    top left corner."""

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
    x: NotRequired[float]
    y: NotRequired[float]
    width: NotRequired[float]
    height: NotRequired[float]


class Edge(TypedDict):
    """An arc, and how often it fired; with a layout the `points` that its curve goes through, from border to border, and the
    middle of its `label`. `back`: it leads up."""

    source: str
    target: str
    arc: int
    when: str | None
    fired: int | None
    points: NotRequired[list[list[float]]]
    label: NotRequired[list[float]]
    back: NotRequired[bool]


class Layout(TypedDict):
    """The size of a drawing, in pixels, and the layers of its steps."""

    width: float
    height: float
    layers: int


class PlaybookGraph(TypedDict):
    """Steps and arcs; where each is drawn, if that was asked."""

    title: str
    nodes: list[Node]
    edges: list[Edge]
    layout: NotRequired[Layout]


class Graph(PlaybookGraph):
    """Steps and arcs, with what they came to."""

    execution_id: str
    status: ExecutionStatus


class Durations(TypedDict):
    """Milliseconds. `p50` and `p95` are bounds below which half, or 95 %, of the durations lie, within a factor of two."""

    mean: float
    p50: float
    p95: float
    max: float


class DurationGroup(TypedDict):
    """How many took less than `below_ms` milliseconds, and at least half of that."""

    below_ms: float
    count: int


class ErrorGroup(TypedDict):
    """Errors of the same kind, code, task and message, where numbers in messages count as the same. `first` is the iteration with
    the lowest indexes."""

    kind: str
    message: str
    count: int
    code: NotRequired[str | int]
    task: NotRequired[str]
    first: NotRequired[list[int]]


class FailedRange(TypedDict):
    """Of the iterations with these indexes, how many failed."""

    first: int
    last: int
    failed: int


class Aggregates(TypedDict):
    """What runs or iterations came to; bounded however many they are. `other_errors` counts those of groups that are not
    listed."""

    count: int
    duration_ms: Durations
    histogram: list[DurationGroup]
    retries: int
    errors: list[ErrorGroup]
    other_errors: int
    failed: list[FailedRange]


class Buckets(TypedDict):
    """Neighbouring iterations together. A cell is `[number, ended, failed, mean_ms, max_ms]`, of the iterations with indexes from
    `number * width` on of the outermost loop; cells in which none has ended are left out."""

    width: int
    cells: list[list[float]]


class StepAggregates(TypedDict):
    """What a step came to: its runs, from when they were scheduled, and the iterations of its newest run. `open` counts the runs
    that have not ended."""

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
    """Units by their name, and what they cost at list prices."""

    units: dict[str, float]
    cost: float


class MeteredStep(Metered):
    """What a step used."""

    runs: int


class Cost(TypedDict):
    """What an execution used. `partial`: the history is long, and this is its beginning."""

    execution_id: str
    status: ExecutionStatus
    currency: str
    total: Metered
    steps: dict[str, MeteredStep]
    prices: dict[str, float]
    partial: bool


class Written(TypedDict):
    """What an attempt of a task wrote: the ends of its streams."""

    task: str
    task_run_id: str
    attempt: int
    iteration: NotRequired[Any]
    stdout: NotRequired[str]
    stderr: NotRequired[str]


class LogEntry(Written):
    """`more` refers to all that was kept, `dropped` counts characters that were not."""

    event_id: str
    timestamp: str
    step: NotRequired[str]
    status: str
    more: NotRequired[dict[str, Any]]
    dropped: NotRequired[int]


class RunningLog(Written):
    """Of an attempt that still runs; `written` counts the characters that each stream has had so far."""

    step: str
    started_at: str
    written: dict[str, int]


class Logs(TypedDict):
    """A page of task logs; `cursor` and `more` as of a page of events. Of a local store the last has `running`."""

    logs: list[LogEntry]
    execution_id: str
    cursor: str | None
    more: bool
    running: NotRequired[list[RunningLog]]


# --- the service ------------------------------------------------------------------------------------------------------------


class Wiring(TypedDict, total=False):
    """Where the service runs."""

    name: str
    stack: str
    region: str


class Health(TypedDict):
    """That the service answers, and what it is."""

    status: Literal["ok"]
    version: str
    api_version: str
    wiring: Wiring


class Waiting(TypedDict):
    """Messages of one queue."""

    waiting: int
    in_flight: int
    delayed: int


class Backlog(TypedDict):
    """Messages by queue, and those that were given up."""

    pools: dict[str, Waiting]
    control: Waiting
    dead_letters: dict[str, int]


class Runtime(Wiring):
    """Where work is carried out, and what can be."""

    version: str
    kinds: list[str]
    pools: dict[str, dict[str, Any]]


# --- credentials ------------------------------------------------------------------------------------------------------------


class Credential(TypedDict):
    """What a credential is made of. `paths` are patterns of the playbooks it is for, null: all. `data` is what it holds, for
    callers who may read that."""

    name: str
    type: NotRequired[str]
    description: NotRequired[str]
    fields: NotRequired[list[str]]
    paths: NotRequired[list[str] | None]
    data: NotRequired[dict[str, Any]]


class Credentials(TypedDict):
    """Credentials that there are."""

    credentials: list[Credential]


class Deleted(TypedDict):
    """A credential that is no more."""

    name: str
    deleted: bool


# --- refusals ---------------------------------------------------------------------------------------------------------------


class Detail(TypedDict):
    """One thing that is wrong: where, what, and what to do. Those of a playbook have the keys of a diagnostic too."""

    loc: str
    message: str
    hint: str
    code: NotRequired[str]
    severity: NotRequired[str]
    page: NotRequired[str | None]
    line: NotRequired[int]
    col: NotRequired[int]


class Refusal(TypedDict):
    """Why a request was refused; `request_id` is what the service's log knows it by."""

    code: str
    message: str
    details: list[Detail]
    request_id: str


class ErrorBody(TypedDict):
    """What every refused request is answered."""

    error: Refusal
