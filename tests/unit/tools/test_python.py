"""`kind: python`: what the code sees, what comes back, and what it cannot do."""

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

from noetl_core.engine.outcome import Outcome
from noetl_core.expr import Secret, is_reference, references_in, replaced
from noetl_core.tools.base import ToolCall
from noetl_core.tools.invoke import invoke
from noetl_core.tools.python import PythonTool
from noetl_core.tools.registry import ToolRegistry
from noetl_core.tools.sandbox.fork_server import USED_MOST
from noetl_core.tools.sandbox.pool import MAX_IDLE, ForkServer
from tests.unit.tools.python_calls import Python, failure, lines, linux, python, tool

__all__ = ["lines", "python", "tool"]


# --- what the code sees and gives back ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "args", "result"),
    [
        pytest.param("result = a + args['b']", {"a": 1, "b": 2}, 3, id="variables and args"),
        pytest.param("x = 1", {}, None, id="no result"),
        pytest.param("result = None", {}, None, id="null"),
        pytest.param("def main(a, b=5):\n    return a + b", {"a": 1}, 6, id="main by name"),
        pytest.param("def main(a):\n    return a", {"a": 1, "unasked": 2}, 1, id="main takes what it asks for"),
        pytest.param("def main(**kw):\n    return kw", {"a": 1}, {"a": 1}, id="main takes all"),
        pytest.param("def main(args):\n    return args['a']", {"a": 1}, 1, id="main(args)"),
        pytest.param("def main():\n    return 1\nresult = 2", {}, 2, id="result before main"),
        pytest.param("result = result + 1", {"result": 1}, 2, id="an argument called result"),
        pytest.param("async def main(a):\n    import asyncio\n    await asyncio.sleep(0)\n    return a", {"a": 1}, 1, id="async main"),
        pytest.param("result = _run['task_run_id'], _run['attempt']", {}, ["run-1", 1], id="the task run"),
        pytest.param("return a + 1", {"a": 1}, 2, id="a return"),
        pytest.param("a = a + 1\nfor n in range(9):\n    if n == a:\n        return n\nresult = 'no'", {"a": 4}, 5, id="a return in a loop"),
        pytest.param("if a:\n    return\nresult = 3", {"a": 1}, None, id="a return of nothing"),
        pytest.param("if a:\n    return 1\nresult = 3", {"a": 0}, 3, id="a return that is not reached"),
        pytest.param("if a:\n    return 1\ndef main(a):\n    return [a]", {"a": 0}, [0], id="main after a return that is not reached"),
        pytest.param(
            "from __future__ import annotations\nn: int = 1\ndef more():\n    global n\n    n += m\nm = 5\nmore()\nreturn n", {}, 6,
            id="a return beside functions, annotations and globals",
        ),
        pytest.param("class A:\n    x = [i for i in range(a)]\nreturn A.x", {"a": 2}, [0, 1], id="a return beside a class"),
        pytest.param("return input_data == {'a': 1, 'b': 2} and input_data == args", {"a": 1, "b": 2}, True, id="input_data"),
        pytest.param("return input_data", {"input_data": 1}, 1, id="an argument called input_data"),
        pytest.param("return context", {"context": 1}, 1, id="an argument called context"),
        pytest.param("return [context['execution_id'], context['task_run_id']]", {}, ["1", "run-1"], id="context"),
        pytest.param("def main(input_data):\n    return input_data['a']", {"a": 1}, 1, id="main(input_data)"),
        pytest.param("def main(context, a):\n    return [context['step'], a]", {"a": 1}, ["s", 1], id="main(context, ...)"),
        pytest.param("def main(a, context=None, **more):\n    return [a, context['task'], more]", {"a": 1, "b": 2}, [1, "t", {"b": 2}], id="main of all"),
        pytest.param("def main(input_data, context):\n    return [input_data, context['attempt']]", {"a": 1}, [{"a": 1}, 1], id="main(input_data, context)"),
        pytest.param("import sys\nresult = 1\nsys.exit()", {}, 1, id="a clean exit"),
        pytest.param("if __name__ == '__main__':\n    raise Exception('no')\nresult = 1", {}, 1, id="not a script"),
        pytest.param(
            "from __future__ import annotations\nfrom dataclasses import dataclass\n@dataclass\nclass P:\n    x: int\nresult = P(1)", {}, {"x": 1},
            id="data class",
        ),
    ],
)  # fmt: skip
def test_results(python: Python, code: str, args: dict[str, Any], result: object) -> None:
    outcome = python(code, **args)
    assert outcome.error is None and outcome.result == result


