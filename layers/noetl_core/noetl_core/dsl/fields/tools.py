"""What a task may say, whatever its kind, and the inputs and options of each tool kind.

Options stand under `spec`, of the task or of a scope further out. What the tools check themselves is `Anything` here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from noetl_core.dsl.fields.policies import SET, SET_CTX, SET_ITER, TASK_POLICY
from noetl_core.dsl.fields.types import (
    Anything,
    Block,
    Choice,
    Code,
    Duration,
    Field,
    Name,
    Part,
    Prose,
    Shape,
    Text,
    Values,
    also,
)
from noetl_core.dsl.numbers import ANSWER, HEARTBEAT, TIMEOUT, WAIT

# --- what every task has ------------------------------------------------------------------------------------------------

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

COMMON_OPTIONS: Final = (
    TIMEOUT_OF_TASK,
    TIMEOUT_S_OF_TASK,
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

TASK: Final = Block(
    "task",
    "What every task may say; the inputs of its kind stand beside it.",
    "tasks.md#shapes",
    Field(
        "name",
        Name("a task"),
        "Its name, unique in the step. Templates read its result by this name.",
        otherwise="its place, such as `task_0`",
    ),
    Field("kind", Text(), "The tool that the task runs.", required=True, link="tools.md"),
    Field("desc", Prose(), "Says to people what the task is for."),
    Field(
        "spec", Shape("options", "a mapping"), "Options of the tool, and the policy of the task.", link="tasks.md#spec-layering"
    ),
    SET_ITER._replace(doc="Values to write to `iter` when the task has ended ok, before its policy."),
    SET_CTX._replace(doc="Values to write to `ctx` when the task has ended ok, before its policy."),
    SET._replace(doc="Another way to write both, when the task has ended ok: `iter.a`, `ctx.b`."),
    Field("input", Values(whole=True), "The same as `args`.", same_as="args"),
)

LIBRARY: Final = Block(
    "library",
    "What `from module import name` says, as a mapping.",
    "tools.md#python",
    Field("from", Text(), "The module to import from.", required=True, label="from of {}"),
    Field("import", Text(), "The name to import.", required=True, label="import of {}"),
)

# --- kinds --------------------------------------------------------------------------------------------------------------

_METHODS: Final = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
_MAP: Final = Values(whole=True)
_TEXT: Final = Anything("text")
_COUNT: Final = Anything("a whole number")
_BYTES: Final = Anything("a number of bytes")
_FLAG: Final = Anything("true or false")

_COMMAND: Final = Field(
    "command", Anything("SQL text, or a list of them"), "The SQL to run. Values belong into `params`, never into the text."
)
_COMMANDS: Final = Field("commands", Anything("a list"), "Several statements: texts, or mappings `{command, params}`.")
_PARAMS: Final = Field("params", Anything("a mapping or a list"), "What the statement's parameters are bound to.")
_SQL: Final = (*also(_COMMAND, "query", "sql"), *also(_COMMANDS, "queries"), *also(_PARAMS, "args"))
_PAYLOAD: Final = Field(
    "payload",
    _MAP,
    "What is merged over the workload of the playbook that is called.",
    references=True,
)
_URL: Final = Field("url", _TEXT, "The address to send the request to.")
_JSON: Final = Field("json", Anything("any value"), "The body, sent as JSON.")
_BODY: Final = Field("body", Anything("any value"), "The body: text is sent as it is, a mapping or a list as JSON.")
_SECRET: Final = Field("secret", _TEXT, "The name of the credential.")

INPUTS: Final[Mapping[str, tuple[Field, ...]]] = {
    "http": (
        Field(
            "method",
            Choice(tuple(w for m in _METHODS for w in (m, m.lower())), template=True),
            "The method of the request.",
            default="GET",
        ),
        *also(_URL, "endpoint"),
        Field("params", _MAP, "Parameters of the query; null leaves one out, a list repeats it."),
        Field("headers", _MAP, "Headers of the request; null leaves one out."),
        *also(_BODY, "data"),
        *also(_JSON, "payload"),
        Field("form", _MAP, "The fields of a form, sent as the body."),
        Field("auth", Anything("a name or a mapping"), "The credential to use: its name, or `type` and its fields."),
        Field("cookies", _MAP, "Cookies to send, by name."),
    ),
    "python": (
        Field("code", Code(), "The program. Its result is the variable `result`, else what `main` returns."),
        Field("args", _MAP, "Arguments: each one is a variable of the program."),
        Field(
            "libs",
            Shape("libraries", "a mapping of names to modules", template=True),
            "What the program imports: `np: numpy` is `import numpy as np`.",
        ),
        Field("entry", _TEXT, "The function whose return value is the result.", default="main"),
    ),
    "duckdb": (
        *_SQL,
        Field("database", _TEXT, "A file in the scratch folder of the execution that keeps the tables.", otherwise="in memory"),
        Field(
            "sources",
            _MAP,
            "Tables for the SQL, by name: rows, or references to stored rows, which are read where they lie.",
            references=True,
        ),
    ),
    "postgres": (
        *_SQL,
        Field("auth", Anything("a name or a mapping"), "The credential to connect with: its name, or its fields."),
        Field("connection", Anything("text or a mapping"), "The same as `auth`: a connection string, or its fields."),
        Field("database", _TEXT, "Another database on the same server.", otherwise="that of the credential"),
        Field("rows", Anything("a list"), "Runs the one command for each of these rows."),
    ),
    "noop": (
        Field("args", _MAP, "The result of the task if neither `result` nor `data` is given."),
        Field("result", Anything("any value"), "The result of the task.", otherwise="`data`, else `args`, else null"),
        Field("data", Anything("any value"), "The result of the task if `result` is not given."),
        Field("message", _TEXT, "Text for the log of the task."),
    ),
    "store": (
        Field("data", Anything("any value"), "What is stored. The result of the task is a reference to it.", references=True),
        Field(
            "key",
            _TEXT,
            "The name of the object below the execution.",
            otherwise="made of the task run, so that a retry writes the same object",
        ),
        Field(
            "format",
            Anything("`json`, `jsonl`, `csv` or `parquet`"),
            "How the value is written.",
            otherwise="by the ending of `key`, else `json`",
        ),
        Field("schema_hint", Anything("any value"), "What the reference says about the value.", otherwise="made of the value"),
    ),
    "secrets": (
        *also(_SECRET, "secret_name", "key"),
        Field("field", _TEXT, "The one field that is wanted.", otherwise="all fields"),
    ),
    "playbook": (
        Field("path", _TEXT, "The path of the playbook in the catalog."),
        Field("version", _COUNT, "Its version.", otherwise="the latest one"),
        *also(_PAYLOAD, "args", "workload"),
        Field("ctx", _MAP, "What the `ctx` of the child begins with.", references=True),
        Field("result", _TEXT, "The part of the child's result that is wanted, such as `rows.0.id`.", otherwise="all of it"),
        Field("detach", _FLAG, "true does not wait for the end of the child; the result is `{execution_id}`.", default=False),
        Field("idempotency_key", _TEXT, "With `detach`: the same key starts the child only once."),
    ),
    "callback": (
        Field(
            "signal",
            _TEXT,
            "The name of the signal to wait for.",
            otherwise="the task waits for an answer by token",
            link="waiting.md#signals",
        ),
        Field("timeout", Duration(ANSWER), "How long to wait; after it the outcome is an error of kind `timeout`."),
        Field(
            "heartbeat",
            Duration(HEARTBEAT),
            "By token only: the longest silence before the task fails with kind `timeout`.",
            link="waiting.md#by-token",
        ),
        Field("schema", _MAP, "What the answer must be, in the subset of JSON Schema of `x-schema`."),
        Field("description", _TEXT, "Says to whoever answers what is asked."),
    ),
    "wait": (
        Field("duration", Duration(WAIT), "How long to wait."),
        Field("seconds", Duration(WAIT), "The same as `duration`."),
        Field(
            "until",
            Anything("an ISO 8601 text, or seconds since 1970"),
            "The instant to wait for; one that has passed does not wait.",
        ),
        Field("result", Anything("any value"), "The result of the task.", otherwise="`{waited_until}`"),
    ),
    "workbook": (
        Field("task", _TEXT, "The entry of the workbook to run.", otherwise="the one with the name of the task"),
        Field("args", Anything("a mapping"), "Merged over the `args` of the entry."),
    ),
    "quantum": (
        Field(
            "action",
            Choice(("result", "run", "status", "submit"), template=True),
            "What to do: run a circuit at once, or submit it and ask for it later.",
            default="run",
        ),
        Field("backend", _TEXT, "Where the circuit runs.", default="simulator"),
        Field("circuit", Anything("text or a mapping"), "The circuit: OpenQASM 2, or `{qubits, gates}`."),
        Field("params", _MAP, "The numbers that the circuit names."),
        Field("shots", _COUNT, "How often the circuit is measured.", default=1024),
        Field("seed", Anything("any value"), "What the draw begins with.", otherwise="the task run"),
        Field("job_id", _TEXT, "The job that `submit` gave."),
    ),
}

OVERRIDE: Final = Field("", Anything("as of the entry"), "Replaces this input of the workbook's entry, or is merged over it.")
"""What a task of `kind: workbook` says beside its own inputs."""

_MAX_ROWS: Final = Field(
    "max_rows", _COUNT, "Rows that the result may have; more is an error, never a silent cut.", default=100_000
)

OPTIONS: Final[Mapping[str, tuple[Field, ...]]] = {
    "http": (
        Field(
            "retry",
            Anything("a number, or `{attempts, delay, statuses}`"),
            "Attempts that the tool makes itself. Prefer `do: retry`, which the log sees.",
            otherwise="one attempt",
        ),
        Field("follow_redirects", _FLAG, "false gives the redirect itself as the answer.", default=True),
        Field("max_redirects", _COUNT, "Redirects that are followed.", default=5),
        Field("verify", _FLAG, "false accepts any certificate.", default=True),
        Field("max_response_bytes", _BYTES, "Bytes that an answer may have after decompression.", default=64 * 1024 * 1024),
        Field(
            "response",
            Anything("`auto`, `json`, `text` or `base64`"),
            "How the body of the answer is read; `auto` goes by its content type.",
            default="auto",
        ),
        Field("raise_for_status", _FLAG, "false takes no status for an error.", default=True),
        Field("ok_statuses", Anything("a list of numbers"), "Statuses of 400 and more that are no errors.", otherwise="none"),
    ),
    "python": (
        Field("memory_mb", Anything("a number of MB"), "Memory that the process may use.", default=1024),
        Field("max_output_bytes", _BYTES, "What is kept of the text that the program prints.", default=65_536),
        Field("network", _FLAG, "true lets the program use the network.", default=False),
    ),
    "duckdb": (
        _MAX_ROWS,
        Field("memory_limit", _TEXT, "Memory that DuckDB may use.", default="1GB"),
        Field("threads", _COUNT, "Threads that DuckDB may use.", default=2),
    ),
    "postgres": (
        _MAX_ROWS,
        Field("read_only", _FLAG, "true makes the transaction a reading one.", default=False),
        Field(
            "statement_timeout",
            Anything("a number of seconds"),
            "Seconds that one statement may take.",
            otherwise="the timeout of the task",
        ),
        Field("isolation", _TEXT, "The isolation of the transaction, such as `serializable`.", otherwise="that of the server"),
    ),
    "store": (Field("max_bytes", _BYTES, "Bytes that the task may write.", default=512 * 1024 * 1024),),
}

ALL_OPTIONS: Final[Mapping[str, Field]] = {
    option.name: option for options in (COMMON_OPTIONS, *OPTIONS.values()) for option in options
}
"""What an outer scope may default for the tasks below it, by name."""

PAGES: Final[Mapping[str, str]] = {
    "noop": "tools.md#tools",
    "playbook": "waiting.md#sub-playbooks",
    "callback": "waiting.md#callback",
    "wait": "waiting.md#wait",
    "workbook": "playbook.md#workbook-tasks-by-name",
}
"""Where a kind is explained, if that is not its section of tools.md."""
