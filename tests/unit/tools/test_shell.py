"""`kind: shell`: what a command gets, what becomes of its output and its exit, and that nothing of it outlives the task."""

from __future__ import annotations

import ctypes
import os
import re
import signal
import subprocess
import threading
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from noetl_core.dsl.parse import check
from noetl_core.engine.outcome import Outcome
from noetl_core.expr import Secret
from noetl_core.tools import shell
from noetl_core.tools.base import ToolCall
from noetl_core.tools.invoke import invoke
from noetl_core.tools.shell import ShellTool
from noetl_core.views.executions import executions as read
from tests import commands
from tests.running import run_text

NOBODY, PR_SET_DUMPABLE = 65534, 4
PAGE = Path(__file__).parents[3] / "docs" / "tools" / "shell.md"


@pytest.fixture(autouse=True)
def allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(shell.ALLOWED, "1")


def run(
    script: str | list[str],
    spec: dict[str, Any] | None = None,
    *,
    timeout_s: float | None = 20,
    cancelled: threading.Event | None = None,
    lines: list[str] | None = None,
    **inputs: Any,
) -> Outcome:
    all_inputs = {"script" if isinstance(script, str) else "command": script, **inputs}
    kept = lines if lines is not None else []
    call = ToolCall(
        "shell",
        all_inputs,
        spec or {},
        "7",
        "s",
        "t",
        "run-1",
        timeout_s=timeout_s,
        cancelled=cancelled or threading.Event(),
        log=lambda line, stream="stdout": kept.append(line if stream == "stdout" else f"! {line}"),
    )
    return invoke(ShellTool(), call)


def error(outcome: Outcome) -> tuple[str, Any, str]:
    assert outcome.error is not None, outcome.result
    return outcome.error.kind, outcome.error.code, outcome.error.message


@pytest.mark.parametrize("setting", [None, "0", "yes"])
def test_nothing_runs_unless_it_is_allowed(setting: str | None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv(shell.ALLOWED) if setting is None else monkeypatch.setenv(shell.ALLOWED, setting)
    kind, code, message = error(run(f"touch {tmp_path}/there"))
    assert (kind, code, list(tmp_path.iterdir())) == ("auth", "not_allowed", [])
    assert "noetl run --allow shell" in message and "AllowShell" in message


def test_a_command_is_not_read_by_a_shell() -> None:
    hostile = "a b'; touch /tmp/x $(id) *"
    assert run(["printf", "%s", hostile]).result == {"exit_code": 0, "stdout": hostile, "stderr": ""}


def test_a_script_gets_its_values_as_variables() -> None:
    hostile = 'x"; exit 3; echo $(id)'
    done = run(
        'printf "%s|" "$NAME" "$ROWS" "$FLAG" "${NONE-unset}"', env={"NAME": hostile, "ROWS": [1], "FLAG": True, "NONE": None}
    )
    assert done.result["stdout"] == f"{hostile}|[1]|true|unset|"


def test_the_environment_is_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret-of-the-worker")
    names = {line.partition("=")[0] for line in run(["env"]).result["stdout"].splitlines()}
    own = {f"NOETL_{name}" for name in ("EXECUTION_ID", "STEP", "TASK", "TASK_RUN_ID", "ATTEMPT", "PROCESS_MARK")}
    assert names - {"LANG", "LC_ALL", "TZ", "LD_LIBRARY_PATH"} == {"PATH", "HOME", "TMPDIR", *own}
    monkeypatch.setenv("MY_PROFILE", "dev")
    assert run('echo "$MY_PROFILE"', {"inherit": ["MY_PROFILE", "MISSING"]}).result["stdout"] == "dev\n"
    assert "AWS_SECRET" in run(["env"], {"inherit": ["AWS_SECRET_ACCESS_KEY"]}).result["stdout"]
    monkeypatch.setenv("AWS_LAMBDA_FUNCTION_NAME", "worker")
    assert error(run(["env"], {"inherit": ["AWS_SECRET_ACCESS_KEY"]}))[0] == "schema", "the role of a stack's worker is its own"


def test_the_workers_memory_and_environment_cannot_be_read() -> None:
    """Root reads everything, so the worker is a process of another user if root runs the tests."""
    worker = os.fork()
    if worker == 0:
        code = 2
        try:
            if os.geteuid() == 0:
                os.setgid(NOBODY)
                os.setuid(NOBODY)
                libc = ctypes.CDLL(None)
                libc.prctl(PR_SET_DUMPABLE, 1, 0, 0, 0)  # another user makes a process unreadable; this test is about the tool
            read = ["cat", f"/proc/{os.getpid()}/environ"]
            before = subprocess.run(read, capture_output=True, check=False).returncode
            code = 0 if before == 0 and run(" ".join(read)).error is not None else 1
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(worker, 0)[1]) == 0


