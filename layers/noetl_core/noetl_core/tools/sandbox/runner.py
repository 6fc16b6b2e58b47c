"""The process that runs the tasks of one execution with one code. It serves task after task, each with new globals, until its
peer closes the socket.

Frames on the socket: one type byte, four bytes of length (big endian), a body. In: first the configuration `{code, libs, entry,
memory_mb, max_output, max_result, scratch}`, then any number of tasks `T` `{args, step_args, context, run, timeout}`. Out: `O` a
piece of standard output (text), `E` one of standard error, `R` the outcome `{ok, result | error..., retire}`, before it `V` its
result if that is large; with `retire` the process must not be used again.
"""

from __future__ import annotations

import builtins
import io
import json
import linecache
import os
import signal
import socket
import struct
import sys
import tempfile
import threading
import time
import traceback
import types
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any, Final

from noetl_core import python_code
from noetl_core.python_code import END, FILENAME
from noetl_core.tools.sandbox import confine, operands, socket_lender, views
from noetl_core.tools.sandbox.addresses import Addresses
from noetl_core.tools.sandbox.libraries import advice, set_import_path
from noetl_core.tools.sandbox.plain import NotPlain, survey, to_plain
from noetl_core.values.large_json import LARGE, fast_encoded, loads

MODULE: Final = "noetl_task"
FRAMES: Final = 12
TRACEBACK_CHARS: Final = 4000
MESSAGE_CHARS: Final = 2000
_OWN: Final = os.path.dirname(__file__)
FLUSH_S: Final = 0.5
FLUSH_CHARS: Final = 8192
MANY: Final = 50_000
"""A result of this many parts is about as large as `LARGE`."""
_ENCODER: Final = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"), check_circular=False)
"""The depth of its values is known to be limited."""


def send(sock: socket.socket, kind: bytes, body: bytes) -> None:
    head = struct.pack(">cI", kind, len(body))
    if len(body) < LARGE:
        sock.sendall(head + body)
    else:
        sock.sendall(head)
        sock.sendall(body)


def receive(sock: socket.socket) -> tuple[bytes, bytes] | None:
    """Return the next frame, or None when the peer has closed the socket."""
    head = _exactly(sock, 5)
    if head is None:
        return None
    kind, length = struct.unpack(">cI", head)
    body = _exactly(sock, length)
    return None if body is None else (kind, body)


def _exactly(sock: socket.socket, size: int) -> bytes | None:
    parts = bytearray()
    while len(parts) < size:
        piece = sock.recv(min(size - len(parts), 1 << 20))
        if not piece:
            return None
        parts += piece
    return bytes(parts)


class Output(io.TextIOBase):
    """`sys.stdout` of a task: it is sent in pieces, up to a limit."""

    def __init__(self, emit: Callable[[str], None], limit: int) -> None:
        self._emit, self._left, self._held, self._size, self._since = emit, limit, [""], 0, time.monotonic()
        self.other: Output | None = None
        """The task's other stream: output is sent in the order in which it was written."""

    encoding = "utf-8"

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        if not isinstance(text, str):
            raise TypeError(f"write() argument must be str, not {type(text).__name__}")
        if self.other is not None:
            self.other.flush()
        if self._left > 0:
            piece = text if len(text) <= self._left else text[: self._left] + "\n... output over the limit is dropped\n"
            self._left -= len(text)
            self._held.append(piece)
            self._size += len(piece)
            if self._size >= FLUSH_CHARS or time.monotonic() - self._since >= FLUSH_S:
                self.flush()
        return len(text)

    def flush(self) -> None:
        if self._size:
            self._emit("".join(self._held))
            self._held, self._size = [""], 0
        self._since = time.monotonic()


Broker = tuple[socket.socket, socket.socket]
"""A runner's ends of its sockets to the broker: one for its start, one for the lender."""


