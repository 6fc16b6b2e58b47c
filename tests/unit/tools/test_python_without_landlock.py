"""`kind: python` on a kernel without Landlock, as on AWS Lambda (5.10): what holds there, and what does not.

What does not: the code reads and writes whatever files the worker's user may. So nothing of another execution is left lying about,
and what a pool's worker could give away belongs into a pool without it.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from noetl_core.engine.outcome import Outcome
from noetl_core.tools.base import ToolCall
from noetl_core.tools.python.tool import PythonTool

linux = pytest.mark.skipif(sys.platform != "linux", reason="confined by Linux facilities")


class Caller:
    def __init__(self) -> None:
        self.tool = PythonTool(landlock=False)

    def __call__(self, code: str, execution: str = "1", **spec: Any) -> Outcome:
        return self.tool.run(ToolCall("python", {"code": code}, spec, execution, "s", "t", "run-1", timeout_s=10))


@pytest.fixture
def python() -> Iterator[Caller]:
    caller = Caller()
    yield caller
    caller.tool.close()


def refused(outcome: Outcome) -> str:
    assert outcome.error is not None, outcome.result
    return str(outcome.helpers) + outcome.error.message


@linux
def test_landlock_is_off_or_these_tests_show_nothing(python: Caller, tmp_path: Path) -> None:
    (tmp_path / "worker.txt").write_text("of the worker")
    assert python(f"result = open({str(tmp_path / 'worker.txt')!r}).read()").result == "of the worker"


@linux
def test_the_environment_is_empty_and_the_workers_process_is_closed(python: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "very-secret")
    assert python("import os\nresult = dict(os.environ)").result == {}
    for name in ("environ", "mem", "maps", "fd/0"):
        assert "PermissionError" in refused(python(f"result = open('/proc/{os.getpid()}/{name}', 'rb').read(10).hex()"))
    outcome = python("result = open('/proc/self/environ').read() + open(f'/proc/{__import__(\"os\").getppid()}/environ').read()")
    assert outcome.error is not None or "very-secret" not in outcome.result


@linux
def test_system_calls_for_processes_signals_and_network_are_refused(python: Caller) -> None:
    code = f"""
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
def tried(call, *args):
    return [libc[call](*args), ctypes.get_errno()]
result = [tried("fork"), tried("socket", 2, 1, 0), tried("socket", 1, 1, 0), tried("kill", {os.getpid()}, 0),
          tried("ptrace", 16, {os.getpid()}, 0, 0), tried("execv", b"/bin/true", None)]
"""
    outcome = python(code)
    assert outcome.result == [[-1, 1]] * 6


@linux
def test_memory_is_limited(python: Caller) -> None:
    assert refused(python("x = bytearray(1 << 30)", memory_mb=128)).find("memory") >= 0
    assert python("result = 1").result == 1


def test_the_folder_is_its_executions_alone_and_temporary_files_go_there(python: Caller) -> None:
    code = """
import os, tempfile
with tempfile.NamedTemporaryFile(delete=False) as file:
    file.write(b"mine")
result = [os.getcwd(), oct(os.stat('.').st_mode & 0o777), os.path.dirname(file.name), os.listdir('.') != []]
"""
    folder, mode, temporary, there = python(code, "7").result
    assert (mode, temporary, there) == ("0o700", folder, True)
    assert python(code, "8").result[0] != folder


def test_nothing_of_an_execution_is_there_when_anothers_task_runs(python: Caller) -> None:
    leave = """
import os
os.makedirs('locked/deep')
open('locked/deep/secret.txt', 'w').write('of execution 7')
os.chmod('locked/deep', 0)
os.chmod('locked', 0)
result = [os.getcwd(), os.getpid()]
"""
    folder, pid = python(leave, "7").result
    look = f"import os\nresult = [os.path.exists({folder!r}), os.path.exists('/proc/{pid}'), os.listdir(os.path.dirname(os.getcwd()))]"
    there, running, folders = python(look, "8").result
    assert (there, running) == (False, False)
    assert len(folders) == 1


def test_no_folder_waits_for_its_task_where_another_could_write_into_it(python: Caller) -> None:
    look = "import os\nresult = os.listdir(os.path.dirname(os.getcwd()))"
    for n in range(3):
        assert len(python(f"{look}\nn = {n}", str(n)).result) == 1


def test_a_folder_made_unreadable_is_wiped_like_any_other(tmp_path: Path) -> None:
    from noetl_core.tools.sandbox.folders import wipe

    inner = tmp_path / "scratch" / "locked" / "deep"
    inner.mkdir(parents=True)
    (inner / "file").write_text("x")
    (tmp_path / "elsewhere").mkdir(mode=0o750)
    (tmp_path / "scratch" / "link").symlink_to(tmp_path / "elsewhere")
    for folder in (inner, inner.parent):
        folder.chmod(0)
    wipe(tmp_path / "scratch")
    assert not (tmp_path / "scratch").exists()
    assert (tmp_path / "elsewhere").stat().st_mode & 0o777 == 0o750  # a link is not followed


# --- the fork server --------------------------------------------------------------------------------------------------------


@linux
def test_the_fork_server_has_the_library_path_of_lambda_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LD_LIBRARY_PATH", "/var/lang/lib:/lib64")
    monkeypatch.setenv("AWS_SESSION_TOKEN", "very-secret")
    environments: list[dict[str, str]] = []
    import subprocess

    real: Any = subprocess.Popen

    def popen(*arguments: Any, env: dict[str, str], **named: Any) -> Any:
        environments.append(env)
        return real(*arguments, env=env, **named)

    monkeypatch.setattr(subprocess, "Popen", popen)
    tool = PythonTool()
    assert tool.run(ToolCall("python", {"code": "import os\nresult = dict(os.environ)"})).result == {}
    tool.close()
    assert environments == [{"LD_LIBRARY_PATH": "/var/lang/lib:/lib64"}]


def test_a_fork_server_that_cannot_start_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = tmp_path / "python"
    broken.write_text("#!/bin/sh\necho 'error while loading shared libraries: libpython3.13.so.1.0' >&2\nexit 127\n")
    broken.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(broken))
    tool = PythonTool()
    outcome = tool.run(ToolCall("python", {"code": "result = 1"}))
    tool.close()
    assert outcome.error is not None
    assert "cannot start" in outcome.error.message
    assert "libpython3.13.so.1.0" in outcome.error.message
    json.dumps(outcome.as_dict())
