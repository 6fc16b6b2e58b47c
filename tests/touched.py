"""Finds modules of the product of which no test of `make test` runs a function: `make touched`, or `python -m tests.touched [FILE ...]`.

It runs these tests under coverage, in their processes and in those that they start, without those marked `untraced`. It fails if a
test fails, and if a module that is not in `UNTOUCHED` ran no statement inside a function. The data are in `build/touched/.coverage`;
`.venv/bin/coverage report --data-file=build/touched/.coverage` prints them. With files or folders it runs only their tests.
"""

from __future__ import annotations

import ast
import os
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Callable, Collection, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from coverage import CoverageData

ROOT = Path(__file__).parents[1]
DATA = ROOT / "build/touched/.coverage"
SETTINGS: Final[Mapping[str, Any]] = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]
FORKED: Final = "in the processes of python tasks, which start without the packages of this environment (`python -I -S`)"
UNTOUCHED: Final[Mapping[str, tuple[str, str]]] = {
    "functions.credentials.app": ("in a process of the embedded stack, which is killed", "e2e/test_views.py"),
    "noetl_cli.pytest_plugin": ("in a process of pytest, which loads plugins before it measures", "unit/testing/test_pytest.py"),
    "noetl_core.tools.sandbox.fork_server": (FORKED, "unit/tools/test_python_processes.py"),
    "noetl_core.tools.sandbox.libraries": (FORKED, "unit/tools/test_packages.py"),
    "noetl_core.tools.sandbox.operands": (FORKED, "unit/tools/test_operands.py"),
    "noetl_core.tools.sandbox.socket_lender": (FORKED, "unit/tools/test_python_network_kernels.py"),
    "noetl_core.tools.sandbox.views": (FORKED, "unit/worker/test_views.py"),
}
"""The modules that coverage cannot see at work: where they run, and the test that runs them there."""


def selection() -> str:
    """Return the marks by which `make test` selects tests, and `not untraced`."""
    options = shlex.split(SETTINGS["pytest"]["ini_options"]["addopts"])
    return f"({options[options.index('-m') + 1]}) and not untraced"


def product() -> dict[str, Path]:
    """Return the files that coverage measures, by the names of their modules."""
    measured = SETTINGS["coverage"]["run"]
    folders = {name: ROOT / name for name in measured["source"]}
    for package in measured["source_pkgs"]:
        spec = find_spec(package)
        assert spec is not None and spec.origin is not None, package
        folders[package] = Path(spec.origin).parent
    found = {}
    for name, folder in folders.items():
        for file in sorted(folder.rglob("*.py")):
            parts = (name, *file.relative_to(folder).with_suffix("").parts)
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = file.resolve()
    return found


def inside_functions(text: str) -> set[int]:
    """Return the lines of statements that run only if a function is called. A function that only raises, or does nothing, has none."""
    found: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            body = [each for each in node.body if not _does_nothing(each) and each.lineno > node.lineno]
            if not all(isinstance(each, ast.Raise) for each in body):
                found |= {line for each in body for line in range(each.lineno, (each.end_lineno or each.lineno) + 1)}
    return found


def _does_nothing(statement: ast.stmt) -> bool:
    """Return whether it is a docstring, `...` or `pass`."""
    return isinstance(statement, ast.Pass) or (isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant))


def untouched(files: Mapping[str, Path], lines: Callable[[Path], Collection[int]]) -> list[str]:
    """Return the modules that have functions, but ran no line of them. `lines` returns the lines of a file that ran."""
    found = []
    for name, file in files.items():
        functions = inside_functions(file.read_text())
        if functions and functions.isdisjoint(lines(file)):
            found.append(name)
    return found


def faults(found: Collection[str], excused: Collection[str], *, whole: bool) -> list[str]:
    """Return what is wrong, in a line each. `whole`: all tests were run, so that each excuse must be needed."""
    tests = "no test of `make test`" if whole else "none of these tests"
    wrong = [f"{name}: {tests} runs a function of it" for name in found if name not in excused]
    return wrong + [
        f"{name}: UNTOUCHED of tests/touched.py is not needed for it" for name in excused if whole and name not in found
    ]


def main(files: list[str]) -> int:
    DATA.parent.mkdir(parents=True, exist_ok=True)
    for old in DATA.parent.glob(f"{DATA.name}*"):
        old.unlink()
    measured = ["--cov", "--cov-report=", "-m", selection()]
    tests = [sys.executable, "-m", "pytest", "-n", "2", "--dist", "loadfile", "-o", "faulthandler_timeout=0", *measured, *files]
    failed = subprocess.run(tests, cwd=ROOT, env={**os.environ, "COVERAGE_FILE": str(DATA)}).returncode
    data = CoverageData(str(DATA))
    data.read()
    wrong = faults(untouched(product(), lambda file: data.lines(str(file)) or ()), UNTOUCHED, whole=not files)
    print("\n".join(wrong) or "each module with functions is touched")
    return 1 if failed or wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
