"""The processes of `kind: python`: made ahead, handed out, replaced, and ended."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from noetl_core.tools.base import ToolCall
from noetl_core.tools.python.tool import PythonTool
from noetl_core.tools.registry import ToolRegistry
from noetl_core.tools.sandbox.fork_server import USED_MOST
from noetl_core.tools.sandbox.pool import MAX_IDLE, ForkServer
from tests.unit.tools.python_calls import Python, lines, linux, python, tool

__all__ = ["lines", "python", "tool"]


def test_many_threads_share_the_tool(tool: PythonTool) -> None:
    found: list[object] = []

    def work(n: int) -> None:
        found.append(tool.run(ToolCall("python", {"code": "result = n * n", "args": {"n": n}}, execution_id=str(n % 3))).result)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(40)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(found, key=str) == sorted((n * n for n in range(40)), key=str)


def test_the_fork_server_is_replaced_when_it_dies(python: Python, tool: PythonTool) -> None:
    assert python("result = 1").result == 1
    pool = tool.pool()
    assert pool.fork_server is not None
    pool.fork_server.process.kill()
    pool.fork_server.process.wait()
    assert python("result = 'again'", execution="after").result == "again"


def test_a_warmed_tool_is_ready_and_warming_twice_starts_nothing_twice() -> None:
    registry = ToolRegistry()
    registry.warm(["python", "http", "nonsense"])
    tool = registry.get("python")
    assert isinstance(tool, PythonTool)
    first = tool.pool().fork_server
    registry.warm(["python"])
    assert first is not None and tool.pool().fork_server is first
    assert tool.run(ToolCall("python", {"code": "result = 1"})).result == 1
    registry.close()


def children_of(pid: int) -> set[int]:
    found = set()
    for status in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            if int(status.read_text().rsplit(")", 1)[1].split()[1]) == pid:
                found.add(int(status.parent.name))
    return found


def one_more_child(server: int, known: set[int]) -> int:
    """The process that waits for the next task."""
    deadline = time.monotonic() + 10
    while not (new := children_of(server) - known):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    (pid,) = new
    return pid


@pytest.fixture
def server() -> Iterator[tuple[PythonTool, int]]:
    tool = PythonTool()
    tool.warm()
    fork_server = tool.pool().fork_server
    assert fork_server is not None
    yield tool, fork_server.process.pid
    tool.close()


def pid_of_task(tool: PythonTool, n: int, **spec: Any) -> int:
    outcome = tool.run(ToolCall("python", {"code": f"import os\nresult = os.getpid() + {n} - {n}"}, spec, "1"))
    assert isinstance(outcome.result, int), outcome
    return outcome.result


def test_the_first_task_waits_for_no_module_that_it_does_not_use() -> None:
    root = next(path for path in sys.path if os.path.exists(f"{path}/noetl_core/tools/sandbox"))
    code = f"import sys; sys.path.insert(0, {root!r}); import noetl_core.tools.sandbox.fork_server as server; print(*sys.modules)"
    modules = subprocess.run([sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not {*USED_MOST, "asyncio", "ssl", "typing_extensions"} & set(modules)


def test_the_second_process_has_preloaded_the_most_used_modules(server: tuple[PythonTool, int]) -> None:
    tool, _ = server
    code = "import sys\nresult = sorted(sys.modules)"
    found = [tool.run(ToolCall("python", {"code": f"{code}\nn = {n}"}, {}, "1")).result for n in range(2)]
    assert set(USED_MOST) <= set(found[1])


def test_values_are_plain_where_their_modules_were_not_loaded_before(server: tuple[PythonTool, int]) -> None:
    tool, _ = server
    code = """
import dataclasses, datetime, decimal, pathlib, uuid
@dataclasses.dataclass
class Point:
    x: int
def main():
    return [Point(1), datetime.date(2026, 1, 2), decimal.Decimal("1.5"), pathlib.PurePosixPath("/a"), uuid.UUID(int=1), {uuid.UUID(int=2): 1}]
