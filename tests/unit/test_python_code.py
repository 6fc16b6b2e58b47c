"""Program text as validation and the process of a task compile it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from noetl_core import python_code
from noetl_core.dsl.parse import parse_playbook
from noetl_core.dsl.reading.diagnostics import InvalidPlaybook
from noetl_core.python_code import END, LONGEST_CHECKED, compiled, names_of, run

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: demo, path: team/demo}\nworkflow:\n  - step: a\n    tool: "


@pytest.mark.parametrize(
    ("source", "result"),
    [
        ("return 1", 1),
        ("x = 1", END),
        ("return", None),
        ("try:\n    return 1\nfinally:\n    x = 2", 1),
        ("x = 1\nx: int = x + 1\ny: str\nreturn x", 2),
        ("import os.path as p, json\nfrom re import sub as s\nreturn [p.sep, json.dumps(1), s('a', 'b', 'a')]", ["/", "1", "b"]),
        ("with open('/dev/null') as f, open('/dev/null') as g:\n    return f.name", "/dev/null"),
        ("match {'a': 1, 'b': 2}:\n    case {'a': n, **rest}:\n        return [n, rest]", [1, {"b": 2}]),
        ("match [1, 2, 3]:\n    case [x, *more] as all:\n        return [x, more, all]", [1, [2, 3], [1, 2, 3]]),
        ("try:\n    1 / 0\nexcept ZeroDivisionError as e:\n    return str(e)", "division by zero"),
        ("if (n := 5) > 3:\n    return n", 5),
        ("n = 0\ndef f():\n    global n\n    n += 1\nf()\ndel f\nreturn [n, 'f' in globals()]", [1, False]),
        ("global n\nn = 1\nreturn n", 1),
        ("def outer():\n    k = 1\n    def inner():\n        nonlocal k\n        k += 1\n        return k\n    return inner()\nreturn outer()", 2),
        ("i = 9\nx = [i for i in range(3)]\nreturn [i, x]", [9, [0, 1, 2]]),
        ('"""About it."""\nfrom __future__ import annotations\nreturn __doc__', "About it."),
    ],
)  # fmt: skip
def test_a_return_ends_the_code_and_changes_nothing_else(source: str, result: Any) -> None:
    names: dict[str, Any] = {}
    assert run(compiled(source), names) == result
    assert not {name for name in names if name.startswith("<")}


@pytest.mark.parametrize(
    ("source", "line", "words"),
    [
        ("x = 1\nreturn x\nyield x", 3, "'yield' outside function"),
        ("return await x", 1, "'await' outside function"),
        ("class A:\n    return 1", 2, "'return' outside function"),
        ("return 1\nx = = 2", 2, "invalid syntax"),
        ("return 1\nfrom os import *", 2, "import * only allowed at module level"),
        ("return 1\nbreak", 2, "'break' outside loop"),
    ],
)
def test_invalid_module_code_is_refused_at_its_line(source: str, line: int, words: str) -> None:
    with pytest.raises(SyntaxError) as caught:
        compiled(source)
    assert (caught.value.lineno, caught.value.msg) == (line, words)


@pytest.mark.parametrize(
    ("source", "names"),
    [
        (
            "import a.b, c as d\nx, (y, *z) = 1\ndef f(inner):\n    hidden = 1\nclass G:\n    own = 1",
            {"a", "d", "x", "y", "z", "f", "G"},
        ),
        ("if a:\n    def main(): pass", {"main"}),
        ("from os import *", None),
        ("globals()['main'] = print", None),
        ("exec('def main(): pass')", None),
    ],
)
def test_the_names_that_a_source_defines_are_found(source: str, names: set[str] | None) -> None:
    assert names_of(source).defined == (None if names is None else frozenset(names))


@pytest.mark.parametrize(
    "code",
    ["(" * 150_000, "x" + "+x" * 100_000, "-" * 200_000 + "1", "x = " + "[" * 90 + "]" * 90, "f(" * 60 + ")" * 60, "not " * 50_000 + "x",
     "'a' * 10**9", "2 ** 10 ** 9", "x\0y", "\ud800", "return x" + "+x" * 100_000, "if x:\n" + "".join(" " * n + "if x:\n" for n in range(1, 120)) + " " * 121 + "pass"],
    ids=lambda code: f"{code[:6]!r}",
)  # fmt: skip
def test_hostile_code_is_refused_or_taken_and_never_carried_out(code: str) -> None:
    import json

    text = f"{HEAD}{{kind: python, code: {json.dumps(code)}}}\n"
    try:
        parse_playbook(text)
    except InvalidPlaybook as refused:
        assert {d.code for d in refused.diagnostics} <= {"E100", "E304", "E112"}


def test_names_read_without_being_bound_are_found_with_their_place() -> None:
    source = "def f(a):\n    return a + ü + b\nx = ['ü' + c for c in d]\n"
    assert names_of(source).read == {"ü": (2, 16), "b": (2, 20), "d": (3, 23)}
    assert names_of("import a.b as c, d.e\nprint(c, d, len)").read == {"print": (2, 1), "len": (2, 13)}
    assert names_of("from a import *\nx + y").read == names_of("exec('a = 1')\nprint(a)").read == {}


@pytest.mark.nightly
def test_the_programs_of_a_playbook_are_compiled_within_one_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many tasks there are: what is over it is compiled when it runs."""
    compiling: list[int] = []

    def counted(source: str) -> Any:
        compiling.append(len(source))
        return compiled(source)

    monkeypatch.setattr(python_code, "compiled", counted)
    half, small = "x = 1\n" * (LONGEST_CHECKED // 13), "y = 2"
    tasks = [{"kind": "python", "code": code} for code in (half, half, half, small, half + half + half)]
    playbook = parse_playbook(HEAD + json.dumps(tasks))
    assert len(playbook.steps[0].tasks) == 5
    assert compiling == [len(half), len(half), len(small)] and sum(compiling) <= LONGEST_CHECKED


def test_a_pinned_playbook_is_taken_as_it_was() -> None:
    """It was validated before, maybe by a Python that knows more syntax."""
    text = HEAD + "{kind: python, code: 'x = = 1', entry: main}\n"
    with pytest.raises(InvalidPlaybook, match="E304"):
        parse_playbook(text)
    assert parse_playbook(text, programs=False).steps[0].tasks[0].kind == "python"
