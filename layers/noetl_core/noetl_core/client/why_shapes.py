"""What the API says of causes, as typed dictionaries: why a step ran or did not, why an execution came to what it did,
and what two executions differ in."""

from __future__ import annotations

from typing import Any, Literal, NotRequired

from typing_extensions import TypedDict

from noetl_core.client.catalog_shapes import PlaybookVersion
from noetl_core.client.shapes import ExecutionStatus


class Read(TypedDict):
    """A value that a condition read, as JSON that may be shortened; `hint` says which name was probably meant."""

    name: str
    value: str
    undefined: NotRequired[bool]
    hint: NotRequired[str]


class Guard(TypedDict):
    """A condition, whether it holds (null: `error` says why that cannot be told), and what it read."""

    when: str
    holds: bool | None
    reads: list[Read]
    error: NotRequired[str]
    line: NotRequired[int]
    column: NotRequired[int]


class Arc(TypedDict):
    """An arc as it was judged; without `guard` it has no condition. `not_looked_at`: an arc before it had won an exclusive
    choice."""

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
    "skipped", "expired", "held", "join", "not_reached", "unreachable", "dead_end", "iterations", "limit", "status",
]  # fmt: skip


class Fact(TypedDict):
    """A fact about a step or an execution, as a sentence and as data. `depth` 0 is about what was asked for; what is deeper leads
    to the fact before it."""

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
    line: NotRequired[int]
    column: NotRequired[int]


class CodeLine(TypedDict):
    """A line of a traceback: of the program text of a task, or of a library (`file`)."""

    name: str
    source: str
    line: NotRequired[int]
    column: NotRequired[int]
    file: NotRequired[str]


class Cause(TypedDict):
    """An error on the way to a failure. `playbook` and `execution_id` are those of a child, where it happened in one."""

    kind: str
    message: str
    step: NotRequired[str]
    task: NotRequired[str]
    iteration: NotRequired[list[int]]
    attempts: NotRequired[int]
    code: NotRequired[str | int]
    details: NotRequired[Any]
    event_id: NotRequired[str]
    step_run_id: NotRequired[str]
    execution_id: NotRequired[str]
    playbook: NotRequired[str]
    line: NotRequired[int]
    column: NotRequired[int]
    traceback: NotRequired[list[CodeLine]]
    stdout: NotRequired[str]
    stderr: NotRequired[str]


class Why(TypedDict):
    """Why a step ran or did not, or why an execution came to what it did: `causes` of its failure, the root first, and `facts`.
    `more` visits of the step are not shown."""

    execution_id: str
    status: ExecutionStatus
    playbook: PlaybookVersion
    step: str | None
    causes: list[Cause]
    facts: list[Fact]
    more: int


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
    """How long a visit of a step took in both executions; null: it did not end there."""

    step: str
    visit: int
    a_ms: float | None
    b_ms: float | None


class Diff(TypedDict):
    """What two executions differ in; how long they took is no difference. `more`: these are the first."""

    a: Compared
    b: Compared
    differences: list[Apart]
    more: bool
    durations: list[VisitDurations]
