"""The root of a playbook, its metadata, credentials and workbook, and the options of its execution."""

from __future__ import annotations

import re
import unicodedata
from typing import Final

from noetl_core.dsl.fields.failures import ON_FAILURE
from noetl_core.dsl.fields.keychain import CREDENTIAL
from noetl_core.dsl.fields.policies import FAILURE_MODE, TASK_POLICY, UNMATCHED
from noetl_core.dsl.fields.shared_limits import LIMITS_OF_EXECUTOR
from noetl_core.dsl.fields.triggers import TRIGGER
from noetl_core.dsl.fields.types import (
    Anything,
    Block,
    Field,
    Flag,
    ListOf,
    Name,
    Part,
    Shape,
    Text,
    Values,
)
from noetl_core.dsl.model import Executor, Limits
from noetl_core.dsl.numbers import LIFETIME, LIMITS, TIMEOUT

API_VERSIONS: Final = ("noetl.io/v2", "noetl.io/v10")
OLD_VERSIONS: Final = ("noetl.io/v1", "noetl.io/v1alpha1")
"""Versions of older dialects, which `noetl migrate` replaces."""
PLAYBOOK_PATH: Final = re.compile(r"/*[\w][\w.\-]*(/[\w][\w.\-]*)*\Z")
MCP_TOOL: Final = re.compile(r"(?!noetl_)[A-Za-z][A-Za-z0-9_-]{0,63}\Z")
"""Names that models accept for a function; those that begin with `noetl_` are the server's own."""
_WORD: Final = re.compile(r"[^\W\d_]+")
_TOGETHER: Final = frozenset({"LATIN", "CJK", "HIRAGANA", "KATAKANA", "HANGUL", "BOPOMOFO"})
"""Scripts that are written in one word, and whose letters do not look alike."""
_EXECUTOR: Final = Executor()
_LIMITS: Final = Limits()

METADATA: Final = Block(
    "metadata",
    "The name and path of the playbook. Keys of your own are allowed.",
    "playbook.md#metadata",
    Field("name", Text(), "The name of the playbook, for readers.", required=True, label="metadata.name"),
    Field(
        "path",
        Text(PLAYBOOK_PATH),
        "Its path in the catalog, words separated by `/`; a leading `/` is ignored. Other playbooks call it by this path.",
        required=True,
        label="metadata.path",
    ),
    Field(
        "description",
        Anything("text"),
        "What the playbook does, for readers, and for models that choose between tools.",
        link="playbook.md#metadata",
    ),
    Field(
        "mcp_tool",
        Text(MCP_TOOL),
        "The name under which `noetl mcp` offers the playbook as a tool.",
        otherwise="not offered as a tool",
        link="playbook.md#metadata",
        label="metadata.mcp_tool",
    ),
    open=True,
)

WORKBOOK: Final = Block(
    "workbook",
    "Tasks that `kind: workbook` runs by name.",
    "playbook.md#workbook-tasks-by-name",
    Field("tasks", Shape("tools", "a mapping of names to tools"), "The tasks, by name.", required=True),
)

WORKBOOK_ENTRY: Final = Block(
    "workbook_entry",
    "A task of a workbook that is written as a list.",
    "playbook.md#workbook-tasks-by-name",
    Field("name", Name("a workbook task"), "The name by which `kind: workbook` runs it.", required=True),
    Field("tool", Shape("tool", "a tool"), "The task itself.", otherwise="the entry is the tool"),
    Field("desc", Anything("text"), "Describes the task for readers."),
)

SHARED_TASK: Final = Block(
    "shared_task",
    "A workbook entry that refers to a task in another playbook's workbook.",
    "playbook.md#shared-tasks",
    Field(
        "uses",
        Text(),
        "The other playbook and its task: `path@version#task` with a number or an alias, or `path#task` for the latest version."
        " It is pinned when this playbook is registered, or started by its text.",
        required=True,
    ),
    Field("desc", Anything("text"), "Describes the task for readers."),
)

# --- executor -----------------------------------------------------------------------------------------------------------

TIMEOUTS: Final = Block(
    "timeouts",
    "Timeouts in seconds, for tasks and steps without one of their own.",
    "playbook.md#executor",
    Field(
        "task_s",
        TIMEOUT,
        "Seconds that a task may take if no timeout is set in the task, in `spec` of its step, or directly in `executor.spec`.",
        otherwise="that of the kind",
    ),
    Field("step_s", TIMEOUT, "Seconds that a step run may take if its step sets no `timeout_s`."),
    Field("execution_s", TIMEOUT, "Seconds that the execution may run if `policy.lifecycle.timeout_s` is left out."),
    prefix="timeouts of ",
)

RESOURCES: Final = Block(
    "resources",
    "Where tasks run.",
    "steps.md#spec-of-a-step",
    Field("pool", Name("a pool"), "The worker pool. `pool` written directly in this `spec` means the same and takes precedence."),
    Field("memory_mb", Anything("a number"), "Memory in MB. Accepted without effect.", effect=False),
    prefix="resources of ",
)

