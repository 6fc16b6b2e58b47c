"""Steps, their loops, and the routers with the arcs between them."""

from __future__ import annotations

from typing import Final

from noetl_core.dsl.fields.cursor import CURSOR
from noetl_core.dsl.fields.playbook import RESOURCES
from noetl_core.dsl.fields.policies import ADMISSION, FAILURE_MODE, SET, SET_CTX, TASK_POLICY
from noetl_core.dsl.fields.shared_limits import CONCURRENCY_OF_STEP
from noetl_core.dsl.fields.tools import ASSERT, OUTPUT, RETRY
from noetl_core.dsl.fields.types import (
    Anything,
    Block,
    Choice,
    Condition,
    Field,
    ListOf,
    Name,
    Part,
    Prose,
    Shape,
    Text,
    Values,
    also,
)
from noetl_core.dsl.model import UNSET, Loop, Router, Step
from noetl_core.dsl.numbers import (
    CHUNK_SIZE,
    COMMIT_EVERY,
    FRAME,
    JOIN_COUNT,
    PRIORITY,
    TIMEOUT,
    TOLERATED_COUNT,
    TOLERATED_PERCENT,
    WINDOW,
)

REDUCERS: Final = ("last", "append", "extend", "sum", "min", "max", "merge", "count")
_STEP: Final = Step("")
_LOOP: Final = Loop((), "")
_ROUTER: Final = Router(())
_PIPELINE: Final = Shape("pipeline", "a task, or a list of tasks")
_NESTED: Final = Shape("loop", "a loop")

# --- loop ---------------------------------------------------------------------------------------------------------------

_MODE: Final = Field(
    "mode",
    Choice(("sequential", "parallel", "cursor")),
    "Whether the iterations run one after the other or concurrently; `cursor`, in a loop with a `cursor`, means `parallel`.",
    default=_LOOP.mode,
)
_IN_FLIGHT: Final = Field(
    "max_in_flight",
    WINDOW,
    "The maximum number of concurrent iterations of a parallel loop.",
    default=_LOOP.max_in_flight,
)
_CHUNK: Final = Field(
    "chunk_size",
    CHUNK_SIZE,
    "The number of elements of a distributed loop that a worker gets at once.",
    otherwise="chosen by how long iterations take",
    link="loops.md#where-iterations-run",
)

LOOP_FAILURE: Final = Block(
    "loop_failure",
    "What failed iterations do to the loop.",
    "loops.md#failures",
    FAILURE_MODE._replace(
        doc="What a failed iteration does: `fail_fast` starts no further iterations, `best_effort` runs all of them.",
        otherwise="that of the step",
    ),
    Field("tolerated_count", TOLERATED_COUNT, "The number of iterations of a `fail_fast` loop that may fail.", otherwise="none"),
    Field(
        "tolerated_percent",
        TOLERATED_PERCENT,
        "The percentage of the iterations of a `fail_fast` loop that may fail.",
        otherwise="none",
    ),
    prefix="failure of ",
)

LOOP_POLICY: Final = Block(
    "loop_policy",
    "How the iterations of a loop run, and what happens to their writes and failures.",
    "loops.md#loops",
    Field(
        "exec",
        Choice(("auto", "local", "distributed")),
        "Whether one worker runs the whole loop, or many share it in chunks. With `auto`, one worker begins, and "
        "hands over the rest if the loop takes long.",
        otherwise="`auto`",
        link="loops.md#where-iterations-run",
    ),
    _MODE._replace(doc="The same as `spec.mode`, which wins."),
    _IN_FLIGHT._replace(doc="The same as `spec.max_in_flight`, which wins."),
    _CHUNK._replace(doc="The same as `spec.chunk_size`, which wins."),
    Field(
        "reducers",
        Shape("reducers", f"a mapping of keys of `ctx` to one of {', '.join(f'`{word}`' for word in REDUCERS)}"),
        "How to combine the values that iterations of a parallel loop write to the same key of `ctx`.",
        link="loops.md#ctx-in-a-parallel-loop",
    ),
    Field(
        "failure",
        LOOP_FAILURE,
        "What failed iterations do to the loop, and how many of them it tolerates.",
        link="loops.md#failures",
    ),
    *(
        Field(name, Anything("anything"), f"{what} Accepted without effect.", effect=False)
        for name, what in {
            "ordering": "The order of the iterations.",
            "backpressure": "How a loop slows down.",
            "partitioning": "How elements are shared among workers.",
        }.items()
    ),
    prefix="policy of ",
)