@pytest.mark.parametrize(
    ("expression", "result"),
    [
        ("datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=datetime.timezone.utc)", "2026-01-02T03:04:05+00:00"),
        ("datetime.date(2026, 1, 2)", "2026-01-02"),
        ("datetime.timedelta(minutes=1)", 60.0),
        ("decimal.Decimal('1.5')", 1.5),
        ("decimal.Decimal('10')", 10),
        ("decimal.Decimal('0.12345678901234567890123')", "0.12345678901234567890123"),
        ("(1, 2)", [1, 2]),
        ("{3, 1, 2}", [1, 2, 3]),
        ("{1: 'a', None: 'b'}", {"1": "a", "None": "b"}),
        ("uuid.UUID(int=5)", "00000000-0000-0000-0000-000000000005"),
        ("collections.OrderedDict(a=1)", {"a": 1}),
        ("range(3)", None),
        ("b'abc'", None),
        ("float('nan')", None),
        ("[{'deep': [float('inf')]}]", None),
        ("object()", None),
        ("print", None),
    ],
)
def test_values_become_plain_data_or_a_clear_error(python: Python, expression: str, result: object) -> None:
    outcome = python(f"import datetime, decimal, uuid, collections\nresult = {expression}")
    if result is not None:
        assert outcome.error is None and outcome.result == result
    else:
        assert failure(outcome) == "schema" and outcome.error is not None and outcome.error.message.startswith("result")


def test_a_value_that_contains_itself_is_refused(python: Python) -> None:
    assert "contains itself" in str(python("result = []\nresult.append(result)").error)


def test_what_it_prints_goes_to_the_log_within_a_limit(python: Python, lines: list[str]) -> None:
    python("import sys\nprint('one')\nprint('two', file=sys.stderr)\nsys.stdout.write('no end')")
    assert lines == ["one", "stderr: two", "no end"]
    lines.clear()
    python("for n in range(10**6): print('x' * 100)", spec={"max_output_bytes": 5000})
    assert sum(map(len, lines)) < 6000 and "dropped" in lines[-1]


def test_an_exception_is_an_outcome_with_type_message_and_the_authors_lines(python: Python) -> None:
    outcome = python("def f():\n    raise KeyError('missing')\nf()")
    py = outcome.helpers["py"]
    assert failure(outcome) == "python" and outcome.error is not None and outcome.error.code == "KeyError"
    assert py["exception_type"] == "KeyError" and "raise KeyError('missing')" in py["traceback"] and "line 3" in py["traceback"]
    assert "sandbox" not in py["traceback"] and "noetl_core" not in py["traceback"]


@pytest.mark.parametrize(
    ("code", "kind", "words"),
    [
        pytest.param("def f(:", "python", "line 1", id="syntax"),
        pytest.param("\x00", "python", "null", id="NUL"),
        pytest.param("(" * 5000 + ")" * 5000, "python", "", id="deep nesting"),
        pytest.param("import sys; sys.exit(3)", "python", "SystemExit: 3", id="exit code"),
        pytest.param("import os; os._exit(3)", "python", "exit code 3", id="process exit"),
        pytest.param("raise KeyboardInterrupt", "python", "KeyboardInterrupt", id="interrupt"),
        pytest.param(
            "class E(Exception):\n    def __str__(self): raise RuntimeError\nraise E", "python", "could not be made", id="no text"
        ),
        pytest.param("def f(): f()\nf()", "python", "RecursionError", id="recursion"),
        pytest.param("import ctypes; ctypes.string_at(0)", "python", "SIGSEGV", id="crash"),
        pytest.param("import nowhere", "python", "nowhere", id="missing module"),
        pytest.param("result = {'a': [float('inf')]}", "schema", "result.a[0] is inf: JSON has no such number", id="infinity"),
        pytest.param("result = float('nan')", "schema", "result is nan: JSON has no such number", id="NaN"),
        pytest.param("result = ['\\ud800']", "schema", "half of a surrogate pair, U+D800", id="surrogate"),
        pytest.param("result = object()", "schema", "of type object, which is not JSON data", id="object"),
        pytest.param("def main(a): return a", "python", "missing 1 required", id="missing argument"),
    ],
)
def test_failures_are_outcomes(python: Python, code: str, kind: str, words: str) -> None:
    outcome = python(code)
    assert failure(outcome) == kind and outcome.error is not None and words in outcome.error.message


IMPORTED = {
    "pi": {"from": "math", "import": "floor"},
    "dumps": {"from": "json", "import": "dumps"},
    "od": {"from": "collections", "import": "OrderedDict"},
}


