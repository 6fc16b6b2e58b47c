"""The one model of a playbook: every accepted spelling is normalised to it (canonical step spec 7.4).

Values are frozen and compared by content (source positions do not count). Text that may contain templates is kept as source:
`expr` compiles it once per text. Everything that the engine reads is here and typed; nothing in `dsl` knows how it is
executed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar, Final, Literal, get_args

from noetl_core.dsl.sources import Events, Messages, Uploads, Webhook
from noetl_core.dsl.versions import Version
from noetl_core.values.frozen import frozen

Value = Any
"""A plain YAML/JSON value whose strings may be templates."""

Path = tuple[str | int, ...]
"""The place of a node in the document: `("workflow", 0, "tool", 1, "url")`."""


class _Unset:
    """Marks a key that was not written, where null is a value of its own."""

    def __repr__(self) -> str:
        return "UNSET"


UNSET = _Unset()

Do = Literal["continue", "retry", "jump", "break", "fail"]
FailureMode = Literal["fail_fast", "best_effort"]
Overlap = Literal["skip", "queue", "allow", "cancel"]
CatchUp = Literal["none", "latest", "all"]
OVERLAP: Final[tuple[Overlap, ...]] = get_args(Overlap)
CATCH_UP: Final[tuple[CatchUp, ...]] = get_args(CatchUp)


@frozen
class Then:
    """The action of a task-policy rule (formal specification 6.2, resolutions 7 and 29)."""

    do: Do = "continue"
    attempts: Value = 3
    """Executions including the first (retry)."""
    backoff: Literal["none", "linear", "exponential"] = "none"
    delay: Value = None
    """Seconds, or a template for them."""
    max_delay: Value = None
    jitter: Value = None
    """true, or a fraction 0-1: the delay is drawn from [delay*(1-jitter), delay]."""
    backoff_multiplier: float = 2.0
    to: str | None = None
    scope: Literal["iteration", "loop"] = "iteration"
    """`break` with scope loop ends the whole loop early."""
    set_iter: Mapping[str, Value] = field(default_factory=dict)
    set_ctx: Mapping[str, Value] = field(default_factory=dict)
    set_prev: Value = UNSET
    error: Value = None
    """`fail`: the message to fail with instead of the task's own error."""


@frozen
class Rule:
    """One entry of `policy.rules`; `when` None is the `else` entry."""

    when: str | None
    then: Then
    path: Path = field(default=(), compare=False)


@frozen
class TaskPolicy:
    """`task.spec.policy` (formal specification 6, canonical step spec 5.4)."""

    rules: tuple[Rule, ...]
    on_unmatched: Literal["continue", "fail"] | None = None
    """None: it fails in strict executions, and continues in others."""
    hooks: Mapping[str, Value] = field(default_factory=dict)
    """`before`, `after`, `finally` as declared; no effect in v10 (resolution 30)."""


@frozen
class Rate:
    """`task.spec.policy.rate`: how often tasks of one key begin, over all executions."""

    key: Value
    per_second: Value
    burst: Value = 1


@frozen
class Concurrency:
    """`policy.concurrency` of an executor or a step: how many of one key run at the same time, over all executions."""

    key: Value
    max: Value
    on_limit: Literal["wait", "skip", "cancel_oldest"] = "wait"


@frozen
class Task:
    """A labelled tool invocation of a pipeline, normalised (canonical step spec 7).

    `inputs` are the fields of the kind, unrendered (`url`, `code`, `args`, `auth`, ...). `spec` is the *effective* spec -
    kind defaults, executor, step, loop and task merged (canonical step spec 3.1) - without `policy`. `timeout_s` limits the
    whole task.
    """

    name: str
    kind: str
    inputs: Mapping[str, Value] = field(default_factory=dict)
    spec: Mapping[str, Value] = field(default_factory=dict)
    policy: TaskPolicy | None = None
    set_iter: Mapping[str, Value] = field(default_factory=dict)
    set_ctx: Mapping[str, Value] = field(default_factory=dict)
    """Written on the task itself: applied when it ends ok, before its policy."""
    timeout_s: Value = None
    rate: Rate | None = None
    """The task's own rate, else that of the step's tasks, else that of the executor's."""
    label: str | None = field(default=None, compare=False)
    """The author's name of a task that was made from sugar (`choose`, `while`, `until`)."""
    path: Path = field(default=(), compare=False)
    line: int = field(default=0, compare=False)
    """The line of the text at which it begins, from 1; 0 if it comes from no text."""
    entry: str | None = field(default=None, compare=False)
    """The entry of the workbook that it runs, if its kind was `workbook`."""

    @property
    def called(self) -> str:
        """The name of the task in the words of its author."""
        return f"task {self.name}" if self.label is None else f"{self.label} (line {self.line})"

    @property
    def answered_by_token(self) -> bool:
        """Return whether this is a callback that a token answers, not one that waits for a signal."""
        return self.kind == "callback" and not self.inputs.get("signal")


