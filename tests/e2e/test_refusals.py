"""A playbook with a mistake is refused with place, code and hint, and leaves nothing behind."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from noetl_infra.stack import Stack
from tests.commands import run
from tests.e2e.support import Api

BAD = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: bad, path: tests/bad }
workflow:
  - step: start
    tool: { kind: noop }
    next:
      arcs:
        - step: valdate
  - step: validate
    tool: { kind: noop }
"""


@pytest.mark.parametrize("path", ["/api/executions", "/api/playbooks"])
def test_the_api_answers_422_and_keeps_nothing(api: Api, path: str) -> None:
    status, answer = api.call("POST", path, {"playbook": BAD})
    assert status == 422
    (detail,) = answer["error"]["details"]
    assert re.search(r":9:\d+$", detail["loc"]), detail
    assert "valdate" in detail["message"]
    assert "validate" in detail["hint"]
    assert api.executions("tests/bad") == []
    assert api.call("GET", "/api/playbooks?prefix=tests/bad")[1]["playbooks"] == []


@pytest.mark.parametrize("command", [["validate"], ["run"], ["run", "--on", "stack"]], ids=" ".join)
def test_the_command_line_exits_2_with_file_line_and_column(stack: Stack, tmp_path: Path, command: list[str]) -> None:
    file = tmp_path / "flow.yaml"
    file.write_text(BAD)
    done = run(*command, str(file), cwd=tmp_path)
    assert done.returncode == 2, done.stdout + done.stderr
    output = done.stdout + done.stderr
    assert re.search(r"flow\.yaml:9:\d+ \w+\d+ .*valdate", output), output
    assert "validate" in output
