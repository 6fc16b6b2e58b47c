"""The API's answers about causes, as typed dictionaries: why a step ran or did not, why an execution ended, and how two
executions differ."""

from __future__ import annotations

from typing import Any, Literal, NotRequired

from typing_extensions import TypedDict

from noetl_core.api.shapes.catalog import PlaybookVersion
from noetl_core.api.shapes.executions import ExecutionStatus


class Read(TypedDict):
    """A value that a condition read, as JSON that may be shortened; `hint` is the name that was probably meant."""

    name: str
    value: str
    undefined: NotRequired[bool]
    hint: NotRequired[str]


class Guard(TypedDict):
    """A condition, its value (null: unknown, see `error`), and the values it read."""

    when: str
    holds: bool | None
    reads: list[Read]
    error: NotRequired[str]
    line: NotRequired[int]
    column: NotRequired[int]


class Arc(TypedDict):
    """An arc as it was evaluated; without `guard` it has no condition. `not_looked_at`: an earlier arc of an exclusive router
    fired."""

    arc: int
    source: str
    target: str
    fired: bool
    guard: NotRequired[Guard]
    not_looked_at: NotRequired[bool]
    line: NotRequired[int]
    column: NotRequired[int]


FactKind = Literal[
    "entry", "arc", "arcs", "joined", "redriven", "admission", "ran", "failed", "open", "wait", "retry", "compensated",
    "skipped", "expired", "held", "join", "not_reached", "unreachable", "dead_end", "iterations", "warning", "limit", "status",
    "unread",
]  # fmt: skip


class Fact(TypedDict):
    """A fact about a step or an execution, as a sentence and as data. `depth` 0 is about the request itself; a deeper
    fact explains the one before it. `iteration` is the first that failed in the most frequent way. `source`: the text at the line
    of a warning."""

    fact: FactKind
    text: str
    depth: int
    step: NotRequired[str]
    step_run_id: NotRequired[str]
    event_id: NotRequired[str]
    timestamp: NotRequired[str]
    arcs: NotRequired[list[Arc]]
    guards: NotRequired[list[Guard]]
    wait: NotRequired[dict[str, Any]]
    iteration: NotRequired[list[int]]
    line: NotRequired[int]
    column: NotRequired[int]
    source: NotRequired[str]


class CodeLine(TypedDict):
    """A line of a traceback: of the program text of a task, or of a library (`file`)."""

    name: str
    source: str
    line: NotRequired[int]
    column: NotRequired[int]
    file: NotRequired[str]


class Cause(TypedDict):
    """An error on the way to a failure.

    `item` is that of its iteration, as JSON that may be shortened. `hint`: an undefined name, and the names that exist beside it.
    `source`: the text of the playbook at its line, if its traceback has no line of the playbook. `playbook`, `execution_id` and
    `input` (JSON that may be shortened) are those of the child, if it happened in one.
    """

    kind: str
    message: str
    step: NotRequired[str]
    task: NotRequired[str]
    iteration: NotRequired[list[int]]
    item: NotRequired[str]
    hint: NotRequired[str]
    attempts: NotRequired[int]
    code: NotRequired[int | str]
    details: NotRequired[Any]
    event_id: NotRequired[str]
    step_run_id: NotRequired[str]
    execution_id: NotRequired[str]
    playbook: NotRequired[str]
    input: NotRequired[str]
    line: NotRequired[int]
    column: NotRequired[int]
    source: NotRequired[str]
    traceback: NotRequired[list[CodeLine]]
    stdout: NotRequired[str]
    stderr: NotRequired[str]


class PartlyRead(TypedDict):
    """The amount of a long control stream that was read, of `commits` in total.

    `unevaluated` conditions are too far from what was read; their recorded results are stated.
    """

    commits: int
    read: int
    unevaluated: int


class Why(TypedDict):
    """The explanation of a step, or of an execution's end: `causes` of its failure, the root first, and `facts`.

    `more` visits of the step are not shown. `partial`: the log is long, and parts of it were read.
    """

    execution_id: str
    status: ExecutionStatus
    playbook: PlaybookVersion
    step: str | None
    causes: list[Cause]
    facts: list[Fact]
    more: int
    partial: NotRequired[PartlyRead]


class Apart(TypedDict):
    """A field in which two executions differ, of a visit of a step or of the executions; values as JSON that may be shortened."""

    field: str
    a: str
    b: str
    step: NotRequired[str]
    visit: NotRequired[int]


class Compared(TypedDict):
    """One of two executions that are compared."""

    execution_id: str
    status: ExecutionStatus
    playbook: PlaybookVersion
    duration_ms: float | None


class VisitDurations(TypedDict):
    """The duration of a visit of a step in both executions; null: it did not end there."""

    step: str
    visit: int
    a_ms: float | None
    b_ms: float | None


class StepTotals(TypedDict):
    """The outcomes of all visits of a step; durations are those of visits that have ended."""

    visits: int
    failed: int
    mean_ms: float | None
    max_ms: float | None


class StepCompared(TypedDict):
    """A step in both executions; `compared` of its visits were compared one by one."""

    step: str
    compared: int
    a: StepTotals
    b: StepTotals


class PartlyCompared(TypedDict):
    """The part of two long executions that was compared one by one, of `visits` of steps that both have.

    `steps` has the outcomes of all visits.
    """

    visits: int
    compared: int
    steps: list[StepCompared]


class Diff(TypedDict):
    """The differences between two executions; durations do not count.

    `more`: these are the first differences. `partial`: of a long execution some visits are compared one by one, and the others by
    their counts.
    """

    a: Compared
    b: Compared
    differences: list[Apart]
    more: bool
    durations: list[VisitDurations]
    partial: NotRequired[PartlyCompared]
