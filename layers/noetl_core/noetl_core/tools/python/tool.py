"""`kind: python`: code of an author in a separate process (docs/tools/python.md, docs/access.md).

The code sees every argument as a variable, those of the task before those of the step; `args`, `input_data` and `context` are
mappings of all of them and of the run; `_run {execution_id, step, task, task_run_id, attempt}`. Its result is the value of a
`return` outside functions; otherwise the variable `result`; otherwise the return value of `main`; otherwise null.
Dates, decimals, data frames and similar values become plain data (`sandbox.plain`); a value without a plain form is an error
that names its place. The output of the code goes to the log of the task.

It is confined (`sandbox.confine`) by an empty environment, a scratch folder of its own, limits on memory, time and file size,
no new processes, and no network unless `spec.network: true`: then TCP and UDP to the addresses that the http tool may reach
(`net.AddressPolicy`), which excludes this machine unless its addresses are allowed. A process serves the tasks of one execution
with one code only.
The worker is made non-dumpable, because a process of the same user could read its memory otherwise.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Mapping
from hashlib import sha256
from typing import Any, Final

from noetl_core.engine.outcome import ErrorKind, Outcome
from noetl_core.expr import mask
from noetl_core.ports import MissingPackages
from noetl_core.tools.base import BadInput, ToolCall
from noetl_core.tools.masking.scrub import holds_secret
from noetl_core.tools.network.addresses import AddressPolicy
from noetl_core.tools.python.reads import reads_of
from noetl_core.tools.sandbox.addresses import Addresses
from noetl_core.tools.sandbox.pool import Cancelled, CannotStart, Died, Expired, Overflow, Pool, Runner, start_server_ahead
from noetl_core.tools.sandbox.stacks import author_frames
from noetl_core.tools.sandbox.system_calls import can_broker
from noetl_core.tools.stopping import running
from noetl_core.values.large_json import JsonText

DEFAULT_TIMEOUT_S: Final = 900.0
"""The timeout when none is set: the longest time of a Lambda function."""
DEFAULT_MEMORY_MB: Final = 1024
ENVIRONMENT: Final = "NOETL_PYTHON_ENVIRONMENT"
"""With 1, tasks import everything that the worker's own interpreter can: for programs whose tasks import
their own modules. Stacks never set it."""
SMALLEST_MEMORY_MB: Final = 64
MAX_OUTPUT_CHARS: Final = 65_536
MAX_RESULT_BYTES: Final = 64 * 1024 * 1024
LIBS_HINT: Final = "`libs` must map names to modules or parts of them, e.g. {np: numpy, sqrt: {from: math, import: sqrt}}"


NETWORK: Final = "NOETL_PYTHON_NETWORK"
"""1: tasks may declare network; 0: they may not. Without it they may, except on Lambda."""
ON_LAMBDA: Final = "AWS_LAMBDA_RUNTIME_API"
NO_NETWORK: Final = (
    "python: network is not allowed here: use `kind: http` for requests, or have the operator allow it (the stack's parameter"
    f" PythonNetwork; {NETWORK}=1 in the environment of the process that runs the tasks)"
)
NO_FILTER: Final = (
    "python: network is not allowed here: this kernel cannot keep a task away from the runtime's port (it needs Linux 5.0 or"
    " later, with user notifications of seccomp); use `kind: http` for requests"
)


class PythonTool:
    """Inputs `code`, `args`, `libs` ({name: module} or {name: {from: module, import: part}}), `entry` (the function to call
    instead of `main`); spec `network`, `memory_mb`, `max_output_bytes`.

    Helpers on errors: `py {exception_type, message, traceback}`.
    """

    kind = "python"
    inline = False
    punctual = True
    takes_texts = True

    def __init__(self, *, landlock: bool = True) -> None:
        """With `landlock` False it behaves as on a kernel without Landlock."""
        self._landlock = landlock
        self._pool: Pool | None = None
        self._lock = threading.Lock()

    def run(self, call: ToolCall) -> Outcome:
        if call.spec.get("network") is True and (refusal := why_no_network()) is not None:
            return Outcome.failed("auth", refusal, retryable=False)
        try:
            config = _config(call)
        except MissingPackages as missing:
            return Outcome.failed("unsupported", f"python: {missing}", retryable=False)
        args = call.inputs.get("args") or {}
        if type(args) is JsonText:  # its keys are needed
            args = args.value
        if not isinstance(args, Mapping):
            raise BadInput(f"`args` must be a mapping, not {type(args).__name__}")
        timeout = DEFAULT_TIMEOUT_S if call.timeout_s is None else call.timeout_s
        task = _task(call, dict(args), timeout)
        deadline = time.monotonic() + timeout
        pool = self.pool()
        if not pool.take_place(deadline, call.cancelled):
            if call.cancelled.is_set():
                return _cancelled()
            return Outcome.failed(
                "timeout", f"python: no process was free within {timeout:g} s", py={"exception_type": "TimeoutError"}
            )
        try:
            try:
                runner = pool.acquire((call.execution_id, _digest(config)), config)
            except CannotStart as error:
                return Outcome.failed("unknown", f"python: {error}", py={"exception_type": "CannotStart"})
            return self._attempt(pool, runner, call, task, deadline)
        finally:
            pool.leave_place()

    def warm(self) -> None:
        """Start the fork server and a process without waiting for them, so that the first task finds them ready."""
        self.pool().warm(_surroundings(network=False))

    def close(self) -> None:
        """End the processes of this tool (they end with the worker in any case)."""
        with self._lock:
            if self._pool is not None:
                self._pool.close()

    def pool(self) -> Pool:
        """Return the processes of this tool. None is started before they are warmed, or a task needs one."""
        with self._lock:
            if self._pool is None:
                self._pool = Pool(landlock=self._landlock)
            return self._pool

    def _attempt(self, pool: Pool, runner: Runner, call: ToolCall, task: Mapping[str, Any], deadline: float) -> Outcome:
        lines = _Lines(call)
        reusable = False
        try:
            answer, text = runner.run(task, deadline, call.cancelled, lines.add)
            reusable = answer.get("retire") is False
            return _outcome(answer, text)
        except Expired:
            return _expired(task["timeout"], author_frames(runner.stack(), call.inputs["code"]))
        except Cancelled:
            return _cancelled()
        except Overflow:
            return Outcome.failed("limit", f"python: the result is over {MAX_RESULT_BYTES} bytes", retryable=False)
        except Died as end:
            return _death(end, task, call)
        finally:
            lines.end()
            if reusable:
                pool.release(runner)
            else:
                runner.close()


def why_no_network() -> str | None:
    """Return why tasks may not declare network here, or None. On Lambda the operator must allow it, and the kernel must be able
    to keep them away from the runtime's own port, which is on this machine."""
    on_lambda = ON_LAMBDA in os.environ
    if os.environ.get(NETWORK, "0" if on_lambda else "1") != "1":
        return NO_NETWORK
    return NO_FILTER if on_lambda and not can_broker() else None


