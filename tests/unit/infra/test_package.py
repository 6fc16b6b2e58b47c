"""Code is packed by content: the same code is the same package, and nothing else than code is in it."""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
import zipfile
from importlib.metadata import version
from importlib.util import cache_from_source
from pathlib import Path

import pytest

from noetl_core.adapters.local.packages import Platform
from noetl_core.ports import MissingPackages
from noetl_infra.deploy import platform_of
from noetl_infra.package import ROOT, finish, function, interpreter, layer, pack, packages, tools
from noetl_infra.template_file import read_template
from tests.packages import SAMPLE, index, wheel


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


def test_the_package_of_a_function_that_has_requirements_includes_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "functions" / "own").mkdir(parents=True)
    for name, text in (("app.py", "x = 1\n"), ("requirements.txt", f"{SAMPLE}\n"), ("Makefile", "")):
        (tmp_path / "functions" / "own" / name).write_text(text)
    for name, value in index(tmp_path / "index").items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("noetl_infra.package.REPOSITORY", tmp_path)
    monkeypatch.setattr("noetl_infra.package.ROOT", tmp_path)
    assert names(function("functions/own/").body) == ["app.py"]
    with zipfile.ZipFile(io.BytesIO(function("functions/own/", dependencies=True).body)) as archive:
        assert {"app.py", "noetl_sample.pyc"} <= set(archive.namelist())
        assert not {"app.pyc", "Makefile", "noetl_sample.py"} & set(archive.namelist())
        assert b"/var/task/noetl_sample.py" in archive.read("noetl_sample.pyc")


@pytest.mark.nightly
def test_the_thin_layer_is_the_core_with_the_bytecode_of_each_module() -> None:
    inside = set(names(layer(dependencies=False).body))
    assert "python/noetl_core/runtime/control_wiring.py" in inside
    assert all(n.startswith("python/noetl_core/") for n in inside)
    caches = {n for n in inside if "__pycache__" in n}
    assert caches == {cache_from_source(n) for n in inside if n.endswith(".py")}


@pytest.mark.nightly
def test_the_layer_is_the_same_bytes_each_time() -> None:
    """Each build is a process of its own, with hashes of its own."""
    assert layer(dependencies=False) == layer(dependencies=False)


@pytest.mark.nightly
def test_an_interpreter_takes_the_bytecode_of_a_layer(tmp_path: Path) -> None:
    with zipfile.ZipFile(io.BytesIO(layer(dependencies=False).body)) as archive:
        archive.extractall(tmp_path)
    ask = "import sys; sys.path.insert(0, 'python'); import noetl_core.runtime.control_wiring"
    told = subprocess.run([sys.executable, "-vc", ask], cwd=tmp_path, capture_output=True, text=True, check=True).stderr
    assert "code object from 'python/noetl_core/runtime/__pycache__/control_wiring." in told.replace(f"{tmp_path}/", "")
    assert "control_wiring.py is stale" not in told


def test_a_distribution_becomes_a_layer_with_entry_points_for_its_kinds() -> None:
    package = tools(str(ROOT / "tests" / "conformance" / "scripted_tool"))
    with zipfile.ZipFile(io.BytesIO(package.body)) as archive:
        entry_points = next(n for n in archive.namelist() if n.endswith("entry_points.txt"))
        assert "[noetl.tools]\nscripted = noetl_scripted:ScriptedTool" in archive.read(entry_points).decode()
        assert all(n.startswith("python/") for n in archive.namelist())
    assert package == tools(str(ROOT / "tests" / "conformance" / "scripted_tool"))


REQUIRING = """apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: a, path: a }
executor: { spec: { python: { requirements: [noetl-sample==1.0] } } }
workflow: [{ step: start, tool: { kind: noop } }]
"""


@pytest.fixture
def index_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in index(tmp_path / "index").items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("NOETL_HOME", str(tmp_path / "home"))


def test_playbooks_and_requirements_become_a_layer_with_a_set_for_each_list(tmp_path: Path, index_here: None) -> None:
    folder = tmp_path / "playbooks"
    (folder / "deeper").mkdir(parents=True)
    (folder / "a.yaml").write_text(REQUIRING)
    (folder / "deeper" / "b.yml").write_text(REQUIRING.replace("workflow", "# the same list\nworkflow"))
    (folder / "other.yaml").write_text("kind: ConfigMap\n")
    lines = tmp_path / "requirements.txt"
    lines.write_text(f"# those of a\n{SAMPLE}  # once more\n")
    package = packages([str(folder), str(lines)])
    inside = names(package.body)
    sets = {name.split("/")[2] for name in inside}
    assert (len(sets), all(name.startswith("python/noetl_packages/") for name in inside)) == (1, True)
    with zipfile.ZipFile(io.BytesIO(package.body)) as archive:
        assert archive.read(f"python/noetl_packages/{sets.pop()}/requirements.txt").decode() == f"{SAMPLE}\n"
    assert packages([str(lines)]) == package


