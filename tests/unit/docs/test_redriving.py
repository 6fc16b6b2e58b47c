"""The page on redriving, played through: each command says what the page says it says."""

from __future__ import annotations

import json
import re
from pathlib import Path

from tests.commands import run

PAGE = Path(__file__).parents[3] / "docs/redriving.md"


def test_the_commands_of_the_page_print_the_documented_output(tmp_path: Path) -> None:
    text = PAGE.read_text()
    (source,) = re.findall(r"```yaml\n(.*?)```", text, re.DOTALL)
    (console,) = re.findall(r"```console\n(.*?)```", text, re.DOTALL)
    (tmp_path / "redriven.yaml").write_text(source)
    execution_id = ""
    commands = re.findall(r"^\$ noetl (.*)\n((?:[^$].*\n)*)", console, re.MULTILINE)
    assert len(commands) == 6
    for command, expected in commands:
        arguments = [execution_id if word == "ID" else word for word in command.split()]
        done = run(*arguments, cwd=tmp_path)
        execution_id = execution_id or json.loads(done.stdout)["execution_id"]
        if expected.startswith("exit code"):
            assert done.returncode == int(expected.split()[-1]), done.stderr
            continue
        assert done.returncode == 0, done.stderr
        if expected.startswith('"'):
            assert expected.strip() in done.stdout
        else:
            assert done.stdout == expected
