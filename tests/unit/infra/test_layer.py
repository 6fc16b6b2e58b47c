"""The layer carries what functions import and nothing else: read in the code, and in what is packed."""

from __future__ import annotations

import ast
import io
import re
import shutil
import subprocess
import sys
import zipfile
from functools import cache
from pathlib import Path

import pytest

from noetl_infra.package import CORE, LAYER, layer
from tests.unit.infra.handlers import HANDLERS, ROOT, nodes

NAMED = re.compile(r"noetl_core(?:\.\w+)*\.?")
NOT_FOLLOWED = {
    ("noetl_core", "noetl_core.runtime.embedded"): "`noetl_core.run` is what programs call; it is loaded when they do",
    ("noetl_core", "noetl_core.runtime.notebook"): "`noetl_core.View`, as above",
}


def module_of(file: Path) -> str:
    parts = file.relative_to(CORE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


FILES = {module_of(file): file for file in CORE.rglob("*.py")}


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


@pytest.mark.nightly
def test_the_layer_holds_the_modules_that_functions_import_and_no_others() -> None:
    """The remedy for a difference: put the module on the list of layers/noetl_core/exclude.txt, or take it off there."""
    assert len(HANDLERS) == 7
    functions, inside = reached(*HANDLERS), packed()
    assert sorted(functions - inside) == [], "a function imports what the layer leaves out"
    assert sorted(inside - functions) == [], "the layer carries what no function imports"


@pytest.mark.nightly  # `functions/test_start_imports.py` sees what a function loads
@pytest.mark.parametrize("function", ["router", "sweeper", "worker"])
def test_only_functions_that_answer_requests_reach_the_api(function: str) -> None:
    found = {m for m in reached(ROOT / "functions" / function / "app.py") if m.startswith("noetl_core.api.")}
    assert found <= {"noetl_core.api.refused"}


@pytest.mark.nightly  # as above
def test_only_the_worker_reaches_the_libraries_of_its_package() -> None:
    """But for validation, which does without them."""
    without = {"noetl_core.dsl.lint.sql_text"}
    others = reached(*(handler for handler in HANDLERS if handler.parent.name != "worker")) - without
    found = {m for m in others if re.search(r"^\s*(import|from) (duckdb|psycopg)", FILES[m].read_text(), re.M)}
    assert found == set()
    assert "noetl_core.tools.duckdb.tool" in reached(ROOT / "functions" / "worker" / "app.py")


def test_excluded_paths_exist_and_are_listed_once() -> None:
    excluded = [line for line in (LAYER / "exclude.txt").read_text().splitlines() if not line.startswith("#")]
    assert [path for path in excluded if not (CORE / path).exists()] == []
    assert excluded == sorted(set(excluded))


@pytest.mark.nightly
def test_the_layer_has_neither_the_migration_nor_a_plugin_nor_the_command_line() -> None:
    words = ("migrate", "quantum", "noetl_cli", "noetl_infra", "typer", "rich")
    imported = {
        word: [m for m in sorted(packed()) if re.search(rf"^\s*(from|import) \S*{word}", FILES[m].read_text(), re.M)]
        for word in words
    }
    assert imported == {word: [] for word in words}
    assert [m for m in packed() for word in words if word in m] == []


UV = """#!/bin/sh
case "$1" in python) {found} ;; esac
"""


HERE = f"{sys.version_info.major}.{sys.version_info.minor}"


def built_by_sam(folder: Path, found: str, version: str = HERE) -> subprocess.CompletedProcess[str]:
    """The makefile that `sam build` calls, with an installer that installs nothing and finds an interpreter by `found`."""
    for name in ("Makefile", "exclude.txt", "find-python.sh", "layer.py"):
        shutil.copy(LAYER / name, folder / name)
    shutil.copytree(CORE, folder / "noetl_core", ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "requirements.txt").touch()
    uv = folder / "uv"
    uv.write_text(UV.format(found=found))
    uv.chmod(0o755)
    target = folder / "targets" / f"python{version}" / "arm64"
    target.mkdir(parents=True)
    command = [
        "make",
        "--silent",
        "--makefile",
        str(folder / "Makefile"),
        "build-CoreLayer",
        f"ARTIFACTS_DIR={folder}/built",
        f"UV={uv}",
    ]
    return subprocess.run(command, cwd=target, capture_output=True, text=True)


@pytest.mark.nightly
def test_sam_builds_the_same_layer(tmp_path: Path) -> None:
    done = built_by_sam(tmp_path, f"echo {sys.executable}")
    assert (done.returncode, done.stderr) == (0, "")
    with zipfile.ZipFile(io.BytesIO(layer(dependencies=False).body)) as archive:
        here = {name: archive.read(name) for name in archive.namelist()}
    assert {
        str(f.relative_to(tmp_path / "built")): f.read_bytes() for f in (tmp_path / "built").rglob("*") if f.is_file()
    } == here


def test_a_build_without_the_functions_python_names_the_install_command(tmp_path: Path) -> None:
    done = built_by_sam(tmp_path, "exit 1", "3.99")
    assert done.returncode != 0
    assert "Python 3.99, the functions' own, compiles the layer" in done.stderr and "uv python install 3.99" in done.stderr
    assert not (tmp_path / "built").exists()