@frozen
class Cursor:
    """`loop.cursor`: rows that are claimed from a source, frame by frame. `fields` are those of the kind, unrendered."""

    kind: str
    fields: Mapping[str, Value] = field(default_factory=dict)
    lease_s: Value = 600
    """Seconds that a claim holds without being renewed."""
    path: Path = field(default=(), compare=False)


@frozen
class Loop:
    """`step.loop` (formal specification 2.3 and 7; canonical step spec 8; resolutions 9, 10, 17 and 29)."""

    in_: Value
    iterator: str
    mode: Literal["sequential", "parallel"] = "sequential"
    max_in_flight: Value = 10
    """Concurrent iterations of a parallel loop."""
    exec: Literal["auto", "local", "distributed"] | None = None
    """None: auto."""
    chunk_size: Value = None
    commit_every: Value = None
    """The maximum number of iterations between two commits of a worker; None: as many as end within a second."""
    reducers: Mapping[str, str] = field(default_factory=dict)
    failure_mode: FailureMode = "fail_fast"
    tolerated_count: Value = None
    tolerated_percent: Value = None
    inner: Loop | None = None
    cursor: Cursor | None = None
    """Iterated over instead of `in_`."""
    frame: Value = 100
    """Rows that a cursor claims at once."""
    path: Path = field(default=(), compare=False)


@frozen
class AdmitRule:
    """One entry of `policy.admit.rules`; `when` None is the `else` entry."""

    when: str | None
    allow: Value
    path: Path = field(default=(), compare=False)


@frozen
class Admission:
    """`step.spec.policy.admit` (formal specification 4.2, resolution 12)."""

    rules: tuple[AdmitRule, ...]
    on_deny: Literal["park", "skip", "fail"] = "park"


@frozen
class Join:
    """`step.spec.join` (resolution 13): `all`, `any`, or the n-th token."""

    mode: Literal["all", "any", "count"]
    count: int = 1


@frozen
class Arc:
    """One outgoing arc; `index` is its place in `next.arcs` and part of its tokens' ids."""

    index: int
    step: str
    when: str | None = None
    args: Mapping[str, Value] = field(default_factory=dict)
    set_ctx: Mapping[str, Value] = field(default_factory=dict)
    path: Path = field(default=(), compare=False)


@frozen
class Router:
    """`step.next` (formal specification 8)."""

    arcs: tuple[Arc, ...]
    mode: Literal["exclusive", "inclusive"] = "exclusive"
    priority: Value = 0
    dedupe: Value = False


@frozen
class Step:
    """A transition of the Petri net: admission, ordered pipeline, router (formal specification 2.2)."""

    name: str
    tasks: tuple[Task, ...] = ()
    router: Router | None = None
    loop: Loop | None = None
    desc: str | None = None
    admission: Admission | None = None
    join: Join | None = None
    args: Mapping[str, Value] = field(default_factory=dict)
    """Defaults for the token's args; the token's win."""
    each_args: Mapping[str, Value] = field(default_factory=dict)
    """The arguments that read the loop's iterator. They are evaluated for each iteration, where it is known."""
    set_ctx: Mapping[str, Value] = field(default_factory=dict)
    """Applied when the step's boundary is a success, before its arcs are evaluated."""
    pool: str = "default"
    timeout_s: Value = None
    deadline_s: Value = None
    failure_mode: FailureMode = "fail_fast"
    compensate: tuple[Task, ...] = ()
    """The tasks that undo a finished run of the step when the execution fails, or is cancelled with compensation."""
    compensate_loop: Loop | None = None
    concurrency: Concurrency | None = None
    spec: Mapping[str, Value] = field(default_factory=dict)
    """The other keys of `step.spec`, without `policy`."""
    path: Path = field(default=(), compare=False)


@frozen
class Limits:
    """`executor.spec.policy.limits`: limits beyond which an execution fails with a clear error instead of running forever."""

    max_payload_bytes: int = 8 * 1024
    max_input_bytes: int = 64 * 1024 * 1024
    max_step_visits: int = 10_000
    max_task_visits: int = 100_000
    max_commits: int = 1_000_000
    max_tokens: int = 10_000
    max_frames: int = 10_000


@frozen
class Schedule:
    """A source of a trigger: times. Either `cron` or `every_s` is set."""

    kind: ClassVar[str] = "schedule"
    cron: str | None = None
    """A cron expression of five fields."""
    every_s: int | None = None
    """Seconds between two occurrences, which are counted from 1970 on."""
    timezone: str = "UTC"
    overlap: Overlap = "skip"
    """The treatment of an occurrence while the execution of an earlier one runs."""
    catch_up: CatchUp = "latest"
    """The missed occurrences that are started afterwards."""
    jitter_s: float = 0


