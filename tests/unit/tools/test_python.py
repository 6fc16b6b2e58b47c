"""`kind: python`: what the code sees, and what comes back."""

from __future__ import annotations

from typing import Any

import pytest

from noetl_core.engine.outcome import Outcome
from noetl_core.expr import Secret, is_reference, references_in, replaced
from noetl_core.tools.base import ToolCall
from noetl_core.tools.invoke import invoke
from noetl_core.tools.python.tool import PythonTool
from tests.unit.tools.python_calls import Python, failure, lines, python, tool

__all__ = ["lines", "python", "tool"]


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


def test_printed_lines_go_to_the_log_within_a_limit(python: Python, lines: list[str]) -> None:
    python("import sys\nprint('one')\nprint('two', file=sys.stderr)\nsys.stdout.write('no end')")
    assert lines == ["one", "stderr: two", "no end"]
    lines.clear()
    python("for n in range(10**4): print('x' * 100)", spec={"max_output_bytes": 5000})
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
def test_references_that_the_code_reads_are_loaded(tool: PythonTool, code: str) -> None:
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

    def load(self, value: Any, name: str, limit: int | None = None, *, texts: bool = False) -> Any:
        found = references_in(value)
        self.asked += [ref["key"] for _, ref in found]
        return replaced(value, [(path, "loaded") for path, _ in found])


def test_lines_keep_their_numbers_beside_a_return(python: Python) -> None:
    outcome = python("# one\nx = 1\n\ndef f(y):\n    return 1 / y\n\nif x:\n    return f(0)\n")
    lines = [line.strip(" ^~") for line in outcome.helpers["py"]["traceback"].splitlines() if line.strip(" ^~")]
    assert lines == [
        'File "<code>", line 8, in <module>',
        "return f(0)",
        'File "<code>", line 5, in f',
        "return 1 / y",
        "ZeroDivisionError: division by zero (y is 0)",
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
