"""`make touched`: which modules of the product the tests do not touch."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.touched import ROOT, UNTOUCHED, faults, inside_functions, product, selection, untouched


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("A = 1\n", set()),
        ("def f():\n    return 1\n", {2}),
        (
            'class A:\n    b = 1\n\n    async def f(self):\n        """It waits."""\n        await self\n        return 1\n',
            {6, 7},
        ),
        ("def f(): ...\n\n\ndef g():\n    raise NotImplementedError\n", set()),
        ("def f():\n    def g():\n        return 1\n\n    return g\n", {2, 3, 5}),
        ("def f(\n    a=1,\n):\n    return a\n", {4}),
    ],
)
def test_statements_inside_functions_are_found(text: str, lines: set[int]) -> None:
    assert inside_functions(text) == lines


def test_a_module_that_is_only_imported_is_untouched(tmp_path: Path) -> None:
    files = {name: tmp_path / f"{name}.py" for name in ("called", "imported", "constants")}
    for name, file in files.items():
        file.write_text("A = 1\n" if name == "constants" else "A = 1\n\n\ndef f():\n    return A\n")
    assert untouched(files, lambda file: {1, 4, 5} if file.stem == "called" else {1, 4}) == ["imported"]


def test_untouched_modules_and_needless_excuses_are_faults() -> None:
    def modules(whole: bool) -> list[str]:
        return [line.partition(":")[0] for line in faults(["a", "b"], ["b", "c"], whole=whole)]

    assert (modules(True), modules(False)) == (["a", "c"], ["a"])


def test_each_excuse_names_a_module_and_the_test_that_runs_it() -> None:
    files = product()
    assert len(files) > 500 and "functions.worker.app" in files
    assert UNTOUCHED.keys() <= files.keys()
    assert [test for _, test in UNTOUCHED.values() if not (ROOT / "tests" / test).exists()] == []


def test_the_tests_of_make_test_are_selected() -> None:
    assert "not nightly" in selection() and selection().endswith(") and not untraced")
