"""`kind: python`: what code cannot do, and what it cannot do to others."""

from __future__ import annotations

import struct
import threading
from typing import Any, Final

import pytest

from noetl_core.expr import Secret
from noetl_core.tools.base import ToolCall
from noetl_core.tools.python.tool import MAX_RESULT_BYTES, PythonTool
from noetl_core.tools.sandbox.stacks import author_frames
from noetl_core.values.large_json import JsonText
from noetl_core.worker.values.offload import encode
from tests.unit.tools.python_calls import Python, failure, lines, linux, python, tool

__all__ = ["lines", "python", "tool"]


@pytest.mark.parametrize(
    "code", ["while True: pass", "import time\nwhile True:\n    try: time.sleep(9)\n    except BaseException: pass"]
)
def test_an_endless_loop_ends_with_the_time(python: Python, code: str) -> None:
    outcome = python(code, timeout_s=0.4)
    assert failure(outcome) == "timeout" and outcome.error is not None and outcome.error.as_dict()["retryable"] is True
    assert python("result = 1").result == 1


SLEEP = "import os, signal, time\n{0}\ntime.sleep(9)"
FULL_PIPE = """
import stat
(pipe,) = (n for n in range(3, 20) if os.path.exists(f"/proc/self/fd/{n}") and stat.S_ISFIFO(os.fstat(n).st_mode))
try:
    while os.write(pipe, b'  File "<code>", line 1 in forged\\n' * 100): pass
except BlockingIOError:
    pass"""


@pytest.mark.parametrize(
    ("code", "lines"),
    [
        pytest.param("import time\ndef slow():\n    time.sleep(9)\nslow()", ["slow()", "time.sleep(9)"], id="sleep"),
        pytest.param("import re\nre.match('(a+)+$', 'a' * 40 + 'b')", ["re.match('(a+)+$', 'a' * 40 + 'b')"], id="GIL held"),
        pytest.param("import queue\nq = queue.Queue()\nq.get()", ["q.get()"], id="within a library"),
        pytest.param(
            "def f(n):\n  if n: f(n - 1)\n  while 1: pass\nf(200)", ["if n: f(n - 1)"] * 11 + ["while 1: pass"], id="deep"
        ),
        pytest.param(SLEEP.format(FULL_PIPE), ["time.sleep(9)"], id="full pipe"),
        pytest.param(SLEEP.format("os.kill(os.getpid(), signal.SIGUSR1)"), ["time.sleep(9)"], id="its own signal"),
        pytest.param("import time\ntime.sleep(9)  # hunter2-and-more", ["time.sleep(9)  # ***"], id="secret"),
    ],
)
def test_a_task_stopped_at_its_timeout_names_the_lines_that_ran(python: Python, code: str, lines: list[str]) -> None:
    outcome = python(code, timeout_s=0.4, token=Secret("hunter2-and-more"))
    assert outcome.error is not None and outcome.error.message == f"python: stopped at its timeout of 0.4 s in: {lines[-1]}"
    *frames, last = outcome.helpers["py"]["traceback"].splitlines()
    assert last == "TimeoutError: stopped at its timeout of 0.4 s"
    assert [line.strip() for line in frames[1::2]] == lines
    assert all(line.startswith('  File "<code>", line ') for line in frames[::2])


@linux
@pytest.mark.parametrize("change", ["SIG_DFL", "SIG_IGN"])
def test_a_task_that_hides_its_stack_times_out_without_it(python: Python, change: str) -> None:
    outcome = python(SLEEP.format(f"signal.signal(signal.SIGUSR1, signal.{change})"), timeout_s=0.4)
    assert failure(outcome) == "timeout" and "traceback" not in outcome.helpers["py"]


def test_lines_that_the_code_does_not_have_are_not_named() -> None:
    stack = (
        "".join(f'  File "<code>", line {number} in f\n' for number in (7, 2, 0, 99999, 1))
        + '  File "/etc/passwd", line 1 in f\n'
    )
    assert (
        author_frames(stack, "first\n  second")
        == '  File "<code>", line 1, in f\n    first\n  File "<code>", line 2, in f\n    second\n'
    )


def test_a_cancelled_task_is_killed(tool: PythonTool) -> None:
    cancelled = threading.Event()
    threading.Timer(0.2, cancelled.set).start()
    outcome = tool.run(ToolCall("python", {"code": "while True: pass"}, cancelled=cancelled))
    assert failure(outcome) == "cancelled"


@linux
@pytest.mark.parametrize(
    "code", ["x = 'a' * (10 << 30)", "x = []\nwhile True: x.append(bytearray(1 << 20))", "x = list(range(10**10))"]
)
def test_ten_gigabytes_are_a_limit_error_and_the_worker_lives(python: Python, code: str) -> None:
    outcome = python(code, spec={"memory_mb": 128})
    assert failure(outcome) == "limit" and outcome.error is not None and "memory" in outcome.error.message
    assert python("result = 1").result == 1


