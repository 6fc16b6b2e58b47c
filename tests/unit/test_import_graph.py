"""No file of the project leads back to itself: not by the imports inside functions, nor by those for type checking alone.

import-linter's `acyclic_siblings` (pyproject.toml) says the same of packages and files, but for cycles through a package's own
`__init__`.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.import_graph import ROOT, Import, Kind, cycles, edges_of, imports_of, modules_of

KINDS: tuple[Kind, ...] = ("start", "call", "typing")
SAVED = re.compile(r"#.*\b\d+ ms\b")
TYPING = re.compile(r"^if TYPE_CHECKING:\n(?:    .*\n)+", re.MULTILINE)
INDENTED = re.compile(r"^ +(?:from|import) ", re.MULTILINE)
CORE = "layers/noetl_core/noetl_core"


@pytest.mark.nightly  # `make contracts` finds all but those through a package's own file
def test_no_file_imports_itself_through_others() -> None:
    modules = modules_of(ROOT)
    assert len(modules) > 200
    assert cycles(edges_of(imports_of(modules), modules, KINDS)) == []


@pytest.mark.parametrize(
    ("files", "found"),
    [
        pytest.param({"a": "import noetl_core.b", "b": "import noetl_core.a"}, ["a", "b"], id="two that import each other"),
        pytest.param(
            {
                "a": "from noetl_core import b",
                "b": "from noetl_core.c import x",
                "c": "x = 1\ndef f():\n    from noetl_core.a import y",
            },
            ["a", "b", "c"],
            id="by an import inside a function",
        ),
        pytest.param(
            {"a": "import typing\nif typing.TYPE_CHECKING:\n    from noetl_core.b import T", "b": "import noetl_core.a"},
            ["a", "b"],
            id="for type checking alone",
        ),
        pytest.param(
            {"p/__init__": "from noetl_core.p.a import x", "p/a": "from noetl_core.p import y"},
            ["p", "p.a"],
            id="by way of a package's own file",
        ),
        pytest.param({"a": "import noetl_core.b, noetl_core.c", "b": "import noetl_core.c", "c": "import json"}, [], id="none"),
    ],
)
def test_a_cycle_is_found(tmp_path: Path, files: dict[str, str], found: list[str]) -> None:
    for name, text in files.items():
        file = tmp_path / CORE / f"{name}.py"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    modules = modules_of(tmp_path)
    expected = [[f"noetl_core.{name}" for name in found]] if found else []
    assert cycles(edges_of(imports_of(modules), modules, KINDS)) == expected


def test_an_import_inside_a_function_has_a_comment_on_its_saving() -> None:
    """In milliseconds, as `python -m bench.imports` measures them; one comment is enough for a block of imports."""
    indented = {
        name: file for name, file in modules_of(ROOT).items() if INDENTED.search(TYPING.sub("", file.read_text(encoding="utf-8")))
    }
    inside = [one for one in imports_of(indented) if one.kind == "call"]
    assert len(inside) > 20
    assert [f"{one.file.relative_to(ROOT)}:{one.line}: {one.text}" for one in inside if not _says(one)] == []


def _says(one: Import) -> bool:
    """Return whether a comment on the import, or on those right above it, states the number."""
    lines = one.file.read_text(encoding="utf-8").splitlines()
    for line in reversed(lines[: one.line]):
        if SAVED.search(line):
            return True
        if line.strip() and not line.lstrip().startswith(("import ", "from ")):
            return False
    return False
