"""`kind: python` with network: kernels that cannot refuse addresses, the broker, and the processes of a task."""

from __future__ import annotations

import ctypes
import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from noetl_core.tools.python.tool import NO_FILTER
from noetl_core.tools.sandbox import socket_broker
from tests.unit.tools.network_listeners import ALLOWED, CONNECTED, RAW, Listeners, allowed, listeners
from tests.unit.tools.python_calls import Python, descendants, lines, linux, processes, python, tool

__all__ = ["allowed", "lines", "listeners", "python", "tool"]
pytestmark = linux


@pytest.fixture
def old_kernel(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Makes this machine's kernel one that cannot refuse addresses."""
    return lambda: monkeypatch.setattr("noetl_core.tools.python.tool.can_broker", lambda: False)


def test_on_lambda_network_takes_a_kernel_that_can_refuse_addresses(
    python: Python, old_kernel: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_LAMBDA_RUNTIME_API", "127.0.0.1:9001")
    monkeypatch.setenv("NOETL_PYTHON_NETWORK", "1")
    assert python("result = 1", spec={"network": True}).result == 1
    old_kernel()
    outcome = python("result = 2", spec={"network": True})
    assert outcome.error is not None
    assert (outcome.error.kind, outcome.error.message, outcome.error.retryable) == ("auth", NO_FILTER, False)


def test_an_old_kernel_outside_lambda_leaves_refusing_addresses_to_python(
    python: Python, listeners: Listeners, old_kernel: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NOETL_HTTP_ALLOW_PRIVATE", raising=False)
    old_kernel()
    code = f"{CONNECTED}result = connected('127.0.0.1', {listeners.port})"
    assert "this machine is out of bounds" in str(python(code, spec={"network": True}).error)
    by_c = f"{RAW}to = packed('127.0.0.1', {listeners.port})\nresult = tried(libc.connect, new('127.0.0.1', 1, True).fileno(), to, 16)"
    assert python(by_c, spec={"network": True}).result == [0, 0]


LISTENED_TO = """
import ctypes, os, struct, sys
from noetl_core.tools.sandbox.system_calls import CALLS
libc = ctypes.CDLL(None, use_errno=True)
libc.prctl(38, 1, 0, 0, 0)
program = ctypes.create_string_buffer(struct.pack("=HBBI", 6, 0, 0, 0x7FFF0000))
listener = libc.syscall(CALLS["seccomp"], 1, 8, struct.pack("@HP", 1, ctypes.addressof(program)))
assert listener >= 0
from noetl_core.tools.base import ToolCall
from noetl_core.tools.python.tool import PythonTool
tool = PythonTool()
for code, spec in (("import socket; result = str(socket.socket().type)", {"network": True}), ("result = 1", {})):
    outcome = tool.run(ToolCall("python", {"code": code}, spec))
    print(outcome.result, outcome.error and outcome.error.message, sep=";")
tool.close()
"""


@pytest.mark.one_in(2)
@pytest.mark.parametrize("on_lambda", [False, True])
def test_a_kernel_without_the_filter_refuses_network_only_on_lambda(on_lambda: bool) -> None:
    """As in a container whose manager listens to system calls itself: a process has one listener only."""
    env = {**os.environ, "NOETL_PYTHON_NETWORK": "1", **({"AWS_LAMBDA_RUNTIME_API": "127.0.0.1:9001"} if on_lambda else {})}
    done = subprocess.run([sys.executable, "-c", LISTENED_TO], capture_output=True, text=True, check=False, env=env)
    with_network, without = done.stdout.splitlines()
    assert without == "1;None", done.stderr
    if on_lambda:
        assert with_network.startswith("None;") and "cannot keep this task away from the runtime's port" in with_network
    else:
        assert with_network == f"{socket.SOCK_STREAM};None"


def test_the_processes_of_a_task_end_with_it(python: Python, tool: Any) -> None:
    """By itself, by its timeout, by a signal, and when it closes whatever it has open."""
    python("result = 1")
    server = tool.pool().fork_server.process.pid
    before = descendants(server)
    endings = [
        "import os; os._exit(3)",
        "import os, signal; os.kill(os.getpid(), signal.SIGKILL)",
        "import time; time.sleep(60)",
        "import os; os.closerange(0, 256)",
        "import ctypes, os; ctypes.CDLL(None).prctl(1, 0, 0, 0, 0); os._exit(4)",
    ]
    for code in endings:
        assert python(code, spec={"network": True}, timeout_s=1).error is not None
    deadline = time.monotonic() + 5
    while len(descendants(server)) > len(before) + 4:  # one runner may wait, with its broker and its lender
        assert time.monotonic() < deadline
        time.sleep(0.05)
    zombies = [p for p in descendants(server) if Path(f"/proc/{p}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"]
    assert zombies == []


@pytest.mark.nightly
@pytest.mark.parametrize("seconds", [0.3, pytest.param(1, marks=pytest.mark.nightly)])
def test_a_task_that_interferes_with_its_broker_gains_nothing(
    python: Python, listeners: Listeners, allowed: Listeners, seconds: float
) -> None:
    """It floods the lender's socket, takes the broker's requests from it, closes it, and floods the broker with calls and threads."""
    code = f"""{RAW}
to, good = packed("127.0.0.1", {listeners.port}), packed({ALLOWED!r}, {allowed.port})
open_files = [int(n) for n in os.listdir("/proc/self/fd") if int(n) > 2 and os.path.exists(f"/proc/self/fd/{{n}}")]
result = {{"files": len(open_files)}}
unix = []
for n in open_files:
    if not os.readlink(f"/proc/self/fd/{{n}}").startswith("socket"): continue
    found = socket.socket(fileno=os.dup(n))
    if found.type == socket.SOCK_SEQPACKET:
        unix.append(found)
        number = n
    else:
        found.detach()
(lender,) = unix
def many(function, seconds):
    threads = [threading.Thread(target=function, args=(time.monotonic() + seconds,)) for _ in range(8)]
    for thread in threads: thread.start()
    for thread in threads: thread.join()
outcomes = set()
def refused(until):
    while time.monotonic() < until:
        sock = new("127.0.0.1", 1)
        kept.clear()
        outcomes.add(tuple(tried(libc.connect, sock.fileno(), to, 16)))
        sock.close()
many(refused, {seconds})
def flood(until):
    while time.monotonic() < until:
        try:
            lender.send(b"F" * 60_000, socket.MSG_DONTWAIT)
        except OSError:
            pass
def steal(until):
    while time.monotonic() < until:
        try:
            lender.recv(100, socket.MSG_DONTWAIT)
        except OSError:
            pass
for disturb in (flood, steal):
    other = threading.Thread(target=many, args=(disturb, {seconds}))
    other.start()
    many(refused, {seconds} / 2)
    other.join()
result["refused"] = sorted(outcomes)
sock = new({ALLOWED!r}, 1, True)
result["after"] = tried(libc.connect, sock.fileno(), good, 16)
lender.close()
os.close(number)
result["closed"] = tried(libc.connect, new("127.0.0.1", 1).fileno(), to, 16)[0]
"""
    outcome = python(code, spec={"network": True}, timeout_s=60)
    assert outcome.error is None, outcome.error
    assert all(value == -1 for value, _ in outcome.result["refused"])
    assert outcome.result["files"] == 3, "the socket to the worker, that of the lender, and the pipe of the stack"
    assert outcome.result["after"] == [0, 0], "the task's own doing ends with it"
    assert outcome.result["closed"] == -1
    assert listeners.settled() == []
    assert python("result = 1", spec={"network": True}).result == 1


def test_the_broker_holds_nothing_of_a_task_open(python: Python, allowed: Listeners) -> None:
    """A connection ends for the other side when the task closes it, not when the task ends."""
    listener = socket.socket()
    listener.bind((ALLOWED, 0))
    listener.listen()
    listener.settimeout(30)
    code = f"""
import socket
first, second = [socket.create_connection(({ALLOWED!r}, {listener.getsockname()[1]})) for _ in range(2)]
first.sendmsg([b"hello"])
first.close()
result = second.recv(1)[:0].decode()
"""
    outcomes = []
    thread = threading.Thread(target=lambda: outcomes.append(python(code, spec={"network": True}, timeout_s=60)))
    thread.start()
    (first, _), (second, _) = listener.accept(), listener.accept()
    with first, second, listener:
        first.settimeout(30)
        assert first.recv(100) == b"hello"
        assert first.recv(100) == b""
    thread.join()
    assert outcomes[0].error is None


def test_nothing_of_the_runner_can_be_reached_by_another_process(python: Python) -> None:
    """It stays as closed as one without network: its memory is the broker's, and it cannot be traced."""
    code = "import ctypes, os\nresult = [ctypes.CDLL(None).prctl(3, 0, 0, 0, 0), os.getpid()]"
    assert python(code, spec={"network": True}).result[0] == 0


def test_a_process_that_is_not_dumpable_opens_its_own_memory() -> None:
    """As a user without rights, for whom it must be dumpable for a moment; afterwards it is as closed as before."""
    from noetl_core.tools.sandbox import confine

    pid = os.fork()
    if not pid:
        try:
            if os.getuid() == 0:
                os.setgid(65534)
                os.setuid(65534)
            confine.not_dumpable()
            try:
                os.close(os.open("/proc/self/mem", os.O_RDWR))
                os._exit(1)
            except PermissionError:
                os.close(confine.open_own_memory())
            os._exit(int(ctypes.CDLL(None).prctl(3, 0, 0, 0, 0)))
        finally:
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def test_a_worker_that_is_killed_leaves_nothing_of_a_task_with_network() -> None:
    code = """
import os, signal
from noetl_core.tools.base import ToolCall
from noetl_core.tools.python.tool import PythonTool
from tests.unit.tools.python_calls import descendants
tool = PythonTool()
assert tool.run(ToolCall("python", {"code": "result = 1"}, {"network": True})).result == 1
print(*descendants(os.getpid()), flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""
    pids = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False).stdout.split()
    assert len(pids) == 4, "the fork server, the runner, its broker and its lender"
    deadline = time.monotonic() + 5
    while any(int(pid) in processes() for pid in pids):
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_calls_that_the_broker_cannot_read_get_an_error(allowed: Listeners) -> None:
    """Whatever the arguments are, the broker answers."""
    import random

    choice = random.Random(7)
    memory = os.open("/proc/self/mem", os.O_RDWR)
    from noetl_core.tools.sandbox.addresses import Addresses
    from noetl_core.tools.sandbox.system_calls import CALLS

    assert CALLS is not None
    values = [0, 1, 2, 16, 1 << 31, (1 << 32) - 1, 1 << 47, (1 << 63) - 1, (1 << 64) - 1]
    failures = 0
    for _ in range(2000):
        with socket.socket(socket.AF_INET, choice.choice([socket.SOCK_STREAM, socket.SOCK_DGRAM])) as sock:
            arguments = [choice.choice(values) for _ in range(6)]
            call = socket_broker.BrokeredCall(
                sock, CALLS[choice.choice(["connect", "sendto", "sendmsg", "sendmmsg"])], arguments, memory, Addresses()
            )
            try:
                call.make()
            except OSError:
                failures += 1
    os.close(memory)
    assert failures > 1000


def test_rules_are_kept_as_json() -> None:
    from noetl_core.tools.network.addresses import AddressPolicy
    from noetl_core.tools.sandbox.addresses import Addresses

    rules = AddressPolicy(refused_endpoints=frozenset({("127.0.0.1", 9001)})).as_rules()
    assert Addresses.from_plain(json.loads(json.dumps(rules.as_plain()))).rules == rules.rules