LOOP_SPEC: Final = Block(
    "loop_spec",
    "Options of a loop. Any option of a tool kind may also be set here, as a default for the tasks of the loop.",
    "loops.md#loops",
    _MODE,
    _IN_FLIGHT,
    _CHUNK,
    Field(
        "commit_every",
        COMMIT_EVERY,
        "The number of ended iterations that a worker commits together. With 1, a worker commits all ended iterations "
        "before it begins the next one. A crash repeats uncommitted iterations.",
        otherwise="all that end within a second",
        link="loops.md#commits",
    ),
    Field("frame", FRAME, "The number of rows that a cursor claims at once.", default=_LOOP.frame, link="loops.md#cursors"),
    Field("policy", LOOP_POLICY, "Where iterations run, how their writes combine, and how many may fail."),
    prefix="spec of ",
    layered=True,
)

LOOP: Final = Block(
    "loop",
    "Repeats the tasks of a step for each element of a collection.",
    "loops.md#loops",
    Field(
        "in",
        Shape("collection", "a list, a mapping, or an expression for one", template=True),
        "The collection. A mapping gives pairs `{key, value}`.",
        otherwise="what `cursor` claims",
    ),
    Field("cursor", Part(CURSOR), "Claims the elements from a source, instead of `in`.", link="loops.md#cursors"),
    Field("iterator", Name("an iterator"), "The name of the element: templates read `iter.<name>`.", required=True),
    Field("spec", LOOP_SPEC, "Options and policy of the loop."),
    Field("loop", _NESTED, "A nested loop, which runs for each element.", link="loops.md#nested-loops"),
    _MODE._replace(doc="The same as `spec.mode`.", same_as="spec.mode", default=UNSET),
    _IN_FLIGHT._replace(doc="The same as `spec.max_in_flight`.", same_as="spec.max_in_flight", default=UNSET),
    legacy={"as": "the element's name is iterator"},
)

# --- step ---------------------------------------------------------------------------------------------------------------

JOIN: Final = Block(
    "join_count",
    "A join that fires on the n-th token.",
    "arcs.md#joins",
    Field(
        "count",
        JOIN_COUNT,
        "The step runs when this many tokens have arrived; later ones are dropped.",
        required=True,
        label="count of join of {}",
    ),
    prefix="join of ",
)

STEP_LIFECYCLE: Final = Block(
    "step_lifecycle",
    "How long a run of the step may take.",
    "steps.md#timeouts",
    Field(
        "timeout_s",
        TIMEOUT,
        "Seconds that one run may take from when it is scheduled, waits included.",
        otherwise="`timeouts.step_s` of the executor",
    ),
    Field("deadline_s", TIMEOUT, "Seconds after the start of the execution by which a run must have ended."),
    prefix="lifecycle of ",
)

STEP_FAILURE: Final = Block(
    "step_failure",
    "What a failed iteration does to the loops of the step.",
    "loops.md#failures",
    FAILURE_MODE._replace(
        doc="What a failed iteration does to the step's loop and to loops within it: `best_effort` runs all iterations.",
        default=_STEP.failure_mode,
    ),
    prefix="failure of ",
)

