"""The installed files are those of the repository, and run without it."""

from __future__ import annotations

import email
import zipfile
from pathlib import Path

import pytest

import noetl_core
from tests.wheel import ROOT, built, constraints, uvx

pytestmark = pytest.mark.xdist_group("wheel")
PACKAGES = {
    "noetl_core": "layers/noetl_core/noetl_core",
    "noetl_cli": "cli/noetl_cli",
    "noetl_lsp": "cli/noetl_lsp",
    "noetl_migrate": "cli/noetl_migrate",
    "noetl_import": "cli/noetl_import",
    "noetl_console": "console/noetl_console",
    "noetl_infra": "infra/noetl_infra",
}
PROJECT = "noetl_infra/project"
DEPLOYED = (
    "template.yaml",
    "functions",
    "layers/noetl_core/requirements.txt",
    "layers/noetl_core/exclude.txt",
    "layers/noetl_core/find-python.sh",
    "layers/noetl_core/layer.py",
)


@pytest.fixture(scope="module")
def wheel() -> Path:
    constraints()
    return built()


@pytest.fixture(scope="module")
def inside(wheel: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist() if ".dist-info/" not in name}


def files(what: str) -> list[str]:
    """Return the files of the repository at that path."""
    found = (ROOT / what).rglob("*") if (ROOT / what).is_dir() else [ROOT / what]
    return [str(f.relative_to(ROOT)) for f in found if f.is_file() and "__pycache__" not in f.parts and f.name != ".DS_Store"]


def test_the_wheel_holds_exactly_the_packages_deployment_files_and_docs(inside: dict[str, bytes]) -> None:
    wanted = {name.replace(folder, package, 1): name for package, folder in PACKAGES.items() for name in files(folder)}
    wanted |= {f"{PROJECT}/{name}": name for what in DEPLOYED for name in files(what)}
    wanted |= {f"noetl_cli/{name}": name for name in files("docs")}
    assert sorted(inside) == sorted(wanted)
    assert [name for name, source in wanted.items() if inside[name] != (ROOT / source).read_bytes()] == []


def test_the_packages_of_the_wheel_are_marked_typed(inside: dict[str, bytes]) -> None:
    assert [package for package in PACKAGES if f"{package}/py.typed" not in inside] == []


def test_the_metadata_of_the_wheel_match_the_project(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        folder = f"noetl_serverless-{noetl_core.__version__}.dist-info"
        told = email.message_from_bytes(archive.read(f"{folder}/METADATA"))
        entry_points = archive.read(f"{folder}/entry_points.txt").decode()
        assert archive.read(f"{folder}/licenses/LICENSE") == (ROOT / "LICENSE").read_bytes()
    assert (told["Name"], told["Version"], told["License-Expression"]) == ("noetl-serverless", noetl_core.__version__, "MIT")
    assert sorted(told.get_all("Provides-Extra", [])) == ["dev", "lsp", "mcp", "sql", "stack"]
    assert "noetl = noetl_cli.main:main" in entry_points


@pytest.mark.nightly
def test_an_empty_folder_and_the_wheel_are_enough_to_run_a_playbook(wheel: Path, tmp_path: Path) -> None:
    """And what needs the stack says so: nothing that the wheel lacks ends in a traceback."""
    (tmp_path / "hello.yaml").write_text((ROOT / "examples" / "hello" / "playbook.yaml").read_text())
    ran = uvx(wheel, "noetl", "run", "hello.yaml", "--set", "name=Ada", cwd=tmp_path)
    assert (ran.returncode, "greeting: Hello, Ada!" in ran.stdout) == (0, True), ran.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == [".noetl", "hello.yaml"]
    made = uvx(wheel, "noetl", "new", "orders", "--template", "etl", cwd=tmp_path)
    assert (made.returncode, made.stdout.split()[0]) == (0, "orders/README.md"), made.stderr
    tested = uvx(wheel, "noetl", "test", "orders", cwd=tmp_path)
    assert (tested.returncode, "5 passed" in tested.stdout) == (0, True), tested.stdout + tested.stderr
    up = uvx(wheel, "noetl", "up", cwd=tmp_path)
    assert (up.returncode, "noetl-serverless[stack]" in up.stderr) == (2, True), up.stderr
    status = uvx(wheel, "noetl", "status", cwd=tmp_path)
    assert (status.returncode, status.stderr.strip().partition(" (")[0]) == (3, "no stack is up here")


@pytest.mark.nightly
def test_a_program_runs_a_playbook_out_of_the_wheel(wheel: Path, tmp_path: Path) -> None:
    text = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: { name: a, path: a }\nworkflow: [{ step: a, tool: { kind: noop, result: [1] } }]\n"
    code = f"import noetl_core; print(noetl_core.__file__); print(noetl_core.run({text!r}).result)"
    done = uvx(wheel, "python", "-W", "error", "-c", code, cwd=tmp_path)
    where, _, result = done.stdout.strip().partition("\n")
    assert result == "[1]", done.stderr
    assert not Path(where).is_relative_to(ROOT)
    assert list(tmp_path.iterdir()) == []
