"""Registering says what the workers of a stack lack for a playbook."""

from __future__ import annotations

import pytest

from noetl_core.control.deployment.worker_tools import WorkerTools
from noetl_core.dsl.parse import parse_playbook

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: { name: a, path: t/a }\n"
SOURCE = (
    HEAD
    + """executor: { spec: { python: { requirements: [pandas>=2, numpy] } } }
workflow:
  - step: one
    tool:
      - { name: circuit, kind: quantum, circuit: "OPENQASM 3.0;" }
      - { name: list_files, kind: shell, script: ls }
      - { name: more_files, kind: shell, script: ls }
"""
)


@pytest.mark.parametrize(
    ("environment", "lacking"),
    [
        (
            {"TOOL_LAYERS": "", "ALLOW_SHELL": "no"},
            [
                "task circuit: the stack has no layer with kind quantum (add it: noetl up --tools noetl-quantum, or the parameter ToolLayers)",
                "requirements: the stack has no layer with numpy, pandas>=2 (add it: noetl up --packages FILE, or the parameter ToolLayers)",
                "task list_files: the stack runs no commands of playbooks (its parameter AllowShell is no)",
            ],
        ),
        ({"TOOL_LAYERS": "arn:aws:lambda:us-east-1:000000000000:layer:x:1", "ALLOW_SHELL": "python"}, []),
    ],
)
def test_tools_and_packages_that_no_worker_has_are_warnings(environment: dict[str, str], lacking: list[str]) -> None:
    assert list(WorkerTools.from_environment(environment).lacking(parse_playbook(SOURCE))) == lacking