STEP_POLICY: Final = Block(
    "step_policy",
    "Admission, times and failures of a step. Rules belong to its tasks.",
    "steps.md#spec-of-a-step",
    Field("admit", Part(ADMISSION), "Whether a token may start a run of the step.", link="steps.md#admission"),
    Field(
        "lifecycle",
        STEP_LIFECYCLE,
        "How long a run of the step may take.",
        link="steps.md#timeouts",
    ),
    Field(
        "failure",
        STEP_FAILURE,
        "What a failed iteration does to the loops of the step.",
        link="loops.md#failures",
    ),
    Field(
        "task", Part(TASK_POLICY), "The task policy of those tasks of the step that have none.", link="policies.md#task-policy"
    ),
    CONCURRENCY_OF_STEP,
    Field("resources", RESOURCES, "The worker pool that runs the step."),
    Field(
        "compensation",
        Shape("compensation", "a task, a list of tasks, or `{loop, tool}`"),
        "The same as `compensate` of the step.",
        link="compensation.md",
    ),
    *(
        Field(name, Anything("anything"), f"{what} Accepted without effect.", effect=False)
        for name, what in {
            "emit": "Events of your own.",
            "tracing": "Options of tracing.",
            "quotas": "Quotas of the step.",
        }.items()
    ),
    prefix="policy of ",
    misplaced=("rules",),
)

STEP_SPEC: Final = Block(
    "step_spec",
    "Options of a step. Any option of a tool kind may also be set here, as a default for the tasks of the step.",
    "steps.md#spec-of-a-step",
    Field(
        "join",
        Shape("join", "`all`, `any` or `{count: n}`"),
        "How tokens that meet at the step become one run.",
        otherwise="each token causes a run of its own",
        link="arcs.md#joins",
    ),
    Field("pool", Name("a pool"), "The worker pool that runs the step.", otherwise="that of the executor"),
    Field("policy", STEP_POLICY, "Admission, times, failures, and the default task policy of the step."),
    prefix="spec of ",
    layered=True,
)

_TIME: Final = "spec.policy.lifecycle.timeout_s"
_SET_CTX_KEYS: Final = SET._replace(
    type=Shape("set", "a mapping whose keys begin with `ctx.`"), doc="Another way to write `set_ctx`: `ctx.a: value`."
)
_ARGS_OF_STEP: Final = Field(
    "args", Values(), "Defaults for the arguments of the token; the token's own arguments take precedence."
)

COMPENSATION: Final = Block(
    "compensation",
    "Undoes a finished run of a step when the execution fails.",
    "compensation.md#compensation",
    Field("loop", _NESTED, "Repeats the tasks for each element of a collection.", link="compensation.md#loops"),
    Field("tool", _PIPELINE, "The tasks that undo the step.", required=True),
)

STEP: Final = Block(
    "step",
    "A step takes a token, runs its tasks and produces tokens along its arcs. It has `tool` or `next`, or both.",
    "steps.md#steps",
    Field("step", Name("a step"), "Its name, unique in the workflow. Arcs refer to it by this name.", required=True),
    Field("desc", Prose(), "Describes the step for readers."),
    *also(_ARGS_OF_STEP, "input"),
    Field(
        "spec",
        STEP_SPEC,
        "Options and policy of the step, and defaults for the `spec` of its tasks.",
        link="steps.md#spec-of-a-step",
    ),
    *(
        Field(name, TIMEOUT, "The same as `spec.policy.lifecycle.timeout_s`.", same_as=_TIME, link="steps.md#timeouts")
        for name in ("timeout", "timeout_s", "timeout_seconds")
    ),
    Field("retry", RETRY.type, "The same as `retry` of its one tool.", same_as="tool.retry", link=RETRY.link),
    Field("assert", ASSERT.type, "The same as `assert` of its last task.", same_as="tool.assert", link=ASSERT.link),
    Field("loop", Part(LOOP), "Repeats the tasks for each element of a collection.", link="loops.md"),
    Field("tool", _PIPELINE, "What the step runs: one tool, or a list of tasks in order.", link="tasks.md"),
    OUTPUT,
    SET_CTX._replace(doc="Values to write to `ctx` when the step has succeeded, before its arcs are evaluated."),
    _SET_CTX_KEYS,
    Field(
        "compensate",
        Shape("compensation", "a task, a list of tasks, or `{loop, tool}`"),
        "Tasks that undo a finished run of the step when the execution fails.",
        link="compensation.md",
    ),
    Field(
        "next",
        Shape("router", "a router"),
        "Where the token goes when the step has ended. Without it the token ends here.",
        link="arcs.md",
    ),
    legacy={
        "when": "admission stands in spec.policy.admit.rules",
        "case": "outcomes are handled by task policy, routes by next.arcs",
        "vars": "write set_ctx or set_iter in a task policy",
        "pipe": "a list under tool is a pipeline",
        "sink": "storage is a task of its own",
        "eval": "outcomes are handled by spec.policy.rules of a task",
        "call": "a tool stands under tool",
        "type": "kind of the tool says what runs",
        "collect": "write set_ctx with a reducer",
        "as": "a result is steps.<name>.result",
        "save": "storage is a task of its own",
    },
)

