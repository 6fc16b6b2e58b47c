"""Disks that are full, stores that can only be read, output that goes nowhere, objects that are gone: what is said, and what is kept."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests import commands
from tests.commands import ENV, NOETL, Completed, Prepare

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: { name: p, path: test/p }\nworkload: { n: 2000 }\nworkflow:\n"
LARGE = (
    HEAD
    + """\
  - step: start
    tool: { kind: noop, result: "{{ range(workload.n) | list }}" }
    next:
      arcs:
        - { step: one, when: "{{ event.result | length > 1 }}" }
  - step: one
    tool: { kind: noop, result: "{{ steps.start.result[1] }}" }
"""
)
LOOP = (
    HEAD
    + """\
  - step: start
    loop: { in: "{{ range(workload.n) | list }}", iterator: i, spec: { mode: sequential } }
    tool: { kind: noop, result: "{{ 'x' ~ (iter.i + 10007) ** 290 ~ (iter.i + 12345) ** 290 }}" }
"""
)
"""Its log cannot be compressed to less than half: the digits of large numbers."""
FAILS = HEAD + "  - step: start\n    tool: { kind: http, url: 'http://127.0.0.1:1/' }\n"
Run = Callable[..., Completed]


@pytest.fixture
def noetl(tmp_path: Path) -> Run:
    for name, source in (("large", LARGE), ("loop", LOOP), ("fails", FAILS)):
        (tmp_path / f"{name}.yaml").write_text(source)

    def run(*arguments: str, prepare: Prepare = ()) -> Completed:
        return commands.run(*arguments, cwd=tmp_path, prepare=prepare)

    return run


@pytest.fixture
def shell(noetl: Run, tmp_path: Path) -> Run:
    def run(*arguments: str, behind: str) -> Completed:
        """The command itself, and what a shell has behind it: its interpreter starts with streams that are closed or full."""
        command = ["sh", "-c", f'"$0" "$@" {behind}', str(NOETL), *arguments]
        return subprocess.run(command, cwd=tmp_path, env=ENV, capture_output=True, text=True, timeout=60, check=False)

    return run


def limited(size: int) -> Prepare:
    return ("tests.unit.cli.confined", "no_file_beyond", size)


UNPRIVILEGED: Prepare = ("tests.unit.cli.confined", "unprivileged")


def resumed(noetl: Run, output: str) -> dict[str, Any]:
    found = re.search(r"`noetl (resume \d+)`", output)
    assert found is not None, output
    done = noetl(*found[1].split(), "--output", "json")
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))


# --- a disk that is full ----------------------------------------------------------------------------------------------------


@pytest.mark.one_in(3)
@pytest.mark.untraced
@pytest.mark.parametrize("size", [400_000, 1_000_000])
def test_a_log_that_finds_no_room_interrupts_the_run_and_resume_goes_on(noetl: Run, size: int) -> None:
    done = noetl("run", "loop.yaml", prepare=limited(size))
    assert done.returncode == 3
    assert "storage: the local store" in done.stderr and "Traceback" not in done.stderr
    summary = resumed(noetl, done.stderr)
    assert summary["status"] == "completed"
    assert summary["steps"]["start"]["loop"] == {"total": 2000, "succeeded": 2000, "failed": 0}


@pytest.mark.untraced
def test_a_result_that_finds_no_room_interrupts_the_run_and_resume_goes_on(noetl: Run, tmp_path: Path) -> None:
    assert noetl("run", "large.yaml").returncode == 0  # the database has its size now
    done = noetl("run", "large.yaml", "--set", "n=90000", prepare=limited(450_000))
    assert done.returncode == 3
    assert "storage: the result " in done.stderr
    assert "Traceback" not in done.stderr
    assert not list((tmp_path / ".noetl/results").rglob(".put-*")), "a draft was left behind"
    assert resumed(noetl, done.stderr)["result"] == 1


@pytest.mark.untraced
def test_a_store_that_cannot_even_be_made_says_so(noetl: Run) -> None:
    done = noetl("run", "large.yaml", prepare=limited(1000))
    assert done.returncode == 3
    assert done.stderr.startswith("storage: the local store") and "Traceback" not in done.stderr


# --- output that goes nowhere -----------------------------------------------------------------------------------------------


@pytest.mark.one_in(8)
@pytest.mark.parametrize(
    ("playbook", "how", "behind", "code"),
    [
        ("large", "human", ">/dev/full", 3),
        ("large", "json", ">/dev/full", 3),
        ("fails", "human", ">/dev/full", 1),
        ("large", "json", ">&-", 0),
        ("fails", "json", ">&-", 1),
        ("large", "human", "2>/dev/full", 0),
        ("large", "human", "<&- >&- 2>&-", 0),
    ],
)
def test_the_exit_code_reflects_the_run_and_its_output(shell: Run, playbook: str, how: str, behind: str, code: int) -> None:
    done = shell("run", f"{playbook}.yaml", "--output", how, behind=behind)
    assert done.returncode == code
    assert "Traceback" not in done.stderr and "Exception" not in done.stderr
    if behind == ">/dev/full":
        assert "storage: standard output: No space left on device" in done.stderr
        assert re.search(r"`noetl show \d+` has its result", done.stderr)


@pytest.mark.nightly
@pytest.mark.one_in(2)
@pytest.mark.parametrize("command", ["ls --output json", "validate large.yaml --format json"])
def test_commands_that_only_print_fail_where_nothing_can_be_printed(noetl: Run, shell: Run, command: str) -> None:
    noetl("run", "large.yaml")
    for behind, code in ((">/dev/full", 3), (">&-", 0)):
        done = shell(*command.split(), behind=behind)
        assert (done.returncode, "Traceback" in done.stderr) == (code, False), done.stderr


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("playbook", "code"), [("large", 0), ("fails", 1)])
def test_a_reader_that_has_seen_enough_changes_no_exit_code(noetl: Run, tmp_path: Path, playbook: str, code: int) -> None:
    shell = f"{{ '{NOETL}' run {playbook}.yaml --events --output json; echo code $? >&2; }} | true"
    piped = subprocess.run(["sh", "-c", shell], cwd=tmp_path, env=ENV, capture_output=True, text=True, timeout=60, check=True)
    assert f"code {code}" in piped.stderr and "Traceback" not in piped.stderr


# --- a store that can only be read ------------------------------------------------------------------------------------------


@pytest.fixture
def archived(noetl: Run, tmp_path: Path) -> Iterator[str]:
    """An execution in a store that nobody may write to."""
    done = noetl("run", "large.yaml", "--output", "json")
    for path in (tmp_path / ".noetl").rglob("*"):
        path.chmod(0o555 if path.is_dir() else 0o444)
    (tmp_path / ".noetl").chmod(0o555)
    yield str(json.loads(done.stdout)["execution_id"])
    for path in [tmp_path / ".noetl", *(tmp_path / ".noetl").rglob("*")]:
        path.chmod(0o755)


def test_a_store_that_can_only_be_read_is_read(noetl: Run, archived: str) -> None:
    for command in ("ls", "show", "events", "timeline", "graph", "cost", "replay"):
        done = noetl(command, *([archived] if command != "ls" else []), prepare=UNPRIVILEGED)
        assert done.returncode == 0 and done.stdout, (command, done.stderr)


def test_a_store_that_can_only_be_read_takes_no_run(noetl: Run, archived: str) -> None:
    done = noetl("run", "large.yaml", prepare=UNPRIVILEGED)
    assert done.returncode == 3
    assert "can only be read" in done.stderr and "Traceback" not in done.stderr


# --- objects that are gone --------------------------------------------------------------------------------------------------


def test_replay_names_the_object_that_is_gone(noetl: Run, tmp_path: Path) -> None:
    done = noetl("run", "large.yaml", "--output", "json")
    execution_id = json.loads(done.stdout)["execution_id"]
    assert noetl("replay", execution_id).returncode == 0
    (key,) = [str(p.relative_to(tmp_path / ".noetl/results")) for p in (tmp_path / ".noetl/results").rglob("*.json")]
    (tmp_path / ".noetl/results" / key).unlink()
    done = noetl("replay", execution_id)
    assert done.returncode == 3
    assert key in done.stdout + done.stderr
    assert "differs (" not in done.stdout
    found = json.loads(noetl("replay", execution_id, "--output", "json").stdout)
    assert found["differences"] == []
    assert [key in why for m in found["missing"] for why in m["reasons"]] == [True]
