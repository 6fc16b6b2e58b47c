"""Labels: given where an execution starts, asked for where executions are listed."""

from __future__ import annotations

from pathlib import Path

from tests.commands import run

PLAYBOOK = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: p, path: p }
workflow: [{ step: start, tool: { kind: noop } }]
"""


def test_executions_are_listed_by_the_labels_that_their_start_gave(tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text(PLAYBOOK)
    assert run("run", "p.yaml", "--label", "env=prod", "--label", "team=a=b", cwd=tmp_path).returncode == 0
    assert run("run", "p.yaml", "--label", "env=dev", cwd=tmp_path).returncode == 0
    for asked, count in (
        (["--label", "env"], 2),
        (["--label", "env=prod"], 1),
        (["--label", "env=prod", "--label", "team=a=b"], 1),
        (["--label", "env=dev", "--label", "team"], 0),
    ):
        listed = run("ls", *asked, "--output", "jsonl", cwd=tmp_path)
        assert (listed.returncode, len(listed.stdout.splitlines())) == (0, count), asked


def test_an_invalid_label_is_refused(tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text(PLAYBOOK)
    for command, message in (
        (["run", "p.yaml", "--label", "env"], "--label env: write KEY=VALUE"),
        (["run", "p.yaml", "--label", "a key=1"], "'a key' is not a label key"),
        (["ls", "--label", "a key"], "is not a label filter"),
    ):
        done = run(*command, cwd=tmp_path)
        assert (done.returncode, message in done.stderr) == (2, True), done.stderr