REFERENCE = {"kind": "result_ref", "store": "s3", "key": "r", "size": 1}
NAMES: dict[str, Any] = {
    "args": {"a": "step", "b": "step", "unread": REFERENCE},
    "workload": {"w": 1, "token": Secret("s3cret-word")},
    "ctx": {"c": [1, 2]},
}


@pytest.mark.parametrize(
    ("code", "args", "result"),
    [
        ("return [a, b]", {"a": "task"}, ["task", "step"]),
        ("return sorted(args)", {"a": 1}, ["a"]),
        ("def main(b, **more):\n    return [b, more]", {"a": 1}, ["step", {"a": 1}]),
        ("return [input_data['a'], input_data.get('b'), input_data.get('none')]", {"a": 1}, [1, "step", None]),
        ("return context['ctx']['c']", {}, [1, 2]),
        ("return sorted(context)", {"a": 1}, ["attempt", "ctx", "execution_id", "step", "task", "task_run_id", "workload"]),
        ("def main(context):\n    return context['workload']", {}, {"w": 1, "token": "***"}),
        ("return sorted(context.get('workload'))", {}, ["token", "w"]),
        ("return 'workload' in dict(context)", {}, True),
        ("return unread", {"unread": 2}, 2),
    ],
)
def test_the_code_reads_the_steps_arguments_and_the_context(
    tool: PythonTool, code: str, args: dict[str, Any], result: object
) -> None:
    loads = Loads()
    call = ToolCall("python", {"code": code, "args": args}, {}, "1", "s", "t", "run-1", names=NAMES, references=loads)
    assert invoke(tool, call) == Outcome.ok(result)
    assert loads.asked == [], "nothing is loaded that the code does not read"


@pytest.mark.parametrize("code", ["return unread", "return input_data", "x = input_data\nreturn x['unread']", "return args"])
def test_what_the_code_reads_is_a_value(tool: PythonTool, code: str) -> None:
    loads = Loads()
    outcome = invoke(tool, ToolCall("python", {"code": code}, {}, "1", names=NAMES, references=loads))
    assert "loaded" in str(outcome.result) and loads.asked == ["r"]


