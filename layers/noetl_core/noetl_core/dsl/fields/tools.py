"""The fields of a task of any kind. Options are set under `spec`, of the task or of an outer scope."""

from __future__ import annotations

from typing import Final

from noetl_core.dsl.fields.policies import SET, SET_CTX, SET_ITER, TASK_POLICY
from noetl_core.dsl.fields.types import (
    Anything,
    Block,
    Field,
    Name,
    Part,
    Prose,
    Shape,
    Text,
    Values,
    also,
)
from noetl_core.dsl.numbers import TIMEOUT

SCRIPT: Final = Block(
    "script",
    "Program text or SQL in a separate file, instead of in the input.",
    "tasks.md#scripts",
    *also(
        Field(
            "uri",
            Text(),
            "The file: a path beside the playbook, `s3://bucket/key`, or an address.",
            required=True,
            label="uri of {}",
        ),
        *("path", "file", "url", "key"),
    ),
    Field(
        "source",
        Anything("`file`, `s3` or `http`"),
        "Where the file is. A file beside the playbook is registered with the playbook, unless a part of the file's path begins"
        " with a dot. The worker fetches a file from S3 or over HTTP.",
        otherwise="by `uri`",
        label="source of {}",
    ),
    *also(Field("auth", Anything("a name or a mapping"), "For `http`: the credential to use."), "credential"),
    Field("headers", Values(whole=True), "For `http`: headers of the request."),
    Field("endpoint", Anything("text"), "For `http`: the address to which `uri` is appended."),
    Field(
        "timeout", Anything("seconds"), "For `http`: seconds that the request may take.", otherwise="the timeouts of kind `http`"
    ),
    Field("bucket", Anything("text"), "For `s3`: the bucket, if `uri` is a key."),
    prefix="script of ",
)

# --- fields of every task -----------------------------------------------------------------------------------------------

TIMEOUT_PARTS: Final = Block(
    "timeout",
    "Times in seconds for the parts of a request.",
    "tasks.md#spec-layering",
    Field("connect", TIMEOUT, "Seconds that connecting may take.", otherwise="10 for kind `http`"),
    Field("read", TIMEOUT, "Seconds to wait for the next bytes of an answer.", otherwise="30 for kind `http`"),
    Field("write", TIMEOUT, "Seconds that sending the next bytes may take.", otherwise="30 for kind `http`"),
    Field("pool", TIMEOUT, "Seconds to wait for a free connection.", otherwise="30 for kind `http`"),
    Field("total", TIMEOUT, "Seconds that the whole request may take.", otherwise="300 for kind `http`"),
)

_TIMEOUT: Final = Shape("timeout", "seconds above 0, or a mapping of the parts of a request", template=True)
TIMEOUT_OF_TASK: Final = Field(
    "timeout",
    _TIMEOUT,
    "Seconds that the whole task may take, or that the parts of a request may take.",
    otherwise="`timeouts.task_s` of the executor, else that of the kind",
    link="steps.md#timeouts",
)
TIMEOUT_S_OF_TASK: Final = Field(
    "timeout_s",
    TIMEOUT,
    "Seconds that the whole task may take: another name of `timeout`.",
    otherwise=TIMEOUT_OF_TASK.otherwise,
    link="steps.md#timeouts",
)

RESULT: Final = Block(
    "result",
    "How the result of a task is treated.",
    "results.md#secret-results",
    Field(
        "secret",
        Shape("secret_fields", "true or false, or a list of fields of the result"),
        "true keeps the result out of every event, log and answer; a list of fields (`user.email`) keeps only those out.",
        default=False,
    ),
)

COMMON_OPTIONS: Final = (
    TIMEOUT_OF_TASK,
    TIMEOUT_S_OF_TASK,
    Field("result", RESULT, "How the result of the task is treated.", link="results.md#secret-results"),
    Field(
        "resources",
        Anything("anything"),
        "What the task needs. Accepted without effect.",
        effect=False,
        link="tasks.md#spec-layering",
    ),
    Field(
        "tracing",
        Anything("anything"),
        "Options of tracing. Accepted without effect.",
        effect=False,
        link="tasks.md#spec-layering",
    ),
)
"""Options that every kind takes."""

POLICY_OF_TASK: Final = Field(
    "policy",
    Part(TASK_POLICY),
    "What happens after the task has ended, by its outcome.",
    otherwise="an error fails the pipeline",
    link="policies.md#task-policy",
)

RETRY: Final = Field(
    "retry",
    Anything("a number of attempts, or a mapping"),
    "The same as a rule with `do: retry`.",
    same_as="spec.policy.rules",
    link="migrate.md#retry",
)
ASSERT: Final = Field(
    "assert",
    Anything("a condition, a list of conditions, or a mapping"),
    "The same as rules with `do: fail`, for conditions that the result must meet.",
    same_as="spec.policy.rules",
    link="migrate.md#assert",
)
OUTPUT: Final = Field(
    "output",
    Anything("anything"),
    "How other engines store the result. Accepted without effect, except for names that `output_select` gives to parts.",
    effect=False,
    link="migrate.md#names-of-parts",
)
TIMES: Final = tuple(
    Field(name, TIMEOUT_OF_TASK.type, "The same as `spec.timeout`.", same_as="spec.timeout", link="steps.md#timeouts")
    for name in ("timeout", "timeout_s", "timeout_seconds")
)
"""Keys accepted beside `spec`, to which they belong."""

TASK: Final = Block(
    "task",
    "The fields of every task; those of its kind are added.",
    "tasks.md#shapes",
    Field(
        "name",
        Name("a task"),
        "Its name, unique in the step. Templates read its result by this name.",
        otherwise="its position, such as `task_0`",
    ),
    Field("kind", Text(), "The tool that the task runs.", required=True, link="../tools/README.md"),
    Field("desc", Prose(), "Describes the task for readers."),
    Field("input", Values(whole=True), "The same as `args`.", same_as="args"),
    *TIMES,
    RETRY,
    ASSERT,
    OUTPUT,
    SET_ITER._replace(doc="Values to write to `iter` when the task has ended ok, before its policy is applied."),
    SET_CTX._replace(doc="Values to write to `ctx` when the task has ended ok, before its policy is applied."),
    SET._replace(
        doc="Another way to write `set_iter` and `set_ctx`: `iter.a: value`, `ctx.b: value`. It takes effect when the task has "
        "ended ok."
    ),
    Field(
        "spec", Shape("options", "a mapping"), "Options of the tool, and the policy of the task.", link="tasks.md#spec-layering"
    ),
)
BESIDE: Final = frozenset(field.name for field in (*TIMES, RETRY, ASSERT, OUTPUT))
"""Keys of a task that a kind may use as inputs of its own."""

LIBRARY: Final = Block(
    "library",
    "`from module import name`, as a mapping.",
    "../tools/python.md",
    Field("from", Text(), "The module to import from.", required=True, label="from of {}"),
    Field("import", Text(), "The name to import.", required=True, label="import of {}"),
)

OVERRIDE: Final = Field("", Anything("as of the entry"), "Replaces this input of the workbook's entry, or is merged over it.")
"""The type of an input of the workbook's entry in a task of `kind: workbook`, which may set it besides its own inputs."""
