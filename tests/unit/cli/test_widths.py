"""Text output fits the terminal, whatever its width."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import termios
from pathlib import Path

import pytest

from tests.commands import ENV, Command
from tests.unit.cli.runs import Run

SIZELESS = {k: v for k, v in ENV.items() if k != "COLUMNS"}
TRIGGERED = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: report, path: team/reports/nightly-revenue }
executor: { spec: { triggers: [{ name: every-morning, schedule: "0 2 * * *", timezone: Europe/Berlin }] } }
workflow: [{ step: a_step_with_a_name_of_some_length_and_more, tool: { kind: noop, result: 1 } }]
"""


def printed(columns: int, *arguments: str, cwd: Path) -> list[str]:
    """Return the lines that a command prints on a terminal of that width."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    with Command(*arguments, cwd=cwd, env=SIZELESS, stdout=theirs) as command:
        command.wait()
    os.close(theirs)
    text = b""
    try:
        while part := os.read(ours, 1 << 16):
            text += part
    except OSError:  # all has been read
        pass
    os.close(ours)
    return re.sub(r"\x1b\[[0-9;]*m", "", text.decode()).splitlines()


@pytest.fixture
def folder(noetl: Run, tmp_path: Path) -> Path:
    (tmp_path / "report.yaml").write_text(TRIGGERED)
    assert noetl("register", "report.yaml").returncode == 0
    assert noetl("run", "report.yaml").returncode == 0
    return tmp_path


def test_lists_fit_100_columns_and_break_no_word(folder: Path) -> None:
    listed = printed(100, "ls", cwd=folder)
    assert listed[0].startswith("execution") and "┃" in listed[0] and max(map(len, listed)) <= 100
    triggers = printed(100, "triggers", "ls", cwd=folder)
    assert max(map(len, triggers)) <= 100
    assert any("team/reports/nightly-revenue" in line for line in triggers)


@pytest.mark.parametrize("columns", [60, 100, 180])
def test_a_timeline_fits(folder: Path, columns: int) -> None:
    lines = printed(columns, "timeline", "@last", cwd=folder)
    assert columns - 10 <= max(map(len, lines)) <= columns