class Loads:
    """Loads references, and says which."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def owns(self, value: Any) -> bool:
        return is_reference(value)

    def opened(self, reference: Any, name: str) -> Any:
        return self.load(reference, name)

    def load(self, value: Any, name: str, limit: int | None = None) -> Any:
        found = references_in(value)
        self.asked += [ref["key"] for _, ref in found]
        return replaced(value, [(path, "loaded") for path, _ in found])


def test_lines_keep_their_numbers_beside_a_return(python: Python) -> None:
    outcome = python("# one\nx = 1\n\ndef f(y):\n    return 1 / y\n\nif x:\n    return f(0)\n")
    said = [line.strip(" ^~") for line in outcome.helpers["py"]["traceback"].splitlines() if line.strip(" ^~")]
    assert said == [
        'File "<code>", line 8, in <module>',
        "return f(0)",
        'File "<code>", line 5, in f',
        "return 1 / y",
        "ZeroDivisionError: division by zero",
    ]


def test_libs_and_entry(python: Python) -> None:
    assert python("result = m.sqrt(4)", inputs={"libs": {"m": "math"}}).result == 2.0
    assert python("result = [pi(3.9), dumps({}), od()]", inputs={"libs": IMPORTED}).result == [3, "{}", {}]
    assert python("result = path.basename('a/b')", inputs={"libs": {"path": {"from": "os", "import": "path"}}}).result == "b"
    assert python("result = d.__name__", inputs={"libs": {"d": {"from": "json", "import": "decoder"}}}).result == "json.decoder"
    wrong = python("result = 1", inputs={"libs": {"x": {"from": "math", "import": "sinus"}}})
    assert failure(wrong) == "python" and "cannot import name 'sinus' from 'math'" in str(wrong.error)
    assert python("def start(): return 7", inputs={"entry": "start"}).result == 7
    assert "no function" in str(python("x = 1", inputs={"entry": "start"}).error)


@pytest.mark.parametrize(
    ("inputs", "spec"),
    [
        ({"code": 5}, {}),
        ({"args": [1]}, {}),
        ({"libs": {"a": 1}}, {}),
        ({"libs": {"a": {"from": "math"}}}, {}),
        ({"libs": {"a": {"from": "math", "import": "pi", "as": "p"}}}, {}),
        ({"libs": {"a": {"from": "math", "import": 1}}}, {}),
        ({}, {"memory_mb": "much"}),
        ({}, {"memory_mb": 1}),
        ({}, {"max_output_bytes": -1}),
    ],
)
def test_wrong_inputs_are_refused(python: Python, inputs: dict[str, Any], spec: dict[str, Any]) -> None:
    assert failure(python("result = 1", inputs=inputs, spec=spec)) == "schema"


def test_a_secret_that_comes_back_is_masked(python: Python, lines: list[str]) -> None:
    outcome = python("print(token)\nresult = [token, token[::-1], len(token)]", token=Secret("hunter2-and-more"))
    assert outcome.result == ["***", "***", 16] and lines == ["***"]


# --- time, memory, size -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "code", ["while True: pass", "import time\nwhile True:\n    try: time.sleep(9)\n    except BaseException: pass"]
)
def test_an_endless_loop_ends_with_the_time(python: Python, code: str) -> None:
    outcome = python(code, timeout_s=0.4)
    assert failure(outcome) == "timeout" and outcome.error is not None and outcome.error.as_dict()["retryable"] is True
    assert python("result = 1").result == 1


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


def test_a_result_over_the_limit_is_refused(python: Python, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("noetl_core.tools.python.MAX_RESULT_BYTES", 1000)
    assert failure(python("result = 'x' * 999  # over, with its quotes")) == "limit"
    assert python("result = 'x' * 998").result == "x" * 998


def test_a_huge_file_is_refused(python: Python) -> None:
    outcome = python("with open('big', 'wb') as f:\n    for _ in range(10**6): f.write(bytes(1 << 20))")
    assert failure(outcome) in ("limit", "python")
    assert python("result = 1").result == 1


# --- warm starts --------------------------------------------------------------------------------------------------------------

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
    pool = tool._ready()
    assert pool._fork_server is not None
    pool._fork_server._process.kill()
    pool._fork_server._process.wait()
    assert python("result = 'again'", execution="after").result == "again"


def test_a_warmed_tool_is_ready_and_warming_twice_starts_nothing_twice() -> None:
    registry = ToolRegistry()
    registry.warm(["python", "http", "nonsense"])
    tool = registry.get("python")
    assert isinstance(tool, PythonTool)
    first = tool._ready()._fork_server
    registry.warm(["python"])
    assert first is not None and tool._ready()._fork_server is first
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
    fork_server = tool._ready()._fork_server
    assert fork_server is not None
    yield tool, fork_server._process.pid
    tool.close()


def pid_of_task(tool: PythonTool, n: int, **spec: Any) -> int:
    outcome = tool.run(ToolCall("python", {"code": f"import os\nresult = os.getpid() + {n} - {n}"}, spec, "1"))
    assert isinstance(outcome.result, int), outcome
    return outcome.result


def test_the_first_task_waits_for_no_module_that_it_does_not_use() -> None:
    root = next(path for path in sys.path if os.path.exists(f"{path}/noetl_core/tools/sandbox"))
    code = f"import sys; sys.path.insert(0, {root!r}); import noetl_core.tools.sandbox.fork_server as server; print(*sys.modules)"
    said = subprocess.run([sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not {*USED_MOST, "asyncio", "ssl", "typing_extensions"} & set(said)


def test_the_second_process_has_what_tasks_use_most(server: tuple[PythonTool, int]) -> None:
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
def test_a_process_that_waits_is_used_only_where_it_is_confined_as_it_must_be(server: tuple[PythonTool, int]) -> None:
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
    ask = ForkServer._ask

    def counted(self: ForkServer, request: Mapping[str, Any]) -> tuple[dict[str, Any], list[int]]:
        asked.append(request["op"])
        return ask(self, request)

    monkeypatch.setattr(ForkServer, "_ask", counted)
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
from noetl_core.tools.python import PythonTool
outcome = PythonTool().run(ToolCall("python", {"code": "import os\\nresult = [os.getpid(), os.getcwd()]"}))
print(*outcome.result, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False).stdout.split()
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline and (os.path.exists(said[1]) or os.path.exists(f"/proc/{said[0]}")):
        time.sleep(0.02)
    assert not os.path.exists(said[1]) and not os.path.exists(f"/proc/{said[0]}")


def test_no_processes_or_folders_are_left_behind() -> None:
    tool = PythonTool()
    assert tool.run(ToolCall("python", {"code": "import os\nresult = [os.getpid(), os.getcwd()]"})).error is None
    pid, folder = tool.run(ToolCall("python", {"code": "import os\nresult = [os.getpid(), os.getcwd()]"})).result
    tool.close()
    assert not os.path.exists(folder)
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_megabytes_go_into_the_process_and_come_back(python: Python) -> None:
    rows = [{"n": n, "text": "ü" * 40} for n in range(40_000)]
    outcome = python("result = {'n': len(rows), 'back': rows}", timeout_s=60, rows=rows)
    assert outcome.error is None and outcome.result == {"n": 40_000, "back": rows}
