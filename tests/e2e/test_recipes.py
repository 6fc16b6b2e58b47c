"""Recipes that need the embedded stack."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from noetl_infra.stack import Stack
from tests.commands import ENV
from tests.page_sessions import examples, write_files

pytestmark = pytest.mark.e2e
PAGE = (Path(__file__).parents[2] / "docs/recipes/embedded-s3.md").read_text()


@pytest.mark.nightly
def test_programs_and_local_runs_reach_the_embedded_s3(stack: Stack, tmp_path: Path) -> None:
    write_files(PAGE, tmp_path)
    ((command, shown),) = examples(PAGE)
    (variables,) = re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL)
    (program,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    (tmp_path / "put.py").write_text(program)
    found = variables.replace("$(noetl status --output json | jq -r .endpoint)", stack.endpoint)
    assert found != variables
    path = f"{Path(sys.executable).parent}:{ENV['PATH']}"
    script = f"set -e\n{found}\npython put.py\n{command}"
    done = subprocess.run(
        ["bash", "-c", script], cwd=tmp_path, env={**ENV, "PATH": path}, capture_output=True, text=True, timeout=120, check=False
    )
    assert (done.returncode, done.stdout.split()) == (0, shown), done.stderr
