"""The map of tests/README.md, from code to its tests: whole and true."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
TESTS = ROOT / "tests"
PACKAGES = {
    "noetl_core": ROOT / "layers/noetl_core/noetl_core",
    "noetl_cli": ROOT / "cli/noetl_cli",
    "noetl_lsp": ROOT / "cli/noetl_lsp",
    "noetl_migrate": ROOT / "cli/noetl_migrate",
    "noetl_import": ROOT / "cli/noetl_import",
    "noetl_console": ROOT / "console/noetl_console",
    "noetl_infra": ROOT / "infra/noetl_infra",
    "noetl_quantum": ROOT / "plugins/noetl_quantum/src/noetl_quantum",
    "noetl_container": ROOT / "plugins/noetl_container/src/noetl_container",
    "noetl_snowflake": ROOT / "plugins/noetl_snowflake/src/noetl_snowflake",
    "bench": ROOT / "bench",
}
PARTS = ("noetl_core/dsl/lint", "noetl_core/api")
"""Packages within packages that have a row of their own."""
READ_AS_FILES = ("functions", "examples", "docs")
ROWS = [
    (code, re.findall(r"`([^`]+)`", row[2]))
    for row in re.finditer(r"^\| (`[^|]+) \| (`[^|]+) \| [^|]+ \|$", (TESTS / "README.md").read_text(), re.MULTILINE)
    for code in re.findall(r"`([^`]+)`", row[1])
]


def module_of(code: str) -> str:
    return code.removesuffix(".py").replace("/", ".")


@cache
def files() -> dict[str, Path]:
    found = {}
    for package, folder in PACKAGES.items():
        for file in folder.rglob("*.py"):
            parts = (package, *file.relative_to(folder).with_suffix("").parts)
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = file
    return found


@cache
def imports(file: Path) -> frozenset[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and re.fullmatch(r"noetl_\w+(\.\w+)+", node.value):
            found.add(node.value)
    return frozenset(found & files().keys())


def test_every_package_and_module_has_a_row() -> None:
    core = PACKAGES["noetl_core"]
    wanted = {f"noetl_core/{p.parent.name}" for p in core.glob("*/__init__.py")} | set(PARTS) | set(READ_AS_FILES)
    wanted |= {f"noetl_core/{p.name}" for p in core.glob("*.py") if p.name != "__init__.py"}
    wanted |= set(PACKAGES) - {"noetl_core"}
    named = [code for code, _ in ROWS]
    assert sorted(named) == sorted(wanted)


def test_every_folder_of_tests_stands_in_the_map() -> None:
    text = (TESTS / "README.md").read_text()
    folders = [f"unit/{p.parent.name}" for p in TESTS.glob("unit/*/__init__.py")]
    folders += [p.parent.name for p in TESTS.glob("*/__init__.py") if p.parent.name != "unit"]
    alone = [f"unit/{p.name}" for p in TESTS.glob("unit/test_*.py")]
    assert [name for name in (*folders, *alone) if f"`{name}`" not in text] == []


@pytest.mark.one_in(4)
@pytest.mark.parametrize(("code", "tests"), ROWS, ids=[code for code, _ in ROWS])
def test_the_tests_of_a_row_exist_and_import_its_module(code: str, tests: list[str]) -> None:
    """They import it directly or through one other module."""
    for name in tests:
        place = TESTS / name
        found = [place] if place.suffix else sorted(place.rglob("*.py"))
        assert any(file.name.startswith("test_") for file in found), name
        if code in READ_AS_FILES:
            assert any(re.search(rf"\b{code}\b", file.read_text()) for file in found), name
            continue
        module = module_of(code)
        direct = {m for file in found for m in imports(file)}
        near = direct | {m for d in direct for m in imports(files()[d])}
        assert any(m == module or m.startswith(f"{module}.") for m in near), f"{name} has nothing to do with {module}"


def test_no_test_module_imports_another() -> None:
    """Common code is in a module beside the tests: a test that moves takes nothing along."""
    others = re.compile(r"^(?:from|import) tests[\w.]*\.test_\w+", re.MULTILINE)
    assert {str(file.relative_to(TESTS)) for file in TESTS.rglob("*.py") if others.search(file.read_text())} == set()