def test_it_runs_in_a_scratch_folder_that_is_wiped(tmp_path: Path) -> None:
    folder = run("mkdir a && chmod 0 a && touch b && pwd && ls -d $HOME").result["stdout"].split()
    assert folder[0] == folder[1] and not Path(folder[0]).exists()
    assert run("pwd", cwd=str(tmp_path)).result["stdout"] == f"{tmp_path}\n"
    assert tmp_path.exists()


def test_stdin_is_passed_to_the_command() -> None:
    assert run(["cat"], stdin="a\nb").result["stdout"] == "a\nb"
    assert run(["cat"], {"output": "json"}, stdin={"a": [1]}).result["data"] == {"a": [1]}
    large = "x" * 2_000_000
    assert run(["wc", "-c"], stdin=large).result["stdout"].strip() == "2000000"
    assert run(["true"], stdin=large).error is None, "who reads nothing is no failure"


def test_output_goes_to_the_log_and_to_the_result() -> None:
    lines: list[str] = []
    done = run("echo one; sleep 0.2; echo two >&2; sleep 0.2; printf three", lines=lines)
    assert lines == ["one", "! two", "three"]
    assert done.result == {"exit_code": 0, "stdout": "one\nthree", "stderr": "two\n"}


def test_the_log_has_a_limit_and_the_result_another() -> None:
    lines: list[str] = []
    done = run("i=0; while [ $i -lt 100 ]; do echo 0123456789; i=$((i+1)); done", {"max_output_bytes": 40}, lines=lines)
    assert (len(lines), lines[-1].endswith("... output over the limit is dropped")) == (4, True)
    assert len(done.result["stdout"]) == 1100
    assert error(run("yes", {"max_result_bytes": 1000}))[0] == "limit"
    assert error(run(["printf", "0123456789"], {"max_result_bytes": 9}))[0] == "limit"


def test_a_large_result_is_whole() -> None:
    assert len(run("head -c 8000000 /dev/zero | tr '\\0' x").result["stdout"]) == 8_000_000


@pytest.mark.parametrize(
    ("script", "kind", "code", "message"),
    [
        ("echo no >&2; exit 3", "unknown", 3, "shell: the command ended with exit code 3: no"),
        ("false; echo never", "unknown", 1, "exit code 1"),
        ("nowhere-to-be-found", "not_found", 127, "exit code 127"),
        ("kill -9 $$", "unknown", -9, "was ended by SIGKILL"),
        ('echo "$UNSET_BUT_FINE"; if', "unknown", 2, "exit code 2"),
    ],
)
def test_an_exit_code_is_an_error(script: str, kind: str, code: int, message: str) -> None:
    failed = run(script)
    assert error(failed)[:2] == (kind, code) and message in error(failed)[2]
    assert failed.helpers["shell"]["exit_code"] == code


def test_accepted_exit_codes_are_not_errors() -> None:
    assert run("exit 3", {"ok_codes": [0, 3]}).result["exit_code"] == 3
    assert error(run("true | false", shell="bash"))[1] == 1
    assert error(run(["nowhere-to-be-found"]))[:2] == ("not_found", "FileNotFoundError")
    assert error(run(["/etc/passwd"]))[:2] == ("not_found", "PermissionError")
    assert error(run(["echo"], {"output": "json"}))[0] == "parse"


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def gone(*pids: int) -> bool:
    for _ in range(200):
        if not any(alive(pid) for pid in pids):
            return True
        time.sleep(0.02)
    return False


def test_a_timeout_ends_the_whole_group(tmp_path: Path) -> None:
    """The processes ignore the request to end."""
    script = "trap '' TERM; sleep 60 & echo $$ $! > pids; echo begun >&2; sleep 60"
    kind, _, message = error(failed := run(script, timeout_s=0.5, cwd=str(tmp_path)))
    assert (kind, message) == ("timeout", f"shell: stopped at its timeout of 0.5 s in: {script}")
    assert failed.error is not None and failed.as_dict()["error"]["retryable"] is True
    assert failed.helpers["shell"]["stderr"] == "begun\n"
    assert gone(*map(int, (tmp_path / "pids").read_text().split()))


