"""`kind: shell`: a command, or the text of a script, where the operator of the worker allows it (docs/tools/shell.md).

Templates are never part of a script: values come as environment variables, as arguments, or on standard input. The process gets
an environment of its own, a scratch folder as its working directory and its home, and a process group, which ends with it.
Result: `{exit_code, stdout, stderr}`, and `data` where `spec.output` is `json`.
"""

from __future__ import annotations

import json
import os
import re
import select
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import IO, Any, Final

from noetl_core.engine.outcome import ErrorKind, Outcome
from noetl_core.tools.base import BadInput, ToolCall
from noetl_core.tools.calls.marked_processes import end_marked, new_mark
from noetl_core.tools.sandbox import confine
from noetl_core.tools.sandbox.folders import wipe
from noetl_core.tools.stopping import running
from noetl_core.values import strict_json
from noetl_core.values.frozen import frozen

ALLOWED: Final = "NOETL_ALLOW_SHELL"
"""A worker runs commands only if this environment variable is 1."""
REFUSED: Final = (
    "shell: commands are not allowed here: `noetl run --allow shell`, or NOETL_ALLOW_SHELL=1 in the environment of the process"
    " that runs the tasks; on a stack, set its parameter AllowShell"
)
DEFAULT_TIMEOUT_S: Final = 900.0
MAX_OUTPUT_CHARS: Final = 65_536
MAX_RESULT_BYTES: Final = 16 * 1024 * 1024
ERROR_CHARS: Final = 4_000
"""The most bytes of standard error that are kept."""
LONGEST_SCRIPT: Final = 100_000
"""The kernel takes 128 KB as one argument."""
GRACE_S: Final = 2.0
"""Seconds between SIGTERM and SIGKILL."""
DRAIN_S: Final = 0.5
"""Seconds for which the output of background processes is awaited after the script has ended."""
FIRST_SLICE_S, SLICE_S = 0.002, 0.05
PIECE: Final = 64 * 1024
KEPT: Final = ("PATH", "LANG", "LC_ALL", "TZ", "LD_LIBRARY_PATH")
"""Variables that the process inherits from the worker."""
SHELLS: Final[dict[str, tuple[str, ...]]] = {"sh": ("sh", "-e", "-c"), "bash": ("bash", "-e", "-o", "pipefail", "-c")}
_SECRET: Final = re.compile(r"SECRET|TOKEN|PASSW|PASSPHRASE|CREDENTIAL|PRIVATE|API_?KEY|DATABASE_URL|_DSN$", re.IGNORECASE)
"""Variables of the worker whose values are masked in the output, like those of credentials."""
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class ShellTool:
    """Inputs `command` (a list) or `script` and `shell`, `env`, `stdin`, `cwd`; spec `inherit`, `ok_codes`, `output`,
    `max_output_bytes`, `max_result_bytes`.

    Helpers: `shell {exit_code, signal?, stderr}`.
    """

    kind = "shell"
    inline = False

    def run(self, call: ToolCall) -> Outcome:
        if os.environ.get(ALLOWED) != "1":
            return Outcome.failed("auth", REFUSED, retryable=False, code="not_allowed")
        work = read_work(call)
        confine.not_dumpable()  # the process is of the same user: it must not read the memory and the environment of this one
        scratch = tempfile.mkdtemp(prefix="noetl-shell-")
        try:
            return _run_process(work, call, scratch)
        finally:
            wipe(scratch)


@frozen
class Work:
    """The checked inputs of a call."""

    command: list[str]
    env: dict[str, str]
    stdin: bytes
    cwd: str | None
    ok_codes: frozenset[int]
    as_json: bool
    max_output: int
    max_result: int
    timeout_s: float


