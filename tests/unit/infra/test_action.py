"""actions/noetl: the action that checks playbooks in CI. Its steps run here as its runner runs them, with a `gh` that only writes
down what it gets."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[3]
ACTION = ROOT / "actions/noetl/action.yml"
BIN = Path(sys.executable).parent
PLAYBOOK = """apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: orders, path: mine/orders }
executor: { spec: { strict: true } }
workflow:
  - step: fetch
    tool: { name: request, kind: http, url: "https://example.com/orders" }
    next: { arcs: [{ step: count }] }
  - step: count
    tool: { name: count, kind: noop, result: "{{ steps.fetch.result.data | length }}" }
"""
TEST = "test: orders are counted\ntools: { fetch.request: { ok: { data: [{ id: 1 }, { id: 2 }] } } }\nexpect: { result: 2 }\n"
CHANGED = (
    PLAYBOOK.replace("| length }}", "| length + 1 }}").replace("[{ step: count }]", "[{ step: check }]")
    + "  - step: check\n    tool: { name: look, kind: python, code: result = 1 }\n    next: { arcs: [{ step: count }] }\n"
)
WRITES_DOWN = '#!/bin/sh\nprintf "%s\\n" "$(basename "$0") $*" >> "$CALLS"\nfor last; do :; done\n'


def action() -> dict[str, Any]:
    document: dict[str, Any] = yaml.safe_load(ACTION.read_text())
    return document


def test_the_action_is_one_and_others_that_it_uses_are_pinned() -> None:
    check = [str(BIN / "check-jsonschema"), "--builtin-schema", "vendor.github-actions", str(ACTION)]
    done = subprocess.run(check, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    used = [step["uses"] for step in action()["runs"]["steps"] if "uses" in step]
    assert used and all(re.search(r"@[0-9a-f]{40}$", name) for name in used)


def git(folder: Path, *arguments: str) -> str:
    names = {f"GIT_{who}_{what}": "test@example.org" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    done = subprocess.run(
        ["git", *arguments], cwd=folder, env={**os.environ, **names}, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def rendered(text: str, values: dict[str, str]) -> str:
    return re.sub(r"\$\{\{ (.*?) \}\}", lambda found: values[found[1].partition(" || ")[0]], text)


@pytest.mark.nightly
def test_a_pull_request_gets_findings_test_results_and_a_report(tmp_path: Path) -> None:
    """The changed playbook is valid, its test fails, and the report has what differs and what it will cost."""
    folder = tmp_path / "repository"
    (folder / "playbooks").mkdir(parents=True)
    (folder / "playbooks/orders.yaml").write_text(PLAYBOOK)
    (folder / "playbooks/orders.test.yaml").write_text(TEST)
    git(folder, "init", "-q")
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "before")
    base = git(folder, "rev-parse", "HEAD")
    (folder / "playbooks/orders.yaml").write_text(CHANGED)
    git(folder, "commit", "-qam", "after")
    fakes = tmp_path / "bin"
    fakes.mkdir()
    for name in ("gh", "pip"):
        (fakes / name).write_text(WRITES_DOWN)
        (fakes / name).chmod(0o755)
    values = {f"inputs.{name}": str(field["default"]) for name, field in action()["inputs"].items()}
    values |= {
        "inputs.playbooks": "playbooks",
        "inputs.base": base,
        "github.token": "t",
        "github.event.pull_request.head.sha": "5e",
        "github.event.pull_request.number": "7",
    }
    files = {name: tmp_path / name for name in ("GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY", "CALLS")}
    environment = {
        **os.environ,
        **{name: str(file) for name, file in files.items()},
        "PATH": f"{fakes}:{BIN}:{os.environ['PATH']}",
        "GITHUB_ACTION_PATH": str(ACTION.parent),
        "GITHUB_REPOSITORY": "mine/shop",
        "GITHUB_REF": "refs/pull/7/merge",
        "NOETL_HOME": str(tmp_path / "home"),
    }
    codes = {}
    for step in (step for step in action()["runs"]["steps"] if "run" in step):
        files["GITHUB_OUTPUT"].write_text("")
        step_variables = {name: rendered(text, values) for name, text in step.get("env", {}).items()}
        command = ["bash", "--noprofile", "--norc", "-e", "-o", "pipefail", "-c", rendered(step["run"], values)]
        done = subprocess.run(
            command, cwd=folder, env={**environment, **step_variables}, capture_output=True, text=True, check=False
        )
        codes[step["name"]] = done.returncode
        for line in files["GITHUB_OUTPUT"].read_text().splitlines():
            name, _, value = line.partition("=")
            values[f"steps.{step['id']}.outputs.{name}"] = value
    assert {name for name, code in codes.items() if code} == {"Judge"}, "its test fails, and so does the job"
    assert (values["steps.validate.outputs.code"], values["steps.test.outputs.code"]) == ("0", "1")
    assert json.loads((folder / "noetl.sarif").read_text())["version"] == "2.1.0"
    assert "<testcase" in (folder / "junit.xml").read_text() and "<failure" in (folder / "junit.xml").read_text()
    report = (folder / "noetl.md").read_text()
    assert files["GITHUB_STEP_SUMMARY"].read_text() == report
    assert (
        "\nFAILED playbooks/orders.test.yaml:1 orders are counted\n  playbooks/orders.test.yaml:3: result is 3, expected 2\n"
        in report
    )
    assert "validate: passed, test: failed" in report and "<code>playbooks/orders.yaml</code>" in report
    for line in (
        "+ step check",
        "~ step count",
        "+ arc fetch -> check",
        "- arc fetch -> count",
        "mine/orders, by the structure alone",
    ):
        assert f"\n{line}\n" in report, report
    assert re.search(r"^cost: \$0\.0000\d+ to \$", report, re.MULTILINE) and "\nassumes:\n" in report
    calls = files["CALLS"].read_text().splitlines()
    assert calls[0] == f"pip install --quiet {ACTION.parent}/../..[sql]"
    assert calls[1].startswith("gh api --silent repos/mine/shop/code-scanning/sarifs -f commit_sha=5e -f ref=refs/pull/7/merge")
    assert calls[2] == "gh pr comment 7 --repo mine/shop --edit-last --create-if-none --body-file noetl.md"