def test_background_processes_of_a_script_end_with_it(tmp_path: Path) -> None:
    began = time.monotonic()
    assert run("sleep 60 & echo $! > pid; echo done", cwd=str(tmp_path)).result["stdout"] == "done\n"
    assert gone(int((tmp_path / "pid").read_text())) and time.monotonic() - began < 30


@pytest.mark.parametrize("ending", ["", "; exit 3", "; sleep 60"])
def test_processes_in_a_session_of_their_own_end_with_the_task(ending: str, tmp_path: Path) -> None:
    """The process prints nothing, has a new parent, and keeps starting more processes."""
    breeding = "echo $$ >> pids; while :; do sleep 60 & echo $! >> pids; sleep 0.05; done"
    script = f"(setsid setsid sh -c '{breeding}' </dev/null >/dev/null 2>&1 &); until test -s pids; do sleep 0.01; done{ending}"
    run(script, timeout_s=1.5, cwd=str(tmp_path))
    assert gone(*map(int, (tmp_path / "pids").read_text().split()))


def test_an_escaped_process_holds_no_thread_or_pipe_of_the_worker() -> None:
    """It writes endlessly, and a broken pipe ends it once nobody reads."""
    lines: list[str] = []
    before = set(threading.enumerate()), len(list(Path("/proc/self/fd").iterdir()))
    left = run("env -i setsid sh -c 'echo $$ >&2; exec yes' & exit 0", lines=lines)
    pid = int(left.result["stderr"])
    assert gone(pid)
    count = len(lines)
    assert (set(threading.enumerate()), len(list(Path("/proc/self/fd").iterdir()))) == before and len(lines) == count


def test_an_escaped_process_that_reads_no_stdin_does_not_block_the_worker() -> None:
    before = set(threading.enumerate())
    left = run("env -i setsid sleep 60 <&0 & echo $!; exit 0", stdin="x" * 1_000_000)
    try:
        assert set(threading.enumerate()) == before
    finally:
        os.kill(int(left.result["stdout"]), signal.SIGKILL)


@pytest.mark.parametrize("name", ["AWS_SECRET_ACCESS_KEY", "NOETL_CREDENTIAL_WAREHOUSE", "NOETL_TOKEN", "DATABASE_URL"])
def test_secrets_of_the_worker_that_a_command_inherits_are_masked(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, "hunter2-of-the-worker")
    lines: list[str] = []
    shown = run(f'test "${name}" = hunter2-of-the-worker; env; env >&2', {"inherit": [name]}, lines=lines)
    assert shown.result["exit_code"] == 0 and f"{name}=***" in shown.result["stdout"]
    assert "hunter2" not in repr(shown) + repr(lines)


def test_a_cancelled_task_is_ended(tmp_path: Path) -> None:
    cancelled = threading.Event()
    threading.Timer(0.3, cancelled.set).start()
    assert error(run("echo $$ > pid; sleep 60", cancelled=cancelled, cwd=str(tmp_path)))[0] == "cancelled"
    assert gone(int((tmp_path / "pid").read_text()))


def test_secrets_are_masked_wherever_they_come_out() -> None:
    lines: list[str] = []
    env = {"TOKEN": Secret("canary-1234567")}
    done = run('echo "$TOKEN"; echo "$TOKEN" | rev >&2', env=env, lines=lines)
    assert done.result == {"exit_code": 0, "stdout": "***\n", "stderr": "***\n"}
    assert sorted(lines) == ["! ***", "***"]
    assert "canary" not in str(error(run('echo "bad $TOKEN" >&2; exit 1', env=env)))