DEFAULTS: Final = Block(
    "defaults",
    "Defaults for steps and tasks.",
    "playbook.md#executor",
    Field("timeouts", TIMEOUTS, "Timeouts for tasks and steps without one of their own."),
    Field("resources", RESOURCES, "The worker pool of steps that name none."),
    Field(
        "on_unmatched",
        UNMATCHED.type,
        "What a task policy does after an error that no rule matches.",
        otherwise=UNMATCHED.otherwise,
    ),
    prefix="defaults of ",
)

LIMITS_BLOCK: Final = Block(
    "limits",
    "Limits that keep an execution from running forever. Whatever exceeds one fails with an error of kind `limit`, except a"
    " value that exceeds `max_payload_bytes`.",
    "playbook.md#executor",
    *(
        Field(name, LIMITS[name], doc, default=getattr(_LIMITS, name))
        for name, doc in {
            "max_payload_bytes": "Bytes of the largest value kept in the event log; a larger one is stored by reference.",
            "max_input_bytes": "Bytes that the inputs of one task may load through references, in total.",
            "max_step_visits": "How often one step may be scheduled.",
            "max_task_visits": "How many tasks one pass over a pipeline may run.",
            "max_tokens": "Tokens that may be alive at once.",
            "max_frames": "Frames that one cursor loop may claim.",
            "max_commits": "Commits that one execution may make.",
        }.items()
    ),
    prefix="limits of ",
)

RESULTS: Final = Block(
    "results",
    "Where results are kept.",
    "results.md#references",
    Field(
        "reference_first",
        Flag(),
        "true stores every list and every mapping by reference, not only large ones.",
        default=_EXECUTOR.reference_first,
    ),
    prefix="results of ",
)

EXECUTOR_LIFECYCLE: Final = Block(
    "executor_lifecycle",
    "How long the execution may take.",
    "playbook.md#executor",
    Field(
        "timeout_s",
        TIMEOUT,
        "Seconds after which a running execution fails with an error of kind `timeout`.",
        otherwise="`timeouts.execution_s` of `policy.defaults`",
    ),
    Field(
        "lifetime_s",
        LIFETIME,
        "Seconds that the execution may exist in all, pauses and waits included.",
        default=_EXECUTOR.lifetime_s,
    ),
    prefix="lifecycle of ",
)

EXECUTOR_FAILURE: Final = Block(
    "executor_failure",
    "What a failure that no arc handles does to the other branches.",
    "arcs.md#failures",
    FAILURE_MODE._replace(
        doc="The effect of a failure that no arc handles: `fail_fast` ends the execution, `best_effort` first lets the other"
        " branches run to their ends.",
        default=_EXECUTOR.failure_mode,
    ),
    prefix="failure of ",
)

EXECUTOR_POLICY: Final = Block(
    "executor_policy",
    "How the whole execution behaves.",
    "playbook.md#executor",
    Field("defaults", DEFAULTS, "Defaults for steps and tasks."),
    Field(
        "results",
        RESULTS,
        "Where results are kept.",
    ),
    Field("limits", LIMITS_BLOCK, "Limits that keep an execution from running forever."),
    Field(
        "task",
        Part(TASK_POLICY),
        "The task policy for all tasks without one. Its rules cannot `jump`.",
        link="policies.md#task-policy",
    ),
    *LIMITS_OF_EXECUTOR,
    Field(
        "failure",
        EXECUTOR_FAILURE,
        "What a failure that no arc handles does to the other branches.",
        link="arcs.md#failures",
    ),
    Field(
        "lifecycle",
        EXECUTOR_LIFECYCLE,
        "How long the execution may take.",
    ),
    Field(
        "unconditional_on_failure",
        Flag(),
        "true lets an arc without `when` fire after a failure as well.",
        default=_EXECUTOR.unconditional_on_failure,
        link="arcs.md#failures",
    ),
    *(
        Field(name, Anything("anything"), f"{what} Accepted without effect.", effect=False, link="policies.md#policies")
        for name, what in {
            "placement": "Where the execution should run.",
            "cost": "What the execution may cost.",
            "tracing": "Options of tracing.",
            "quotas": "Quotas of the execution.",
            "quantum": "Options of quantum backends.",
        }.items()
    ),
    prefix="policy of ",
    misplaced=("rules",),
)

EXECUTOR_PYTHON: Final = Block(
    "executor_python",
    "The environment of `kind: python` tasks.",
    "../tools/python.md#packages",
    Field(
        "requirements",
        Shape("requirements", "a list of requirements"),
        "Packages that python tasks can import besides the standard library, as pip requirements such as `pandas==2.2.3`.",
    ),
    prefix="python of ",
)