def read_work(call: ToolCall) -> Work:
    """Return the checked inputs of a call. Raises `BadInput`."""
    inputs, spec = call.inputs, call.spec
    codes = spec.get("ok_codes", [0])
    if not isinstance(codes, list) or not all(isinstance(c, int) and not isinstance(c, bool) for c in codes):
        raise BadInput("`spec.ok_codes` must be a list of exit codes")
    form = spec.get("output", "text")
    if form not in ("text", "json"):
        raise BadInput(f"`spec.output` {str(form)[:40]!r} is unknown: text or json")
    cwd = inputs.get("cwd")
    if cwd is not None and not (isinstance(cwd, str) and os.path.isdir(cwd)):  # noqa: PTH112 - text in, as the process takes it
        raise BadInput(f"`cwd` {str(cwd)[:200]!r} is not a folder here")
    return Work(
        command=_command(inputs),
        env=_environment(call),
        stdin=_stdin(inputs.get("stdin")),
        cwd=cwd,
        ok_codes=frozenset(codes),
        as_json=form == "json",
        max_output=_size("max_output_bytes", spec.get("max_output_bytes", MAX_OUTPUT_CHARS)),
        max_result=_size("max_result_bytes", spec.get("max_result_bytes", MAX_RESULT_BYTES)),
        timeout_s=DEFAULT_TIMEOUT_S if call.timeout_s is None else call.timeout_s,
    )


def _command(inputs: Mapping[str, Any]) -> list[str]:
    command, script = inputs.get("command"), inputs.get("script")
    if command is not None:
        if not isinstance(command, list) or not command:
            raise BadInput("`command` must be a list: a program and its arguments; write text as `script`")
        return [_text(f"command[{n}]", part) for n, part in enumerate(command)]
    if not isinstance(script, str):
        raise BadInput("`script` must be text")
    if len(script.encode()) > LONGEST_SCRIPT:
        raise BadInput(f"`script` is over {LONGEST_SCRIPT} bytes: pass large data on `stdin`")
    shell = inputs.get("shell") or "sh"
    if shell not in SHELLS:
        raise BadInput(f"`shell` {str(shell)[:40]!r} is unknown: {', '.join(SHELLS)}; run other programs with `command`")
    return [*SHELLS[shell], _text("script", script)]


def _environment(call: ToolCall) -> dict[str, str]:
    env, inherited = call.inputs.get("env") or {}, call.spec.get("inherit") or []
    if not isinstance(env, Mapping):
        raise BadInput("`env` must be a mapping")
    if not isinstance(inherited, list) or not all(isinstance(name, str) for name in inherited):
        raise BadInput("`spec.inherit` must be a list of variables")
    own = [name for name in inherited if name.startswith("AWS_")] if "AWS_LAMBDA_FUNCTION_NAME" in os.environ else []
    if own:
        raise BadInput(f"`spec.inherit`: {own[0]} belongs to the worker: a command on a stack does not get the worker's role")
    found = {name: os.environ[name] for name in (*KEPT, *inherited) if name in os.environ}
    call.conceal({name: found[name] for name in inherited if name in found and _SECRET.search(name)})
    about = {"EXECUTION_ID": call.execution_id, "STEP": call.step, "TASK": call.task, "TASK_RUN_ID": call.task_run_id}
    found |= {f"NOETL_{name}": value for name, value in {**about, "ATTEMPT": str(call.attempt)}.items()}
    for name, value in env.items():
        if not _NAME.fullmatch(str(name)):
            raise BadInput(f"`env`: {str(name)[:60]!r} cannot name a variable: letters, digits and _")
        if value is not None:
            found[name] = _text(f"env.{name}", value)
    return found


def _text(what: str, value: Any) -> str:
    """Return a value as text for a process: text unchanged, true and false as words, lists and mappings as JSON."""
    if isinstance(value, str):
        text = value
    else:
        text = json.dumps(value, ensure_ascii=False)
    if "\0" in text:
        raise BadInput(f"`{what}` has a null character in it")
    return text


def _stdin(value: Any) -> bytes:
    if value is None:
        return b""
    return (value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)).encode()


