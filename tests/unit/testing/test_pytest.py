"""Tests in Python: `noetl_core.testing.run`, and the fixture of pytest."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from noetl_core.testing import run
from tests.unit.testing.scenes import FETCH, HEAD, LONG

PLUGIN = "noetl_cli.pytest_plugin"
TEST = """
import sys

def test_a_test_without_the_fixture_does_not_import_noetl_core():
    assert not [name for name in sys.modules if name.startswith("noetl_core")]

def test_orders(noetl):
    assert "noetl_core.testing" not in sys.modules
    played = noetl.run("flow.yaml", {"limit": 5}, tools={"fetch.page": {"ok": {"data": [1, 2]}}})
    assert (played.status, played.path, played.result["data"]) == ("completed", ["fetch"], [1, 2])
    assert played.calls_of("fetch")[0]["url"] == "http://shop.example/orders"

def test_a_text_of_json(noetl):
    assert noetl.run('{"workflow": [{"step": "a", "tool": {"kind": "noop", "result": "' + "x" * 300 + '"}}],'
        ' "apiVersion": "noetl.io/v2", "kind": "Playbook", "metadata": {"name": "a", "path": "a"}}').result == "x" * 300

def test_missing(noetl):
    noetl.run("flow.yaml")
"""


def test_a_playbook_is_tested_in_python() -> None:
    seen = []

    def page(url: str) -> dict[str, object]:
        seen.append(url)
        return {"ok": {"data": 7}}

    played = run(HEAD + FETCH, tools={"fetch": page}, now="2026-02-01")
    assert (played.result["data"], seen) == (7, ["http://shop.example/orders"])
    assert played.events()[0]["timestamp"] == "2026-02-01T00:00:00.000000Z"
    played.close()


def test_signals_and_time_are_part_of_the_test() -> None:
    text = HEAD + LONG + "workflow:\n  - step: ask\n    tool: { kind: callback, signal: go }\n"
    told = run(text, acts=[{"signal": "go", "data": 1, "after": "200d"}])
    assert (told.result, told.seconds) == (1, 200 * 86_400)
    assert run(text, until="waiting").status == "waiting"


@pytest.mark.parametrize(
    ("tools", "acts", "message"),
    [
        (
            {},
            [],
            "task fetch.page: no outcome is scripted, and it would reach outside the test; for example tools={'fetch.page': ...}",
        ),
        (
            {"fetch": {"ok": 5}},
            [],
            "task fetch.page: an http task gives {status, headers, data, url, elapsed_ms}: write the body",
        ),
        ({"fetch": [{"ok": {}}, {"ok": {}}]}, [], "outcome 2 of fetch answered no call"),
        ({"fetch": {"ok": {}}}, [{"signal": "go"}], "signal go never happened"),
    ],
)
def test_missing_or_unused_outcomes_and_acts_fail_the_test(tools: object, acts: list[dict[str, object]], message: str) -> None:
    with pytest.raises(AssertionError) as wrong:
        run(HEAD + FETCH, tools=tools, acts=acts)
    assert str(wrong.value).startswith(message)


@pytest.mark.untraced
def test_the_fixture_runs_playbooks_and_costs_other_projects_nothing(tmp_path: Path) -> None:
    (tmp_path / "flow.yaml").write_text(HEAD + FETCH)
    (tmp_path / "test_flow.py").write_text(TEST)
    command = [sys.executable, "-m", "pytest", "-q", "-p", PLUGIN, "--rootdir", str(tmp_path), "test_flow.py"]
    alone = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}  # loading those of this repository takes seconds
    done = subprocess.run(command, cwd=tmp_path, env=alone, capture_output=True, text=True, check=False)
    assert "1 failed, 3 passed" in done.stdout, done.stdout + done.stderr
    assert "AssertionError: task fetch.page: no outcome is scripted, and it would reach outside the test" in done.stdout