EXECUTOR_SPEC: Final = Block(
    "executor_spec",
    "Options of the execution. Any option of a tool kind may also be set here, as a default for all tasks.",
    "playbook.md#executor",
    Field(
        "entry_step",
        Text(),
        "The step with which the execution begins: it gets the first token.",
        otherwise="the step called `start`, else the first one",
        link="playbook.md#the-entry-step",
    ),
    Field(
        "result",
        Anything("any value"),
        "The result of the execution, usually a template over `steps` and `ctx`.",
        otherwise="the result of the step that ended last",
        link="results.md#the-result-of-an-execution",
    ),
    Field("pool", Name("a pool"), "The worker pool for steps that name none.", default=_EXECUTOR.pool),
    Field(
        "extensions",
        Flag(),
        "true allows tool kinds installed beside the engine, and their options.",
        default=_EXECUTOR.extensions,
        link="../tools/README.md#your-own",
    ),
    Field(
        "on_failure",
        Part(ON_FAILURE),
        "Who is notified when an execution has failed.",
        otherwise="the stack's default",
        link="../failures.md",
    ),
    Field(
        "strict",
        Flag(),
        "true treats two things as failures: undefined values in templates, and errors that no rule of a task's policy matches.",
        otherwise="the stack's default; without a stack, `false`",
        link="playbook.md#strict",
    ),
    Field("triggers", ListOf(TRIGGER), "What starts the playbook automatically.", link="../triggers.md"),
    Field("python", EXECUTOR_PYTHON, "The packages of python tasks.", link="../tools/python.md#packages"),
    Field(
        "search",
        Values(),
        "Attributes by which executions can be listed: a mapping of names to templates over `workload` and `ctx`.",
        link="../catalog.md#search-attributes",
    ),
    Field(
        "no_next_is_error",
        Flag(),
        "true makes a step with arcs fail if none of them matches.",
        default=False,
        link="migrate.md#no-arc-matches",
    ),
    Field(
        "final_step",
        Text(),
        "The step that comes last: arcs lead to it. Accepted without effect.",
        effect=False,
        link="migrate.md#without-effect",
    ),
    Field("policy", EXECUTOR_POLICY, "How the whole execution behaves: limits, timeouts, failures, the default task policy."),
    Field("lifetime_s", LIFETIME, "The same as `policy.lifecycle.lifetime_s`, which wins.", default=_EXECUTOR.lifetime_s),
    prefix="spec of ",
    layered=True,
)

EXECUTOR: Final = Block(
    "executor",
    "Options of the whole execution.",
    "playbook.md#executor",
    Field("kind", Text(), "A label of your own; the engine does not read it."),
    Field("spec", EXECUTOR_SPEC, "Options and policy of the execution, and defaults for the `spec` of all tasks."),
    Field("desc", Anything("text"), "Describes these options for readers."),
    *(
        Field(name, Anything("anything"), f"{what} Accepted without effect.", effect=False, link="migrate.md#without-effect")
        for name, what in {
            "profile": "Where other engines run the playbook.",
            "version": "The version of another engine.",
            "requires": "What the playbook needs from another engine.",
        }.items()
    ),
)

# --- root ---------------------------------------------------------------------------------------------------------------

ROOT: Final = Block(
    "playbook",
    "A whole playbook.",
    "playbook.md#root-sections",
    Field(
        "apiVersion",
        Shape("api_version", " or ".join(f"`{word}`" for word in API_VERSIONS)),
        "The version of the language. Both values mean the same version.",
        required=True,
    ),
    Field("kind", Shape("playbook_kind", "`Playbook`"), "Marks the document as a playbook.", required=True),
    Field("metadata", Part(METADATA), "The name of the playbook, and its path in the catalog.", required=True),
    Field(
        "keychain",
        ListOf(CREDENTIAL),
        "The credentials that the playbook needs; tasks read them when they run.",
        link="playbook.md#keychain-credentials",
    ),
    Field(
        "executor",
        Part(EXECUTOR),
        "Options of the whole execution: its result, limits, timeouts and defaults.",
        link="playbook.md#executor",
    ),
    Field(
        "workload",
        Shape("workload", "a mapping of names to values"),
        "The inputs with their defaults. A request's payload is merged over the defaults; the inputs never change afterwards.",
        link="playbook.md#workload-the-inputs",
    ),
    Field(
        "workflow",
        ListOf(Shape("step", "a step"), least=1),
        "The steps. Tokens go from step to step along the arcs of the steps.",
        required=True,
        link="steps.md",
    ),
    Field(
        "workbook",
        Shape("workbook", "a mapping of names to tools"),
        "Tasks that are written once and run by name, with `kind: workbook`.",
        link="playbook.md#workbook-tasks-by-name",
    ),
    Field("tracing", Anything("anything"), "Options of tracing. Accepted without effect.", effect=False),
    legacy={"steps": "steps stand in workflow", "name": "it stands in metadata", "path": "it stands in metadata"},
    misplaced=("vars",),
)


def mixed_word(path: str) -> str | None:
    """Return a word of a path whose letters are of several scripts, such as `rеports` with a Cyrillic е; None if there is none.
    Such a path looks like another one, so a reader who types it does not find the playbook."""
    if path.isascii():
        return None
    for word in _WORD.findall(path):
        scripts = {unicodedata.name(letter, "UNKNOWN").split()[0].partition("-")[0] for letter in word}
        if len(scripts) > 1 and not scripts <= _TOGETHER:
            return str(word)
    return None
