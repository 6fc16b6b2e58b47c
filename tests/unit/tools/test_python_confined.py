"""`kind: python`: what the code must not reach: the worker, other processes, the network, files."""

from __future__ import annotations

import os

import pytest

from tests.unit.tools.python_calls import Python, failure, lines, linux, python, tool

__all__ = ["lines", "python", "tool"]


def test_the_environment_is_empty_and_the_folder_its_own(python: Python, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "very-secret")
    outcome = python("import os\nresult = [dict(os.environ), os.listdir('.'), os.getcwd()]")
    assert outcome.result[:2] == [{}, []] and outcome.result[2] != os.getcwd()


@linux
@pytest.mark.parametrize("name", ["environ", "mem", "maps", "cmdline", "fd/0"])
def test_the_workers_proc_entry_is_closed(python: Python, name: str) -> None:
    outcome = python(f"result = open('/proc/{os.getpid()}/{name}', 'rb').read(10).hex()")
    assert failure(outcome) == "python" and "PermissionError" in str(outcome.helpers)


@linux
def test_no_process_can_be_started(python: Python) -> None:
    for code in (
        "import os; os.fork()",
        "import subprocess; subprocess.run(['true'])",
        "import os; os.system('true')",
        "import os; os.execv('/bin/true', ['true'])",
    ):
        outcome = python(code)
        assert failure(outcome) == "python" and "cannot start processes" in str(outcome.error)


@linux
def test_not_even_behind_the_interpreters_back(python: Python) -> None:
    """With the system calls themselves: fork, socket, kill of the worker, ptrace."""
    code = f"""
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
def tried(call, *args):
    return [libc[call](*args), ctypes.get_errno()]
result = [tried("fork"), tried("vfork"), tried("socket", 2, 1, 0), tried("socket", 1, 1, 0), tried("kill", {os.getpid()}, 0), tried("kill", -1, 9),
          tried("ptrace", 16, {os.getpid()}, 0, 0), tried("execv", b"/bin/true", None), tried("setuid", 0)[0]]
"""
    outcome = python(code)
    assert outcome.error is None, outcome.error
    assert [r if isinstance(r, int) else r[0] for r in outcome.result][:8] == [-1] * 8
    assert all(errno == 1 for _value, errno in outcome.result[:8])


@linux
def test_a_fork_bomb_and_a_thread_bomb_end_with_an_error(python: Python) -> None:
    assert failure(python("import os\nwhile True: os.fork()")) == "python"
    bomb = "import threading, time\nwhile True: threading.Thread(target=time.sleep, args=(60,)).start()"
    assert failure(python(bomb, timeout_s=5, spec={"memory_mb": 256})) in ("python", "limit", "timeout")
    assert python("result = 1").result == 1


@pytest.mark.parametrize(
    "code",
    [
        "import socket; socket.create_connection(('127.0.0.1', 9001), 1)",
        "import urllib.request; urllib.request.urlopen('http://169.254.169.254/latest/meta-data/', timeout=1)",
        "import socket; socket.getaddrinfo('example.com', 80)",
        "import socket; socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('127.0.0.1', 53))",
    ],
)
def test_there_is_no_network_unless_declared(python: Python, code: str) -> None:
    outcome = python(code)
    assert failure(outcome) == "python" and "spec.network: true" in str(outcome.helpers)


def test_declared_network_works_except_for_metadata(python: Python) -> None:
    code = "import socket\ns = socket.socket()\ns.settimeout(1)\n"
    assert python(code + "s.bind(('127.0.0.1', 0))\nresult = s.getsockname()[0]", spec={"network": True}).result == "127.0.0.1"
    outcome = python(code + "s.connect(('169.254.169.254', 80))", spec={"network": True})
    assert "out of bounds" in str(outcome.error)


