"""Code is packed by content: the same code is the same package, and nothing else than code is in it."""

from __future__ import annotations

import io
import os
import zipfile
from pathlib import Path

import pytest

from noetl_infra.package import ROOT, function, layer, pack, tools


def names(body: bytes) -> list[str]:
    return zipfile.ZipFile(io.BytesIO(body)).namelist()


def test_the_same_files_give_the_same_package_whenever_they_were_written(tmp_path: Path) -> None:
    file = tmp_path / "a.py"
    file.write_text("x = 1\n")
    first = pack("code", {"a.py": file})
    os.utime(file, (1, 1))
    assert pack("code", {"a.py": file}) == first
    file.write_text("x = 2\n")
    assert pack("code", {"a.py": file}).key != first.key


@pytest.mark.parametrize("name", sorted(p.name for p in (ROOT / "functions").iterdir() if (p / "app.py").exists()))
def test_a_function_is_its_handler(name: str) -> None:
    assert names(function(f"functions/{name}/").body) == ["app.py"]


def test_the_thin_layer_is_the_core_without_caches() -> None:
    inside = names(layer(dependencies=False).body)
    assert "python/noetl_core/wiring.py" in inside
    assert all(n.startswith("python/noetl_core/") and "__pycache__" not in n for n in inside)


def test_a_distribution_becomes_a_layer_whose_entry_points_name_its_kinds() -> None:
    package = tools(str(ROOT / "tests" / "conformance" / "scripted_tool"))
    with zipfile.ZipFile(io.BytesIO(package.body)) as archive:
        entry_points = next(n for n in archive.namelist() if n.endswith("entry_points.txt"))
        assert "[noetl.tools]\nscripted = noetl_scripted:ScriptedTool" in archive.read(entry_points).decode()
        assert all(n.startswith("python/") for n in archive.namelist())
    assert package == tools(str(ROOT / "tests" / "conformance" / "scripted_tool"))
