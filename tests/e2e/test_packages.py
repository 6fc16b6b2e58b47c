"""On the stack, python tasks see the packages of its layer and nothing of the machine that it runs on."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from noetl_infra.stack import Stack
from tests.commands import ENV, run
from tests.packages import SAMPLE

PLAYBOOK = """apiVersion: noetl.io/v2
kind: Playbook
metadata: {{ name: packages, path: tests/e2e-packages }}
executor: {{ spec: {{ python: {{ requirements: {requirements} }} }} }}
workflow:
  - step: start
    tool:
      kind: python
      code: |
        {code}
"""

pytestmark = pytest.mark.skipif("NOETL_E2E_ENDPOINT" in os.environ, reason="the layer is that of the embedded stack")


def on_stack(stack: Stack, folder: Path, code: str, requirements: str = "[]") -> tuple[int, str]:
    file = folder / "packages.yaml"
    file.write_text(PLAYBOOK.format(code=code, requirements=requirements))
    done = run("run", str(file), "--on", "stack", cwd=folder, env={**ENV, "NOETL_API_URL": stack.api_url})
    return done.returncode, done.stdout + done.stderr


def test_a_task_imports_the_packages_of_the_stack(stack: Stack, tmp_path: Path) -> None:
    code, output = on_stack(stack, tmp_path, "import noetl_sample, httpx; result = noetl_sample.double(21)", f'["{SAMPLE}"]')
    assert (code, "42" in output) == (0, True), output


@pytest.mark.nightly
def test_a_task_sees_nothing_of_the_machine_that_the_stack_runs_on(stack: Stack, tmp_path: Path) -> None:
    for module in ("numpy", "ministack", "noetl_sample"):
        code, output = on_stack(stack, tmp_path, f"import {module}")
        assert (code, f"No module named '{module}'" in output) == (1, True), output


def test_a_package_that_the_stack_lacks_is_named_with_the_remedy(stack: Stack, tmp_path: Path) -> None:
    code, output = on_stack(stack, tmp_path, "result = 1", '["pandas==2.2.3"]')
    assert (code, "this stack has no packages for pandas==2.2.3 (it has noetl-sample==1.0)" in output) == (1, True), output
    assert "noetl up --packages FILE" in output
