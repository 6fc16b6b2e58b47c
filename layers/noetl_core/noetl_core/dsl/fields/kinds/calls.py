"""The kinds `http`, `python`, `shell` and `quantum`."""

from __future__ import annotations

from typing import Final

from noetl_core.dsl.fields.kind import BYTES, COUNT, FLAG, MAP, SCRIPT, TEXT, KindSpec, words
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
            Field("params", MAP, "Parameters of the query; null leaves one out, a list repeats it."),
            Field("headers", MAP, "Headers of the request; null leaves one out."),
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
                "Attempts that the tool makes itself. Prefer `do: retry`, which the log sees.",
                otherwise="one attempt",
            ),
            Field("follow_redirects", FLAG, "false gives the redirect itself as the answer.", default=True),
            Field("max_redirects", COUNT, "Redirects that are followed.", default=5),
            Field("verify", FLAG, "false accepts any certificate.", default=True),
            Field("max_response_bytes", BYTES, "Bytes that an answer may have after decompression.", default=64 * 1024 * 1024),
            Field(
                "response",
                Anything("`auto`, `json`, `text` or `base64`"),
                "How the body of the answer is read; `auto` goes by its content type.",
                default="auto",
            ),
            Field(
                "store",
                Anything("true, or a format: `json`, `jsonl`, `csv`, `parquet`, `text`, `bytes`"),
                "true stores the body, whatever its size: `data` of the result is a reference to it. A format says what it is.",
                default=False,
            ),
            Field("raise_for_status", FLAG, "false takes no status for an error.", default=True),
            Field("ok_statuses", Anything("a list of numbers"), "Statuses of 400 and more that are no errors.", otherwise="none"),
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
                "What the program imports: `st: statistics` is `import statistics as st`. A list imports each by its name.",
            ),
            Field("entry", TEXT, "The function whose return value is the result.", default="main"),
        ),
        (
            Field("memory_mb", Anything("a number of MB"), "Memory that the process may use.", default=1024),
            Field("max_output_bytes", BYTES, "What is kept of the text that the program prints.", default=65_536),
            Field("network", FLAG, "true lets the program use the network.", default=False),
        ),
        "../tools/python.md",
        required=(words("code script"),),
        exclusive=(words("code script"),),
        script="code",
    ),
    "shell": KindSpec(
        (
            Field("command", Anything("a list"), "A program and its arguments, which no shell reads."),
            Field("script", Code(), "The text of a script. It is not a template: values come in `env`."),
            Field(
                "shell", Choice(("sh", "bash"), template=True), "What runs the script; a line that fails ends it.", default="sh"
            ),
            *also(
                Field("env", MAP, "Variables of its environment; null leaves one out, what is no text is given as JSON."), "args"
            ),
            Field("stdin", Anything("any value"), "What it reads from standard input: text as it is, other values as JSON."),
            Field("cwd", TEXT, "The folder in which it runs.", otherwise="a scratch folder, which is wiped"),
        ),
        (
            Field(
                "inherit", Anything("a list of names"), "Variables that it gets from the worker's environment.", otherwise="none"
            ),
            Field("ok_codes", Anything("a list of numbers"), "Exit codes that are no errors.", otherwise="0 alone"),
            Field(
                "output",
                Anything("`text` or `json`"),
                "How standard output is read: with `json` the result has its value as `data`.",
                default="text",
            ),
            Field("max_output_bytes", BYTES, "What the task's log keeps of its output.", default=65_536),
            Field("max_result_bytes", BYTES, "Bytes that it may write to standard output.", default=16 * 1024 * 1024),
        ),
        "../tools/shell.md",
        required=(words("command script"),),
        exclusive=(words("command script"), words("command shell"), words("env args")),
    ),
    "quantum": KindSpec(
        (
            Field(
                "action",
                Choice(("result", "run", "status", "submit"), template=True),
                "What to do: run a circuit at once, or submit it and ask for it later.",
                default="run",
            ),
            Field("backend", TEXT, "Where the circuit runs.", default="simulator"),
            Field("circuit", Anything("text or a mapping"), "The circuit: OpenQASM 2, or `{qubits, gates}`."),
            Field("params", MAP, "The numbers that the circuit names."),
            Field("shots", COUNT, "How often the circuit is measured.", default=1024),
            Field("seed", Anything("any value"), "What the draw begins with.", otherwise="the task run"),
            Field("job_id", TEXT, "The job that `submit` gave."),
        ),
        (),
        "../tools/quantum.md",
        required=(words("circuit job_id"),),
    ),
}
