"""Cases that `make test` samples are all run by `make properties`: a test that takes some of its cases is marked `sized`."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
SAMPLING = {"some", "crash_points", "CRASHES_IN"}
"""Names of `tests.properties` that stand for fewer cases than there are."""


def sampled(file: Path) -> dict[str, ast.FunctionDef]:
    """Return the tests of a file that take a sample, by themselves or by a function beside them."""
    tree = ast.parse(file.read_text())
    names = {
        alias.name
        for node in tree.body
        if isinstance(node, ast.ImportFrom) and node.module == "tests.properties"
        for alias in node.names
    } & SAMPLING
    functions = {node.name: node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) if not _marks_its_cases(node)}
    used = {name: {n.id for n in ast.walk(node) if isinstance(n, ast.Name)} for name, node in functions.items()}
    while more := {name for name, uses in used.items() if uses & names} - names:
        names |= more
    return {name: node for name, node in functions.items() if name in names and name.startswith("test_")}


def _marks_its_cases(function: ast.FunctionDef) -> bool:
    """Return whether it is a fixture each of whose parameters is marked."""
    return any("marks=pytest.mark.sized" in ast.unparse(decorator) for decorator in function.decorator_list)


FILES = [file for file in sorted(TESTS.rglob("test_*.py")) if "tests.properties import" in file.read_text() and sampled(file)]


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(TESTS)))
def test_tests_that_take_a_sample_are_marked_sized(file: Path) -> None:
    unmarked = [
        name
        for name, node in sampled(file).items()
        if not any(mark in ast.unparse(decorator) for decorator in node.decorator_list for mark in ("mark.sized", "given("))
    ]
    assert unmarked == []


def test_samples_are_found() -> None:
    assert len(FILES) > 20
