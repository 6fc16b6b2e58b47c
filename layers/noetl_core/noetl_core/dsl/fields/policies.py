"""The policy of a task, the rules of both policies, admission, and the shorthand forms that replace jumps."""

from __future__ import annotations

from typing import Final

from noetl_core.dsl.fields.shared_limits import RATE
from noetl_core.dsl.fields.types import Anything, Block, Choice, Condition, Field, Flag, Name, Shape, Text, Values
from noetl_core.dsl.model import Admission, Then
from noetl_core.dsl.numbers import ATTEMPTS, DELAY, JITTER, MULTIPLIER

DIRECTIVES: Final = ("continue", "retry", "jump", "break", "fail")
BACKOFFS: Final = ("none", "linear", "exponential", "fixed")
FAILURE_MODES: Final = ("fail_fast", "best_effort")
ON_DENY: Final = ("park", "skip", "fail")
_THEN: Final = Then()
_PIPELINE: Final = Shape("pipeline", "a task, or a list of tasks")

FAILURE_MODE: Final = Field("mode", Choice(FAILURE_MODES), "The effect of a failure on the others.", label="failure mode of {}")
UNMATCHED: Final = Field(
    "on_unmatched",
    Choice(("continue", "fail")),
    "What happens after an error that no rule matches: the pipeline continues with the next task, or fails.",
    otherwise="`continue`; `fail` in [strict](playbook.md#strict) executions",
)

# --- writing ------------------------------------------------------------------------------------------------------------

SET_ITER: Final = Field(
    "set_iter",
    Values(),
    "Values to write to `iter`, which belongs to this iteration only.",
    link="names.md#writing-iter-and-ctx",
)
SET_CTX: Final = Field(
    "set_ctx",
    Values(),
    "Values to write to `ctx`, which other steps see once this run of the step has ended.",
    link="names.md#writing-iter-and-ctx",
)
SET: Final = Field(
    "set",
    Shape("set", "a mapping whose keys begin with `ctx.` or `iter.`"),
    "Another way to write `set_iter` and `set_ctx`: `iter.a: value`, `ctx.b: value`.",
    link="names.md#writing-iter-and-ctx",
)

# --- rules --------------------------------------------------------------------------------------------------------------

ERROR: Final = Block(
    "error",
    "The fields of the error that `do: fail` raises. Fields left out are taken from the error of the task.",
    "policies.md#fail",
    Field(
        "kind",
        Anything("text"),
        "The kind of the error, which outer policies and arcs can test.",
        otherwise="that of the error of the task",
    ),
    Field(
        "message",
        Anything("text"),
        "A description of what went wrong; at most 4,096 characters.",
        otherwise="that of the error of the task",
    ),
    Field("retryable", Anything("true or false"), "Whether a retry may help.", otherwise="that of the error of the task"),
    Field(
        "code",
        Anything("any value"),
        "A code of your own, or of the service that failed.",
        otherwise="that of the error of the task",
    ),
    Field(
        "details",
        Anything("any value"),
        "Whatever else helps to understand the error.",
        otherwise="that of the error of the task",
    ),
    joint=" in ",
    prefix="error in ",
)

THEN: Final = Block(
    "then",
    "What a rule of a task policy does.",
    "policies.md#rules",
    Field(
        "do",
        Choice(DIRECTIVES),
        "What happens next: `continue` with the next task, `retry` this one, `jump` to another, `break` off, or `fail`.",
        default=_THEN.do,
    ),
    Field(
        "attempts",
        ATTEMPTS,
        "For `retry`: the maximum number of attempts of the task, including the first.",
        default=_THEN.attempts,
        link="policies.md#retry",
    ),
    Field(
        "backoff",
        Choice(BACKOFFS),
        "For `retry`: how the delay grows from one attempt to the next. `fixed` means the same as `none`.",
        default=_THEN.backoff,
        link="policies.md#retry",
    ),
    Field(
        "delay",
        DELAY,
        "For `retry`: seconds to wait before the next attempt.",
        otherwise="1 with a backoff, else 0",
        link="policies.md#retry",
        label="delay in {} (seconds)",
    ),
    Field(
        "max_delay",
        DELAY,
        "For `retry`: the upper bound of the delay in seconds.",
        link="policies.md#retry",
        label="max_delay in {} (seconds)",
    ),
    Field(
        "jitter",
        JITTER,
        "For `retry`: the largest fraction of the delay, from 0 to 1, by which it is randomly shortened; true means 1.",
        otherwise="no jitter",
        link="policies.md#retry",
    ),
    Field(
        "backoff_multiplier",
        MULTIPLIER,
        "For `retry`: the factor by which an exponential delay grows after each attempt.",
        default=_THEN.backoff_multiplier,
        link="policies.md#retry",
    ),
    Field("to", Text(), "For `jump`: the task of the same step to continue with.", link="policies.md#jump"),
    Field(
        "scope",
        Choice(("iteration", "loop")),
        "For `break`: what ends, this iteration or the whole loop.",
        default=_THEN.scope,
        link="loops.md#break",
    ),
    SET_ITER,
    SET_CTX,
    SET,
    Field("set_prev", Anything("any value"), "The value of `_prev` from here on.", otherwise="the result of the task"),
    Field(
        "error",
        Shape("error", "a message, or a mapping of fields of the error"),
        "For `fail`: the error. A text is its message; a mapping replaces fields of the task's own error.",
        otherwise="the error of the task",
        link="policies.md#fail",
    ),
    joint=" in ",
    legacy={
        "set_vars": "write set_iter or set_ctx",
        "set_shared": "write set_ctx, with loop.spec.policy.reducers",
        "collect": "write set_ctx with a reducer",
        "sink": "storage is a task of its own",
        "call": "a task is jumped to",
        "next": "only step.next.arcs start steps",
        "result": "write set_prev",
    },
)