def start_ahead() -> None:
    """Start the fork server before there is a tool, as `PythonTool.warm` does."""
    start_server_ahead(_surroundings(network=False))


def _task(call: ToolCall, args: dict[str, Any], timeout: float) -> dict[str, Any]:
    about = {"execution_id": call.execution_id, "step": call.step, "task": call.task}
    run = {**about, "task_run_id": call.task_run_id, "attempt": call.attempt}
    read = reads_of(str(call.inputs.get("code")))
    step_args = call.names.get("args") or {}
    if not (read.all_input or (read.all_args and not args)):
        step_args = {name: step_args[name] for name in step_args if name in read.words}
    step_args = {name: step_args[name] for name in step_args if name not in args}
    parts = ("workload", "ctx") if read.context is None else sorted(read.context)
    context = {name: dict(call.names[name]) for name in ("workload", "ctx") if name in parts and name in call.names}
    known = _plain(call, {"args": step_args, "context": context})
    return {"args": args, "step_args": known["args"], "context": {**run, **known["context"]}, "run": run, "timeout": timeout}


def _plain(call: ToolCall, names: dict[str, Any]) -> dict[str, Any]:
    """Return the run's names as values: secrets masked, references loaded. Raises `TooLarge`, `NotFound`, `BadInput`."""
    values: dict[str, Any] = mask(names) if holds_secret(names) else names
    return values if call.references is None else dict(call.references.load(values, "of the run", texts=True))


def _config(call: ToolCall) -> dict[str, Any]:
    """Return the settings of a runner. Two calls with the same settings may share a runner (within an execution)."""
    code, libs, spec = call.inputs.get("code"), call.inputs.get("libs") or {}, call.spec
    if not isinstance(code, str):
        raise BadInput("`code` must be text")
    if not isinstance(libs, Mapping):
        raise BadInput(LIBS_HINT)
    memory, output = spec.get("memory_mb", DEFAULT_MEMORY_MB), spec.get("max_output_bytes", MAX_OUTPUT_CHARS)
    if isinstance(memory, bool) or not isinstance(memory, int | float) or memory < SMALLEST_MEMORY_MB:
        raise BadInput(f"`spec.memory_mb` must be a number of at least {SMALLEST_MEMORY_MB}")
    if isinstance(output, bool) or not isinstance(output, int) or output < 0:
        raise BadInput("`spec.max_output_bytes` must be a whole number")
    return {
        "code": code,
        "libs": {str(name): _import(target) for name, target in libs.items()},
        "entry": call.inputs.get("entry"),
        "memory_mb": int(memory),
        "max_output": output,
        "max_result": MAX_RESULT_BYTES,
        **_surroundings(network=spec.get("network") is True, packages=_packages(call)),
    }