def test_the_runtime_api_is_out_of_bounds_even_with_network(python: Python, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_LAMBDA_RUNTIME_API", "127.0.0.1:9001")
    monkeypatch.setenv("NOETL_PYTHON_NETWORK", "1")
    for host in ("127.0.0.1", "localhost", "0.0.0.0", "2130706433"):
        code = f"import socket\ns = socket.socket()\ns.settimeout(1)\ns.connect(({host!r}, 9001))"
        assert "out of bounds" in str(python(code, spec={"network": True}).error)


def test_on_lambda_network_is_the_operators_to_allow(python: Python, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the kernel can do (`test_python_network_kernels.py`)."""
    monkeypatch.setenv("AWS_LAMBDA_RUNTIME_API", "127.0.0.1:9001")
    outcome = python("result = 1", spec={"network": True})
    assert failure(outcome) == "auth"
    assert "PythonNetwork" in str(outcome.error)
    assert outcome.error is not None and outcome.error.retryable is False


@linux
@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "::ffff:127.0.0.1", "169.254.169.254", "fe80::1"])
def test_no_address_is_reached_by_the_calls_of_the_c_library_or_of_the_kernel(python: Python, host: str) -> None:
    code = f"""
import ctypes, os, platform, socket, struct
libc = ctypes.CDLL(None, use_errno=True)
x86 = platform.machine() == "x86_64"
socket_, connect, sendto, uring = (41, 42, 44, 425) if x86 else (198, 203, 206, 425)
family = 10 if ":" in {host!r} else 2
raw = socket.inet_pton(family, {host!r})
port = struct.pack("!H", 9001)
packed = struct.pack("=H", family) + port + (raw + bytes(8) if family == 2 else bytes(4) + raw + bytes(4))
def tried(*args):
    return [libc.syscall(*args), ctypes.get_errno()]
mine = socket.socketpair()[0].fileno()
result = [
    [libc.socket(family, 1, 0), ctypes.get_errno()], [libc.socket(family, 2, 0), ctypes.get_errno()],
    [libc.connect(mine, packed, len(packed)), ctypes.get_errno()],
    tried(socket_, family, 1, 0), tried(connect, mine, packed, len(packed)), tried(uring, 8, bytes(120)),
]
"""
    outcome = python(code)
    assert outcome.error is None, outcome.error
    assert outcome.result == [[-1, 1]] * 6


def test_this_machine_is_out_of_bounds_with_network_unless_the_operator_allows_it(
    python: Python, monkeypatch: pytest.MonkeyPatch
) -> None:
    def connected(host: str) -> str:
        family = "AF_INET6" if ":" in host else "AF_INET"
        code = f"import socket\ns = socket.socket(socket.{family})\ns.settimeout(1)\ns.connect(({host!r}, 9))"
        return str(python(code, spec={"network": True}).error)

    monkeypatch.delenv("NOETL_HTTP_ALLOW_PRIVATE", raising=False)
    for host in ("127.0.0.1", "127.9.9.9", "2130706433", "localhost", "0.0.0.0", "::1", "::ffff:127.0.0.1", "fe80::1", "::"):
        assert "out of bounds" in connected(host), host
    monkeypatch.setenv("NOETL_HTTP_ALLOW_PRIVATE", "127.0.0.0/8")
    assert "out of bounds" not in connected("127.0.0.1")


@linux
def test_files_of_the_worker_cannot_be_read_or_written(python: Python, tmp_path: object) -> None:
    from noetl_core.tools.sandbox import confine

    if not confine.has_landlock():
        assert "CI" not in os.environ, "CI must run on a kernel with Landlock"
        pytest.skip("this kernel has no Landlock")
    target = os.path.join(str(tmp_path), "state.db")
    with open(target, "w") as file:
        file.write("events")
    assert "PermissionError" in str(python(f"result = open({target!r}).read()").helpers)
    assert "PermissionError" in str(python(f"open({target!r}, 'w')").helpers)
    assert "PermissionError" in str(python("result = open('/etc/shadow').read()").helpers)
    assert python("import tempfile\nwith tempfile.TemporaryFile() as f: result = f.write(b'mine')").result == 4