@pytest.mark.parametrize(
    ("inputs", "spec", "message"),
    [
        ({"command": "ls"}, {}, "`command` must be a list"),
        ({"command": []}, {}, "`command` must be a list"),
        ({"command": ["a\0b"]}, {}, "null character"),
        ({"script": 1}, {}, "`script` must be text"),
        ({"script": "x" * 100_001}, {}, "over 100000 bytes"),
        ({"script": "x", "shell": "fish"}, {}, "`shell` 'fish' is unknown"),
        ({"script": "x", "env": {"a b": 1}}, {}, "cannot name a variable"),
        ({"script": "x", "env": [1]}, {}, "`env` must be a mapping"),
        ({"script": "x", "cwd": "/nowhere"}, {}, "is not a folder here"),
        ({"script": "x"}, {"ok_codes": 3}, "`spec.ok_codes`"),
        ({"script": "x"}, {"output": "xml"}, "`spec.output` 'xml'"),
        ({"script": "x"}, {"max_output_bytes": -1}, "`spec.max_output_bytes`"),
        ({"script": "x"}, {"inherit": "HOME"}, "`spec.inherit`"),
    ],
)
def test_invalid_inputs_are_schema_errors(inputs: dict[str, Any], spec: dict[str, Any], message: str) -> None:
    failed = invoke(ShellTool(), ToolCall("shell", inputs, spec))
    assert error(failed)[0] == "schema" and message in error(failed)[2]


def test_an_environment_too_large_for_the_kernel_is_a_limit_error() -> None:
    assert error(run("true", env={"LARGE": "x" * 200_000}))[0] == "limit"


PLAYBOOK = """apiVersion: noetl.io/v2
kind: Playbook
metadata: {{ name: sh, path: tests/sh }}
workload: {{ name: "$(id)" }}
workflow:
  - step: start
    tool:
      - {{ name: say, kind: shell, script: '{script}', env: {{ NAME: "{{{{ workload.name }}}}" }}, spec: {{ policy: {{ rules: [{{ when: "{{{{ outcome.shell.exit_code == 3 }}}}", then: {{ do: continue }} }}, {{ when: "{{{{ outcome.status == 'error' }}}}", then: {{ do: fail }} }}] }} }} }}
      - {{ name: out, kind: noop, result: "{{{{ say.stdout | default('three') }}}}" }}
"""


def test_expressions_are_never_spliced_into_a_script() -> None:
    """The text is as it is written; where it can only be meant as an expression, it is refused."""
    found = check(PLAYBOOK.format(script="echo {{ workload.name }}"))[1]
    (wrong,) = (d for d in found if d.severity == "error")
    assert (wrong.code, "is not a template" in wrong.message, 'write "$VALUE"' in wrong.hint) == ("E112", True, True)
    local, state = run_text(PLAYBOOK.format(script="echo {{ .Name }} $NAME"))
    with closing(local):
        assert read.summary(local.control, state.execution_id)["result"] == "{{ .Name }} $(id)\n"


def test_policies_see_the_exit_code() -> None:
    local, state = run_text(PLAYBOOK.format(script="exit 3"))
    with closing(local):
        assert read.summary(local.control, state.execution_id)["result"] == "three"


def test_the_command_line_allows_it_for_a_run(tmp_path: Path) -> None:
    file = tmp_path / "sh.yaml"
    file.write_text(PLAYBOOK.format(script="echo hello"))
    refused = commands.run("run", str(file), cwd=tmp_path)
    assert (refused.returncode, "noetl run --allow shell" in refused.stdout) == (1, True), refused.stdout
    done = commands.run("run", str(file), "--allow", "shell", cwd=tmp_path)
    assert (done.returncode, "hello" in done.stdout) == (0, True), done.stderr
    for wrong, message in (
        (["--allow", "all"], "only shell can be allowed"),
        (["--allow", "shell", "--on", "stack"], "AllowShell"),
    ):
        usage = commands.run("run", str(file), *wrong, cwd=tmp_path)
        assert (usage.returncode, message in usage.stderr) == (2, True), usage.stderr


@pytest.mark.parametrize("example", re.findall(r"```yaml\n(.*?)```", PAGE.read_text(), re.DOTALL))
def test_the_examples_of_the_page_run(example: str) -> None:
    local, state = run_text(example)
    with closing(local):
        summary = read.summary(local.control, state.execution_id)
    assert (summary["error"], summary["result"]) == (None, {"lines": 2})


def test_signals_have_their_names() -> None:
    assert run("kill -TERM $$").helpers["shell"]["signal"] == signal.SIGTERM.name
    assert run("kill -40 $$").helpers["shell"]["signal"] == f"SIGRTMIN+{40 - signal.SIGRTMIN}"
