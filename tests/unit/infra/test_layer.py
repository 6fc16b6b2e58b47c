"""The layer carries what functions import and nothing else: read in the code, and in what is packed."""

from __future__ import annotations

import ast
import io
import re
import shutil
import subprocess
import zipfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from noetl_infra.package import CORE, excluded, layer

ROOT = Path(__file__).parents[3]
HANDLERS = sorted(ROOT.glob("functions/*/app.py"))
NAMED = re.compile(r"noetl_core(?:\.\w+)*\.?")
NOT_FOLLOWED = {("noetl_core", "noetl_core.embedded"): "`noetl_core.run` is what programs call; it is loaded when they do"}


def module_of(file: Path) -> str:
    parts = file.relative_to(CORE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


FILES = {module_of(file): file for file in CORE.rglob("*.py")}


def nodes(tree: ast.AST) -> Iterator[ast.AST]:
    """All of them but those that only type checkers look at."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            continue
        yield node
        yield from nodes(node)


@cache
def imports(file: Path) -> frozenset[str]:
    """Modules of the core that a file imports: at once, later, or by a name in a text (a text that ends in a dot names all that is
    below)."""
    found: set[str] = set()
    for node in nodes(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file}: imports are absolute here"
            found |= {str(node.module), *(f"{node.module}.{alias.name}" for alias in node.names)}
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and not node.value.count("\n"):
            for name in NAMED.findall(node.value):
                found |= {m for m in FILES if m.startswith(name)} if name.endswith(".") and name.count(".") > 1 else {name}
    return frozenset(found & FILES.keys())


def reached(*starts: Path) -> set[str]:
    found: set[str] = set()
    todo = {module for start in starts for module in imports(start)}
    while todo:
        module = todo.pop()
        found.add(module)
        packages = {module[:at] for at in (i for i, c in enumerate(module) if c == ".")}
        further = {m for m in imports(FILES[module]) if (module, m) not in NOT_FOLLOWED}
        todo |= (further | packages) - found
    return found


def packed() -> set[str]:
    names = zipfile.ZipFile(io.BytesIO(layer(dependencies=False).body)).namelist()
    return {module_of(CORE.parent / name.removeprefix("python/")) for name in names if name.endswith(".py")}


def test_the_layer_holds_the_modules_that_functions_import_and_no_others() -> None:
    """What is in one of the two only: put it on the list of layers/noetl_core/exclude.txt, or take it off there."""
    assert len(HANDLERS) == 5
    functions, inside = reached(*HANDLERS), packed()
    assert sorted(functions - inside) == [], "a function imports what the layer leaves out"
    assert sorted(inside - functions) == [], "the layer carries what no function imports"


@pytest.mark.parametrize("function", ["router", "sweeper", "worker"])
def test_only_functions_that_answer_requests_reach_the_api(function: str) -> None:
    found = {m for m in reached(ROOT / "functions" / function / "app.py") if m.startswith("noetl_core.control.api.")}
    assert found == set()


def test_what_is_left_out_is_there_and_is_named_once() -> None:
    assert [path for path in excluded() if not (CORE / path).exists()] == []
    assert excluded() == sorted(set(excluded()))


def test_the_layer_has_neither_the_migration_nor_a_plugin_nor_the_command_line() -> None:
    words = ("migrate", "quantum", "noetl_cli", "noetl_infra", "typer", "rich")
    imported = {
        word: [m for m in sorted(packed()) if re.search(rf"^\s*(from|import) \S*{word}", FILES[m].read_text(), re.M)]
        for word in words
    }
    assert imported == {word: [] for word in words}
    assert [m for m in packed() for word in words if word in m] == []


def test_sam_builds_the_same_layer(tmp_path: Path) -> None:
    """The makefile that `sam build` calls, with an installer that installs nothing."""
    for name in ("Makefile", "exclude.txt"):
        shutil.copy(ROOT / "layers" / "noetl_core" / name, tmp_path / name)
    shutil.copytree(CORE, tmp_path / "noetl_core", ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "requirements.txt").touch()
    target = tmp_path / "targets" / "python3.13" / "arm64"
    target.mkdir(parents=True)
    subprocess.run(
        ["make", "--silent", "--makefile", str(tmp_path / "Makefile"), "build-CoreLayer", "ARTIFACTS_DIR=built", "UV=true"],
        cwd=target,
        check=True,
        capture_output=True,
    )
    built = target / "built" / "python" / "noetl_core"
    assert {module_of(CORE / f.relative_to(built)) for f in built.rglob("*.py")} == packed()