"""
    uuids = [f"00000000-0000-0000-0000-00000000000{n}" for n in (1, 2)]
    expected = [{"x": 1}, "2026-01-02", 1.5, "/a", uuids[0], {uuids[1]: 1}]
    assert tool.run(ToolCall("python", {"code": code}, {}, "1")).result == expected


@linux
def test_new_code_takes_the_process_that_waits_and_the_next_one_is_made(server: tuple[PythonTool, int]) -> None:
    tool, pid = server
    waiting = one_more_child(pid, set())
    assert pid_of_task(tool, 0) == waiting and children_of(pid) == {waiting}, "one code needs one process"
    known = {waiting, pid_of_task(tool, 1)}
    for n in range(2, 5):
        waiting = one_more_child(pid, known)
        assert pid_of_task(tool, n) == waiting
        known.add(waiting)


@linux
def test_a_waiting_process_is_used_only_if_its_confinement_fits_the_task(server: tuple[PythonTool, int]) -> None:
    tool, pid = server
    waiting = one_more_child(pid, set())
    connected = pid_of_task(tool, 0, network=True)
    assert connected != waiting and waiting not in children_of(pid)
    code = "import socket\nsocket.socket()"
    assert "has no network" in str(tool.run(ToolCall("python", {"code": code}, {}, "1")).error)


@linux
def test_a_process_that_died_waiting_fails_no_task(server: tuple[PythonTool, int]) -> None:
    tool, pid = server
    waiting = one_more_child(pid, set())
    os.kill(waiting, signal.SIGKILL)
    while Path(f"/proc/{waiting}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z":
        time.sleep(0.01)
    assert pid_of_task(tool, 0) != waiting


@linux
def test_each_task_has_its_own_memory_limit_in_a_process_that_waited(server: tuple[PythonTool, int]) -> None:
    tool, pid = server
    waiting = one_more_child(pid, set())
    code = "import os, resource\nresult = [os.getpid(), resource.getrlimit(resource.RLIMIT_AS)]"
    outcome = tool.run(ToolCall("python", {"code": code}, {"memory_mb": 300}, "1"))
    assert outcome.result == [waiting, [300 << 20, 300 << 20]]


def test_processes_that_are_kept_no_longer_end_without_a_task_waiting_for_them(monkeypatch: pytest.MonkeyPatch) -> None:
    tool = PythonTool()
    asked: list[str] = []
    fork, end = ForkServer.fork, ForkServer.end

    def forks(self: ForkServer, surroundings: Mapping[str, Any]) -> Any:
        asked.append("fork")
        return fork(self, surroundings)

    def ends(self: ForkServer, pid: int, grace: float) -> tuple[int, bool]:
        asked.append("end")
        return end(self, pid, grace)

    monkeypatch.setattr(ForkServer, "fork", forks)
    monkeypatch.setattr(ForkServer, "end", ends)
    pids = [pid_of_task(tool, n) for n in range(MAX_IDLE + 3)]
    assert asked == ["fork"] * len(pids)
    deadline = time.monotonic() + 10
    while os.path.exists(f"/proc/{pids[2]}"):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    tool.close()


@linux
def test_a_worker_that_is_killed_leaves_no_processes_and_no_folders() -> None:
    code = """
import os, signal, sys
from noetl_core.tools.base import ToolCall
from noetl_core.tools.python.tool import PythonTool
outcome = PythonTool().run(ToolCall("python", {"code": "import os\\nresult = [os.getpid(), os.getcwd()]"}))
print(*outcome.result, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""
    words = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False).stdout.split()
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline and (os.path.exists(words[1]) or os.path.exists(f"/proc/{words[0]}")):
        time.sleep(0.02)
    assert not os.path.exists(words[1]) and not os.path.exists(f"/proc/{words[0]}")


def test_no_processes_or_folders_are_left_behind() -> None:
    tool = PythonTool()
    assert tool.run(ToolCall("python", {"code": "import os\nresult = [os.getpid(), os.getcwd()]"})).error is None
    pid, folder = tool.run(ToolCall("python", {"code": "import os\nresult = [os.getpid(), os.getcwd()]"})).result
    tool.close()
    assert not os.path.exists(folder)
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
