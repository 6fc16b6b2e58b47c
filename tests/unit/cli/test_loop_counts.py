"""Counts of a loop are one statement everywhere, and text output leaves nothing out."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from noetl_cli.display import output
from tests.unit.cli.runs import Run

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: { name: c, path: test/c }\nworkflow:\n"
THREE = HEAD + (
    "  - step: each\n"
    "    loop: { in: [1, 0, 2], iterator: n, spec: { mode: sequential, policy: { failure: { mode: best_effort } } } }\n"
    '    tool: { kind: noop, result: "{{ 6 / iter.n }}" }\n'
)


def test_keys_beside_a_table_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    output.result({"rows": [{"a": 1}, {"a": 2, "b": "x"}], "row_count": 2, "next": None, "more": [{"c": 3}]})
    text = capsys.readouterr().out
    assert [line.split("│")[-1].strip() for line in text.splitlines() if "│" in line][:2] == ["", "x"]
    assert "row_count: 2" in text
    assert "next: " in text
    assert "more" in text and "c" in text and "3" in text


def test_ended_of_all_and_failed(noetl: Run, tmp_path: Path) -> None:
    (tmp_path / "three.yaml").write_text(THREE)
    done = noetl("run", "three.yaml", "--output", "json")
    summary = json.loads(done.stdout)
    assert summary["steps"]["each"]["loop"] == {"total": 3, "succeeded": 2, "failed": 1}
    assert "3/3, 1 failed" in noetl("show", "@last").stdout
    assert "3/3 iterations, 1 failed" in noetl("graph", "@last").stdout
    assert "3/3, 1 failed" in noetl("report", "@last", "-o", "-").stdout


CHILD = HEAD.replace("test/c", "test/child") + '  - { step: divide, tool: { kind: noop, result: "{{ 1 / 0 }}" } }\n'
PARENT = HEAD + "  # one line more than the child\n  - { step: call, tool: { kind: playbook, path: test/child } }\n"


@pytest.mark.parametrize("folder", [".", "flows"])
def test_the_error_of_a_child_is_placed_in_its_file(noetl: Run, tmp_path: Path, folder: str) -> None:
    (tmp_path / folder).mkdir(exist_ok=True)
    (tmp_path / folder / "child.yaml").write_text(CHILD)
    (tmp_path / folder / "parent.yaml").write_text(PARENT)
    output = noetl("run", f"{folder}/parent.yaml").stdout
    prefix = "" if folder == "." else f"{folder}/"
    assert f"{prefix}child.yaml:5:27 template in step divide" in output
    assert f"then {prefix}parent.yaml:6:" in output
