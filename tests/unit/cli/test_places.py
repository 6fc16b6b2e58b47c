"""Finds state, and playbooks beside the playbook that calls them."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from noetl_core.adapters.local.home import home
from tests import commands
from tests.commands import ENV, Completed

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {{ name: {0}, path: fam/{0} }}\n"
CHILD = (
    HEAD.format("child")
    + "workload: { n: 1 }\nworkflow:\n  - step: start\n    tool: { kind: noop, result: '{{ workload.n * 2 }}' }\n"
)
CALLS = "workflow:\n  - step: start\n    tool: {{ kind: playbook, path: fam/{}, workload: {{ n: 21 }} }}\n"
Run = Callable[..., Completed]


@pytest.fixture
def noetl(tmp_path: Path) -> Run:
    def run(*arguments: str, cwd: str = ".", **env: str) -> Completed:
        folder = tmp_path / cwd
        folder.mkdir(parents=True, exist_ok=True)
        return commands.run(*arguments, cwd=folder, env={**ENV, **env})

    return run


def write(folder: Path, **sources: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, source in sources.items():
        (folder / f"{name}.yaml").write_text(source)


# --- state ----------------------------------------------------------------------------------------------------------------


def test_state_is_found_from_a_folder_below_and_made_where_one_is(noetl: Run, tmp_path: Path) -> None:
    write(tmp_path, child=CHILD)
    made = noetl("run", "child.yaml")
    assert f"state is kept in {tmp_path}/.noetl" in made.stderr
    assert "state is kept" not in noetl("run", "child.yaml").stderr
    below = noetl("run", str(tmp_path / "child.yaml"), cwd="a/b")
    assert f"state is kept in {tmp_path}/.noetl" in below.stderr
    assert not (tmp_path / "a/b/.noetl").exists()
    assert len(json.loads(noetl("ls", "--output", "json", cwd="a").stdout)) == 3


def test_the_nearest_state_counts_and_a_named_home_before_it(noetl: Run, tmp_path: Path) -> None:
    write(tmp_path, child=CHILD)
    noetl("run", "child.yaml")
    (tmp_path / "own/.noetl").mkdir(parents=True)
    assert json.loads(noetl("ls", "--output", "json", cwd="own/below").stdout) == []
    other = str(tmp_path / "elsewhere")
    assert json.loads(noetl("ls", "--output", "json", NOETL_HOME=other).stdout) == []
    noetl("run", "child.yaml", NOETL_HOME=other)
    assert (tmp_path / "elsewhere/runs.db").exists()


@pytest.mark.parametrize("command", ["show 7", "resume 7", "ls", "status", "events 7"])
def test_an_error_for_missing_state_names_the_searched_folder(noetl: Run, tmp_path: Path, command: str) -> None:
    done = noetl(*command.split(), cwd="empty")
    assert "NOETL_HOME" in done.stderr and str(tmp_path / "empty/.noetl") in done.stderr
    assert not (tmp_path / "empty/.noetl").exists()


class Folders:
    """Folders of several owners on several file systems."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, root: Path) -> None:
        self._patch, self._root = monkeypatch, root
        self.below = root / "a/b"
        self.below.mkdir(parents=True)
        (root / ".noetl").mkdir()
        monkeypatch.delenv("NOETL_HOME", raising=False)
        monkeypatch.chdir(self.below)
        self._changed: dict[Path, dict[str, int]] = {}
        stat = Path.stat

        def changed(path: Path, **how: Any) -> os.stat_result:
            found = stat(path, **how)
            fields = {name: getattr(found, name) for name in ("st_dev", "st_uid")}
            change = self._changed.get(path)
            if not change:
                return found
            values = list(found)
            values[2], values[4] = (change.get("st_dev", fields["st_dev"]), change.get("st_uid", fields["st_uid"]))
            return os.stat_result(values)

        monkeypatch.setattr(Path, "stat", changed)

    def of(self, path: Path, **fields: int) -> None:
        self._changed[path] = fields


