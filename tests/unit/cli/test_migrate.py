"""`noetl migrate`: what goes where, and the exit codes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests import commands
from tests.commands import Completed

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: { name: old, path: test/old }\n"
OLD = (
    HEAD
    + "workflow:\n  - step: a   # first\n    tool: { kind: noop, result: 1 }\n    next: b\n  - { step: b, tool: { kind: noop } }\n"
)
NEW = HEAD + (
    "workflow:\n  - step: a   # first\n    tool: { kind: noop, result: 1 }\n    next:\n      arcs:\n        - step: b\n"
    "  - { step: b, tool: { kind: noop } }\n"
)
WRONG = HEAD + "workflow:\n  - step: a\n    type: http\n"

Run = Callable[..., Completed]


@pytest.fixture
def noetl(tmp_path: Path) -> Run:
    for name, text in (("old", OLD), ("new", NEW), ("wrong", WRONG)):
        (tmp_path / f"{name}.yaml").write_text(text)

    def run(*arguments: str) -> Completed:
        return commands.run(*arguments, cwd=tmp_path)

    return run


def test_the_new_text_goes_to_standard_output_and_validates(noetl: Run, tmp_path: Path) -> None:
    done = noetl("migrate", "old.yaml")
    assert (done.returncode, done.stdout, done.stderr) == (0, NEW, "")
    assert (tmp_path / "old.yaml").read_text() == OLD
    (tmp_path / "out.yaml").write_text(done.stdout)
    assert noetl("validate", "out.yaml").returncode == 0
    assert noetl("migrate", "out.yaml").stdout == done.stdout


def test_check_writes_nothing_and_lists_the_files_that_would_change(noetl: Run, tmp_path: Path) -> None:
    done = noetl("migrate", "--check", "old.yaml", "new.yaml")
    assert (done.returncode, done.stdout) == (1, "old.yaml would be rewritten\n")
    assert noetl("migrate", "--check", "new.yaml").returncode == 0
    assert (tmp_path / "old.yaml").read_text() == OLD


def test_diff_shows_the_change(noetl: Run) -> None:
    done = noetl("migrate", "--diff", "old.yaml", "new.yaml")
    assert done.returncode == 0
    assert done.stdout.splitlines()[:2] == ["--- old.yaml", "+++ old.yaml (migrated)"]
    changed = [line for line in done.stdout.splitlines()[2:] if line[0] in "+-"]
    assert changed == ["-    next: b", "+    next:", "+      arcs:", "+        - step: b"]
    assert noetl("migrate", "--diff", "--check", "old.yaml").returncode == 1


def test_in_place_rewrites_and_leaves_the_rest_alone(noetl: Run, tmp_path: Path) -> None:
    (tmp_path / "windows.yaml").write_bytes(OLD.replace("\n", "\r\n").encode())
    (tmp_path / "old.yaml").chmod(0o640)
    before = (tmp_path / "new.yaml").stat().st_mtime_ns
    done = noetl("migrate", "--in-place", "old.yaml", "new.yaml", "windows.yaml")
    assert (done.returncode, done.stdout) == (0, "old.yaml rewritten\nwindows.yaml rewritten\n")
    assert (tmp_path / "old.yaml").read_text() == NEW
    assert (tmp_path / "old.yaml").stat().st_mode & 0o777 == 0o640
    assert (tmp_path / "windows.yaml").read_bytes() == NEW.replace("\n", "\r\n").encode()
    assert (tmp_path / "new.yaml").stat().st_mtime_ns == before
    assert noetl("migrate", "--in-place", "old.yaml").stdout == ""


def test_a_file_that_cannot_be_rewritten_exits_2_and_stops_no_other(noetl: Run, tmp_path: Path) -> None:
    done = noetl("migrate", "--in-place", "wrong.yaml", "old.yaml")
    assert done.returncode == 2
    assert done.stderr.splitlines() == [
        'wrong.yaml:6:5 E127 "type" of a step is a form of neither dialect: kind of the tool says what runs (rewrite this manually)',
        "not rewritten: wrong.yaml",
    ]
    assert ((tmp_path / "wrong.yaml").read_text(), (tmp_path / "old.yaml").read_text()) == (WRONG, NEW)


@pytest.mark.parametrize(
    "arguments",
    [("old.yaml", "new.yaml"), ("--in-place", "--check", "old.yaml"), ("nowhere.yaml",), ("--in-place", "-"), (".",)],
    ids=["two files to one output", "in place and check", "no such file", "standard input in place", "a folder to one output"],
)
def test_misuse_ends_with_2(noetl: Run, arguments: tuple[str, ...]) -> None:
    done = noetl("migrate", *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr


def test_a_refused_playbook_names_the_command(noetl: Run) -> None:
    assert "rewrite it with `noetl migrate`" in noetl("validate", "old.yaml").stdout


def test_a_file_of_a_called_playbook_becomes_its_path(noetl: Run, tmp_path: Path) -> None:
    call = HEAD + "workflow:\n  - step: a\n    tool: { kind: playbook, path: %s }   # the other\n"
    (tmp_path / "calls.yaml").write_text(call % "./new.yaml")
    (tmp_path / "new.yaml").write_text(NEW.replace("test/old", "test/new"))
    assert noetl("migrate", "calls.yaml", "--check").returncode == 1
    assert noetl("migrate", "calls.yaml").stdout == call % "test/new"
    assert noetl("validate", "calls.yaml").returncode == 0
    assert noetl("migrate", "calls.yaml", "--in-place").returncode == 0
    assert noetl("migrate", "calls.yaml", "--check").returncode == 0
    done = noetl("run", "calls.yaml")
    assert (done.returncode, "test/new version 1, from new.yaml" in done.stderr) == (0, True)
