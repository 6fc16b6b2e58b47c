"""The layer installs what the project depends on, less what only the command line needs."""

from __future__ import annotations

import tomllib
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).parents[3]
COMMAND_LINE = {"typer", "click", "rich"}


def test_the_layers_requirements_are_the_projects() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    lines = (ROOT / "layers" / "noetl_core" / "requirements.txt").read_text().splitlines()
    layer = [line for line in lines if line.strip() and not line.startswith("#")]
    wanted = {r for line in project if (r := str(Requirement(line))) and Requirement(line).name not in COMMAND_LINE}
    assert {str(Requirement(line)) for line in layer} == wanted
