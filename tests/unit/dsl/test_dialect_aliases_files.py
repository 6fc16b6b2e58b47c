"""The dialect of the field: playbooks that are called by the names of their files."""

from __future__ import annotations

from pathlib import Path

import pytest

from noetl_core.dsl.parse import parse_playbook
from noetl_core.playbooks.called_files import with_paths
from noetl_core.runtime.embedded import run
from noetl_migrate import migrate
from tests.unit.dsl.broken_playbooks import flow
from tests.unit.dsl.dialect import PLAIN, found, one

CHILD = flow(f"step: a\n{PLAIN}").replace("team/demo", "team/child")


@pytest.fixture
def parent(tmp_path: Path) -> Path:
    (tmp_path / "child.yaml").write_text(CHILD)
    (tmp_path / "other.yml").write_text("path: team/other\n")
    (tmp_path / "odd.yaml").write_text(CHILD.replace("team/child", "'x, payload: {a: 1}'"))
    return tmp_path / "parent.yaml"


@pytest.mark.parametrize(
    "named", ["./child.yaml", "child.yaml", "'./child.yaml'", '"child.yaml"', "./child.yaml   # the child", "/team/child"]
)
def test_a_child_is_called_by_its_file_in_the_same_folder(named: str, parent: Path) -> None:
    text = one(f"kind: playbook\n  path: {named}\n  payload: {{at: ./child.yaml}}")
    whole = with_paths(text, parent)
    assert parse_playbook(whole).steps[0].tasks[0].inputs["path"].lstrip("/") == "team/child"
    assert whole.count("./child.yaml") == 1, "other texts stay"
    assert not migrate(whole).failed
    parent.write_text(text)
    assert run(parent).result == 1


@pytest.mark.parametrize(
    "named", ["./other.yml", "./odd.yaml", "./gone.yaml", "../child.yaml", "./sub/child.yaml", '"./chi\\x6cd.yaml"']
)
def test_another_file_is_no_path(named: str, parent: Path) -> None:
    text = one(f"{{kind: playbook, path: {named}}}")
    assert with_paths(text, parent) == text
    (error,) = found(text)
    assert error.startswith("E115 path of task")


def test_children_of_children_and_tasks_of_other_kinds(parent: Path) -> None:
    (parent.parent / "child.yaml").write_text(one("{kind: playbook, path: last.yaml}").replace("team/demo", "team/child"))
    (parent.parent / "last.yaml").write_text(CHILD.replace("team/child", "team/last"))
    parent.write_text(
        flow(
            "step: a\ntool:\n  - {name: b, kind: playbook, path: child.yaml}\n  - {name: c, kind: noop, result: {path: child.yaml}}"
        )
    )
    assert run(parent).result == {"path": "child.yaml"}