def test_a_result_over_the_limit_is_refused(python: Python) -> None:
    assert failure(python(f"result = 'x' * {MAX_RESULT_BYTES - 1}  # over, with its quotes")) == "limit"


def test_a_huge_file_is_refused(python: Python) -> None:
    outcome = python("with open('big', 'wb') as f:\n    for _ in range(10**6): f.write(bytes(1 << 20))")
    assert failure(outcome) in ("limit", "python")
    assert python("result = 1").result == 1


POISON = "import builtins, json, os\nbuiltins.len = lambda x: 666\njson.dumps = lambda *a, **k: '\"poisoned\"'\nos.mark = 1\nresult = 1"


def test_poisoned_builtins_reach_no_other_execution_and_no_other_code(python: Python) -> None:
    python(POISON, execution="evil")
    look = "import json, os\nresult = [len([1]), json.dumps([]), hasattr(os, 'mark')]"
    assert python(look, execution="good").result == [1, "[]", False]
    assert python(look, execution="evil").result == [1, "[]", False]


def test_globals_do_not_survive_even_in_the_same_process(python: Python) -> None:
    code = "import os\nresult = ['left' in globals(), os.getpid()]\nleft = 1"
    first, second = python(code, execution="7").result, python(code, execution="7").result
    assert first == second == [False, first[1]]  # one process served both
    assert python(code, execution="8").result[1] != first[1]


def test_a_task_that_leaves_threads_behind_is_not_followed_by_another(python: Python) -> None:
    code = "import threading, time, os\nthreading.Thread(target=time.sleep, args=(5,), daemon=True).start()\nresult = os.getpid()"
    assert python(code, execution="9").result != python(code, execution="9").result


def test_a_runner_that_forges_frames_hurts_only_its_own_outcome(python: Python) -> None:
    code = """
import os, struct
for fd in range(3, 64):
    try:
        os.write(fd, struct.pack(">cI", b"R", 5) + b"false")
    except OSError:
        pass
result = 1
"""
    assert python(code, execution="forger").error is not None
    assert python("result = 2", execution="forger").result == 2


SENDS: Final = """
import os, struct
for fd in range(3, 64):
    try:
        for kind, body in FRAMES:
            os.write(fd, struct.pack(">cI", kind, len(body)) + body)
    except OSError:
        pass
"""


@pytest.mark.parametrize(
    ("frames", "expected"),
    [
        ([(b"V", b"[1, 2"), (b"R", b'{"ok": true}')], "python"),
        ([(b"V", b"[1]"), (b"V", b"[2]"), (b"R", b'{"ok": true}')], "python"),
        ([(b"V", b"[" * 100_000), (b"R", b'{"ok": true}')], "python"),
        ([(b"V", b'{"a": 1, "a": 2}'), (b"R", b'{"ok": true}')], {"a": 2}),
        ([(b"V", b'"\\ud800"'), (b"R", b'{"ok": true}')], "\ud800"),
        ([(b"V", b"[1]"), (b"R", b'{"ok": false, "kind": "limit", "message": "forged"}')], "limit"),
    ],
)
def test_a_forged_result_is_checked_like_any_other(python: Python, frames: list[tuple[bytes, bytes]], expected: Any) -> None:
    """Text that is not JSON ends the process. A value that the engine would write in another way has no text: storing it encodes it."""
    outcome = python(f"FRAMES = {frames!r}" + SENDS, execution="forger of results")
    assert outcome.text is None
    assert failure(outcome) == expected if isinstance(expected, str) and outcome.error else outcome.result == expected


def test_a_result_over_the_limit_ends_as_before(python: Python) -> None:
    head = struct.pack(">cI", b"V", MAX_RESULT_BYTES + (2 << 20))
    code = f"import os\nfor fd in range(3, 64):\n    try: os.write(fd, {head!r})\n    except OSError: pass"
    assert failure(python(code, execution="forger of sizes")) == "limit"


def test_large_arguments_and_results_are_texts(python: Python) -> None:
    rows = [{"n": n, "text": "ü" * 40, "half": n / 2, "small": 1e-7} for n in range(12_000)]
    body = encode(rows)
    outcome = python("result = rows", timeout_s=60, rows=JsonText(body))
    assert outcome.text is not None and outcome.text.body == body and outcome.result == rows
    assert python("result = [rows[0], more[0]]", timeout_s=60, rows=JsonText(body), more=rows).result == [rows[0], rows[0]]


@pytest.mark.nightly
def test_megabytes_go_into_the_process_and_come_back(python: Python) -> None:
    rows = [{"n": n, "text": "ü" * 40} for n in range(40_000)]
    outcome = python("result = {'n': len(rows), 'back': rows}", timeout_s=60, rows=rows)
    assert outcome.error is None and outcome.result == {"n": 40_000, "back": rows}
