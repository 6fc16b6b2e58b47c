"""The kinds `http`, `python`, `shell` and `quantum`."""

from __future__ import annotations

from typing import Final

from noetl_core.dsl.fields.kind import BYTES, COUNT, FLAG, MAP, SCRIPT, SERVICE_ERRORS, TEXT, KindSpec, words
from noetl_core.dsl.fields.types import Anything, Choice, Code, Field, Shape, also

_METHODS: Final = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")

_URL: Final = Field("url", TEXT, "The address to send the request to.")
_JSON: Final = Field("json", Anything("any value"), "The body, sent as JSON.")
_BODY: Final = Field(
    "body",
    Anything("any value"),
    "The body: text is sent as it is, a mapping or a list as JSON, a stored file as it is.",
    references=True,
)

KINDS: Final[dict[str, KindSpec]] = {
    "http": KindSpec(
        (
            Field(
                "method",
                Choice(tuple(w for m in _METHODS for w in (m, m.lower())), template=True),
                "The method of the request.",
                default="GET",
            ),
            *also(_URL, "endpoint"),
            Field("params", MAP, "Query parameters; null omits one, a list repeats it."),
            Field("headers", MAP, "Headers of the request; null omits one."),
            *also(_BODY, "data"),
            *also(_JSON, "payload"),
            Field("form", MAP, "The fields of a form, sent as the body."),
            Field(
                "files",
                MAP,
                "Files of a form, by field: text, stored files, or `{content, filename, content_type}`.",
                references=True,
            ),
            *also(
                Field("auth", Anything("a name or a mapping"), "The credential to use: its name, or `type` and its fields."),
                "credential",
            ),
            Field("cookies", MAP, "Cookies to send, by name."),
        ),
        (
            Field(
                "retry",
                Anything("a number, or `{attempts, delay, statuses}`"),
                "Attempts that the tool makes itself. Prefer `do: retry`, which is recorded in the log.",
                otherwise="one attempt",
            ),
            Field("follow_redirects", FLAG, "false returns the redirect itself as the answer.", default=True),
            Field("max_redirects", COUNT, "The maximum number of redirects to follow.", default=5),
            Field("verify", FLAG, "false accepts any certificate.", default=True),
            Field("max_response_bytes", BYTES, "Maximum bytes of an answer after decompression.", default=64 * 1024 * 1024),
            Field(
                "response",
                Anything("`auto`, `json`, `text` or `base64`"),
                "How the body of the answer is read; `auto` decides by its content type.",
                default="auto",
            ),
            Field(
                "store",
                Anything("true, or a format: `json`, `jsonl`, `csv`, `parquet`, `text`, `bytes`"),
                "true stores the body, whatever its size: `data` of the result is a reference to it. A format also"
                " declares the type of the body.",
                default=False,
            ),
            Field("raise_for_status", FLAG, "false treats no status as an error.", default=True),
            Field(
                "ok_statuses", Anything("a list of numbers"), "Statuses of 400 and above that are not errors.", otherwise="none"
            ),
        ),
        "../tools/http.md",
        required=(words("url endpoint"),),
        exclusive=(
            words("url endpoint"),
            words("auth credential"),
            words("body json payload data form"),
            words("body json payload data files"),
        ),
        gives=words("status headers data url elapsed_ms"),
        fails=SERVICE_ERRORS,
    ),
    "python": KindSpec(
        (
            Field(
                "code",
                Code(),
                "The program. Its result is what it returns, else the variable `result`, else what `main` returns.",
            ),
            SCRIPT,
            Field("args", MAP, "Arguments: each one is a variable of the program."),
            Field(
                "libs",
                Shape("libraries", "a mapping of names to modules", template=True),
                "What the program imports: `st: statistics` is `import statistics as st`. A list may take the place of the"
                " mapping; it imports each module by its name.",
            ),
            Field(
                "entry",
                TEXT,
                "The function whose return value is the result, unless the program itself returns. If `entry` is given, the"
                " variable `result` does not count.",
                default="main",
            ),
        ),
        (
            Field("memory_mb", Anything("a number of MB"), "Memory that the process may use.", default=1024),
            Field("max_output_bytes", BYTES, "Bytes of the program's output that are kept.", default=65_536),
            Field("network", FLAG, "true lets the program use the network.", default=False),
        ),
        "../tools/python.md",
        required=(words("code script"),),
        exclusive=(words("code script"),),
        script="code",
        inside=lambda values: not values.get("network") and "script" not in values,
        fails=words("python"),
    ),
    "shell": KindSpec(
        (
            Field("command", Anything("a list"), "A program and its arguments, which no shell reads."),
            Field("script", Code(), "The text of a script. It is not a template: values come in `env`."),
            Field(
                "shell",
                Choice(("sh", "bash"), template=True),
                "The shell that runs the script; the first line that fails ends the script.",
                default="sh",
            ),
            *also(Field("env", MAP, "Environment variables; null omits one, values other than text are passed as JSON."), "args"),
            Field(
                "stdin",
                Anything("any value"),
                "What the program or script reads from standard input: text as it is, other values as JSON.",
            ),
            Field(
                "cwd", TEXT, "The folder in which the program or script runs.", otherwise="a scratch folder, removed at the end"
            ),
        ),
        (
            Field(
                "inherit", Anything("a list of names"), "Variables to inherit from the worker's environment.", otherwise="none"
            ),
            Field("ok_codes", Anything("a list of numbers"), "Exit codes that are not errors.", otherwise="only 0"),
            Field(
                "output",
                Anything("`text` or `json`"),
                "How standard output is read. With `json` it is parsed, and `data` of the result is the value.",
                default="text",
            ),
            Field("max_output_bytes", BYTES, "Bytes of the output that are kept in the task's log.", default=65_536),
            Field("max_result_bytes", BYTES, "Maximum bytes of standard output.", default=16 * 1024 * 1024),
        ),
        "../tools/shell.md",
        required=(words("command script"),),
        exclusive=(words("command script"), words("command shell"), words("env args")),
        fails=words("parse"),
    ),
    "quantum": KindSpec(
        (
            Field(
                "action",
                Choice(("result", "run", "status", "submit"), template=True),
                "What to do: run a circuit and return its result, or submit it as a job, whose status and result are read later.",
                default="run",
            ),
            Field("backend", TEXT, "Where the circuit runs.", default="simulator"),
            Field("circuit", Anything("text or a mapping"), "The circuit: OpenQASM 2, or `{qubits, gates}`."),
            Field("params", MAP, "Values for the circuit's parameters."),
            Field("shots", COUNT, "How often the circuit is measured.", default=1024),
            Field("seed", Anything("any value"), "The seed of the random draw.", otherwise="the id of the task run"),
            Field("job_id", TEXT, "The job that `submit` returned."),
        ),
        (),
        "../tools/quantum.md",
        required=(words("circuit job_id"),),
    ),
}
