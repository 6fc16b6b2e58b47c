"""`noetl fmt` from the command line."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from noetl_cli.errors import Exit
from tests import commands

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: { name: a, path: a }\n"
UGLY = HEAD + "workflow:\n- tool: { kind: noop }   # nothing\n  step: a\n"
NEAT = HEAD + "workflow:\n  - step: a\n    tool: { kind: noop }   # nothing\n"


@pytest.fixture(autouse=True)
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "flow.yaml"
    path.write_text(UGLY)
    return path


def test_files_are_rewritten_once(file: Path) -> None:
    first = commands.in_process("fmt", ".")
    assert (first.exception, first.stdout, file.read_text()) == (None, "flow.yaml formatted\n", NEAT)
    again = commands.in_process("fmt", "flow.yaml")
    assert (again.exception, again.stdout, file.read_text()) == (None, "", NEAT)


def test_check_writes_nothing_and_exits_with_one(file: Path) -> None:
    checked = commands.in_process("fmt", "--check", "flow.yaml")
    assert isinstance(checked.exception, Exit)
    assert (checked.exception.code, checked.stdout, file.read_text()) == (1, "flow.yaml would be formatted\n", UGLY)
    file.write_text(NEAT)
    assert commands.in_process("fmt", "--check", "flow.yaml").exception is None


def test_diff_prints_the_changes_and_writes_nothing(file: Path) -> None:
    shown = commands.in_process("fmt", "--diff", "flow.yaml")
    assert shown.stdout.startswith("--- flow.yaml\n+++ flow.yaml (formatted)\n")
    assert "+  - step: a\n" in shown.stdout
    assert file.read_text() == UGLY


def test_a_file_that_cannot_be_read_stays_and_the_others_are_formatted(file: Path) -> None:
    broken = file.with_name("broken.yaml")
    broken.write_text(HEAD + "workflow: [\n")
    done = commands.in_process("fmt", "broken.yaml", "flow.yaml")
    assert isinstance(done.exception, Exit)
    assert done.exception.code == 2
    assert "broken.yaml:" in done.output
    assert (broken.read_text(), file.read_text()) == (HEAD + "workflow: [\n", NEAT)


def test_standard_input_is_formatted_to_standard_output() -> None:
    done = CliRunner().invoke(commands._command(), ["fmt", "-"], input=UGLY)
    assert (done.exception, done.stdout) == (None, NEAT)
