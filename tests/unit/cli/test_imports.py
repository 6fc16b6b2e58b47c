"""`noetl import asl` from the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from noetl_cli.errors import Exit
from tests import commands

MACHINE: dict[str, Any] = {"StartAt": "A", "States": {"A": {"Type": "Pass", "Result": 5, "End": True}}}
PARALLEL: dict[str, Any] = {
    "StartAt": "P",
    "States": {
        "P": {
            "Type": "Parallel",
            "Branches": [MACHINE],
            "Catch": [{"ErrorEquals": ["States.ALL"], "Next": "E"}],
            "End": True,
        },
        "E": {"Type": "Succeed"},
    },
}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my-machine.asl.json").write_text(json.dumps(MACHINE))
    (tmp_path / "parallel.json").write_text(json.dumps(PARALLEL))
    (tmp_path / "fn.json").write_text('{"StartAt": "A", "States": {"A": {"Type": "Task", "Resource": "${Fn}", "End": true}}}')
    return tmp_path


def code(result: Result) -> int:
    return result.exception.code if isinstance(result.exception, Exit) else 0 if result.exception is None else -1


def test_a_playbook_goes_to_standard_output() -> None:
    result = commands.in_process("import", "asl", "my-machine.asl.json")
    assert code(result) == 0
    assert result.stdout.startswith("apiVersion: noetl.io/v2\n")
    assert "path: imported/my_machine" in result.stdout


def test_findings_go_to_standard_error_and_the_code_is_one() -> None:
    result = commands.in_process("import", "asl", "fn.json", "--path", "team/fn")
    assert code(result) == 1
    assert "path: team/fn" in result.stdout
    assert (
        "fn.json#/States/A/Resource [A] attention: the resource ${Fn} is treated as a Lambda function (pass --set Fn=ARN)\n"
        in result.output
    )
    assert (
        code(commands.in_process("import", "asl", "fn.json", "--set", "Fn=arn:aws:lambda:us-east-1:123456789012:function:f")) == 0
    )


def test_several_playbooks_need_a_folder(folder: Path) -> None:
    result = commands.in_process("import", "asl", "parallel.json")
    assert (code(result), "--into FOLDER" in str(result.exception)) == (2, True)
    result = commands.in_process("import", "asl", "parallel.json", "--into", "out")
    assert (code(result), result.stdout.split()) == (0, ["out/parallel.yaml", "out/parallel_p.yaml"])
    assert commands.in_process("validate", "out").exception is None
    again = commands.in_process("import", "asl", "parallel.json", "--into", "out")
    assert (code(again), "nothing is overwritten" in str(again.exception)) == (2, True)


def test_importing_a_file_without_a_state_machine_exits_with_two(folder: Path) -> None:
    (folder / "no.json").write_text("{}")
    result = commands.in_process("import", "asl", "no.json")
    assert (code(result), str(result.exception).startswith("no.json: / has no States")) == (2, True)


def test_programs_get_playbooks_and_findings() -> None:
    found = json.loads(commands.in_process("import", "asl", "fn.json", "--output", "json").stdout.splitlines()[0])[0]
    assert list(found["playbooks"]) == ["imported/fn"]
    assert [(each["state"], each["pointer"], each["level"]) for each in found["findings"]] == [
        ("A", "/States/A/Resource", "attention")
    ]
