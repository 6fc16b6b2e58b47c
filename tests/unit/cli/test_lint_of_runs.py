"""`run` and `register` print warnings of lint."""

from __future__ import annotations

from pathlib import Path

import pytest

from noetl_cli.inputs.files import checked
from tests.unit.cli.runs import Run

MISSPELT = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: misspelt, path: test/misspelt }
workflow:
  - step: load
    tool: { kind: noop, result: 1 }
    next: { arcs: [{ step: finish }] }
  - step: finish
    tool: { kind: noop, result: "got {{ steps.laod.result }}" }
"""


def test_a_misspelt_step_is_reported_before_the_run(noetl: Run, tmp_path: Path) -> None:
    (tmp_path / "flow.yaml").write_text(MISSPELT)
    done = noetl("run", "flow.yaml", "--store", "memory")
    lines = [line for line in done.stderr.splitlines() if line.startswith("warning: ")]
    assert (done.returncode, len(lines)) == (0, 1)
    assert lines[0].startswith("warning: flow.yaml:9:41 W515 ")
    assert 'did you mean "load"?' in lines[0]
    assert "warning" not in noetl("run", "flow.yaml", "--store", "memory", "--quiet").stderr
    assert 'did you mean "load"?' in noetl("register", "flow.yaml").stderr
    assert "warning" not in noetl("register", "flow.yaml", "--quiet").stderr


def test_only_the_first_of_many_warnings_are_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    many = "".join(f"  - {{ step: s{n}, tool: {{ kind: noop, result: 'x{{{{ steps.no{n}.result }}}}' }} }}\n" for n in range(9))
    text = MISSPELT.partition("workflow:")[0] + "workflow:\n" + many
    checked(text, Path("many.yaml"))
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 6
    assert lines[-1].endswith("more warnings: noetl validate many.yaml")
    checked(text, Path("many.yaml"), quiet=True)
    assert not capsys.readouterr().err