@pytest.fixture
def folders(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Folders:
    return Folders(monkeypatch, tmp_path)


def test_state_above_is_found(folders: Folders, tmp_path: Path) -> None:
    assert home() == tmp_path / ".noetl"


def test_state_above_the_users_home_is_not_used(folders: Folders, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "a"))
    assert home() == folders.below / ".noetl"
    monkeypatch.setenv("HOME", str(tmp_path))
    assert home() == tmp_path / ".noetl"


def test_state_on_another_file_system_is_not_used(folders: Folders, tmp_path: Path) -> None:
    folders.of(tmp_path, st_dev=12345)
    assert home() == folders.below / ".noetl"


def test_state_above_that_belongs_to_somebody_else_is_not_taken(folders: Folders, tmp_path: Path) -> None:
    folders.of(tmp_path / ".noetl", st_uid=12345)
    assert home() == folders.below / ".noetl"


# --- playbooks beside one another -----------------------------------------------------------------------------------------


def test_a_child_beside_its_parent_is_found(noetl: Run, tmp_path: Path) -> None:
    write(tmp_path / "flows", parent=HEAD.format("parent") + CALLS.format("middle"), child=CHILD)
    write(tmp_path / "flows", middle=HEAD.format("middle") + CALLS.format("child"), other="not: a playbook\n", broken="{")
    done = noetl("run", "flows/parent.yaml", "--output", "json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["result"] == 42
    assert done.stderr == ""
    assert "fam/child" in noetl("playbooks", "--on", "local").stdout


def test_a_child_that_was_changed_is_taken_as_it_is_now(noetl: Run, tmp_path: Path) -> None:
    write(tmp_path, parent=HEAD.format("parent") + CALLS.format("child"), child=CHILD)
    assert "fam/child version 1, from child.yaml" in noetl("run", "parent.yaml").stderr
    (tmp_path / "child.yaml").write_text(CHILD.replace("* 2", "* 3"))
    done = noetl("run", "parent.yaml")
    assert done.stdout.startswith("63\n") and "fam/child version 2, from child.yaml" in done.stderr
    assert "fam/child" not in noetl("run", "parent.yaml").stderr


def test_a_child_that_is_nowhere_is_named_with_the_remedy(noetl: Run, tmp_path: Path) -> None:
    write(tmp_path, parent=HEAD.format("parent") + CALLS.format("child"))
    write(tmp_path / "elsewhere", child=CHILD)
    done = noetl("run", "parent.yaml")
    assert done.returncode == 1
    assert "fam/child" in done.stderr and "noetl register FILE --on local" in done.stderr
    assert noetl("register", "elsewhere/child.yaml", "--on", "local").returncode == 0
    done = noetl("run", "parent.yaml")
    assert (done.returncode, "register" in done.stderr) == (0, False)


def test_two_files_that_say_they_are_the_child_are_refused(noetl: Run, tmp_path: Path) -> None:
    write(tmp_path, parent=HEAD.format("parent") + CALLS.format("child"), child=CHILD, copy=CHILD.replace("* 2", "* 3"))
    done = noetl("run", "parent.yaml")
    assert done.returncode == 2
    assert "child.yaml" in done.stderr and "copy.yaml" in done.stderr


def test_a_child_with_an_error_is_refused_before_anything_runs(noetl: Run, tmp_path: Path) -> None:
    write(tmp_path, parent=HEAD.format("parent") + CALLS.format("child"), child=CHILD.replace("kind: noop", "kind: nope"))
    done = noetl("run", "parent.yaml")
    assert done.returncode == 2 and "child.yaml:" in done.stderr


def test_a_playbook_that_calls_itself_is_itself(noetl: Run, tmp_path: Path) -> None:
    source = (
        HEAD.format("self")
        + "workload: { n: 2 }\n"
        + CALLS.format("self")
        .replace("n: 21", "n: '{{ workload.n - 1 }}'")
        .replace(
            "  - step: start\n",
            "  - step: start\n    spec: { policy: { admit: { rules: [{ when: '{{ workload.n > 0 }}', then: { allow: true } }, { else: { then: { allow: false } } }], on_deny: skip } } }\n",
        )
    )
    write(tmp_path, self=source)
    done = noetl("run", "self.yaml", "--output", "json")
    assert done.returncode == 0, done.stderr
