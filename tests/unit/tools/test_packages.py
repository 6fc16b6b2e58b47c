"""Modules that python tasks can import: the playbook's requirements, the engine's libraries, and no other package of this
machine."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Iterator
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

import pytest

import noetl_core
from noetl_core.adapters.local.packages import LocalPackages
from noetl_core.dsl.dump import dump
from noetl_core.dsl.parse import check, parse_playbook
from noetl_core.dsl.sections.requirements import digest
from noetl_core.ports import MissingPackages
from noetl_core.tools.base import ToolCall
from noetl_core.tools.invoke import invoke
from noetl_core.tools.python import packages as layers
from noetl_core.tools.python.tool import ENVIRONMENT, PythonTool
from noetl_core.tools.sandbox.libraries import LIBRARIES
from noetl_infra.package import PINNED
from tests import commands
from tests.packages import SAMPLE, index, wheel

ROOT = Path(__file__).parents[3]
PLAYBOOK = """apiVersion: noetl.io/v2
kind: Playbook
metadata: {{ name: packages, path: tests/packages }}
executor: {{ spec: {{ python: {{ requirements: {requirements} }} }} }}
workflow:
  - step: start
    tool: {{ kind: python, code: "{code}" }}
"""


@pytest.fixture(autouse=True)
def index_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, value in index(tmp_path / "index").items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("NOETL_HOME", str(tmp_path / "home"))
    return tmp_path / "index"


@pytest.fixture(scope="module")
def tool() -> Iterator[PythonTool]:
    tool = PythonTool()
    yield tool
    tool.close()


def run(code: str, requirements: str = "[]") -> Any:
    return noetl_core.run(PLAYBOOK.format(code=code, requirements=requirements), timeout_s=60)


def test_a_task_imports_the_requirements_of_its_playbook() -> None:
    code = "import noetl_sample\\nfrom importlib.metadata import version\\n"
    code += "result = [noetl_sample.double(21), version('noetl-sample')]"
    done = run(code, f'["{SAMPLE}"]')
    assert (done.error, done.result) == (None, [42, "1.0"])


def test_a_task_cannot_import_packages_installed_beside_the_engine() -> None:
    failed = run("import hypothesis")
    assert failed.error["kind"] == "python"
    assert failed.error["message"].startswith(
        "ModuleNotFoundError: No module named 'hypothesis' (executor.spec.python.requirements"
    )
    probed = run(
        "import importlib.util as u, importlib.metadata as m\\nresult = [u.find_spec('pytest'), len(list(m.entry_points()))]"
    )
    assert (probed.error, probed.result) == (None, [None, 0])
    assert run("import noetl_core").error["message"].startswith("ModuleNotFoundError: No module named 'noetl_core'")


@pytest.mark.nightly
def test_a_task_imports_engine_libraries_unless_a_requirement_replaces_them(index_here: Path) -> None:
    code = "import httpx, importlib.metadata as m\\nresult = [httpx.__version__, m.version('httpx')]"
    assert len(set(run(code).result)) == 1
    wheel(index_here, "httpx", "0.0.1", "__version__ = 'mine'")
    assert run(code, '["httpx==0.0.1"]').result == ["mine", "0.0.1"]


def test_a_task_imports_every_installed_package_when_the_environment_allows_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ENVIRONMENT, "1")
    assert run("import pytest\\nresult = pytest.__name__").result == "pytest"


def test_the_libraries_that_tasks_see_are_those_of_the_layer() -> None:
    """The remedy for a difference: add the library to `LIBRARIES`, with its modules, or take it off there."""
    lines = [line for file in PINNED for line in file.read_text().splitlines()]
    everywhere = [line for line in lines if "==" in line and not line.startswith(" ") and "sys_platform == 'win32'" not in line]
    assert sorted(LIBRARIES) == sorted(line.partition("==")[0] for line in everywhere)
    for name, modules in LIBRARIES.items():
        files = [file.parts for file in distribution(name).files or ()]
        brought = {parts[0].partition(".")[0] for parts in files if parts[0] != ".."}
        assert set(modules) <= brought, name


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ("[pandas=2]", '"pandas=2" is not a requirement: Expected semicolon'),
        ('["-r other.txt"]', '"-r other.txt" is not a requirement: '),
        ('["a @ https://u:p@example.org/a.whl"]', "set the package index on the machine that installs packages"),
        ('["../mine"]', "is not a requirement"),
        ('["a==1", "A>=2"]', "names a twice"),
        ("pandas", "requirements of python of executor must be a list, not text"),
        ("[1]", "an entry of requirements of python of executor must be text"),
        (f"[{', '.join(f'a{n}' for n in range(51))}]", "has 51 entries"),
    ],
)
def test_invalid_requirements_are_refused(written: str, message: str) -> None:
    found = check(PLAYBOOK.format(requirements=written, code="result = 1"))[1]
    assert any(message in d.message and d.severity == "error" for d in found), found


def test_requirements_are_read_in_one_form() -> None:
    text = PLAYBOOK.format(requirements='["Pandas == 2.2.3", "b[x] >=1,<2"]', code="result = 1")
    playbook = parse_playbook(text)
    assert playbook.executor.requirements == ("b[x]<2,>=1", "pandas==2.2.3")
    assert parse_playbook(dump(playbook)).executor.requirements == playbook.executor.requirements
    assert digest(["a", "b"]) == digest(["b", "a"]) != digest(["a"])


def test_packages_are_installed_once_and_whole(tmp_path: Path) -> None:
    finder, found = LocalPackages(tmp_path), []
    threads = [threading.Thread(target=lambda: found.append(finder((SAMPLE,)))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [str(finder.folder((SAMPLE,)))] * 4
    made = Path(found[0], "noetl_sample.py").stat().st_mtime_ns
    assert (LocalPackages(tmp_path)((SAMPLE,)), Path(found[0], "noetl_sample.py").stat().st_mtime_ns) == (found[0], made)


def test_a_package_that_cannot_be_installed_fails_the_task_and_leaves_nothing(tmp_path: Path) -> None:
    failed = run("result = 1", '["noetl-sample==9"]')
    assert (failed.error["kind"], failed.error["retryable"]) == ("unsupported", False)
    assert failed.error["message"].startswith("python: cannot install noetl-sample==9: ")
    assert list((tmp_path / "home" / "packages").iterdir()) == []


def test_only_wheels_are_installed(index_here: Path) -> None:
    """The code of a source distribution would run outside the sandbox."""
    (index_here / "evil-1.0.tar.gz").write_bytes(b"")
    assert "evil" in run("result = 1", "[evil]").error["message"]
    assert not list(index_here.glob("*.egg-info"))


@pytest.fixture
def layer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    root = tmp_path / "opt" / "python"
    for name, lines in {"small": f"{SAMPLE}\n", "large": f"# all of us\n{SAMPLE}  # this one\nother>=1\n"}.items():
        (root / layers.FOLDER / name).mkdir(parents=True)
        (root / layers.FOLDER / name / "requirements.txt").write_text(lines)
        (root / layers.FOLDER / name / "noetl_sample.py").write_text(f"name = {name!r}")
    monkeypatch.syspath_prepend(root)
    layers.sets.cache_clear()
    yield root
    layers.sets.cache_clear()


def deployed(tool: PythonTool, *requirements: str) -> Any:
    code = "import noetl_sample\nresult = noetl_sample.name"
    call = ToolCall("python", {"code": code}, requirements=requirements, packages=layers.deployed)
    return invoke(tool, call)


def test_on_a_stack_the_smallest_set_that_has_the_requirements_is_taken(layer: Path, tool: PythonTool) -> None:
    assert deployed(tool, SAMPLE).result == "small"
    assert deployed(tool, "other>=1").result == "large"
    assert deployed(tool, SAMPLE, "other>=1").result == "large"


def test_a_task_whose_packages_the_stack_lacks_names_the_deploy_command(layer: Path, tool: PythonTool) -> None:
    error = deployed(tool, "pandas==2.2.3").error
    assert (error.kind, error.retryable) == ("unsupported", False)
    assert error.message == (
        "python: this stack has no packages for pandas==2.2.3 (it has noetl-sample==1.0, other>=1): deploy them with"
        " `noetl up --packages FILE`, where FILE is the playbook or a requirements.txt"
    )
    with pytest.raises(MissingPackages, match="noetl up --packages"):
        layers.deployed(("pandas",))


@pytest.mark.nightly
def test_the_command_installs_before_the_run_and_says_so(tmp_path: Path) -> None:
    file = tmp_path / "playbook.yaml"
    file.write_text(PLAYBOOK.format(code="import noetl_sample\\nresult = noetl_sample.double(2)", requirements=f"[{SAMPLE}]"))
    done = commands.run("run", str(file), cwd=tmp_path, env=dict(os.environ))
    assert (done.returncode, "4\n" in done.stdout) == (0, True), done.stderr
    assert f"installing {SAMPLE} into home/packages/" in done.stderr
    again = commands.run("run", str(file), cwd=tmp_path, env=dict(os.environ))
    assert (again.returncode, "installing" in again.stderr) == (0, False)
    file.write_text(file.read_text().replace(SAMPLE, "noetl-sample==9"))
    refused = commands.run("run", str(file), cwd=tmp_path, env=dict(os.environ))
    assert (refused.returncode, "cannot install noetl-sample==9: " in refused.stderr) == (2, True)


FRAMES = """class Column(list):
    def mean(self):
        return sum(self) / len(self)


class DataFrame:
    def __init__(self, rows):
        self.rows = rows

    def __getitem__(self, name):
        return Column(row[name] for row in self.rows)
"""


@pytest.mark.nightly
def test_the_example_of_the_page_runs(index_here: Path) -> None:
    page = (ROOT / "docs" / "tools" / "python.md").read_text()
    example = next(block for block in re.findall(r"```yaml\n(.*?)```", page, re.DOTALL) if "requirements" in block)
    wheel(index_here, "pandas", "2.2.3", FRAMES)
    done = noetl_core.run(example, timeout_s=60)
    assert (done.error, done.result) == (None, 2.0)