def enter(surroundings: Mapping[str, Any], scratch: str | None, tasks: int, broker: Broker | None = None) -> None:
    """Set the import path and confine this process. `scratch` is its folder, if that exists already; `tasks` the number of tasks
    of this user; `broker` the broker of its sockets, if these are brokered."""
    confine.not_dumpable()
    confine.limit_resources(tasks)
    sockets, or_open = surroundings["sockets"], surroundings["or_open"]
    memory = _start_lender(broker, or_open) if broker is not None else -1
    set_import_path(surroundings["packages"], surroundings["engine"])
    sys.argv[:] = [MODULE]
    listener = confine.confine(
        [sys.prefix, sys.base_prefix, sys.exec_prefix, *surroundings["packages"], *surroundings["engine"]],
        [] if scratch is None else [scratch],
        sockets="open" if broker is not None and memory < 0 else sockets,
        addresses=Addresses.from_plain(surroundings["addresses"]),
        or_open=or_open,
        landlock=surroundings["landlock"],
    )
    if broker is not None:
        _hand_over(broker, listener, memory)
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def _start_lender(broker: Broker, or_open: bool) -> int:
    """Start the lender and return the memory of this process as a file; -1 if the kernel refuses either and the sockets may be
    open."""
    memory = -1
    try:
        memory = confine.open_own_memory()
        socket_lender.start(broker[1])
    except OSError:
        if not or_open:
            raise
        if memory >= 0:
            os.close(memory)
        return -1
    return memory


def _hand_over(broker: Broker, listener: int, memory: int) -> None:
    """Wait until the broker has the listener and the memory, and close them here: the process with the listener answers the
    calls. Without a listener the broker ends."""
    link, lender = broker
    if listener:
        link.send(struct.pack("=ii", listener, memory))
        if not link.recv(1):
            raise confine.CannotConfine("the broker of the task's sockets has ended")
        os.close(listener)
    else:
        lender.close()
    link.close()
    if memory >= 0:
        os.close(memory)


def serve(sock: socket.socket) -> None:
    """Read the configuration, then run tasks. The process is confined."""
    frame = receive(sock)
    if frame is None:
        return
    config = json.loads(frame[1])
    confine.limit_memory(config["memory_mb"])
    os.chdir(config["scratch"])
    tempfile.tempdir = config["scratch"]
    code: types.CodeType | dict[str, Any]
    try:
        code = python_code.compiled(config["code"])
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        code = _syntax(error)
    linecache.cache[FILENAME] = (len(config["code"]), None, config["code"].splitlines(True), FILENAME)
    dumps = json.dumps
    hook = views.viewed if views.reads_views(config["code"]) else None
    while (frame := receive(sock)) is not None:
        task = loads(frame[1]) if hook is None else json.loads(frame[1], object_hook=hook)
        confine.limit_processor_time(task["timeout"])
        os.chdir(config["scratch"])
        outputs = [_output(sock, kind, config["max_output"]) for kind in (b"O", b"E")]
        outputs[0].other, outputs[1].other = outputs[1], outputs[0]
        answer = code if isinstance(code, dict) else _attempt(code, task, config, outputs)
        body = answer.pop("body", b"")
        answer["retire"] = answer.get("retire", False) or threading.active_count() > 1
        head = dumps(answer).encode("utf-8", "replace")
        if len(body) >= LARGE:
            send(sock, b"V", body)
            body = b""
        send(sock, b"R", head[:-1] + b', "result": ' + body + b"}" if body else head)


def _output(sock: socket.socket, kind: bytes, limit: int) -> Output:
    return Output(lambda text: send(sock, kind, text.encode("utf-8", "replace")), limit)


def _attempt(
    code: types.CodeType, task: Mapping[str, Any], config: Mapping[str, Any], outputs: Sequence[Output]
) -> dict[str, Any]:
    """Run the code once and return an answer in any case. `outputs` are its standard output and standard error."""
    sys.stdout, sys.stderr = outputs
    try:
        value = _run(code, task, config)
        body = _encoded(value)
        if len(body) > config["max_result"]:
            return {
                "ok": False,
                "kind": "limit",
                "message": f"the result is {len(body)} bytes, over the limit of {config['max_result']}",
            }
        return {"ok": True, "body": body}
    except NotPlain as error:
        return {"ok": False, "kind": "schema", "type": "TypeError", "message": str(error)[:MESSAGE_CHARS]}
    except MemoryError as error:
        return _failed(error, "limit", f"out of memory: the task may use {config['memory_mb']} MB (spec.memory_mb)")
    except BaseException as error:  # including SystemExit and KeyboardInterrupt of the author's code
        return _failed(error, "python", None)
    finally:
        try:
            for output in outputs:
                output.flush()
        finally:
            sys.modules.pop(MODULE, None)
            sys.stdout = sys.stderr = sys.__stdout__