def _size(name: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise BadInput(f"`spec.{name}` must be a number of bytes")
    return value


def _run_process(work: Work, call: ToolCall, scratch: str) -> Outcome:
    mark = new_mark()
    env = {"HOME": scratch, "TMPDIR": scratch, **work.env, **mark}
    deadline = time.monotonic() + work.timeout_s
    try:
        process = subprocess.Popen(
            work.command,
            cwd=work.cwd or scratch,
            env=env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
    except (FileNotFoundError, PermissionError) as error:
        name = work.command[0][:200]
        why = "cannot be executed" if isinstance(error, PermissionError) else "is not found"
        return Outcome.failed("not_found", f"shell: {name!r} {why} here", retryable=False, code=type(error).__name__)
    except OSError as error:
        return Outcome.failed("limit", f"shell: {error.strerror}", retryable=False, code=error.errno)
    streams = _Streams(process, work, call)
    try:
        ended = _wait(process, streams, call, work, deadline)
    finally:
        _end_group(process)
        end_marked(mark)
        streams.close()
    return ended or _outcome(work, process.returncode, streams)


def _wait(process: subprocess.Popen[bytes], streams: _Streams, call: ToolCall, work: Work, deadline: float) -> Outcome | None:
    """Wait until the process ends; return an outcome if it was stopped before."""
    pause = FIRST_SLICE_S
    while not _has_ended(process):
        if call.cancelled.wait(pause):
            return Outcome.failed("cancelled", "shell: the task was cancelled", retryable=False)
        if streams.too_large.is_set():
            return Outcome.failed("limit", "shell: standard output is over `spec.max_result_bytes`", retryable=False)
        if time.monotonic() > deadline:
            what = running(call.inputs.get("script") or " ".join(work.command))
            shell = {"exit_code": None, "stderr": streams.error_text()}
            return Outcome.failed("timeout", f"shell: stopped at its timeout of {work.timeout_s:g} s{what}", shell=shell)
        pause = min(2 * pause, SLICE_S)
    streams.drain(DRAIN_S)
    return None


def _has_ended(process: subprocess.Popen[bytes]) -> bool:
    """Return whether the process has ended, without reaping it, so that the number of its group is not reused."""
    return os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def _end_group(process: subprocess.Popen[bytes]) -> None:
    """End every process of the group, including background processes: by SIGTERM if the first one still runs, then by SIGKILL."""
    if not _has_ended(process):
        _signal(process.pid, signal.SIGTERM)
        until = time.monotonic() + GRACE_S
        while not _has_ended(process) and time.monotonic() < until:
            time.sleep(SLICE_S)
    _signal(process.pid, signal.SIGKILL)
    process.wait()


def _signal(group: int, number: int) -> None:
    with suppress(ProcessLookupError, PermissionError):  # the group is empty
        os.killpg(group, number)


def _outcome(work: Work, code: int, streams: _Streams) -> Outcome:
    if streams.too_large.is_set():
        return Outcome.failed("limit", "shell: standard output is over `spec.max_result_bytes`", retryable=False)
    stdout, stderr = streams.text(), streams.error_text()
    shell: dict[str, Any] = {"exit_code": code, "stderr": stderr}
    if code not in work.ok_codes:
        kind: ErrorKind = "not_found" if code == 127 else "unknown"
        how = f"ended with exit code {code}"
        if code < 0:
            shell["signal"] = signal_name(-code)
            how = f"was ended by {shell['signal']}"
        last = stderr.strip().rpartition("\n")[2][:500]
        message = f"shell: the command {how}" + (f": {last}" if last else "")
        return Outcome.failed(kind, message, retryable=False, code=code, shell=shell)
    result: dict[str, Any] = {"exit_code": code, "stdout": stdout, "stderr": stderr}
    if work.as_json:
        try:
            result["data"] = strict_json.loads(stdout)
        except ValueError as error:
            return Outcome.failed("parse", f"shell: standard output is not JSON: {error}", retryable=False, shell=shell)
    return Outcome.ok(result, shell=shell)


def signal_name(number: int) -> str:
    """Return the name of a signal. Real-time signals have none in Python."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"SIGRTMIN+{number - signal.SIGRTMIN}"


class _Streams:
    """Feeds a process and reads its output on threads, into the log and into memory, up to limits."""

    def __init__(self, process: subprocess.Popen[bytes], work: Work, call: ToolCall) -> None:
        assert process.stdin is not None and process.stdout is not None and process.stderr is not None
        self._pipes: tuple[IO[bytes], ...] = (process.stdin, process.stdout, process.stderr)
        self._work, self._log, self._logged = work, call.log, 0
        self._out, self._error = bytearray(), bytearray()
        self._lock = threading.Lock()
        self.too_large = threading.Event()
        self._closed = threading.Event()
        self._readers = [
            threading.Thread(target=self._read, args=(pipe, name), daemon=True)
            for pipe, name in ((process.stdout, "stdout"), (process.stderr, "stderr"))
        ]
        self._writer = threading.Thread(target=self._write, args=(process.stdin,), daemon=True)
        for thread in (*self._readers, self._writer):
            thread.start()

    def drain(self, seconds: float) -> None:
        """Wait for the end of the output."""
        until = time.monotonic() + seconds
        for thread in self._readers:
            thread.join(max(0.0, until - time.monotonic()))

    def close(self) -> None:
        """End the threads. The processes have ended and closed their pipes, except one that has left the session and dropped the
        mark; its next write ends it (SIGPIPE)."""
        self.drain(DRAIN_S)
        self._closed.set()
        for thread, pipe in zip((self._writer, *self._readers), self._pipes, strict=True):
            thread.join(DRAIN_S)
            if not thread.is_alive():
                pipe.close()

    def text(self) -> str:
        return bytes(self._out).decode("utf-8", "replace")

    def error_text(self) -> str:
        return bytes(self._error[-ERROR_CHARS:]).decode("utf-8", "replace")

    def _write(self, pipe: IO[bytes]) -> None:
        rest, ready = memoryview(self._work.stdin), select.poll()
        ready.register(pipe, select.POLLOUT)
        os.set_blocking(pipe.fileno(), False)
        with suppress(OSError):  # the process stopped reading; its exit code shows whether that matters
            while rest and not self._closed.is_set():
                if ready.poll(1000 * SLICE_S):
                    rest = rest[os.write(pipe.fileno(), rest) :]
        with suppress(OSError):
            pipe.close()

    def _read(self, pipe: IO[bytes], name: str) -> None:
        rest = b""
        while piece := self._piece(pipe):
            self._keep(piece, name)
            *lines, rest = (rest + piece).split(b"\n")
            for line in lines:
                self._say(line, name)
            if len(rest) > PIECE:
                self._say(rest, name)
                rest = b""
        if rest:
            self._say(rest, name)

    def _piece(self, pipe: IO[bytes]) -> bytes:
        """Return the next bytes; none at the end, or once the task has ended."""
        ready = select.poll()
        ready.register(pipe, select.POLLIN)
        while not self._closed.is_set():
            if ready.poll(1000 * SLICE_S):
                return os.read(pipe.fileno(), PIECE)
        return b""

    def _keep(self, piece: bytes, name: str) -> None:
        if name == "stderr":
            self._error += piece
            del self._error[:-ERROR_CHARS]
        elif len(self._out) + len(piece) > self._work.max_result:
            self.too_large.set()
        else:
            self._out += piece

    def _say(self, line: bytes, name: str) -> None:
        with self._lock:
            left = self._work.max_output - self._logged
            if left <= 0:
                return
            text = line.decode("utf-8", "replace")
            self._logged += len(text) + 1
            over = self._logged > self._work.max_output
            self._log(f"{text[:left]}... output over the limit is dropped" if over else text, name)
