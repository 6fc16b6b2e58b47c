"""The project's own instructions: what they name is there, and says the same everywhere."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

import noetl_core

ROOT = Path(__file__).parents[3]
BIN = Path(sys.executable).parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
MAKEFILE = (ROOT / "Makefile").read_text()
TARGETS = set(re.findall(r"^([a-z][a-z0-9-]*):", MAKEFILE, re.MULTILINE))
DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("tests/**/*.md")])
WORKFLOWS = sorted(ROOT.glob(".github/workflows/*.yml"))
CORE = ROOT / "layers" / "noetl_core" / "noetl_core"


def commands(workflow: Path) -> list[str]:
    jobs = yaml.safe_load(workflow.read_text())["jobs"].values()
    return [step["run"] for job in jobs for step in job["steps"] if "run" in step]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda p: str(p.relative_to(ROOT)))
def test_make_targets_named_in_a_document_exist(document: Path) -> None:
    told = set(re.findall(r"(?:`|^)make ([a-z][a-z0-9-]*)", document.read_text(), re.MULTILINE))
    assert told - TARGETS == set()


def test_every_target_is_one_that_makes_no_file() -> None:
    (phony,) = re.findall(r"^\.PHONY: (.+)$", MAKEFILE, re.MULTILINE)
    assert set(phony.split()) == TARGETS


def test_the_workflows_are_workflows() -> None:
    check = [str(BIN / "check-jsonschema"), "--builtin-schema", "vendor.github-workflows", *map(str, WORKFLOWS)]
    done = subprocess.run(check, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda p: p.name)
def test_targets_executables_and_files_of_a_workflow_exist(workflow: Path) -> None:
    assert commands(workflow)
    for command in commands(workflow):
        assert set(re.findall(r"\bmake ([a-z0-9-]+)", command)) <= TARGETS
        for executable in re.findall(r"\.venv/bin/([\w-]+)", command):
            assert (BIN / executable).exists(), executable
        for file in re.findall(r"tests/[\w/.]+", command):
            assert (ROOT / file).exists(), file


def test_the_tests_run_on_every_python_that_the_project_says_it_takes() -> None:
    matrix = yaml.safe_load((ROOT / ".github/workflows/test.yml").read_text())["jobs"]["test"]["strategy"]["matrix"]["python"]
    versions = [c.rpartition(" ")[2] for c in PROJECT["project"]["classifiers"] if re.search(r"Python :: 3\.\d+$", c)]
    assert matrix == versions
    assert PROJECT["project"]["requires-python"] == f">={versions[0]}"
    assert (
        PROJECT["tool"]["mypy"]["python_version"] == versions[0]
        and PROJECT["tool"]["ruff"]["target-version"] == f"py{versions[0].replace('.', '')}"
    )


def test_the_hooks_are_the_checks_that_come_before_the_tests() -> None:
    subprocess.run([BIN / "pre-commit", "validate-config", ROOT / ".pre-commit-config.yaml"], check=True, capture_output=True)
    (local,) = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]
    for hook in local["hooks"]:
        executable, *arguments = hook["entry"].removeprefix(".venv/bin/").split()
        assert (BIN / executable).exists(), hook["id"]
        assert f"$(BIN)/{' '.join([executable, *arguments])}" in MAKEFILE, hook["id"]


def test_the_version_stands_in_one_place() -> None:
    written = re.compile(rf"(?<![\d.]){re.escape(noetl_core.__version__)}(?![\d.])")
    python = [p for folder in ("layers", "cli", "infra", "functions") for p in (ROOT / folder).rglob("*.py")]
    others = [ROOT / "template.yaml", ROOT / "samconfig.toml", ROOT / "README.md", ROOT / "Makefile"]
    assert [p.relative_to(CORE).as_posix() for p in (*python, *others) if written.search(p.read_text())] == ["__init__.py"]
    assert PROJECT["project"]["dynamic"] == ["version"]
    released = re.findall(r"^## (.+)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert released[0] == "Unreleased" or released[0].startswith(noetl_core.__version__)


def test_files_tests_and_modules_named_in_contributing_exist() -> None:
    """CONTRIBUTING.md names paths from noetl_core or from the root, and the `-k` of its example selects a test."""
    text = (ROOT / "CONTRIBUTING.md").read_text()
    named = re.findall(
        r"`((?:dsl|engine|events|expr|control|worker|tools|adapters|plugins|cli|infra|tests|layers)/[\w./]+)`", text
    )
    assert len(named) > 8
    assert [name for name in named if not (CORE / name).exists() and not (ROOT / name).exists()] == []
    (example,) = re.findall(r"^\.venv/bin/pytest (\S+) -k (\w+)$", text, re.MULTILINE)
    assert re.search(rf"def test_\w*{example[1]}", (ROOT / example[0]).read_text())
    for module in re.findall(r"`python -m ([\w.]+)", text):
        path = module.replace(".", "/")
        files = [base / each for base in (ROOT, CORE.parent) for each in (f"{path}.py", f"{path}/__main__.py")]
        assert any(file.exists() for file in files), module