def _encoded(value: Any) -> bytes:
    """Return a result as JSON. Raises `NotPlain`."""
    found = survey(value)
    if found is not None and found.parts >= MANY and found.short_floats and (body := fast_encoded(value)) is not None:
        return body
    text = _ENCODER.encode(value if found is not None else to_plain(value))
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise NotPlain(
            f"result holds half of a surrogate pair, U+{ord(text[error.start]):04X}, which is not a character"
        ) from None


def _run(code: types.CodeType, task: Mapping[str, Any], config: Mapping[str, Any]) -> Any:
    args: dict[str, Any] = task["args"]
    arguments: dict[str, Any] = {**task["step_args"], **args}
    own = {"args": args or arguments, "input_data": arguments, "context": task.get("context", {})}
    module = types.ModuleType(MODULE)
    names = module.__dict__
    names.update({"__builtins__": builtins, "__file__": FILENAME, "_run": task["run"], **own, **arguments})
    for name, target in config["libs"].items():
        names[name] = _imported(*target)
    sys.modules[MODULE] = module
    before = names.get("result", names)
    try:
        returned = python_code.run(code, names)
    except SystemExit as stop:
        if stop.code not in (None, 0):
            raise
        return names.get("result")
    if returned is not END:
        return returned
    after = names.get("result", names)
    if config["entry"] is None and after is not before:
        return after
    main = names.get(config["entry"] or "main")
    if callable(main) and not (config["entry"] is None and "main" in arguments):
        return _call(main, arguments, own)
    if config["entry"] is not None:
        raise NameError(f"the code defines no function {config['entry']!r} (entry)")
    return None if after is names else after


def _imported(module: str, name: str | None) -> Any:
    """Return a module, or `name` of it, like `from module import name`."""
    found = import_module(module)
    if name is None:
        return found
    try:
        return getattr(found, name)
    except AttributeError:
        try:
            return import_module(f"{module}.{name}")
        except ModuleNotFoundError:
            raise ImportError(f"cannot import name {name!r} from {module!r}") from None


def _call(main: Callable[..., Any], arguments: dict[str, Any], own: dict[str, Any]) -> Any:
    """Call `main` with values by the names of its parameters: arguments of the task and the step, otherwise `args`, `input_data`
    and `context` as in the code."""
    import inspect  # 4 ms: only for the first task of a worker; for others, the fork server has imported it

    try:
        parameters = inspect.signature(main).parameters
    except (TypeError, ValueError):
        value = main(**own["args"])
    else:
        names = [n for n, p in parameters.items() if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
        keywords = {
            name: arguments[name] if name in arguments else own[name] for name in names if name in arguments or name in own
        }
        rest = own["args"] if any(p.kind is p.VAR_KEYWORD for p in parameters.values()) else {}
        value = main(**{**rest, **keywords})
    if not inspect.iscoroutine(value):
        return value
    import asyncio  # 20 ms: only asynchronous code needs it, and every call is a process

    return asyncio.run(value)


def _failed(error: BaseException, kind: str, message: str | None) -> dict[str, Any]:
    """Return an exception as data: type, text, and the author's part of the traceback."""
    name = type(error).__name__
    try:
        text = str(error)
    except BaseException as second:  # the author's `__str__` may raise anything
        text = f"(its text could not be made: {type(second).__name__})"
    if isinstance(error, ModuleNotFoundError):
        text += advice(error)
    tb = error.__traceback__
    while tb is not None and tb.tb_frame.f_code.co_filename != FILENAME:
        tb = tb.tb_next
    frames = [f for f in traceback.extract_tb(tb) if not f.filename.startswith(_OWN)] if tb is not None else []
    if tb is not None:
        text = operands.explained(error, text, tb, "".join(linecache.getlines(FILENAME)))
    trace = "".join(traceback.format_list(frames[-FRAMES:]))[-TRACEBACK_CHARS:]
    error.__traceback__ = None
    return {
        "ok": False,
        "kind": kind,
        "type": name,
        "message": message or (f"{name}: {text}" if text else name)[:MESSAGE_CHARS],
        "traceback": trace + f"{name}: {text}"[:MESSAGE_CHARS],
        "retire": kind == "limit",
    }


def _syntax(error: BaseException) -> dict[str, Any]:
    line = f" (line {error.lineno})" if isinstance(error, SyntaxError) and error.lineno else ""
    text = error.msg if isinstance(error, SyntaxError) else str(error)
    name = type(error).__name__
    return {"ok": False, "kind": "python", "type": name, "message": f"{name}: {text}{line}", "retire": True}