def _packages(call: ToolCall) -> tuple[str, ...]:
    """Return the folder of the packages that the playbook requires. Raises `MissingPackages`."""
    if not call.requirements:
        return ()
    if call.packages is None:
        raise MissingPackages("the playbook requires packages, and this worker cannot find packages")
    return (call.packages(call.requirements),)


def _surroundings(*, network: bool, packages: tuple[str, ...] = ()) -> dict[str, Any]:
    """Return the settings that confine a runner, apart from the kernel's capabilities."""
    engine = [p for p in sys.path if p and os.path.isabs(p)]  # noqa: PTH117 - texts in and out
    everything = os.environ.get(ENVIRONMENT) == "1"
    addresses = AddressPolicy.from_environment().as_rules().with_name_servers() if network else Addresses()
    return {
        "sockets": "none" if not network else "brokered" if can_broker() else "open",
        "or_open": ON_LAMBDA not in os.environ,
        "addresses": addresses.as_plain(),
        "packages": [*packages, *(engine if everything else ())],
        "engine": engine,
    }


def _import(target: Any) -> tuple[str, str | None]:
    """Return the module to import, and the name in it."""
    if isinstance(target, str) and target:
        return target, None
    if isinstance(target, Mapping) and set(target) == {"from", "import"}:
        module, name = target["from"], target["import"]
        if isinstance(module, str) and module and isinstance(name, str) and name:
            return module, name
    raise BadInput(LIBS_HINT)


_SETTINGS: Final = ("code", "libs", "entry", "memory_mb", "max_output", "packages", "sockets", "or_open", "addresses")


def _digest(config: Mapping[str, Any]) -> str:
    settings = [f"{name}={config[name]!r}" for name in _SETTINGS]
    return sha256("\0".join(settings).encode("utf-8", "surrogatepass")).hexdigest()


def _outcome(answer: Mapping[str, Any], text: JsonText | None) -> Outcome:
    if answer.get("ok") is True:
        return Outcome("ok", result=answer.get("result"), text=text)
    error_kind = answer.get("kind")
    kind: ErrorKind = error_kind if error_kind in ("limit", "schema") else "python"
    py = {"exception_type": str(answer.get("type", "Exception")), "message": str(answer.get("message", ""))}
    if answer.get("traceback"):
        py["traceback"] = str(answer["traceback"])
    return Outcome.failed(kind, py["message"], retryable=False, code=py["exception_type"], py=py)


def _cancelled() -> Outcome:
    return Outcome.failed("cancelled", "python: the task was cancelled", retryable=False)


def _expired(timeout: float, frames: str) -> Outcome:
    """Return the outcome of a task stopped at its timeout; `frames` are the lines of its code that ran, empty if unknown."""
    py = {"exception_type": "TimeoutError"}
    if frames:
        py["traceback"] = f"{frames}TimeoutError: stopped at its timeout of {timeout:g} s"
    line = frames.splitlines()[-1] if frames else ""
    return Outcome.failed("timeout", f"python: stopped at its timeout of {timeout:g} s{running(line)}", py=py)


def _death(end: Died, task: Mapping[str, Any], call: ToolCall) -> Outcome:
    """Return why a process has ended, from its exit status."""
    number = os.WTERMSIG(end.status) if os.WIFSIGNALED(end.status) else 0
    py = {"exception_type": "ProcessEnded"}
    if number == signal.SIGXCPU:
        return Outcome.failed("timeout", f"python: used more than {task['timeout']:g} s of processor time", py=py)
    if number == signal.SIGXFSZ:
        return Outcome.failed("limit", "python: wrote a file that is too large", retryable=False, py=py)
    if number == signal.SIGKILL and not end.killed:
        memory = call.spec.get("memory_mb", DEFAULT_MEMORY_MB)
        return Outcome.failed(
            "limit", f"python: killed by the system, most likely out of memory (limit {memory} MB)", retryable=False, py=py
        )
    how = f"by signal {signal.Signals(number).name}" if number else f"with exit code {os.waitstatus_to_exitcode(end.status)}"
    return Outcome.failed("python", f"python: the process ended {'itself ' if not number else ''}{how}", retryable=False, py=py)


class _Lines:
    """Writes output that arrives in pieces to the log, line by line."""

    def __init__(self, call: ToolCall) -> None:
        self._log, self._rest = call.log, {"stdout": "", "stderr": ""}

    def add(self, text: str, stream: str) -> None:
        *lines, self._rest[stream] = (self._rest[stream] + text).split("\n")
        for line in lines:
            self._log(line, stream)

    def end(self) -> None:
        for stream, rest in self._rest.items():
            if rest:
                self._log(rest, stream)
                self._rest[stream] = ""