_WHEN: Final = Field("when", Condition(), "The rule is taken if this holds and no earlier rule did.", label="when in {}")
_RULE_THEN: Final = Field("then", Shape("body", "a mapping"), "What happens if the rule is taken.")
_RULE_ELSE: Final = Field("else", Shape("body", "a mapping"), "What happens if no rule is taken. Write it last.")

RULE: Final = Block(
    "rule",
    "One rule of a policy: `when` and `then`, or `else`.",
    "policies.md#rules",
    _WHEN,
    _RULE_THEN,
    _RULE_ELSE,
    legacy={"expr": "conditions are called when", "do": "directives stand under then"},
)

TASK_POLICY: Final = Block(
    "task_policy",
    "What happens after a task has ended, by its outcome.",
    "policies.md#task-policy",
    Field(
        "rules",
        Shape("rules", "a list of rules"),
        "The rules, tried in order; the first that holds is taken.",
        otherwise="an error fails the pipeline",
        link="policies.md#rules",
    ),
    Field(
        "rate",
        RATE,
        "How often the task may begin per second, across all executions.",
        otherwise="that of `policy.task` of the step, else of the executor",
        link="../limits.md#rate",
    ),
    Field(
        "mode",
        Choice(("exclusive",)),
        "One rule is taken, the first that holds. There is no other mode.",
        default="exclusive",
        label="policy mode of {}",
    ),
    UNMATCHED,
    *(
        Field(
            name,
            Anything("anything"),
            f"A hook {when} the task. Accepted without effect.",
            effect=False,
            link="policies.md#policies",
        )
        for name, when in {"before": "before", "after": "after", "finally": "after all attempts of"}.items()
    ),
    prefix="policy of ",
)

# --- admission ----------------------------------------------------------------------------------------------------------

ALLOW: Final = Block(
    "allow",
    "The decision of an admission rule.",
    "steps.md#admission",
    Field(
        "allow",
        Flag(template=True),
        "true admits the token; false denies it, and `on_deny` decides what happens to it.",
        required=True,
        label="allow in {}",
    ),
    prefix="then of ",
    legacy={"do": "control actions belong to task policy"},
)

ADMISSION: Final = Block(
    "admission",
    "Whether a token may start a run of the step.",
    "steps.md#admission",
    Field(
        "mode",
        Choice(("exclusive", "inclusive")),
        "The first rule that holds decides. `inclusive` is accepted without effect.",
        default="exclusive",
    ),
    Field(
        "rules",
        Shape("admission_rules", "a list of rules"),
        "The rules, tried in order. If none holds, the token is admitted.",
        required=True,
    ),
    Field(
        "on_deny",
        Choice(ON_DENY),
        "What happens to a denied token: it is parked until something changes, it is skipped, or the step fails.",
        default=Admission(()).on_deny,
    ),
)

# --- choose, while, until -----------------------------------------------------------------------------------------------

_SUGAR: Final = "tasks.md#choose-while-until"
_LABEL: Final = Field(
    "name", Name("a task"), "Its name, which `jump` may target.", otherwise="its form and position, such as `choose_1`"
)
_DESC: Final = Field("desc", Anything("text"), "Describes it for readers.")
_BODY: Final = Field("do", _PIPELINE, "The tasks of one round.", required=True)

CHOICE: Final = Block(
    "choice",
    "One entry of `choose`: `when` and `then`, or `else`.",
    _SUGAR,
    Field("when", Condition(), "The entry is chosen if this holds and no earlier entry was chosen."),
    Field("then", _PIPELINE, "The tasks that run if the entry is chosen."),
    Field("else", _PIPELINE, "The tasks that run if no entry is chosen. It must be the last entry."),
)
SUGAR: Final = {
    "choose": Block(
        "choose",
        "Runs the tasks of the first entry whose condition holds.",
        _SUGAR,
        Field("choose", Shape("choices", "a list of entries"), "The entries, tried in order.", required=True),
        _LABEL,
        _DESC,
    ),
    "while": Block(
        "while",
        "Repeats tasks as long as a condition holds.",
        _SUGAR,
        Field("while", Condition(), "Evaluated before each round; if it does not hold, the loop ends.", required=True),
        _BODY,
        _LABEL,
        _DESC,
    ),
    "until": Block(
        "until",
        "Repeats tasks until a condition holds.",
        _SUGAR,
        Field("until", Condition(), "Evaluated after each round; if it holds, the loop ends.", required=True),
        _BODY,
        _LABEL,
        _DESC,
    ),
}