Source = Schedule | Events | Messages | Webhook | Uploads
"""The source of a trigger: times, events, messages of a queue, requests or uploads."""


@frozen
class Trigger:
    """One entry of `executor.spec.triggers`: a source that starts the playbook automatically, and its payload."""

    name: str
    source: Source
    payload: Mapping[str, Value] = field(default_factory=dict)
    """Merged over the workload; its templates read `trigger`."""
    enabled: bool = True
    """If true, the trigger is enabled when it is registered for the first time."""
    version: Version = None
    """The version to start, a number or an alias; None: the version that defines the trigger."""
    path: Path = field(default=(), compare=False)
    line: int = field(default=0, compare=False)

    @property
    def kind(self) -> str:
        return self.source.kind


@frozen
class OnFailure:
    """`executor.spec.on_failure`: the handler of a failed execution: one of the first three, or none."""

    playbook: str | None = None
    webhook: str | None = None
    sns: str | None = None
    credential: str | None = None
    also: Literal["warnings"] | None = None
    """`warnings`: executions that completed with warnings are notified, too."""
    disabled: bool = False


@frozen
class Executor:
    """`executor.spec`, typed (canonical step spec 5.1; resolutions 5, 6, 11, 16, 20 and 21)."""

    kind: str | None = None
    entry_step: str | None = None
    result: Value = UNSET
    failure_mode: FailureMode = "fail_fast"
    unconditional_on_failure: bool = False
    reference_first: bool = False
    strict: bool | None = None
    """Undefined values and errors that no rule matches are failures; None: the stack's default."""
    limits: Limits = Limits()
    lifetime_s: float = 30 * 24 * 3600
    """An execution older than this fails clearly."""
    timeout_s: Value = None
    extensions: bool = False
    pool: str = "default"
    requirements: tuple[str, ...] = ()
    """Packages that python tasks import (`dsl.sections.requirements`)."""
    triggers: tuple[Trigger, ...] = ()
    concurrency: Concurrency | None = None
    priority: Value = 0
    """Among executions that wait for a limit, the one with the higher number comes first."""
    search: Mapping[str, Value] = field(default_factory=dict)
    """Search attributes (`dsl.sections.search`)."""
    on_failure: OnFailure | None = None
    spec: Mapping[str, Value] = field(default_factory=dict)


@frozen
class KeychainEntry:
    """One declared credential (canonical step spec 2.1)."""

    name: str
    kind: str
    options: Mapping[str, Value] = field(default_factory=dict)


@dataclass(frozen=True)
class Playbook:
    """A whole playbook. `digest` is `sha256:` of its source text; executions pin the playbook by it."""

    name: str
    path: str
    steps: tuple[Step, ...]
    workload: Mapping[str, Value] = field(default_factory=dict)
    executor: Executor = field(default_factory=Executor)
    keychain: tuple[KeychainEntry, ...] = ()
    workbook: Mapping[str, Task] = field(default_factory=dict)
    metadata: Mapping[str, Value] = field(default_factory=dict)
    inputs: Mapping[str, Value] | None = None
    """`workload.x-schema`: the schema of the workload."""
    digest: str = field(default="", compare=False)

    @cached_property
    def facts(self) -> dict[tuple[Callable[..., Any], tuple[Any, ...]], Any]:
        """The store of `dsl.derived.derived`: facts by the function that computes them and its arguments."""
        return {}

    @cached_property
    def by_name(self) -> Mapping[str, Step]:
        return {s.name: s for s in self.steps}

    @property
    def all_tasks(self) -> list[Task]:
        """The tasks of all steps with their compensations, and of the workbook."""
        return [t for step in self.steps for t in (*step.tasks, *step.compensate)] + list(self.workbook.values())

    def body(self, name: str, *, undo: bool = False) -> Step:
        """Return the part of the step that a run executes; with `undo`, its compensation, as a step with nothing else."""
        return (self._compensations if undo else self.by_name)[name]

    @cached_property
    def _compensations(self) -> Mapping[str, Step]:
        loops = {s.name: s.compensate_loop and replace(s.compensate_loop, exec="local") for s in self.steps}
        return {s.name: Step(s.name, s.compensate, loop=loops[s.name], pool=s.pool, spec=s.spec) for s in self.steps}

    @cached_property
    def entry_step(self) -> str:
        """`executor.spec.entry_step`; otherwise the step named `start`; otherwise the first (resolution 5)."""
        if self.executor.entry_step is not None:
            return self.executor.entry_step
        return "start" if "start" in self.by_name else self.steps[0].name