def test_a_layer_for_aws_has_the_wheels_of_its_functions_and_not_of_this_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the template's parameters say what they run on."""
    template = read_template(ROOT / "template.yaml")
    assert platform_of(template, {}).machine == "aarch64"
    asked = platform_of(template, {"LambdaRuntime": "python3.12", "Architecture": "x86_64"})
    assert asked == Platform("3.12", "x86_64")
    for python, machine in (
        ("cp312-cp312", "x86_64"),
        ("cp312-cp312", "aarch64"),
        ("cp313-cp313", "x86_64"),
        ("cp311-cp311", "x86_64"),
    ):
        pure = wheel(tmp_path / "index", "noetl-native", "1.0", f"BUILT = '{python} {machine}'\n")
        pure.rename(pure.with_name(f"noetl_native-1.0-{python}-manylinux_2_28_{machine}.whl"))
    for name, value in index(tmp_path / "index").items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("NOETL_HOME", str(tmp_path / "home"))
    file = tmp_path / "requirements.txt"
    file.write_text("noetl-native==1.0\n")
    built = {}
    for platform in (asked, Platform("3.12", "aarch64"), Platform("3.13", "x86_64")):
        with zipfile.ZipFile(io.BytesIO(packages([str(file)], platform).body)) as archive:
            built[platform] = archive.read(next(n for n in archive.namelist() if n.endswith("noetl_native.py"))).decode()
    assert {platform: text.split("'")[1] for platform, text in built.items()} == {
        platform: f"cp{platform.python.replace('.', '')}-cp{platform.python.replace('.', '')} {platform.machine}"
        for platform in built
    }


@pytest.fixture
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """There is nothing of this repository to install."""
    monkeypatch.setattr("noetl_infra.package.REPOSITORY", tmp_path)
    monkeypatch.setattr("noetl_infra.package.ROOT", tmp_path)


@pytest.mark.usefixtures("alone")
def test_tools_for_aws_have_the_wheels_of_its_functions_and_not_of_this_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for python, machine in (("cp312-cp312", "x86_64"), ("cp312-cp312", "aarch64"), ("cp313-cp313", "x86_64")):
        pure = wheel(tmp_path / "index", "noetl-native", "1.0", f"BUILT = '{python} {machine}'\n")
        pure.rename(pure.with_name(f"noetl_native-1.0-{python}-manylinux_2_28_{machine}.whl"))
    for name, value in index(tmp_path / "index").items():
        monkeypatch.setenv(name, value)
    for platform in (Platform("3.12", "x86_64"), Platform("3.12", "aarch64"), Platform("3.13", "x86_64")):
        with zipfile.ZipFile(io.BytesIO(tools("noetl-native==1.0", platform).body)) as archive:
            built = archive.read("python/noetl_native.py").decode().split("'")[1]
        tag = f"cp{platform.python.replace('.', '')}"
        assert built == f"{tag}-{tag} {platform.machine}"
    with pytest.raises(MissingPackages, match="cannot install noetl-native==2"):
        tools("noetl-native==2", Platform("3.12", "x86_64"))


@pytest.mark.usefixtures("alone")
def test_tools_share_the_packages_that_the_core_layer_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lambda unpacks all layers into one folder: two versions of a package would be mixed there, file by file."""
    ours = version("jinja2")
    for its in (ours, "99.0"):
        wheel(tmp_path / "index", "jinja2", its, f"VERSION = '{its}'\n")
    wheel(tmp_path / "index", "noetl-shares", "1.0", "", "jinja2", "noetl-sample")
    wheel(tmp_path / "index", "noetl-parts", "1.0", "", "jinja2>=99")
    for name, value in index(tmp_path / "index").items():
        monkeypatch.setenv(name, value)
    inside = set(names(tools("noetl-shares==1.0").body))
    assert {"python/noetl_shares.py", "python/noetl_sample.py"} <= inside
    assert not any("jinja2" in name for name in inside)
    with pytest.raises(MissingPackages, match=rf"(?s)cannot install noetl-parts==1\.0.*jinja2=={re.escape(ours)}"):
        tools("noetl-parts==1.0")


@pytest.mark.nightly
def test_a_folder_of_tools_becomes_a_layer_for_another_platform() -> None:
    inside = names(tools(str(ROOT / "tests" / "conformance" / "scripted_tool"), Platform("3.12", "aarch64")).body)
    assert "python/noetl_scripted.py" in inside or any(n.startswith("python/noetl_scripted") for n in inside)


def test_compiling_a_layer_without_the_functions_python_raises_missing_packages(tmp_path: Path) -> None:
    with pytest.raises(
        MissingPackages, match=r"(?s)Python 3\.99, the functions' own, compiles the layer.*uv python install 3\.99"
    ):
        finish(tmp_path, Platform("3.99", "x86_64"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "requires no packages"),
        ("-r others.txt", "is not a requirement"),
        ("noetl-sample==9", "cannot install noetl-sample==9"),
    ],
)
def test_requirements_that_cannot_be_installed_are_refused(tmp_path: Path, index_here: None, text: str, message: str) -> None:
    file = tmp_path / "requirements.txt"
    file.write_text(text)
    with pytest.raises(MissingPackages, match=message):
        packages([str(file)])
    with pytest.raises(MissingPackages, match="No such file"):
        packages([str(tmp_path / "missing.txt")])


def test_an_interpreter_that_fails_is_passed_over_and_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """pyenv puts a `python3.99` on the PATH that only says which version to install."""
    shim, other, version = tmp_path / "shims", tmp_path / "bin", f"{sys.version_info.major}.{sys.version_info.minor}"
    for folder in (shim, other):
        folder.mkdir()
    for name in (f"python{version}", "python3.99"):
        (shim / name).write_text("#!/bin/sh\nexit 127\n")
        (shim / name).chmod(0o755)
    (other / f"python{version}").symlink_to(sys.executable)
    monkeypatch.setenv("PATH", f"{shim}:{other}:/usr/bin:/bin")
    assert interpreter(version) == str(other / f"python{version}")
    with pytest.raises(MissingPackages, match=re.escape(str(shim / "python3.99"))):
        interpreter("3.99")