# --- router -------------------------------------------------------------------------------------------------------------

_ARGS_OF_ARC: Final = Field("args", Values(), "The arguments of the token; the step that it goes to reads them as `args`.")

ARC: Final = Block(
    "arc",
    "One possible way for a token.",
    "arcs.md#arcs",
    Field("step", Text(), "The step that the token goes to.", required=True),
    Field(
        "when",
        Condition(),
        "The guard: the arc fires only if this holds.",
        otherwise="the step has succeeded",
        label="when in {}",
        link="arcs.md#the-event",
    ),
    *also(_ARGS_OF_ARC, "input"),
    SET_CTX._replace(doc="Values to write to `ctx` when the arc fires."),
    _SET_CTX_KEYS,
    Field("spec", Anything("anything"), "Options of the arc. Accepted without effect.", effect=False, label="spec of {}"),
    Field("desc", Prose(), "Describes the arc for readers."),
    legacy={"then": "a guard and its target stand in one arc", "else": "an arc without when comes last"},
)

ROUTER_POLICY: Final = Block(
    "router_policy",
    "How tokens of a router are deduplicated and ordered.",
    "arcs.md#dedupe-and-priority",
    Field(
        "priority",
        PRIORITY,
        "If several tokens may move at the same time, the one with the higher number goes first.",
        default=_ROUTER.priority,
    ),
    Field(
        "dedupe",
        Shape("dedupe", "true, false, or a template", template=True),
        "true creates the same token (same target, same arguments) only once; a template gives a value to compare instead of the"
        " arguments.",
        default=_ROUTER.dedupe,
    ),
    Field("partitioning", Anything("anything"), "How tokens are shared among workers. Accepted without effect.", effect=False),
    Field("ordering", Anything("anything"), "The order of the tokens. Accepted without effect.", effect=False),
    prefix="policy of ",
)

ROUTER_SPEC: Final = Block(
    "router_spec",
    "How the arcs of a router fire.",
    "arcs.md#arcs",
    Field(
        "mode",
        Choice(("exclusive", "inclusive")),
        "Which arcs fire: the first one that matches, or all that match.",
        default=_ROUTER.mode,
        link="arcs.md#fan-out",
    ),
    Field(
        "on_no_match",
        Anything("`end` or `fail`"),
        "What happens when no arc matches: the token ends, or the execution fails.",
        otherwise="`end`",
        link="migrate.md#no-arc-matches",
    ),
    Field("policy", ROUTER_POLICY, "The priority of the tokens, and their deduplication."),
    prefix="spec of ",
)

ROUTER: Final = Block(
    "router",
    "Determines where the token goes when a step has ended.",
    "arcs.md#arcs",
    Field("spec", ROUTER_SPEC, "How the arcs fire."),
    ROUTER_SPEC["mode"]._replace(doc="The same as `spec.mode`.", same_as="spec.mode", default=UNSET),
    Field("arcs", ListOf(ARC), "The arcs, tried in order.", required=True),
    legacy={"step": "arcs belong in next.arcs", "when": "guards stand in next.arcs"},
)
